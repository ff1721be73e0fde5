"""How often a gate is wrong, counted over lives at an exact null beside a level with a true gain."""

from __future__ import annotations

import math
import random
from dataclasses import replace

import pytest
from gate_cases import REACH, gain, opened, propose, unit
from scipy import stats

from aegis.handover import Challenge, ClaimState, Flipped, OperatorAction, Paused, step
from aegis.handover.challenge import PartState
from aegis.handover.schedule import freeze_is_due

DELTA, UNITS = 0.3, 150


def sharp() -> ClaimState:
    """Return a claim of a gain on two bets, one of which moves fast: what reaches its threshold by mistake does so soon."""
    bets = (1.0 / REACH / 4, 1.0 / REACH / 2)
    return replace(gain(), parts=(PartState(0.0, bets, (math.log(0.5),) * 2, (0, 0)),))


def life(seed: int, better: float) -> tuple[set[tuple[str, str]], int]:
    """Return what a gate on two levels flipped in its life, as (level, kind), and how many freezes there were.

    At level 'dose' a handover gains 2 x `better` x REACH; every other challenge, upgrades of it included, is at an exact null: a
    unit's value is as often REACH as -REACH, so that every bet's factor has mean one. Challenges see units of their own,
    independent ones, which is as bad as it gets for their number. Sometimes the gate is paused and resumed.
    """
    chance = random.Random(seed)

    def values(item: Challenge, what: str) -> float:
        good = better if (item.level, item.kind) == ("dose", "handover") else 0.0
        return REACH if chance.random() < 0.5 + good else -REACH

    state, _ = opened(("dose", "recipe"), delta=DELTA, first=8, generations=4, caps=[1.5, 2.0], patience=1, holdback=0.05)
    flips = set()
    for _ in range(UNITS):
        if freeze_is_due(state):
            proposed = [propose(level, cap, sharp()) for level in state.levels for cap in state.settings.caps]
            state, _ = step(state, proposed, state.started + chance.randint(0, 2))
        held_back = chance.random() >= 0.95 and bool(state.deployed)
        state, told = step(state, unit(state, values, arm="legacy" if held_back else "agent"))
        flips |= {(event.level, event.action) for event in told if isinstance(event, Flipped)}
        if chance.random() < 0.01:
            state, _ = step(state, Paused(0, "no data"))
            state, _ = step(state, OperatorAction("resume", "ann", "data again", 0))
        if flips - {("dose", "handover")}:
            break  # wrong already
    return flips, state.freeze


@pytest.mark.parametrize("runs", [60, pytest.param(300, marks=pytest.mark.ci)])
def test_at_an_exact_null_flips_are_no_more_frequent_than_delta(runs: int):
    wrong = sum(bool(life(seed, 0.0)[0]) for seed in range(runs))
    assert stats.binomtest(wrong, runs, DELTA, alternative="greater").pvalue > 0.05
    assert wrong > 0.2 * DELTA * runs  # the null is a hard one: a gate that spends more than it has would be seen


@pytest.mark.parametrize("runs", [45, pytest.param(150, marks=pytest.mark.ci)])
def test_beside_a_true_gain_wrong_flips_stay_as_rare_and_the_right_one_is_found(runs: int):
    found = [life(1000 + seed, 0.2) for seed in range(runs)]
    wrong = sum(bool(flips - {("dose", "handover")}) for flips, _ in found)
    right = sum(("dose", "handover") in flips for flips, _ in found)
    assert stats.binomtest(wrong, len(found), DELTA, alternative="greater").pvalue > 0.05
    assert right > 0.8 * len(found)
    assert max(freezes for _, freezes in found) >= 8  # flips and restarts went on spending
