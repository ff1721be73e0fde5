"""Bets on groups: against a plain loop, fair under every pattern of choices, and sums that add up."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aegis.audit.betting import DIRECTIONS, FEWEST, STAKES, GroupBets, find_interference, score_limit


def naive(group: list[int], choice: np.ndarray, result: np.ndarray, direction: str, sign: float, stake: float) -> float:
    """Return the log of one product, member by member."""
    total, raw = 0.0, result.tolist()
    result = np.array(raw)
    for own in range(len(group)):
        earlier = [raw[other] for other in range(len(group)) if group[other] < group[own]]
        result[own] = max(-1.0, min(1.0, raw[own] - sum(earlier) / len(earlier))) if earlier else 0.0
    for own in range(len(group)):
        before = range(own) if direction == "earlier" else range(own + 1, len(group))
        others = [result[other] for other in before if group[other] == group[own]]
        mean = max(-1.0, min(1.0, sum(others) / (2.0 * math.sqrt(max(len(others), 1)))))
        total += math.log1p(stake * choice[own] * sign * mean)
    return total


@settings(max_examples=40, deadline=None)
@given(st.lists(st.integers(1, 5), min_size=1, max_size=6), st.integers(0, 2**32 - 1))
def test_products_are_those_of_a_plain_loop(sizes: list[int], seed: int) -> None:
    rng = np.random.default_rng(seed)
    group = np.repeat(np.arange(len(sizes)), sizes)
    choice, result = rng.uniform(-1, 1, (group.size, 2)), rng.uniform(-1, 1, group.size)
    bets = GroupBets(2)
    bets.add(group, choice, result, np.full((group.size, 2), 0.25))
    for (row, stake), (place, direction), (side, sign), column in itertools.product(
        enumerate(STAKES), enumerate(DIRECTIONS), enumerate((1.0, -1.0)), (0, 1)
    ):
        expected = naive(group.tolist(), choice[:, column], result, direction, sign, stake)
        assert bets.logs[row, place, side, column] == pytest.approx(expected, abs=1e-9)


def test_scores_are_those_of_a_plain_loop() -> None:
    rng = np.random.default_rng(3)
    sizes = rng.integers(1, 5, 80)
    group = np.repeat(np.arange(80), sizes)
    choice, result = rng.uniform(-1, 1, (group.size, 1)), rng.uniform(-1, 1, group.size)
    bets = GroupBets(1)
    bets.add(group, choice, result, np.full((group.size, 1), 1 / 3))
    several = [number for number in range(80) if sizes[number] > 1]
    members = [row for row in range(group.size) if group[row] in several]
    middle = choice[members, 0].mean(), result[members].mean()
    centred = square = given_results = 0.0
    for number in several:
        rows, scale = np.flatnonzero(group == number), 1.0 / math.sqrt(sizes[number] * (sizes[number] - 1))
        pairs = list(itertools.permutations(rows, 2))
        centred += scale * sum((choice[i, 0] - middle[0]) * (result[j] - middle[1]) for i, j in pairs)
        square += (scale * sum(choice[i, 0] * result[j] for i, j in pairs)) ** 2
        given_results += sum((scale * (result[rows].sum() - result[row])) ** 2 / 3 for row in rows)
    assert bets.groups == len(several) >= FEWEST
    assert bets.scores()[0] == pytest.approx(abs(centred) / math.sqrt(max(square, given_results)))


@pytest.mark.parametrize("bounded", [True, False])
def test_products_have_mean_one_for_a_controller_that_does_not_react(bounded: bool) -> None:
    """All patterns of three choices with their probabilities; each result follows its own choice only."""
    chance, earned = np.array([0.3, 0.5, 0.8]), np.array([[-0.4, 0.9], [0.2, -1.0], [-0.7, 0.1]])
    total = np.zeros((STAKES.size, 2, 2, 1))
    for actions in itertools.product((0, 1), repeat=3):
        taken = np.array(actions)
        probability = np.where(taken == 1, chance, 1.0 - chance)
        choice = (taken - chance if bounded else taken / chance - 1.0)[:, None]
        bets = GroupBets(1)
        bets.earlier = np.array([[0.1], [1.0]])
        bets.add(np.zeros(3, dtype=np.int64), choice, earned[range(3), taken], chance[:, None] if bounded else None)
        total += probability.prod() * np.exp(bets.logs)
    assert total == pytest.approx(np.ones_like(total), abs=1e-12)


def test_a_controller_that_reacts_makes_rewards_go_with_actions() -> None:
    """The second member repeats the first one's action: without a check of reactions its reward would look like interference."""
    total = 0.0
    for first, second in itertools.product((0, 1), repeat=2):
        chance = np.array([0.5, 0.9 if first else 0.1])
        taken = np.array([first, second])
        bets = GroupBets(1)
        bets.earlier = np.array([[0.0], [1.0]])
        bets.add(np.zeros(2, dtype=np.int64), (taken - chance)[:, None], 2.0 * taken - 1.0, np.full((2, 1), 0.25))
        total += float(np.where(taken == 1, chance, 1.0 - chance).prod() * np.exp(bets.logs[0, 1, 0, 0]))
    assert total > 1.05


def test_parts_add_up() -> None:
    rng = np.random.default_rng(1)
    group = np.repeat(np.arange(40), 3)
    choice, result, variance = rng.uniform(-1, 1, (120, 2)), rng.uniform(-1, 1, 120), np.full((120, 2), 0.2)
    halves = (slice(0, 60), slice(60, 120))
    whole, continued, parts = GroupBets(2), GroupBets(2), [GroupBets(2), GroupBets(2)]
    whole.add(group, choice, result, variance)
    for part, rows in zip(parts, halves, strict=True):
        part.add(group[rows], choice[rows], result[rows], variance[rows])
        continued.add(group[rows], choice[rows], result[rows], variance[rows])
    assert continued.evidence() == pytest.approx(whole.evidence())
    logs = parts[0].logs + parts[1].logs
    parts[0].merge(parts[1])
    assert parts[0].logs == pytest.approx(logs) and parts[0].sums == pytest.approx(whole.sums)
    assert (parts[0].groups, parts[0].members) == (whole.groups, whole.members) == (40, 120)


def test_several_choices_of_a_member_are_factors_that_have_mean_one_together() -> None:
    """Two members; the first chooses twice, the second time only after one of two first choices: all patterns."""
    chance, total, means = np.array([0.3, 0.6, 0.5]), np.zeros((STAKES.size, 2, 2, 1)), np.zeros(2)
    for actions in itertools.product((0, 1), repeat=3):
        taken = np.array(actions)
        made = np.array([0, 2] if taken[0] else [0, 1, 2])  # the second choice comes after a first one of 0 alone
        probability = np.where(taken == 1, chance, 1.0 - chance)[made].prod() * (0.5 if taken[0] else 1.0)
        choice, member = (taken - chance)[made][:, None], np.array([0, 1] if taken[0] else [0, 0, 1])
        result = np.array([0.8 * taken[0] - 0.3, 0.9 - 1.2 * taken[2]])
        bets = GroupBets(1)
        bets.earlier = np.array([[-0.2], [1.0]])
        bets.add(np.zeros(2, dtype=np.int64), choice, result, np.full((made.size, 1), 0.25), member)
        total += probability * np.exp(bets.logs)
        means += probability
    assert means == pytest.approx([1.0, 1.0])
    assert total == pytest.approx(np.ones_like(total), abs=1e-12)


def test_bets_beside_others_count_as_lost_where_they_do_not_hold() -> None:
    rng = np.random.default_rng(4)
    group, choice, result = np.repeat(np.arange(60), 2), rng.uniform(-1, 1, (120, 1)), rng.uniform(-1, 1, 120)
    one, other = GroupBets(1), GroupBets(1)
    one.add(group, choice, result, np.full((120, 1), 1 / 3))
    other.add(group, -choice, result, np.full((120, 1), 1 / 3))
    both, lost = one.beside(other, True), one.beside(other, False)
    assert both.overall() == pytest.approx(np.log((np.exp(one.overall()) + np.exp(other.overall())) / 2))
    assert lost.overall() == pytest.approx(one.overall() - np.log(2)) and lost.scores() == pytest.approx(other.scores())
    only = one.only("later")
    assert only.logs == pytest.approx(one.logs[:, [1]]) and only.scores().tolist() == [0.0]


def test_rare_choices_and_few_groups_have_no_score() -> None:
    group = np.repeat(np.arange(60), 2)
    bets = GroupBets(1)
    bets.add(group, np.full((120, 1), -0.01), np.ones(120), np.full((120, 1), 0.0099))
    assert bets.scores().tolist() == [0.0]  # a choice that never came: its score would be huge
    few = GroupBets(1)
    few.add(group[:20], np.resize([0.5, -0.5], 20)[:, None], np.resize([1.0, -1.0], 20), np.full((20, 1), 2.5))
    assert few.scores().tolist() == [0.0]


def test_evidence_refuses_before_scores_and_both_keep_their_level() -> None:
    assert find_interference([], 0.001) is None
    rng, alarms, runs = np.random.default_rng(5), 0, 400
    group = np.repeat(np.arange(60), 2)
    for _ in range(runs):
        bets = GroupBets(1)
        taken = rng.random((120, 1)) < 0.4
        bets.add(group, taken - 0.4, rng.uniform(-1, 1, 120), np.full((120, 1), 0.24))
        found = find_interference([bets], 0.05)
        alarms += found is not None and found.severity == "refused"
    assert alarms <= 33  # the 99.9 % limit of 5 %
    assert score_limit(0.05, 10**6) == pytest.approx(1.96, abs=0.001) and score_limit(0.05, 10) > 2.2
