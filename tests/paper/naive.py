"""The paper's equations as plain loops. This file imports nothing from the package.

A mechanism is a python function of a dictionary of numbers. A level is a dictionary with its name, context name, action name and
list of action values; `levels[0]` is the outermost. Data is a list of tables, one per level, outermost first: a table holds the
lists `parent` (row of the table before), `context` and `action` (value); outcomes `y` and rewards `r` are lists over innermost
rows.
"""

import math

import naive_posterior
import numpy as np


def gauss_hermite(nodes):
    """Nodes and weights for a standard normal, from the physicists' rule."""
    x, w = np.polynomial.hermite.hermgauss(nodes)
    return [float(math.sqrt(2.0) * a) for a in x], [float(b / math.sqrt(math.pi)) for b in w]


def phi_scope(levels, outcome, reward, scope):
    """Definition 2: contexts below the outermost level of the scope, outcome, reward."""
    total = len(levels)
    top = max(total - i for i, level in enumerate(levels) if level["name"] in scope)
    found = []
    for i, level in enumerate(levels):
        index = total - i
        if index < top:
            found.append(level["context"])
    return [*found, outcome, reward]


def variables(levels):
    """All variables in the order in which they come about."""
    found = []
    for level in levels:
        found += [level["context"], level["action"]]
    return [*found, "y", "r"]


def parents_of(levels, name):
    """Definition 1 with the complete graph: everything earlier; outermost contexts have no parents."""
    order = variables(levels)
    return order[: order.index(name)]


def known(levels, tables, position, row, own_action=False):
    """The augmented context of one decision: walk up parent by parent, then collect contexts and actions on the way down."""
    path = [row]
    for i in range(position, 0, -1):
        path.insert(0, tables[i]["parent"][path[0]])
    found = {}
    for i in range(position + 1):
        found[levels[i]["context"]] = tables[i]["context"][path[i]]
        if i < position or own_action:
            found[levels[i]["action"]] = tables[i]["action"][path[i]]
    return found


def mechanism_data(levels, tables, y, r, name):
    """D^(X): one pair (linear features of the parents, value) for each time that X came about."""
    last = len(levels) - 1
    pairs = []
    for i, level in enumerate(levels):
        if level["context"] == name:
            for row, value in enumerate(tables[i]["context"]):
                seen = known(levels, tables, i, row)
                pairs.append(([1.0, *[seen[p] for p in parents_of(levels, name)]], value))
    if name in ("y", "r"):
        for row in range(len(r)):
            seen = {**known(levels, tables, last, row, own_action=True), "y": y[row]}
            pairs.append(([1.0, *[seen[p] for p in parents_of(levels, name)]], y[row] if name == "y" else r[row]))
    return pairs


def scm_forward(f_y, sd_y, f_r, known, nodes):
    """scm-forward: E over the noise of Y of f_R at Y-hat; the reward's own noise has mean zero."""
    xs, ws = gauss_hermite(nodes)
    total = 0.0
    for x, w in zip(xs, ws, strict=True):
        total += w * f_r({**known, "y": f_y(known) + sd_y * x})
    return total


def r_recursion(levels, position, known, model, scope, legacy, nodes):
    """R-recursion: the list over actions a of R-hat^(l)(a, c~) at levels[position]."""
    xs, ws = gauss_hermite(nodes)
    level = levels[position]
    values = []
    for action in level["actions"]:
        here = {**known, level["action"]: action}
        if position == len(levels) - 1:
            values.append(scm_forward(model["f"]["y"], model["sd"]["y"], model["f"]["r"], here, nodes))
            continue
        below = levels[position + 1]
        mean = model["f"][below["context"]](here)
        sd = model["sd"][below["context"]]
        total = 0.0
        for x, w in zip(xs, ws, strict=True):
            deeper = {**here, below["context"]: mean + sd * x}
            inner = r_recursion(levels, position + 1, deeper, model, scope, legacy, nodes)
            if below["name"] in scope:
                total += w * max(inner)
            else:
                chances = legacy(below["name"], deeper)
                total += w * sum(p * v for p, v in zip(chances, inner, strict=True))
        values.append(total)
    return values


def argmax(values):
    """The first index of the largest value."""
    best = 0
    for i, value in enumerate(values):
        if value > values[best]:
            best = i
    return best


def pi_ell(levels, position, known, model, scope, legacy, nodes):
    """pi-ell: the distribution over actions of the scope-aware policy."""
    level = levels[position]
    if level["name"] not in scope:
        return legacy(level["name"], known)
    chosen = argmax(r_recursion(levels, position, known, model, scope, legacy, nodes))
    return [1.0 if i == chosen else 0.0 for i in range(len(level["actions"]))]


def pick(chances, uniform):
    """The action at which the cumulated probability first exceeds a number in [0, 1)."""
    total = 0.0
    for i, chance in enumerate(chances):
        total += chance
        if uniform < total:
            return i
    return len(chances) - 1


def traverse(levels, counts, truth, noise, decide):
    """The procedure Traverse of Algorithm 1, started at the outermost level: returns tables, outcomes and rewards.

    counts[i]: decisions below each parent (I_l). truth[name](known): the true mean of a variable. noise[name]: a list of numbers
    to add, by row. decide(position, known, row): the index of the action.
    """
    tables = [{"parent": [], "context": [], "action": []} for _ in levels]
    y, r = [], []

    def descend(position, above, parent):
        level, table = levels[position], tables[position]
        for _ in range(counts[position]):
            row = len(table["context"])
            context = truth[level["context"]](above) + noise[level["context"]][row]
            here = {**above, level["context"]: context}
            action = level["actions"][decide(position, here, row)]
            table["parent"].append(parent)
            table["context"].append(context)
            table["action"].append(action)
            here = {**here, level["action"]: action}
            if position + 1 < len(levels):
                descend(position + 1, here, row)
            else:
                y.append(truth["y"](here) + noise["y"][row])
                r.append(truth["r"]({**here, "y": y[-1]}) + noise["r"][row])

    descend(0, {}, 0)
    return tables, y, r


def algorithm_1(levels, counts, truth, noises, thetas, mechanisms, scope, legacy, uniforms, nodes):
    """Algorithm 1 with the draws theta^(k) given: each episode's data, and the posteriors p_0, p_1, ... by mechanism."""
    posterior = {name: naive_posterior.nig_prior(1 + len(parents_of(levels, name))) for name in mechanisms}
    posteriors, episodes = [posterior], []
    for noise, theta, uniform in zip(noises, thetas, uniforms, strict=True):

        def decide(position, here, row, theta=theta, uniform=uniform):
            chances = pi_ell(levels, position, here, theta, scope, legacy, nodes)
            return pick(chances, uniform[levels[position]["action"]][row])

        tables, y, r = traverse(levels, counts, truth, noise, decide)
        updated = {}
        for name in mechanisms:
            pairs = mechanism_data(levels, tables, y, r, name)
            updated[name] = naive_posterior.nig_update(*posterior[name], [x for x, _ in pairs], [value for _, value in pairs])
        posterior = updated
        episodes.append((tables, y, r))
        posteriors.append(posterior)
    return episodes, posteriors
