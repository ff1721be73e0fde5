"""Effects of older decisions are found by betting on all earlier ones together; logs in order are not refused for them."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest
from audit_cases import audited, taken_only
from hostile_logs import even, one_level
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from aegis.audit.checks.carry_over import EarlierSiblings
from aegis.problem import Batch, LevelTable
from aegis.rng import stream

ALPHA = 0.05


@settings(max_examples=60, deadline=None)
@given(st.lists(st.integers(1, 6), min_size=1, max_size=8), st.sampled_from([1, 3]), st.integers(0, 99), st.integers(1, 30))
def test_shares_are_those_of_every_pair(sizes: list[int], lag: int, seed: int, most: int) -> None:
    parent = np.repeat(np.arange(len(sizes)), sizes)
    rng = stream(seed, "shares")
    fresh = (rng.random(len(sizes)) < 0.8)[parent]
    sign = rng.random(parent.size)
    earlier = EarlierSiblings.of(parent, fresh, lag, most)
    taken, expected = 0, np.zeros(parent.size)
    kept: list[int] = []
    for group, size in enumerate(sizes):
        rows = np.flatnonzero(parent == group)
        if not fresh[rows[0]] or size <= max(lag, 2):
            continue
        taken += size
        if taken > most:
            break
        kept += rows.tolist()
        for place in range(lag, size):
            for before in range(place - lag + 1):
                expected[rows[before]] += sign[rows[place]] / (place - lag + 1)
    assert earlier.rows.tolist() == kept
    assert earlier.shares(sign[kept]) == pytest.approx(expected[kept], abs=1e-12)
    both = earlier.shares(np.stack([sign[kept], 1.0 - sign[kept]], axis=1))
    assert both[:, 0] == pytest.approx(expected[kept], abs=1e-12)
    assert both.sum() == pytest.approx(earlier.later.sum())


def walk(
    rng: np.random.Generator, episodes: int, count: int, lag: int, effect: float, own: float = 0.2, reacts: bool = False
) -> Batch:
    """Return episodes in which all actions so far back lower the reward; the controller may look at the oldest of them."""
    action = np.zeros((episodes, count), dtype=np.int32)
    reward, chance = np.zeros((episodes, count)), np.full((episodes, count), 0.5)
    for step in range(count):
        old = action[:, : max(step - lag + 1, 0)]
        if reacts and old.size:
            chance[:, step] = np.where(old[:, 0] == 1, 0.9, 0.1)
        action[:, step] = rng.random(episodes) < chance[:, step]
        mean = old.mean(axis=1) - 0.5 if old.size else 0.0
        reward[:, step] = rng.random(episodes) < 0.5 + own * (action[:, step] - 0.5) - effect * mean
    table = even(np.repeat(np.arange(episodes), count), action.ravel(), x=rng.normal(size=action.size))
    return Batch(np.arange(episodes), {"dose": _decided(table, chance.ravel())}, reward.ravel())


def _decided(table: LevelTable, chance: npt.NDArray[np.float64]) -> LevelTable:
    full = np.stack([1.0 - chance, chance], axis=1)
    return table.decided(table.action, full[np.arange(len(table)), table.action], full)


@pytest.mark.parametrize(("lag", "effect"), [(3, 0.5), (4, 0.6), (1, 0.7)])
@pytest.mark.parametrize("taken", [False, True])
def test_effects_of_older_decisions_are_refused(lag: int, effect: float, taken: bool) -> None:
    problem, batch = one_level(), walk(stream(1, "older", lag), 500, 6, lag, effect)
    form = taken_only(problem, batch) if taken else (problem, batch)
    found = audited(*form).refused
    assert [item.code for item in found] == ["carry-over"]
    assert lag < 3 or "decisions three or more before it" in found[0].message or "all decisions before it" in found[0].message


def test_episodes_without_effects_are_not_refused() -> None:
    refused, runs = 0, 50
    for run in range(runs):
        refused += "carry-over" in audited(one_level(), walk(stream(run, "none"), 60, 6, 3, 0.0), alpha=ALPHA).codes("refused")
    assert stats.binomtest(refused, runs, ALPHA, alternative="greater").pvalue > 0.001


def test_a_controller_that_looks_far_back_is_not_taken_for_an_effect() -> None:
    """Its own actions follow older ones, and rewards follow its actions: nothing carries over but through them."""
    for run in range(8):
        batch = walk(stream(run, "looks back"), 400, 6, 3, 0.0, own=0.9, reacts=True)
        audit = audited(one_level(), batch)
        assert "carry-over" not in audit.codes() and "behaviour-reacts" in audit.codes("note")
