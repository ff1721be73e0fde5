"""What every world must do; a new entry in WORLDS is tested the moment it is listed."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import yaml

from aegis.problem import Batch, Plant, augmented_context, dump_problem, parse_problem
from aegis.worlds import WORLDS, World, make_world

CASES = [(name, legacy) for name in WORLDS for legacy in make_world(name).offers()]


def run(name: str, legacy: str, count: int = 300, seed: int = 11) -> tuple[World, Batch]:
    world = make_world(name)
    return world, world.episodes(7, count, world.legacy(legacy), seed)


@pytest.mark.parametrize(("name", "legacy"), CASES)
def test_batches_have_their_shapes(name: str, legacy: str) -> None:
    world, batch = run(name, legacy)
    assert isinstance(world, Plant)
    assert batch.episode.tolist() == list(range(7, 307)) and batch.episode.dtype == np.int64
    assert tuple(batch.levels) == world.problem.names
    above = len(batch)
    for level, most in zip(world.problem.levels, world.steps, strict=True):
        table = batch.levels[level.name]
        count = len(table)
        assert table.parent.dtype == np.int32 and table.action.dtype == np.int32 and table.version is None
        assert (np.diff(table.parent) >= 0).all()
        below = np.bincount(table.parent, minlength=above)
        assert below.size == above and below.min() >= 1 and below.max() <= most
        if type(world).children is World.children:
            assert (below == most).all()
        assert table.mu_full is not None and table.mu_full.shape == (count, level.actions.count)
        assert table.mu_full.sum(axis=1) == pytest.approx(1)
        assert (table.mu_taken > 0).all()
        assert np.array_equal(table.mu_taken, table.mu_full[np.arange(count), table.action])
        for variable in level.context:
            values = table.context[variable.name]
            assert values.shape == ((count, variable.width) if variable.kind == "vector" else (count,))
            assert values.dtype == (np.int32 if variable.kind == "categorical" else np.float64)
            if variable.kind == "categorical":
                assert values.min() >= 0 and values.max() < len(variable.values)
        above = count
    assert batch.reward is not None and batch.outcome is not None and batch.observed is not None
    assert batch.reward.shape == batch.outcome.shape == batch.observed.shape == (above,)
    assert batch.observed.all() and np.isfinite(batch.reward).all()


@pytest.mark.parametrize(("name", "legacy"), CASES)
def test_masks_are_respected(name: str, legacy: str) -> None:
    world, batch = run(name, legacy)
    for level in world.problem.levels:
        table = batch.levels[level.name]
        assert (table.available is not None) == level.masked
        if table.available is not None:
            assert table.available[np.arange(len(table)), table.action].all()
            assert not table.available.all() and table.available.any(axis=1).all()
            assert table.mu_full is not None and (table.mu_full[~table.available] == 0).all()


@pytest.mark.parametrize("name", WORLDS)
def test_rewards_stay_in_the_declared_range(name: str) -> None:
    world, batch = run(name, "uniform", count=4000)
    limits = world.problem.reward.range
    assert limits is not None and batch.reward is not None
    assert limits[0] <= batch.reward.min() and batch.reward.max() <= limits[1]


@pytest.mark.parametrize("name", WORLDS)
def test_policies_meet_the_same_noise(name: str) -> None:
    """Outermost contexts are exogenous: no policy changes them. Nor does the length of the run."""
    batches = [run(name, legacy)[1] for legacy in make_world(name).offers()]
    for one, other in itertools.pairwise(batches):
        outer = next(iter(one.levels))
        for variable, values in one.levels[outer].context.items():
            assert np.array_equal(values, other.levels[outer].context[variable])
    assert not all(np.array_equal(batches[0].reward, other.reward) for other in batches[1:])


@pytest.mark.parametrize(("name", "legacy"), CASES)
def test_actions_are_taken_as_often_as_their_probabilities_say(name: str, legacy: str) -> None:
    """A z-test per level and action; given the contexts, actions are drawn independently."""
    world, batch = run(name, legacy, count=1500)
    for level in world.problem.levels:
        table = batch.levels[level.name]
        assert table.mu_full is not None
        counts = np.bincount(table.action, minlength=level.actions.count)
        expected = table.mu_full.sum(axis=0)
        spread = np.sqrt((table.mu_full * (1 - table.mu_full)).sum(axis=0))
        # Rare actions are counted in whole numbers, for which a few more are not a surprise.
        assert (np.abs(counts - expected) <= 4 * spread + np.where(expected < 20, 5, 1e-6)).all()


@pytest.mark.parametrize("name", WORLDS)
def test_the_problem_is_well_posed(name: str) -> None:
    problem = make_world(name).problem
    assert parse_problem(yaml.safe_dump(dump_problem(problem))) == problem
    assert problem.latents, "every world has a latent variable"
    for level in problem.levels:
        assert problem.backdoor(level.name).admissible, problem.backdoor(level.name).reason
        assert level.decision and level.propensity is not None and level.propensity.full


@pytest.mark.parametrize("name", WORLDS)
def test_laws_are_distributions_of_what_is_sampled(name: str) -> None:
    """Means of contexts under the oracle's nodes agree with the sampled ones, level by level (z-test)."""
    world, batch = run(name, "uniform", count=1500)
    for level in world.problem.levels:
        rows = batch.ancestors(level.name)
        known = {}
        for outer in world.problem.above(level.name):
            table, index = batch.levels[outer.name], rows[outer.name]
            known |= {variable.name: table.context[variable.name][index] for variable in outer.context}
            known[outer.actions.column] = outer.actions.as_rows(table.action[index])
        chosen = np.arange(0, len(batch.levels[level.name]), max(len(batch.levels[level.name]) // 1500, 1))
        law, weights = world.context_law(level.name, {key: values[chosen] for key, values in known.items()}, chosen.size, 1)
        assert weights.sum(axis=1) == pytest.approx(1)
        for variable in level.context:
            sampled = batch.levels[level.name].context[variable.name][chosen].reshape(chosen.size, -1)
            nodes = law[variable.name].reshape(chosen.size, weights.shape[1], -1)
            for power in (1, 2):
                miss = sampled**power - np.einsum("nk,nkd->nd", weights, nodes**power)
                assert (np.abs(miss.mean(axis=0)) < 4.5 * miss.std(axis=0) / np.sqrt(chosen.size) + 1e-9).all()


@pytest.mark.parametrize("name", WORLDS)
def test_mean_rewards_are_those_of_what_is_sampled(name: str) -> None:
    """Reward minus E[R | what is seen] averages to 0 for every action, and is uncorrelated with every context (z-tests)."""
    world, batch = run(name, "uniform", count=4000)
    innermost = world.problem.innermost.name
    known = augmented_context(world.problem, batch, innermost, with_action=True)
    assert batch.reward is not None
    miss = batch.reward - world.mean_reward(known)
    actions = batch.levels[innermost].action
    for action in range(world.problem.innermost.actions.count):
        chosen = miss[actions == action]
        # Where the reward is clipped almost always, what is left is rarer than the sample is long.
        assert abs(chosen.mean()) < 4.5 * chosen.std() / np.sqrt(chosen.size) + 1e-5
    for values in known.values():
        product = miss[:, None] * values.reshape(miss.size, -1)
        assert (np.abs(product.mean(axis=0)) < 4.5 * product.std(axis=0) / np.sqrt(miss.size) + 1e-9).all()
