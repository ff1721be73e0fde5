"""The bound, the choices made by it, the gate's looks and the information rules against plain loops, to 1e-9.

The loops are in `naive_bounds.py`, which imports nothing from the package. Where the package's functions start from unit values,
so do the loops; where they start from a log, the loops do.
"""

from __future__ import annotations

import itertools
import math

import naive
import naive_bounds
import numpy as np
import pytest
import setting
from host_cases import world_of
from hypothesis import given, settings
from hypothesis import strategies as some

from aegis.evidence import published_bound, select_scope
from aegis.evidence.bounds.prism import closed_form_lam, ls_estimate
from aegis.handover import HOSTS, make_gate
from aegis.mechanisms import build_belief
from aegis.ope import CandidateView, RewardModels, plain_values, reward_measure, reward_weights
from aegis.planning import DOptimal, Ids, Information, Lcb, States, plan_policy
from aegis.planning.information_rules import least_ratio, regret_and_information
from aegis.policies import Legacy, Softmax
from aegis.problem import Problem, Reward, Scope
from aegis.rng import stream

ETA = 0.05  # the clipping margin where none is chosen
NEAR = {"rel": 1e-9, "abs": 1e-9}
SEEDS = some.integers(0, 2**32 - 1)


# ---- unit values ----------------------------------------------------------------------------------------------------


@settings(max_examples=60, deadline=None)
@given(SEEDS, some.integers(1, 30), some.integers(1, 4), some.floats(0.1, 30), some.floats(0, 100), some.floats(0.001, 0.5))
def test_the_bound_and_its_gain_form(seed, units, particles, largest, kl, delta):
    """ls-estimator, lam-star, pac-bayes-causal and gain-bound, at lambda* and at a fixed lambda."""
    rng = np.random.default_rng(seed)
    values, legacy = largest * rng.random((units, particles)), rng.random(rng.integers(1, 9))
    q = rng.dirichlet(np.ones(particles))
    plain = values.tolist(), q.tolist()
    cost = kl + math.log(1 / delta)
    star = naive_bounds.lam_star(*plain, largest, kl, delta, ETA)
    assert closed_form_lam(values, largest, cost, q) == pytest.approx(star, **NEAR)
    for lam, asked in ((star, "closed form"), (0.3 / largest, 0.3 / largest)):
        bound = published_bound(values, delta, asked, largest, kl, q)
        assert ls_estimate(values, lam, largest, q) == pytest.approx(naive_bounds.ls_estimate(*plain, lam, largest), **NEAR)
        assert bound.lam == pytest.approx(lam, **NEAR)
        assert bound.value == pytest.approx(naive_bounds.lower_bound(*plain, lam, largest, kl, delta), **NEAR)
        wanted = naive_bounds.gain_bound(*plain, legacy.tolist(), lam, largest, kl, delta)
        assert bound.gain_over(legacy).value == pytest.approx(wanted, **NEAR)


# ---- ra-inner -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("depth", [1, 2])
def test_the_pessimistic_action(depth, seed):
    """kappa_k from the divergence of the scope and the action with the largest mean less kappa_k standard deviations."""
    problem = setting.make_problem(depth)
    belief = setting.make_belief(problem, "linear", stream(seed, "ra-inner"))
    batch = setting.make_batch(problem, stream(seed, "ra-inner", "batch"), episodes=3)
    policy = plan_policy(belief, Lcb(delta=0.1, draws=6), stream(seed, "draws"), ["l1"], setting.uniform(problem), episode=seed)
    levels = setting.plain_levels(problem)
    kl = 0.0
    for name in naive.phi_scope(levels, "y", "r", {"l1"}):
        kl += belief.kl_by_mechanism()[name]
    pessimism = naive_bounds.kappa(kl, 0.1, seed + 1)
    assert -policy.choice.kappa == pytest.approx(pessimism, **NEAR)
    models = [setting.plain_model(problem, policy.theta, particle, "linear") for particle in range(6)]
    full = policy.full("l1", batch)[0]
    for row in range(full.shape[0]):
        known = setting.known_row(problem, batch, "l1", row)
        values = [naive.r_recursion(levels, depth - 1, known, model, {"l1"}, None, 8) for model in models]
        indices = naive_bounds.lcb_indices(values, pessimism)
        assert full[row].argmax() == naive.argmax(indices)


# ---- safe-deploy ----------------------------------------------------------------------------------------------------


def soft(problem: Problem, seed: int, slope: float) -> Legacy:
    """A policy that leans with the context, by other amounts at every level."""
    rng = stream(seed, "leaning")
    rules = {}
    for level in problem.levels:
        count = level.actions.count
        rules[level.name] = Softmax(tuple(rng.random(count)), {level.context[0].name: tuple(slope * rng.random(count))})
    return Legacy(problem, rules)


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("depth", [2, 3])
def test_the_scope_with_the_largest_bound(depth, seed):
    """safe-deploy: B, lambda* and the price of the divergence are those of each scope; delta is shared."""
    made = setting.make_problem(depth)
    problem = Problem(made.levels, Reward("r", (-8.0, 8.0)), made.outcome)
    batch = setting.make_batch(problem, stream(seed, "scopes", depth), episodes=25)
    belief = build_belief(problem).update(batch)
    policy, measure = soft(problem, seed, 1.5), reward_measure(problem)
    view = CandidateView(problem, batch, policy, RewardModels())
    scopes = [frozenset(names) for size in range(1, depth + 1) for names in itertools.combinations(problem.names, size)]

    def bound(scope, delta):
        largest = float(reward_weights(problem, policy, batch, Scope(scope), "l1").max())
        return published_bound(plain_values(view, Scope(scope), measure), delta, "closed form", largest, belief.kl(scope))

    chosen = select_scope({scope: lambda delta, scope=scope: bound(scope, delta) for scope in scopes}, 0.1)
    log = []
    for episode in range(25):
        rows = []
        for row in np.flatnonzero(batch.episode_of("l1") == episode):
            ratios = {}
            for name in problem.names:
                place = int(batch.ancestors("l1")[name][row])
                table = batch.levels[name]
                ratios[name] = float(policy.full(name, batch)[0, place, table.action[place]]) / float(table.mu_taken[place])
            rows.append((ratios, (float(batch.reward[row]) + 8.0) / 16.0))
        log.append(rows)
    levels = setting.plain_levels(problem)
    best, wanted = naive_bounds.safe_deploy(log, levels, scopes, belief.kl_by_mechanism(), 0.1, ETA, 1.0)
    assert chosen.scope == best
    for scope, (largest, lam, lower) in wanted.items():
        assert chosen.bounds[scope].largest == pytest.approx(largest, **NEAR)
        assert chosen.bounds[scope].lam == pytest.approx(lam, **NEAR)
        assert chosen.bounds[scope].value == pytest.approx(lower, **NEAR)


# ---- the looks of Algorithm 2 ---------------------------------------------------------------------------------------

EARLIER = {"Q": ("T", "M"), "y": ("T", "M", "Q", "A"), "r": ("T", "M", "Q", "A", "y")}  # the complete graph
WORLD_LEVELS = {"meta": ("T", "M"), "inner": ("Q", "A")}


def plain_log(batch, levels):
    """A batch of a two-level world as the loops want it."""
    rows, owner = batch.ancestors("inner"), batch.episode_of("inner")
    log = [[] for _ in range(len(batch))]
    for row in range(len(batch.reward)):
        decision = {"y": float(batch.outcome[row]), "r": float(batch.reward[row]), "mu": {}}
        for level in levels:
            table, place = batch.levels[level["name"]], int(rows[level["name"]][row])
            decision[level["context"]] = float(table.context[level["context"]][place])
            decision[level["action"]] = level["actions"][table.action[place]]
            decision["mu"][level["name"]] = float(table.mu_taken[place])
        log[owner[row]].append(decision)
    return log


LOOKS = [
    ("inner", "uniform", {"largest_weight": 1.0}),
    ("inner", "uniform", {"largest_weight": 3.0}),
    ("inner", "sign:epsilon=0.4", {"largest_weight": 2.0, "rewards": "scaled", "delta": 0.2}),
    ("meta", "uniform", {"largest_weight": 2.0, "rewards": "scaled"}),
    ("meta", "uniform", {"largest_weight": 1.0}),  # the estimate does not exist: values lie too far below 0
]


@pytest.mark.parametrize(("level", "legacy", "chosen"), LOOKS)
def test_the_looks_of_algorithm_2_from_the_log_alone(level, legacy, chosen):
    """Posterior, divergence, plan, weights, lambda*, estimate and legacy's mean, all recomputed from the logged numbers."""
    world = world_of(f_a=2.0, graph="complete")
    gate = make_gate("published", world, world.legacy(legacy), HOSTS["greedy"](), {**chosen, "stride": 160, "positivity": 0.0}, 3)
    gate.advance(321)
    looks = [look for look in gate.looks if look.level == level and look.episode <= 320]
    assert [look.episode for look in looks] == [160, 320] and level not in gate.deployed
    measure = reward_measure(world.problem)
    levels = [
        {"name": name, "context": context, "action": action, "actions": list(world.problem.level(name).actions.numbers)}
        for name, (context, action) in WORLD_LEVELS.items()
    ]
    log = plain_log(world.episodes(0, 320, world.legacy(legacy), 3), levels)
    highest = measure.high
    if chosen.get("rewards") == "scaled":
        highest = 1.0

    def uniform(name, known):
        count = len(next(one for one in levels if one["name"] == name)["actions"])
        return [1.0 / count] * count

    plain = naive_bounds.Gate(
        levels=levels,
        mechanisms=EARLIER,
        legacy=uniform,
        cut=chosen["largest_weight"],
        highest=highest,
        delta=chosen.get("delta", 0.05),
        eta=ETA,
        scale=(measure.low, measure.width) if highest == 1.0 else (0.0, 1.0),
    )
    below_limit = 0
    for look in looks:
        wanted = naive_bounds.gate_look(plain, log[: look.episode], level)
        if wanted is None:
            assert look.gain is None
        else:
            lam, estimate, mean = wanted
            below_limit += lam < (1 - ETA) / (plain.cut * highest)
            assert look.gain * (measure.width if highest != 1.0 else 1.0) == pytest.approx(estimate - mean, **NEAR)
    assert any(look.gain is None for look in looks) == (level == "meta" and "rewards" not in chosen)
    assert below_limit or level == "meta" or "rewards" in chosen  # lambda* is the root there, and the divergence matters


# ---- information ----------------------------------------------------------------------------------------------------


@settings(max_examples=30, deadline=None)
@given(SEEDS, some.integers(2, 5), some.integers(2, 12))
def test_the_information_ratio(seed, actions, draws):
    """The terms, and the smallest ratio: no mixture of two actions has a smaller one."""
    values = np.random.default_rng(seed).standard_normal((draws, actions))
    regret, information = naive_bounds.regret_and_information(values.tolist())
    allowed = np.ones((1, actions), dtype=bool)
    ours = regret_and_information(values[:, None, :], allowed)
    np.testing.assert_allclose(ours[0][0], regret, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(ours[1][0], information, rtol=1e-9, atol=1e-12)
    chances = least_ratio(*ours, allowed)[0].tolist()
    ratio = naive_bounds.information_ratio(chances, regret, information)
    assert ratio == pytest.approx(naive_bounds.least_information_ratio(regret, information), **NEAR)


def test_the_information_ratio_of_planned_values():
    problem = setting.make_problem(1)
    belief = setting.make_belief(problem, "linear", stream(1, "ids"))
    batch = setting.make_batch(problem, stream(2, "ids"), episodes=4)
    policy = plan_policy(belief, Ids(7), stream(3, "ids"))
    levels, full = setting.plain_levels(problem), policy.full("l1", batch)[0]
    models = [setting.plain_model(problem, policy.theta, particle, "linear") for particle in range(7)]
    for row in range(full.shape[0]):
        known = setting.known_row(problem, batch, "l1", row)
        values = [naive.r_recursion(levels, 0, known, model, {"l1"}, None, 8) for model in models]
        terms = naive_bounds.regret_and_information(values)
        ratio = naive_bounds.information_ratio(full[row].tolist(), *terms)
        assert ratio == pytest.approx(naive_bounds.least_information_ratio(*terms), **NEAR)


@pytest.mark.parametrize("samples", [1, 20])
@pytest.mark.parametrize("depth", [1, 2])
def test_the_log_determinant_of_d_optimal_design(depth, samples):
    """The growth of the precision, rebuilt from the data alone; the action that makes it grow most is taken."""
    problem = setting.make_problem(depth)
    data = setting.make_batch(problem, stream(4, "design", depth))
    belief = build_belief(problem).update(data)
    asked = setting.make_batch(problem, stream(5, "design", depth), episodes=3)
    levels, tables = setting.plain_levels(problem), setting.plain_tables(data)
    scores = Information(belief, belief.point(), samples).score(problem.names[0], States.of(problem, asked, problem.names[0]))
    design = plan_policy(belief, DOptimal(samples), stream(6, "design"))
    learned = ["y", "r"] if depth == 1 else [levels[1]["context"]]
    rows = {}
    for name in learned:
        pairs = naive.mechanism_data(levels, tables, data.outcome.tolist(), data.reward.tolist(), name)
        rows[name] = [features for features, _ in pairs]
    model = setting.plain_model(problem, belief.point(), 0, "linear")
    for row in range(len(asked.levels[problem.names[0]])):
        known = setting.known_row(problem, asked, problem.names[0], row)
        wanted = []
        for action in levels[0]["actions"]:
            here = {**known, levels[0]["action"]: action}
            total = 0.0
            for name in learned:
                if name == "r":
                    here = {**here, "y": model["f"]["y"](here)}
                new = [1.0, *[here[parent] for parent in naive.parents_of(levels, name)]]
                total += naive_bounds.log_det_growth(rows[name], new, samples if depth > 1 else 1)
            wanted.append(total)
        np.testing.assert_allclose(scores[0, row], wanted, rtol=1e-9, atol=1e-9)
        assert design.full(problem.names[0], asked)[0, row].argmax() == naive.argmax(wanted)
