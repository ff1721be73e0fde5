"""A level of a pilot log: what the legacy does at another rate, halves, and who judges the candidate."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aegis.ope import reward_measure
from aegis.problem import Array, Batch, LevelTable
from aegis.rng import stream
from aegis.validation import Plan, plan
from aegis.validation.planner.pilot_level import LegacyBehaviour, cut_in_halves, fit_half, make_pilot_level
from aegis.worlds import make_world


def table(full: Array, available: np.ndarray | None = None) -> LevelTable:
    rows = np.arange(len(full), dtype=np.int32)
    action = full.argmax(axis=1).astype(np.int32)
    return LevelTable(rows, {}, action, full[rows, action], full, available)


@settings(max_examples=40, deadline=None)
@given(st.integers(2, 6), st.floats(0.0, 1.0), st.floats(0.01, 1.0), st.integers(0, 1000))
def test_the_share_of_exploration_is_found_and_replaced(actions: int, rate: float, other: float, seed: int) -> None:
    rng = stream(seed, "legacy")
    mask = rng.random((20, actions)) < 0.7
    mask[:, 0] = True
    mask[:, 1] = True
    own = np.where(mask, rng.random((20, actions)), 0.0)
    own[:, 0] = 0.0  # an available action that the legacy itself never takes: exploration is all there is of it
    own /= own.sum(axis=1, keepdims=True)
    uniform = mask / mask.sum(axis=1, keepdims=True)
    found = LegacyBehaviour.of(table((1 - rate) * own + rate * uniform, mask), actions)
    assert found is not None
    np.testing.assert_allclose(found.rate, rate, atol=1e-9)
    assert found.exploring(None) is found.logged
    np.testing.assert_allclose(found.exploring(other).sum(axis=1), 1.0)
    assert not found.exploring(other)[~mask].any()
    if rate < 0.99:
        np.testing.assert_allclose(found.exploring(other), (1 - other) * own + other * uniform, atol=1e-6)


def test_what_is_left_to_chance() -> None:
    one_hot = np.eye(3)[[0, 2, 1]]
    known = LegacyBehaviour.of(table(one_hot), 3)
    assert known is not None and known.deterministic and not known.uniform_already
    taken = LevelTable(np.arange(3, dtype=np.int32), {}, np.array([0, 2, 1], dtype=np.int32), np.ones(3))
    told = LegacyBehaviour.of(taken, 3)
    assert told is not None and np.array_equal(told.logged, one_hot)
    spread = LegacyBehaviour.of(table(np.full((3, 3), 1 / 3)), 3)
    assert spread is not None and spread.uniform_already and not spread.deterministic
    assert LegacyBehaviour.of(LevelTable(taken.parent, {}, taken.action, np.full(3, 0.5)), 3) is None
    assert LegacyBehaviour.of(table(np.where(one_hot > 0, np.nan, one_hot)), 3) is None


def test_a_level_without_a_choice_in_some_contexts_is_not_deterministic_for_that() -> None:
    mask = np.array([[True, False], [True, True]])
    found = LegacyBehaviour.of(table(np.array([[1.0, 0.0], [0.5, 0.5]]), mask), 2)
    assert found is not None and not found.deterministic


WORLD = make_world("additive", inner_steps=4)


PROBLEM = WORLD.problem


def log(legacy: str, episodes: int = 80, seed: int = 5) -> Batch:
    return WORLD.episodes(0, episodes, WORLD.legacy(legacy), seed)


def episodes(found: Plan, level: str = "inner") -> list[int]:
    return [row.episodes or 10**9 for row in found.level(level).rows]


def test_optimism_is_taken_off() -> None:
    """A pilot whose halves disagree about the best action promises less than its model."""
    batch = log("uniform", 40)
    assert batch.reward is not None
    measure = reward_measure(PROBLEM)
    shrunk = 0
    for seed in range(6):
        noise = stream(seed, "noise").normal(size=batch.reward.size)
        noisy = replace(batch, reward=np.clip(0.1 * batch.reward + 2 * noise, -10, 10))
        halves = cut_in_halves(noisy, 1)
        models = (fit_half(PROBLEM, measure, "inner", halves[0]), fit_half(PROBLEM, measure, "inner", halves[1]))
        found = make_pilot_level(PROBLEM, measure, halves, models, "inner", None)
        assert found is not None and 0 <= found.shrink <= 1
        kept = found.shrink * found.plug_in
        assert kept <= max(found.robust - 0.5 * found.error, 0.0) + 1e-12
        assert np.mean([play.gain for play in found.plays(None, 2.0)]) == pytest.approx(kept, abs=1e-9)
        shrunk += 0 < found.shrink < 1
    assert shrunk


def test_who_chose_the_actions_does_not_judge_them() -> None:
    """In rewards that are noise, models that judge themselves always see a gain; those of the other half do not."""
    batch = log("uniform", 40)
    measure = reward_measure(PROBLEM)
    gains = []
    for seed in range(6):
        noisy = replace(batch, reward=2 * stream(seed, "only noise").normal(size=len(batch.levels["inner"])))
        halves = cut_in_halves(noisy, seed)
        models = (fit_half(PROBLEM, measure, "inner", halves[0]), fit_half(PROBLEM, measure, "inner", halves[1]))
        found = make_pilot_level(PROBLEM, measure, halves, models, "inner", None)
        assert found is not None
        gains.append(found.plug_in)
    assert min(gains) < 0


def test_halves_keep_clusters_together() -> None:
    batch = log("uniform", 60)
    clustered = replace(batch, cluster=np.repeat(np.arange(20), 3))
    first, second = cut_in_halves(clustered, 1)
    assert first.cluster is not None and second.cluster is not None
    assert not set(first.cluster) & set(second.cluster)
    assert len(first) == len(second) == 30
    problem = replace(PROBLEM, cluster="household")
    found = plan(problem, clustered, caps=[2.0], levels=["inner"])
    assert found.unit_word == "clusters"
    single = plan(PROBLEM, batch, caps=[2.0], levels=["inner"])
    assert episodes(found)[0] <= episodes(single)[0]  # three episodes tell no less than one
