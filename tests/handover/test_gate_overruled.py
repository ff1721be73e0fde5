"""Episodes in which an interlock or a person replaced an action: they count at their worst, and the tests go on."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from gate_cases import frozen, propose, run
from scipy import stats

from aegis.certificate import ChallengeTerms
from aegis.handover import Challenger, ClaimState, Flipped, GateState, UnitCounted, apply_event, step
from aegis.handover.challenge import PartState
from aegis.handover.challenger import make_challenger
from aegis.handover.gate_state import MonitorState
from aegis.policies import Function
from aegis.problem import Array, Batch, Level, LevelTable, Rows, parse_problem
from aegis.rng import stream

PROBLEM = parse_problem(
    """
episode: batch
reward: {column: margin, range: [0, 1], per: decision}
levels:
  - name: valve
    context: [{column: load, values: [low, high]}]
    action: {column: opening, values: [shut, open]}
    propensity: {column: p}
"""
)
MEANS = np.array([0.2, 0.8])  # of the reward, by action, in either context
DELTA, EPISODES, BETS = 0.3, 80, 6


def lean(level: Level, rows: Rows) -> Array:
    """Return a policy that opens more often at low loads and shuts more often at high ones: what it gains it loses."""
    opens = np.where(np.asarray(rows["load"]) == 0, 0.8, 0.2)
    return np.stack([1.0 - opens, opens], axis=1)


def episodes(seed: int, count: int) -> Batch:
    """Return episodes of a legacy that draws uniformly."""
    rng = stream(seed, "interlock")
    load, action = rng.integers(0, 2, count).astype(np.int32), rng.integers(0, 2, count).astype(np.int32)
    reward = (rng.random(count) < MEANS[action]).astype(np.float64)
    half = np.full((count, 2), 0.5)
    table = LevelTable(np.arange(count, dtype=np.int32), {"load": load}, action, half[:, 0], half)
    return Batch(np.array([f"{seed}-{place}" for place in range(count)]), {"valve": table}, reward, np.isfinite(reward))


def challenger() -> Challenger:
    """Return a challenger whose gain is 0."""
    terms = ChallengeTerms(variation=0.5)
    return make_challenger(PROBLEM, "valve", 2.0, Function(PROBLEM, lean), terms, None, episodes(0, 40))


def tripped(batch: Batch, rate: float, seed: int) -> Array:
    """Return in which episodes the interlock trips: at high loads with the valve open, where the challenger would lose."""
    table = batch.levels["valve"]
    risky = (table.context["load"] == 1) & (table.action == 1)
    return risky & (stream(seed, "trips").random(len(batch)) < rate)


Part = tuple[int | None, ...]


def sharp(claim: ClaimState) -> ClaimState:
    """Return a claim of a gain with its largest bets alone, each with the same weight: what errs does so soon."""
    (part,) = claim.parts
    largest = PartState(part.offset, part.bets[:BETS], (-math.log(BETS),) * BETS, (0,) * BETS)
    return replace(claim, delta=DELTA, parts=(largest,))


def certified(claim: ClaimState, units: list[Part], trips: Array, worst: Part | None) -> bool:
    """Say whether a claim is ever certified. worst: of an episode in which the interlock tripped; None leaves it out."""
    for logs, trip in zip(units, trips, strict=True):
        if trip and worst is None:
            continue
        claim = claim.add([((worst or ()) if trip else logs)[:BETS]])
        if claim.certified:
            return True
    return False


@pytest.mark.parametrize(
    ("rate", "runs"),
    [
        (0.04, 80),
        (1.0, 80),
        pytest.param(0.04, 600, marks=pytest.mark.ci),
        *(pytest.param(rate, 3000, marks=pytest.mark.soak) for rate in (0.01, 0.04, 1.0)),
    ],
)
def test_with_an_interlock_false_certificates_are_no_more_frequent_than_delta(rate: float, runs: int) -> None:
    item = challenger()
    start = next(claim for claim in item.proposed.claims if claim.what == "gain")
    start, (worst,), wrong, selected = sharp(start), item.worst_evidence()["gain"], 0, 0
    for seed in range(1, runs + 1):
        batch = episodes(seed, EPISODES)
        units, trips = [unit["gain"][0] for unit in item.evidence(batch)], tripped(batch, rate, seed)
        wrong += certified(start, units, trips, worst)
        selected += certified(start, units, trips, None)
    assert stats.binomtest(wrong, runs, DELTA, alternative="greater").pvalue > 0.01
    if rate == 1.0:  # why such episodes cannot be left out
        assert stats.binomtest(selected, runs, DELTA, alternative="greater").pvalue < 1e-6
    else:
        assert wrong > 0.1 * DELTA * runs  # the null is a hard one


def test_no_episode_contributes_less_than_the_worst() -> None:
    item = challenger()
    worst = item.worst_evidence()
    for unit in item.evidence(episodes(5, 300)):
        for what, parts in worst.items():
            for lowest, part in zip(parts, unit[what], strict=True):
                assert all(
                    own is not None and least is not None and least <= own for least, own in zip(lowest, part, strict=True)
                )


# ---- the gate ----------------------------------------------------------------------------------------------------------------


def counted_three() -> GateState:
    """Return a gate whose challenge has counted three episodes."""
    state, _ = frozen(propose("dose", 2.0), mode="shadow")
    return run(state, 3, lambda *_: 0.1)


def worst_of(state: GateState) -> dict[str, dict[str, tuple[tuple[int, ...], ...]]]:
    """Return the worst evidence for the challenges of a gate."""
    log = math.floor(math.log(0.05) * 2**32)
    return {
        item.name: {claim.what: tuple((log,) * len(part.bets) for part in claim.parts) for claim in item.claims}
        for item in state.challenges
    }


def test_the_tests_go_on_with_the_worst_and_such_an_episode_is_not_audited() -> None:
    before = counted_three()
    after, events = step(before, UnitCounted(before.episode + 1, 0.9, "overruled", worst_of(before)))
    assert len(events) == 1 and after.start == before.start and after.audited == before.audited
    assert [item.units for item in after.challenges] == [4]
    assert after.challenges[0].claim("gain").log_evidence < before.challenges[0].claim("gain").log_evidence - 1.0


def test_the_monitor_counts_it_as_a_missing_reward() -> None:
    flip = Flipped("dose", "1-dose-2", "handover", 2.0, "policy", 4, 5, 3, 0.1, 0.5)
    state = apply_event(counted_three(), flip)
    assert isinstance(state.monitor, MonitorState)
    replaced = apply_event(state, UnitCounted(5, 0.0, "overruled"))
    assert replaced.monitor == apply_event(state, UnitCounted(5, None, "agent")).monitor
    assert replaced.monitor != apply_event(state, UnitCounted(5, 0.0, "agent")).monitor
