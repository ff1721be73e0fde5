from __future__ import annotations

import itertools
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aegis.errors import PolicyError, SettingError
from aegis.policies import Mixture, path_full, sequential_full
from aegis.problem import Array, Batch, concat
from aegis.worlds import Clinic, Unified, make_world
from aegis.worlds.simulation import episode_noise, pick

WORLD = Unified(outer_steps=2, inner_steps=3, outer_points=3, inner_points=4)


def same(one: Batch, other: Batch) -> None:
    """Check that two batches agree bit for bit."""
    assert np.array_equal(one.episode, other.episode) and one.episode.dtype == other.episode.dtype
    assert np.array_equal(one.reward, other.reward) and np.array_equal(one.outcome, other.outcome)
    for name, table in one.levels.items():
        twin = other.levels[name]
        for field_name in ("parent", "action", "mu_taken", "mu_full", "available"):
            assert np.array_equal(getattr(table, field_name), getattr(twin, field_name)), field_name
        for variable, values in table.context.items():
            assert np.array_equal(values, twin.context[variable])


@dataclass(frozen=True)
class Fixed:
    """Gives the same probabilities to every decision, right or wrong."""

    by_level: dict[str, list[float]]
    weights: Array = field(default_factory=lambda: np.ones(1))

    def full(self, level: str, batch: Batch) -> Array:
        return np.tile(np.array(self.by_level[level]), (self.weights.size, len(batch.levels[level]), 1))

    def taken(self, level: str, batch: Batch) -> Array:
        table = batch.levels[level]
        return self.full(level, batch)[:, np.arange(len(table)), table.action]


@given(
    st.lists(st.lists(st.sampled_from([0.0, 0.0, 1e-300, 0.1, 0.5, 3.0]), min_size=4, max_size=4).filter(sum), min_size=1),
    st.sampled_from([0.0, 1e-320, 0.3, 0.999, float(np.nextafter(1, 0))]),
)
@settings(max_examples=80, deadline=None)
def test_an_action_of_probability_zero_is_never_picked(rows: list[list[float]], uniform: float) -> None:
    table = np.array(rows)
    picked = pick(table, np.full(len(rows), uniform))
    assert (table[np.arange(len(rows)), picked] > 0).all()


def test_pick_is_the_inverse_of_the_distribution_function() -> None:
    uniform = np.array([0.0, 0.19, 0.2, 0.49, 0.5, 0.99])
    assert pick(np.tile([0.2, 0.0, 0.3, 0.5], (6, 1)), uniform).tolist() == [0, 0, 2, 2, 3, 3]


@pytest.mark.parametrize("name", ["additive", "plant", "clinic"])
@given(data=st.data())
@settings(max_examples=12, deadline=None)
def test_splitting_a_range_changes_nothing(name: str, data: st.DataObject) -> None:
    world = make_world(name)
    first = data.draw(st.integers(0, 200), label="first")
    cuts = sorted(data.draw(st.sets(st.integers(1, 139), max_size=4), label="cuts"))
    policy = world.legacy("natural")
    bounds = [0, *cuts, 140]
    parts = [world.episodes(first + a, b - a, policy, 5) for a, b in itertools.pairwise(bounds)]
    same(world.episodes(first, 140, policy, 5), concat(parts))


def test_splitting_changes_nothing_for_mixtures_and_long_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    policy = Mixture([WORLD.legacy("uniform"), WORLD.legacy("natural"), WORLD.legacy("sign:epsilon=0.2")], [0.5, 0.3, 0.2])
    for kind in ("path", "sequential"):
        whole = WORLD.episodes(0, 100, policy, 5, kind)  # type: ignore[arg-type]
        same(whole, concat([WORLD.episodes(0, 37, policy, 5, kind), WORLD.episodes(37, 63, policy, 5, kind)]))  # type: ignore[arg-type]
    whole = WORLD.episodes(10, 500, policy, 5)
    monkeypatch.setattr("aegis.worlds.simulation._AT_ONCE", 1)
    same(whole, WORLD.episodes(10, 500, policy, 5))


def test_long_episodes_are_run_a_few_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    policy, asked = WORLD.legacy("natural"), []

    @dataclass(frozen=True)
    class Watched:
        weights: Array

        def full(self, level: str, batch: Batch) -> Array:
            asked.append(len(batch.levels[level]))
            return policy.full(level, batch)

        taken = full

    whole = WORLD.episodes(10, 100, policy, 5)
    # 6 innermost decisions with 4 actions each: room for 5 episodes
    monkeypatch.setattr("aegis.worlds.simulation._MOST", 5 * 24)
    same(whole, WORLD.episodes(10, 100, Watched(np.ones(1)), 5))
    assert max(asked) == 5 * 6


def test_seeds_and_blocks_differ() -> None:
    policy = WORLD.legacy("uniform")
    rewards = [WORLD.episodes(first, 64, policy, seed).reward for first, seed in ((0, 1), (64, 1), (0, 2))]
    for i, one in enumerate(rewards):
        for other in rewards[i + 1 :]:
            assert one is not None and other is not None and not np.isin(one, other).any()


def test_one_particle_acts_throughout_an_episode() -> None:
    """Two deterministic particles: all actions of an episode come from one of them, as often as its weight says."""
    world = Unified(outer_steps=3, inner_steps=4, outer_points=2, inner_points=2)

    @dataclass(frozen=True)
    class Camps:
        weights: Array = field(default_factory=lambda: np.array([0.25, 0.75]))

        def full(self, level: str, batch: Batch) -> Array:
            return np.tile(np.eye(2)[:, None, :], (1, len(batch.levels[level]), 1))

        def taken(self, level: str, batch: Batch) -> Array:
            table = batch.levels[level]
            return self.full(level, batch)[:, np.arange(len(table)), table.action]

    batch = world.episodes(0, 4000, Camps(), 3)
    inner = batch.levels["inner"].action.reshape(4000, 12)
    outer = batch.levels["meta"].action.reshape(4000, 3)
    assert (inner == outer[:, :1]).all() and (outer == outer[:, :1]).all()
    share = outer[:, 0].mean()
    assert abs(share - 0.75) < 4 * np.sqrt(0.75 * 0.25 / 4000)
    # Given the meta action, the path form knows which particle acts.
    assert batch.levels["inner"].mu_taken.tolist() == [1.0] * 48000
    assert batch.levels["meta"].mu_taken == pytest.approx(np.where(outer.ravel() == 1, 0.75, 0.25))
    later = world.episodes(0, 50, Camps(), 3, "sequential").levels["meta"].mu_taken.reshape(50, 3)
    assert (later[:, 1:] == 1).all()


def test_mixtures_log_their_conditional_probabilities() -> None:
    policy = Mixture([WORLD.legacy("uniform"), WORLD.legacy("natural")], [0.4, 0.6])
    for kind, conditional in (("path", path_full), ("sequential", sequential_full)):
        batch = WORLD.episodes(0, 80, policy, 9, kind)  # type: ignore[arg-type]
        for name, table in batch.levels.items():
            assert np.array_equal(table.mu_full, conditional(policy, name, batch))
            assert table.mu_full is not None and table.mu_full.sum(axis=1) == pytest.approx(1)
            assert np.array_equal(table.mu_taken, table.mu_full[np.arange(len(table)), table.action])


def test_a_mixture_of_equal_policies_acts_like_one() -> None:
    one = WORLD.legacy("natural:epsilon=0.2")
    batch, twin = WORLD.episodes(0, 70, one, 4), WORLD.episodes(0, 70, Mixture([one, one]), 4)
    assert np.array_equal(batch.reward, twin.reward)
    assert twin.levels["inner"].mu_full == pytest.approx(batch.levels["inner"].mu_full)


GOOD = {"meta": [0.2, 0.3, 0.5], "inner": [0.25, 0.25, 0.25, 0.25]}


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"inner": [0.5, 0.5, 0.5, -0.5]}, "level 'inner', row 0, particle 0: .* probabilities are not negative"),
        ({"inner": [0.25, 0.25, 0.25, 0.2501]}, "level 'inner', row 0.* sum to 1"),
        ({"meta": [np.nan, 0.5, 0.5]}, "level 'meta', row 0.* finite"),
        ({"meta": [np.inf, 0.5, 0.5]}, "level 'meta', row 0"),
        ({"meta": [0.5, 0.5]}, r"level 'meta': the policy returned probabilities of shape \(1, 10, 2\); expected \(1, 10, 3\)"),
    ],
)
def test_probabilities_that_are_no_distribution_are_refused(wrong: dict[str, list[float]], message: str) -> None:
    with pytest.raises(PolicyError, match=message):
        WORLD.episodes(0, 5, Fixed({**GOOD, **wrong}), 1)


def test_the_first_wrong_row_is_named() -> None:
    class Late(Fixed):
        def full(self, level: str, batch: Batch) -> Array:
            found = Fixed.full(self, level, batch)
            if level == "inner":
                found[0, 7] = 0.0
            return found

    with pytest.raises(PolicyError, match="level 'inner', row 7"):
        WORLD.episodes(0, 5, Late(GOOD), 1)


@pytest.mark.parametrize("weights", [[0.5, 0.6], [-0.5, 1.5], [np.nan, 1.0], []])
def test_particle_weights_are_checked(weights: list[float]) -> None:
    with pytest.raises(PolicyError, match="particle weights"):
        WORLD.episodes(0, 5, Fixed(GOOD, np.array(weights)), 1)


def test_weight_on_an_unavailable_action_is_refused() -> None:
    policy = Fixed({"plan": [0.2, 0.3, 0.5], "dose": [0.25] * 4})
    with pytest.raises(PolicyError, match=r"level 'plan'.* unavailable actions have probability 0"):
        Clinic().episodes(0, 50, policy, 1)


@pytest.mark.parametrize(("first", "count"), [(-1, 5), (0, 0), (0, -2), (0.5, 2), (0, True)])
def test_ranges_are_checked(first: Any, count: Any) -> None:
    with pytest.raises(SettingError, match="whole number from"):
        WORLD.episodes(first, count, WORLD.legacy("uniform"), 1)


def test_the_kind_of_propensities_is_checked() -> None:
    with pytest.raises(SettingError, match="did you mean 'path'"):
        WORLD.episodes(0, 5, WORLD.legacy("uniform"), 1, "paths")  # type: ignore[arg-type]


def test_noise_in_the_cache_cannot_be_changed() -> None:
    """A batch may be written to without changing what the next call returns."""
    policy = WORLD.legacy("uniform")
    batch = WORLD.episodes(3, 1, policy, 1)
    assert batch.reward is not None
    wanted = batch.reward.copy()
    batch.reward[:] = 0
    batch.levels["meta"].context["T"][:] = 0
    with pytest.raises(ValueError, match="read-only"):
        episode_noise(WORLD, 3, 1, 1).particle[0] = 0
    again = WORLD.episodes(3, 1, policy, 1)
    assert np.array_equal(again.reward, wanted) and (again.levels["meta"].context["T"] != 0).all()
