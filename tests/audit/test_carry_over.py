"""Carry-over within episodes is refused; decisions that do not affect later ones pass."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pytest
from audit_cases import (
    audited,
    logged,
    previous_action,
    taken_only,
)
from hostile_logs import FORMS, certified, even, one_level, refused, runs_and_doses, steps, two_levels
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from aegis.audit.batch_view import BatchView
from aegis.audit.checks.carry_over import EarlierSiblings, decision_pairs
from aegis.audit.slices import Cuts
from aegis.errors import LogError
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


@pytest.mark.parametrize("runs", [15, pytest.param(50, marks=pytest.mark.ci)])
def test_episodes_without_effects_are_not_refused(runs: int) -> None:
    refused = 0
    for run in range(runs):
        refused += "carry-over" in audited(one_level(), walk(stream(run, "none"), 60, 6, 3, 0.0), alpha=ALPHA).codes("refused")
    assert stats.binomtest(refused, runs, ALPHA, alternative="greater").pvalue > 0.001


def test_a_controller_that_looks_far_back_is_not_taken_for_an_effect() -> None:
    """Its own actions follow older ones, and rewards follow its actions: nothing carries over but through them."""
    for run in range(8):
        batch = walk(stream(run, "looks back"), 400, 6, 3, 0.0, own=0.9, reacts=True)
        audit = audited(one_level(), batch)
        assert "carry-over" not in audit.codes() and "behaviour-reacts" in audit.codes("note")


@FORMS
def test_a_dose_that_affects_the_next_run_is_refused(taken: bool) -> None:
    batch = runs_and_doses(stream(1, "next run"), 500)
    assert refused(batch, taken) == []
    last = np.flatnonzero(np.diff(np.append(batch.levels["dose"].parent, 10**6)))
    before = np.where(np.arange(1500) % 3 == 0, 0, np.roll(batch.levels["dose"].action[last], 1))
    assert batch.reward is not None
    lower = replace(batch, reward=batch.reward - 0.3 * before[batch.levels["dose"].parent])
    assert refused(lower, taken) == [("carry-over", "dose")]
    recipe = batch.levels["recipe"]
    shifted = batch.with_level("recipe", replace(recipe, context={"c": recipe.context["c"] - 1.5 * before}))
    assert refused(shifted, taken) == [("carry-over", "dose")]
    dose = batch.levels["dose"]
    warm = np.where(np.arange(3000) % 2 == 0, before[dose.parent], 0)  # the first dose of the next run
    warmer = batch.with_level("dose", replace(dose, context={"x": dose.context["x"] + 1.5 * warm}))
    assert refused(warmer, taken) == [("carry-over", "dose")]


@FORMS
def test_what_carries_over_with_a_lag_of_two_is_refused(taken: bool) -> None:
    batch = runs_and_doses(stream(2, "lag"), 300, 1, 6)
    action = batch.levels["dose"].action
    place = np.arange(action.size) % 6
    assert batch.reward is not None and refused(batch, taken) == []
    later = replace(batch, reward=batch.reward - 0.3 * np.where(place < 2, 0, np.roll(action, 2)))
    assert refused(later, taken) == [("carry-over", "dose")]


def test_what_happens_within_the_unit_of_a_reward_does_not_matter() -> None:
    rng = stream(3, "units")
    owner = np.repeat(np.arange(400), 4)
    action = rng.integers(0, 2, 1600)
    context = rng.normal(size=1600) + 2.0 * np.where(np.arange(1600) % 4 == 0, 0, np.roll(action, 1))
    total = np.bincount(owner, weights=action)[owner] / 8 + 0.5 * rng.random(400)[owner]
    batch = Batch(np.arange(400), {"dose": even(owner, action, x=context)}, total)
    assert audited(one_level(reward=", per: episode"), batch).verdict == "fit"
    rewards = rng.random(1600)
    assert [item.code for item in audited(one_level(), replace(batch, reward=rewards)).refused] == ["carry-over"]
    stops = np.cumsum(action) - action  # nothing follows a high action
    kept = np.flatnonzero(stops - stops[owner * 4] == 0)
    table = batch.levels["dose"].take(kept, owner[kept])
    short = replace(batch, levels={"dose": table}, reward=total[kept])
    assert audited(one_level(reward=", per: episode"), short).verdict == "fit"
    assert "size-follows-action" in audited(one_level(), replace(short, reward=rewards[kept])).codes("refused")


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 10**6), st.integers(1, 4), st.integers(1, 4))
def test_pairs_by_hand(seed: int, runs: int, doses: int) -> None:
    rng = np.random.default_rng(seed)
    batch = runs_and_doses(rng, 3, runs, doses)
    kept = np.sort(rng.permutation(3 * runs * doses)[: max(1, runs * doses)])
    table = batch.levels["dose"]
    assert batch.reward is not None
    batch = replace(batch, levels={**batch.levels, "dose": table.take(kept, table.parent[kept])}, reward=batch.reward[kept])
    view = BatchView.of(two_levels(), batch, Cuts(0, {"recipe": (), "dose": ()}, {"recipe": 0.0, "dose": 0.0}))
    parent = batch.levels["dose"].parent
    found = list(decision_pairs(two_levels(), view, "dose"))
    for lag, pairs in zip((1, 2), found[:2], strict=True):
        expected = [(row, row + lag) for row in range(len(parent) - lag) if parent[row] == parent[row + lag]]
        assert list(zip(pairs.rows.tolist(), pairs.later.tolist(), strict=True)) == expected
    after = []
    for run in range(3 * runs - 1):
        here, there = np.flatnonzero(parent == run), np.flatnonzero(parent == run + 1)
        if run // runs == (run + 1) // runs and here.size and there.size:
            after.append((here[-1], run + 1, there[0]))
    assert list(zip(found[2].rows.tolist(), found[2].later.tolist(), found[2].below.tolist(), strict=True)) == after


@pytest.mark.parametrize("taken", [False, True])
def test_rewards_and_contexts_that_carry_over_are_refused(taken: bool) -> None:
    problem, batch = logged("additive", "uniform", 200, 5)
    before = previous_action(problem, batch, "inner")
    table = batch.levels["inner"]
    assert batch.reward is not None
    faults = {
        "reward": replace(batch, reward=batch.reward + before),
        "context": batch.with_level("inner", replace(table, context={"Q": table.context["Q"] + before})),
    }
    for fault in faults.values():
        form = taken_only(problem, fault) if taken else (problem, fault)
        audit = audited(*form)
        assert audit.codes("refused") == ("carry-over",)
        assert "within" in audit.refused[0].fix
        assert audited(replace(form[0], carry_over="within"), form[1]).verdict != "refused"


def test_a_candidate_adds_its_own_bet_on_carry_over() -> None:
    problem, batch = logged("additive", "uniform", 90, 6)
    before = previous_action(problem, batch, "inner")
    assert batch.reward is not None
    fault = replace(batch, reward=batch.reward + 4 * np.sign(before))

    class Upwards:
        weights = np.ones(1)

        def taken(self, level: str, batch: Batch) -> np.ndarray:
            return (batch.levels[level].action >= 6)[None] / 5.0

        def full(self, level: str, batch: Batch) -> np.ndarray:
            return np.tile(np.where(np.arange(11) >= 6, 0.2, 0.0), (1, len(batch.levels[level]), 1))

    wide = replace(problem, reward=replace(problem.reward, range=(-20.0, 20.0)))
    plain = audited(wide, fault, scope=["inner"])
    with_policy = audited(wide, fault, policy=Upwards(), scope=["inner"])
    assert "carry-over" in with_policy.codes("refused")
    assert plain.figures["episodes"] == with_policy.figures["episodes"] == 90


@pytest.mark.parametrize("order", ["log", "newest first", "shuffled"])
def test_the_order_of_rows_does_not_decide_what_carries_over(order: str) -> None:
    rng = stream(5, "steps")
    table = steps(rng, 1500, 3)
    rows = {"log": np.arange(4500), "newest first": np.arange(4500)[::-1], "shuffled": rng.permutation(4500)}[order]
    found = certified(one_level("time: t\ncarry_over: within"), table.take(pa.array(rows)))
    assert found.verdict.verdict == "not yet"
    assert found.levels[0].estimate == pytest.approx(-0.025, abs=0.05)
    with pytest.raises(LogError, match=r"column 'a': level 'dose' has several decisions .* 'decision' column .* 'time' column"):
        certified(one_level("carry_over: within"), table.take(pa.array(rows)))
