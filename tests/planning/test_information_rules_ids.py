"""Information-directed sampling: regret and information by plain loops, and no distribution with a smaller ratio."""

from __future__ import annotations

import math

import numpy as np
import pytest
import rule_cases
from hypothesis import given, settings
from hypothesis import strategies as some

from aegis.errors import SettingError
from aegis.planning import Ids
from aegis.planning import information_rules as module
from aegis.planning.information_rules import least_ratio, regret_and_information
from aegis.rng import stream


def plain_terms(values, allowed):
    """Regret and information gain of one decision from values[draw][action], as in the definition."""
    draws, actions = len(values), len(values[0])
    winner = []
    for drawn in values:
        fine = [action for action in range(actions) if allowed[action]]
        winner.append(max(fine, key=lambda action: (drawn[action], -action)))
    top = sum(drawn[winner[s]] for s, drawn in enumerate(values)) / draws
    regret, gain = [], []
    for action in range(actions):
        mean = sum(drawn[action] for drawn in values) / draws
        regret.append(top - mean)
        total = 0.0
        for other in set(winner):
            group = [values[s][action] for s in range(draws) if winner[s] == other]
            total += len(group) / draws * (sum(group) / len(group) - mean) ** 2
        gain.append(total)
    return regret, gain


def ratio(chances, regret, gain):
    cost, told = (sum(p * x for p, x in zip(chances, of, strict=True)) for of in (regret, gain))
    return 0.0 if abs(cost) < 1e-12 else math.inf if told <= 0 else cost**2 / told


@pytest.mark.parametrize("masks", [False, True])
@pytest.mark.parametrize("depth", [1, 2, 3])
def test_the_planned_distribution_against_plain_loops(depth, masks):
    """Two actions at a time, their share in steps of a thousandth."""
    problem, belief, batch = rule_cases.case(depth, masks=masks)
    policy = rule_cases.planned_by(belief, Ids(5))
    for level in problem.names:
        values = rule_cases.plain_values(problem, policy.theta, batch, level)
        for row, allowed in enumerate(rule_cases.open_rows(problem, batch, level)):
            regret, gain = plain_terms([drawn[row] for drawn in values], allowed)
            chosen = policy.full(level, batch)[0, row]
            fine = [action for action in range(len(allowed)) if allowed[action]]
            least = math.inf
            for one in fine:
                for other in fine:
                    for step in range(1001):
                        chances = [0.0] * len(allowed)
                        chances[one] += step / 1000
                        chances[other] += 1 - step / 1000
                        least = min(least, ratio(chances, regret, gain))
            found = ratio(chosen, regret, gain)
            assert found <= least * (1 + 1e-9) + 1e-12
            assert found >= least * (1 - 1e-3) - 1e-12
            assert (chosen > 0).sum() <= 2


@settings(max_examples=80, deadline=None)
@given(some.integers(0, 2**32 - 1), some.integers(2, 6), some.integers(2, 12))
def test_terms_are_those_of_the_definition(seed, actions, draws):
    rng = np.random.default_rng(seed)
    values = rng.standard_normal((draws, 3, actions)).round(1)
    allowed = rng.random((3, actions)) < 0.7
    allowed[:, 0] |= ~allowed.any(axis=1)
    regret, gain = regret_and_information(values, allowed)
    for row in range(3):
        wanted = plain_terms(values[:, row].tolist(), allowed[row])
        np.testing.assert_allclose(regret[row][allowed[row]], np.array(wanted[0])[allowed[row]], atol=1e-12)
        np.testing.assert_allclose(gain[row], wanted[1], atol=1e-12)


@settings(max_examples=80, deadline=None)
@given(some.integers(0, 2**32 - 1), some.integers(2, 6))
def test_no_distribution_over_any_number_of_actions_does_better(seed, actions):
    """Two actions suffice: random distributions over all of them, and all pure ones, have at least the ratio found."""
    rng = np.random.default_rng(seed)
    regret, gain = rng.exponential(1.0, actions), rng.exponential(1.0, actions) * (rng.random(actions) < 0.8)
    gain[0] = 0.5
    allowed = np.ones((1, actions), dtype=bool)
    chosen = least_ratio(regret[None], gain[None], allowed)[0]
    found = ratio(chosen, regret, gain)
    for chances in [*rng.dirichlet(np.full(actions, 0.5), 200), *np.eye(actions)]:
        assert found <= ratio(chances, regret, gain) * (1 + 1e-9)


def test_a_mixture_of_two_that_is_known():
    """Regrets 1 and 3, gains 0 and 4: (1 + 2 p)^2 / (4 p) is least at p = 1/2, where it is 2."""
    chosen = least_ratio(np.array([[1.0, 3.0]]), np.array([[0.0, 4.0]]), np.ones((1, 2), dtype=bool))
    np.testing.assert_allclose(chosen, [[0.5, 0.5]])


def test_draws_that_agree_leave_nothing_to_learn():
    _, belief, _ = rule_cases.case(1)
    choice = Ids(3).prepare(belief, stream(1, "agree"), 0)
    values = np.array([[[1.0, 3.0, 2.0]], [[0.5, 9.0, 1.0]], [[-7.0, 0.3, 0.2]]])
    everything = np.ones((1, 3), dtype=bool)
    assert rule_cases.of_values(choice, values, everything).tolist() == [[[0.0, 1.0, 0.0]]]
    assert rule_cases.of_values(choice, np.zeros((3, 1, 3)), everything).tolist() == [[[1.0, 0.0, 0.0]]]
    gone = np.array([[True, False, True]])  # of what is left, the draws agree on the last
    assert rule_cases.of_values(choice, values, gone).tolist() == [[[0.0, 0.0, 1.0]]]


def test_regret_without_any_information_goes_to_the_least_regret():
    chosen = least_ratio(np.array([[2e-17, 1e-17, 3.0]]), np.zeros((1, 3)), np.ones((1, 3), dtype=bool))
    assert chosen.tolist() == [[0.0, 1.0, 0.0]]


def test_blocks_of_rows_do_not_change_the_answer(monkeypatch):
    _, belief, _ = rule_cases.case(1)
    choice = Ids(4).prepare(belief, stream(2, "blocks"), 0)
    rng = stream(3, "blocks")
    values, allowed = rng.standard_normal((4, 7, 3)), np.ones((7, 3), dtype=bool)
    whole = rule_cases.of_values(choice, values, allowed)
    monkeypatch.setattr(module, "IDS_BLOCK", 2 * 3 * 4)
    np.testing.assert_array_equal(rule_cases.of_values(choice, values, allowed), whole)


def test_ids_needs_a_draw():
    with pytest.raises(SettingError, match="'draws' is a whole number from 1"):
        Ids(0)
