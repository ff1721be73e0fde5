"""The world whose actions are an interval: what every world must do, densities, and an oracle that knows no densities."""

from __future__ import annotations

import numpy as np
import pytest
import yaml

from aegis.errors import SettingError
from aegis.policies import Function, Hybrid, Mixture
from aegis.problem import Array, Level, Plant, Rows, augmented_context, dump_problem, nearest_points, parse_problem
from aegis.worlds import ALL_WORLDS, INTERVAL_WORLDS, WORLDS, OraclePolicy, World, make_world, oracle_value, true_value

CASES = [(ends, legacy) for ends in ("cut", "clip") for legacy in make_world("dosing").offers()]


def follow(level: Level, rows: Rows) -> Array:
    """Choose the best dose of the world."""
    return np.clip(5.0 + 1.5 * rows["marker"], 0.0, 10.0)


def world_of(ends: str) -> World:
    return make_world("dosing", ends=ends, natural_sd=3.0)


def test_it_is_in_the_table_of_its_kind() -> None:
    assert INTERVAL_WORLDS["dosing"].name == "dosing" and "dosing" not in WORLDS and set(ALL_WORLDS) == {*WORLDS, "dosing"}
    problem = make_world("dosing").problem
    assert isinstance(make_world("dosing"), Plant) and parse_problem(yaml.safe_dump(dump_problem(problem))) == problem
    assert all(problem.backdoor(level.name).admissible for level in problem.levels)


@pytest.mark.parametrize(("ends", "legacy"), CASES)
def test_batches_hold_numbers_and_densities(ends: str, legacy: str) -> None:
    world = world_of(ends)
    batch = world.episodes(7, 300, world.legacy(legacy), 11)
    table = batch.levels["dose"]
    assert table.value is not None and table.mu_full is None and table.value.shape == (1200,)
    assert table.value.min() >= 0 and table.value.max() <= 10
    assert np.array_equal(table.action, nearest_points(world.problem.innermost.actions, table.value))
    assert np.array_equal(table.mu_taken, world.legacy(legacy).taken("dose", batch)[0])
    limits = world.problem.reward.range
    assert limits is not None and batch.reward is not None
    assert limits[0] <= batch.reward.min() and batch.reward.max() <= limits[1]
    again = world.episodes(100, 50, world.legacy(legacy), 11)
    part = batch.take_episodes(np.arange(93, 143)).levels["dose"]
    assert np.array_equal(again.levels["dose"].value, part.value)  # type: ignore[arg-type]


@pytest.mark.parametrize(("ends", "legacy"), CASES)
def test_numbers_are_taken_as_often_as_their_densities_say(ends: str, legacy: str) -> None:
    """Weights of uniform draws from tenths of the interval, and of its ends, average one where the legacy reaches them."""
    world = world_of(ends)
    table = world.episodes(0, 3000, world.legacy(legacy), 4).levels["dose"]
    assert table.value is not None
    for start in range(10):
        inside = (table.value > start) & (table.value < start + 1)
        weight = np.where(inside, 1 / table.mu_taken, 0.0)
        assert abs(weight.mean() - 1) < 4.5 * weight.std() / np.sqrt(weight.size)
    if ends == "clip" and legacy == "natural":
        for end in (0.0, 10.0):
            weight = np.where(table.value == end, 1 / table.mu_taken, 0.0)
            assert abs(weight.mean() - 1) < 4.5 * weight.std() / np.sqrt(weight.size)


@pytest.mark.parametrize(("ends", "legacy"), CASES)
def test_the_oracle_agrees_with_simulation(ends: str, legacy: str) -> None:
    world = world_of(ends)
    batch = world.episodes(0, 4000, world.legacy(legacy), 9)
    earned = batch.episode_means(np.asarray(batch.reward))
    assert abs(earned.mean() - true_value(world, world.legacy(legacy))) < 4.5 * earned.std() / np.sqrt(len(batch))


def nearest(level: Level, rows: Rows) -> Array:
    """Choose the point nearest to the best dose."""
    distance = np.abs(level.actions.numbers - follow(level, rows)[:, None])
    return (distance == distance.min(axis=1, keepdims=True)) / (distance == distance.min(axis=1, keepdims=True)).sum(axis=1)[
        :, None
    ]


def test_the_oracle_judges_numbers_points_and_mixtures() -> None:
    world = make_world("dosing", doses=1)
    legacy = world.legacy("natural")
    exact, points = (Hybrid(world.problem, ["dose"], Function(world.problem, own, ["dose"]), legacy) for own in (follow, nearest))
    values = {"legacy": true_value(world, legacy), "exact": true_value(world, exact), "points": true_value(world, points)}
    assert values["legacy"] + 0.2 < values["points"] <= values["exact"]
    best = oracle_value(world, ["dose"], legacy)
    assert values["points"] <= best + 1e-9 and best == pytest.approx(values["points"], abs=1e-3)
    for policy, value in ((exact, values["exact"]), (points, values["points"])):
        batch = world.episodes(0, 3000, policy, 2)
        earned = batch.episode_means(np.asarray(batch.reward))
        assert abs(earned.mean() - value) < 4.5 * earned.std() / np.sqrt(len(batch))
    assert true_value(world, Mixture([points, points])) == pytest.approx(values["points"], abs=1e-9)
    chosen = OraclePolicy(world, world.problem.scope(["dose"]), legacy).full(
        "dose", world.episodes(0, 50, legacy, 1).before("dose")
    )
    assert (chosen.sum(axis=2) == 1).all() and chosen.shape == (1, 50, 21)


def test_finer_integration_changes_nothing() -> None:
    world = make_world("dosing", doses=1)
    assert true_value(world, world.legacy("natural")) == pytest.approx(true_value(world, world.legacy("natural"), 2), abs=1e-6)


def test_mean_rewards_are_those_of_what_is_sampled() -> None:
    world = make_world("dosing")
    batch = world.episodes(0, 4000, world.legacy("uniform"), 8)
    known = augmented_context(world.problem, batch, "dose", with_action=True)
    miss = np.asarray(batch.reward) - world.mean_reward(known)
    for values in (np.ones(miss.size), *known.values()):
        product = miss * values
        assert abs(product.mean()) < 4.5 * product.std() / np.sqrt(miss.size)


def test_the_declared_lipschitz_constant_holds() -> None:
    world = make_world("dosing")
    dose = np.linspace(0, 10, 4001)
    steepest = 0.0
    for marker in (-2.0, 0.0, 1.3):
        rows = {"severity": np.zeros(4001), "regimen": np.zeros(4001), "marker": np.full(4001, marker), "dose": dose}
        steepest = max(steepest, float(np.abs(np.diff(world.mean_reward(rows)) / np.diff(dose)).max()))
    declared = world.problem.innermost.actions.lipschitz
    assert declared is not None and 0.99 * declared < steepest <= declared * (1 + 1e-9)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"ends": "fold"}, "allowed: cut, clip"),
        ({"width": 0.0}, "'width' is a finite number from 1e-06"),
        ({"bandwidth": 0.0}, "bandwidth"),
        ({"points": 1}, "points"),
    ],
)
def test_settings_that_cannot_be(settings: dict[str, object], words: str) -> None:
    from aegis.errors import AegisError

    with pytest.raises(AegisError, match=words):
        make_world("dosing", **settings)


def test_seeds_run_one_at_a_time() -> None:
    world = make_world("dosing")
    with pytest.raises(SettingError, match="runs one seed at a time"):
        world.episode_of_each(0, world.legacy("uniform"), [1, 2])
