"""The paper's bound, its choices and its gate as plain loops. This file imports nothing from the package.

Values are nested lists: `values[k][n]` is the value of unit k under particle n, and `q[n]` the weight of particle n. A log is a
list of episodes, an episode a list of decisions of the innermost level, a decision a dictionary of numbers with the context and
action of every level, `y`, `r`, and the probability `mu` of every level's action. A mechanism is one row of `MECHANISMS`:
its name and its parents.
"""

import math

import naive
import naive_posterior


def ls_estimate(values, q, lam, largest):
    """ls-estimator: B + 1/(lam K) sum_k E_Q log(1 - lam (B - L_k))."""
    total = 0.0
    for row in values:
        for weight, value in zip(q, row, strict=True):
            total += weight * math.log(1.0 - lam * (largest - value))
    return largest + total / (lam * len(values))


def second_moment(values, q, largest):
    """S^2 = 1/K sum_k E_Q (B - L_k)^2."""
    total = 0.0
    for row in values:
        for weight, value in zip(q, row, strict=True):
            total += weight * (largest - value) ** 2
    return total / len(values)


def lam_star(values, q, largest, kl, delta, eta):
    """lam-star: min((1 - eta)/B, sqrt(2 C/(K S^2))) with C = KL + log(1/delta); the form for scopes calls 1 - eta c."""
    square = second_moment(values, q, largest)
    limit = (1.0 - eta) / largest
    if square == 0:
        return limit
    return min(limit, math.sqrt(2.0 * (kl + math.log(1.0 / delta)) / (len(values) * square)))


def lower_bound(values, q, lam, largest, kl, delta):
    """pac-bayes-causal: the estimate less (KL + log(1/delta))/(lam K)."""
    return ls_estimate(values, q, lam, largest) - (kl + math.log(1.0 / delta)) / (lam * len(values))


def gain_bound(values, q, legacy, lam, largest, kl, delta):
    """gain-bound: the estimate less the legacy's mean of episode means and (KL + log(2/delta))/(lam K)."""
    mean = 0.0
    for value in legacy:
        mean += value / len(legacy)
    return ls_estimate(values, q, lam, largest) - mean - (kl + math.log(2.0 / delta)) / (lam * len(values))


def kappa(kl, delta, k):
    """ra-inner, second line: sqrt(2 (KL(p_(k-1) || p_0) + log(1/delta)) / k), k counted from 1."""
    return math.sqrt(2.0 * (kl + math.log(1.0 / delta)) / k)


def lcb_indices(values, pessimism):
    """ra-inner, first line: mean less kappa standard deviations of `values[draw][action]`, by action."""
    indices = []
    for action in range(len(values[0])):
        drawn = [row[action] for row in values]
        mean = sum(drawn) / len(drawn)
        variance = sum((value - mean) ** 2 for value in drawn) / len(drawn)
        indices.append(mean - pessimism * math.sqrt(variance))
    return indices


# ---- scopes ---------------------------------------------------------------------------------------------------------


def hybrid_weight(ratios, levels, scope):
    """hybrid-weight: the product over the levels of the scope of pi/mu; `ratios[level]`."""
    product = 1.0
    for level in levels:
        if level["name"] in scope:
            product *= ratios[level["name"]]
    return product


def safe_deploy(log, levels, scopes, kl_by_mechanism, delta, eta, highest):
    """safe-deploy: for each scope (B, lambda*, bound), delta shared by a union bound; and the scope with the largest bound.

    log[k]: the decisions of one episode as (ratios by level, reward in [0, highest]).
    """
    share = delta / len(scopes)
    found = {}
    for scope in scopes:
        peak, values = 0.0, []
        for episode in log:
            total = 0.0
            for ratios, reward in episode:
                weight = hybrid_weight(ratios, levels, scope)
                peak = max(peak, weight)
                total += weight * reward
            values.append([total / len(episode)])
        largest = highest * peak
        kl = 0.0
        for name in naive.phi_scope(levels, "y", "r", scope):
            kl += kl_by_mechanism[name]
        lam = lam_star(values, [1.0], largest, kl, share, eta)
        found[scope] = largest, lam, lower_bound(values, [1.0], lam, largest, kl, share)
    best = None
    for scope in scopes:
        if best is None or found[scope][2] > found[best][2]:
            best = scope
    return best, found


# ---- the gate of Algorithm 2 ----------------------------------------------------------------------------------------


def fit(log, mechanisms):
    """The posterior of each linear mechanism after a log, and its divergence from the prior."""
    posteriors, divergences = {}, {}
    for name, parents in mechanisms.items():
        features = [[1.0, *[row[parent] for parent in parents]] for episode in log for row in episode]
        targets = [row[name] for episode in log for row in episode]
        prior = naive_posterior.nig_prior(1 + len(parents))
        posteriors[name] = naive_posterior.nig_update(*prior, features, targets)
        divergences[name] = naive_posterior.nig_kl(*posteriors[name], *prior)
    return posteriors, divergences


def mean_model(posteriors, mechanisms):
    """The mechanisms at the posterior mean as python functions, with the spread E sigma^2 = b/(a - 1) of each."""
    model = {"f": {}, "sd": {}}
    for name, parents in mechanisms.items():
        mean, _, a, b = posteriors[name]

        def f(known, mean=mean, parents=parents):
            return mean[0] + sum(weight * known[parent] for weight, parent in zip(mean[1:], parents, strict=True))

        model["f"][name] = f
        model["sd"][name] = math.sqrt(b / (a - 1.0))
    return model


class Gate:
    """The settings of Algorithm 2: `levels` outermost first, `legacy(level, known)` the probabilities it is known by.

    Weights are cut at `cut`, so that B = cut * highest; a reward r counts as (r - scale[0])/scale[1].
    """

    def __init__(self, levels, mechanisms, legacy, cut, highest, delta, eta, scale):
        self.levels, self.mechanisms, self.legacy = levels, mechanisms, legacy
        self.cut, self.highest, self.delta, self.eta, self.scale = cut, highest, delta, eta, scale


NODES = 2  # enough where all mechanisms are linear and only one level plans


def gate_look(gate, log, name):
    """One look at one level, the host acting on the posterior mean: (lambda*, estimate, the legacy's mean).

    None if a logarithm in the estimate has no real value. Levels outside the single-level scope follow the legacy.
    """
    scope, position = {name}, [level["name"] for level in gate.levels].index(name)
    posteriors, divergences = fit(log, gate.mechanisms)
    kl = 0.0
    for mechanism in naive.phi_scope(gate.levels, "y", "r", scope):
        kl += divergences[mechanism]
    model = mean_model(posteriors, gate.mechanisms)
    values, means, plans = [], [], {}
    for episode in log:
        total, earned = 0.0, 0.0
        for row in episode:
            known = {}
            for i in range(position + 1):
                known[gate.levels[i]["context"]] = row[gate.levels[i]["context"]]
                if i < position:
                    known[gate.levels[i]["action"]] = row[gate.levels[i]["action"]]
            state = tuple(known.values())
            if state not in plans:
                plans[state] = naive.pi_ell(gate.levels, position, known, model, scope, gate.legacy, NODES)
            taken = gate.levels[position]["actions"].index(row[gate.levels[position]["action"]])
            reward = (row["r"] - gate.scale[0]) / gate.scale[1]
            total += min(plans[state][taken] / row["mu"][name], gate.cut) * reward
            earned += reward
        values.append([total / len(episode)])
        means.append(earned / len(episode))
    largest = gate.cut * gate.highest
    lam = lam_star(values, [1.0], largest, kl, gate.delta, gate.eta)
    for (value,) in values:
        if 1.0 - lam * (largest - value) <= 0:
            return None
    return lam, ls_estimate(values, [1.0], lam, largest), sum(means) / len(means)


# ---- information ----------------------------------------------------------------------------------------------------


def regret_and_information(values):
    """The terms of information-directed sampling from `values[draw][action]`: E v_A* - E v_a, and Var E[v_a | A*]."""
    draws, actions = len(values), len(values[0])
    winners = [naive.argmax(row) for row in values]
    top = sum(row[winner] for row, winner in zip(values, winners, strict=True)) / draws
    regret, information = [], []
    for action in range(actions):
        mean = sum(row[action] for row in values) / draws
        regret.append(top - mean)
        variance = 0.0
        for best in range(actions):
            group = [row[action] for row, winner in zip(values, winners, strict=True) if winner == best]
            if group:
                variance += len(group) / draws * (sum(group) / len(group) - mean) ** 2
        information.append(variance)
    return regret, information


def information_ratio(chances, regret, information):
    """Squared expected regret over expected information."""
    cost = sum(p * x for p, x in zip(chances, regret, strict=True))
    gain = sum(p * x for p, x in zip(chances, information, strict=True))
    if cost <= 0:
        return 0.0
    return math.inf if gain <= 0 else cost * cost / gain


def least_information_ratio(regret, information):
    """The smallest ratio over all mixtures of two actions, each found by ternary search: the ratio is convex in the share."""
    least = math.inf
    for one in range(len(regret)):
        for other in range(len(regret)):

            def ratio(share, one=one, other=other):
                chances = [0.0] * len(regret)
                chances[one] += share
                chances[other] += 1.0 - share
                return information_ratio(chances, regret, information)

            low, high = 0.0, 1.0
            for _ in range(80):
                left, right = low + (high - low) / 3.0, high - (high - low) / 3.0
                if ratio(left) <= ratio(right):
                    high = right
                else:
                    low = left
            least = min(least, ratio(low), ratio(0.0), ratio(1.0))
    return least


def precision_of(rows):
    """The precision of a linear mechanism after rows of features: 0.1 I + sum phi phi'."""
    size = len(rows[0])
    prior = naive_posterior.nig_prior(size)[1]
    return [[prior[i][j] + sum(x[i] * x[j] for x in rows) for j in range(size)] for i in range(size)]


def log_det_growth(rows, new, samples):
    """What `samples` further rows of features `new` add to the log determinant of the precision after `rows`."""
    before = precision_of(rows)
    size = len(new)
    after = [[before[i][j] + samples * new[i] * new[j] for j in range(size)] for i in range(size)]
    return naive_posterior.log_det(after) - naive_posterior.log_det(before)
