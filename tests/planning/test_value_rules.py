"""Upper and lower confidence bounds against plain loops, and the paper's kappa_k."""

from __future__ import annotations

import math
import statistics

import numpy as np
import planning_cases as cases
import pytest
import rule_cases

from aegis.errors import SettingError
from aegis.planning import Greedy, Lcb, Ucb, plan_policy
from aegis.planning.value_rules import pessimism
from aegis.problem import Batch, LevelTable
from aegis.rng import stream


@pytest.mark.parametrize("masks", [False, True])
@pytest.mark.parametrize("depth", [1, 2, 3])
@pytest.mark.parametrize(("rule", "kappa"), [(Ucb(0.7, 4), 0.7), (Lcb(1.3, draws=4), -1.3), (Ucb(5.0, 1), 5.0)])
def test_the_index_against_plain_loops(rule, kappa, depth, masks):
    problem, belief, batch = rule_cases.case(depth, masks=masks)
    policy = rule_cases.planned_by(belief, rule)
    assert policy.theta.count == rule.draws
    for level in problem.names:
        values = rule_cases.plain_values(problem, policy.theta, batch, level)
        full = policy.full(level, batch)
        assert full.shape[0] == 1
        for row, allowed in enumerate(rule_cases.open_rows(problem, batch, level)):
            index = []
            for action, fine in enumerate(allowed):
                drawn = [values[draw][row][action] for draw in range(rule.draws)]
                index.append(statistics.fmean(drawn) + kappa * statistics.pstdev(drawn) if fine else -math.inf)
            assert full[0, row].tolist() == [float(action == index.index(max(index))) for action in range(len(index))]


def test_kappa_of_the_paper():
    """sqrt(2 (KL + log(1/delta)) / k), k counted from 1: before any data KL is 0."""
    assert pessimism(0.0, 0.05, 0) == pytest.approx(math.sqrt(2 * math.log(20)))
    assert pessimism(7.5, 0.1, 4) == pytest.approx(math.sqrt(2 * (7.5 + math.log(10)) / 5))
    with pytest.raises(SettingError, match="whole number from 0"):
        pessimism(1.0, 0.05, -1)


def test_pessimism_counts_the_mechanisms_of_the_scope():
    _, belief, _ = rule_cases.case(3)
    rng = stream(1, "scope")
    pieces = belief.kl_by_mechanism()
    for scope, names in ((("l1",), ("y", "r")), (("l2",), ("c1", "y", "r")), (None, ("c2", "c1", "y", "r"))):
        wanted = math.sqrt(2 * (sum(pieces[name] for name in names) + math.log(1 / 0.2)) / 8)
        choice = Lcb(delta=0.2, draws=2).prepare(belief, rng, 7, scope)
        assert choice.kappa == pytest.approx(-wanted)
    planned = plan_policy(belief, Lcb(draws=2), rng, scope=["l1"], episode=7)
    assert planned.choice.kappa == pytest.approx(-pessimism(pieces["y"] + pieces["r"], 0.05, 7))
    assert Lcb(0.0, draws=2).prepare(belief, rng, 7).kappa == 0.0


def test_optimism_prefers_and_pessimism_avoids_what_is_unknown():
    """An action never tried, of the same mean as one tried often."""
    _, belief, _ = rule_cases.case(1)
    rng = stream(2, "unknown")
    values = np.stack([0.01 * rng.standard_normal((50, 1)), rng.standard_normal((50, 1))], axis=-1)
    values -= values.mean(axis=0)
    everything = np.ones((1, 2), dtype=bool)
    assert rule_cases.of_values(Ucb().prepare(belief, rng, 0), values, everything)[0, 0].tolist() == [0.0, 1.0]
    assert rule_cases.of_values(Lcb().prepare(belief, rng, 0), values, everything)[0, 0].tolist() == [1.0, 0.0]


def test_ties_go_to_the_first_open_action():
    _, belief, _ = rule_cases.case(1)
    values = np.zeros((4, 2, 3))
    mask = np.array([[True, True, True], [False, True, True]])
    for rule in (Ucb(), Lcb()):
        chosen = rule_cases.of_values(rule.prepare(belief, stream(3, "ties"), 0), values, mask)
        assert chosen[0].argmax(axis=-1).tolist() == [0, 1]


def test_many_draws_without_spread_are_greedy_up_to_the_curvature_of_the_model():
    """With one level and affine mechanisms the mean planned value is that of the posterior mean."""
    problem, _, _ = rule_cases.case(1)
    belief = cases.learned(problem, stream(4, "affine"))
    context = {"c1": np.linspace(-2, 2, 20)}
    batch = Batch(np.arange(20), {"l1": LevelTable.undecided(np.arange(20), context)})
    mean, greedy = (plan_policy(belief, rule, stream(5, "many")).values("l1", batch) for rule in (Ucb(0.0, 20_000), Greedy()))
    spread = mean.std(axis=0) / math.sqrt(20_000)
    assert (np.abs(mean.mean(axis=0) - greedy[0]) < 5 * spread).all()


def test_settings_are_checked():
    for wrong in (lambda: Ucb(-1.0), lambda: Ucb(math.nan), lambda: Lcb("much"), lambda: Lcb(-0.1)):
        with pytest.raises(SettingError, match="'kappa' is a finite number from 0"):
            wrong()
    for delta in (0.0, 1.0, 2.0, math.nan):
        with pytest.raises(SettingError, match="'delta' is"):
            Lcb(delta=delta)
    for rule in (Ucb, Lcb):
        with pytest.raises(SettingError, match="'draws' is a whole number from 1"):
            rule(draws=0)
