"""A world run for several seeds in one call, so that runs in lockstep share what Python costs.

The episode of every seed meets the noise that `World.episodes` would give it; equations and policy see all of them at once.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from aegis.errors import SettingError
from aegis.problem import Array, Batch, LevelTable, Policy, Rows
from aegis.worlds.noise import BLOCK, EpisodeNoise, episode_noise
from aegis.worlds.simulate import _Answers, _check, _logged, _particle_weights, _spread, pick

if TYPE_CHECKING:
    from aegis.worlds.world import World


def episode_of_each(world: World, episode: int, policy: Policy, seeds: Sequence[int]) -> Batch:
    """Run one episode of `world` for each seed; the g-th of the batch is `world.episodes(episode, 1, policy, seeds[g])`."""
    if any(level.actions.continuous for level in world.problem.levels):
        raise SettingError(f"world '{world.name}' has actions on an interval and runs one seed at a time: use World.episodes")
    runs = len(seeds)
    noise = noise_of_each(world, tuple(seeds), episode // BLOCK)[episode % BLOCK]
    weights = _particle_weights(policy)
    single = weights.size == 1
    particle = np.zeros(runs, np.int64) if single else pick(np.broadcast_to(weights, (runs, weights.size)), noise.particle)
    ids = np.full(runs, episode, dtype=np.int64)
    tables: dict[str, LevelTable] = {}
    known: Rows = {}
    here: Mapping[str, Array] = {}
    asked: dict[str, Array] = {}
    slot = owner = np.arange(runs)
    for level, steps in zip(world.problem.levels, world.steps, strict=True):
        number = world.children(level.name, known, here) if known else None
        parent, slot = _spread(slot, number, steps)
        owner = owner[parent]
        known = {name: values[parent] for name, values in known.items()}
        full_noise = number is None and slot.size == noise.action[level.name].size  # every place of the noise is used
        here = noise.variables[level.name]
        here = here if full_noise else {name: values[slot] for name, values in here.items()}
        context = world.contexts(level.name, known, here)
        known |= context
        available = world.available(level.name, known)
        table = LevelTable.undecided(parent, context, available)
        full = np.asarray(policy.full(level.name, Batch(ids, {**tables, level.name: table})), dtype=np.float64)
        _check(level.name, full, (weights.size, parent.size, level.actions.count), available)
        asked[level.name] = full
        rows = np.arange(parent.size)
        own = full[0] if single else full[particle[owner], rows]
        action = pick(own, noise.action[level.name] if full_noise else noise.action[level.name][slot])
        tables[level.name] = table.decided(action, own[rows, action], own)
        known[level.actions.column] = level.actions.as_rows(action)
    outcome, reward = world.results(known, here)
    batch = Batch(ids, tables, reward, np.ones(reward.size, dtype=bool), outcome)
    return batch if single else _logged(batch, _Answers(weights, asked), "path")


@functools.lru_cache(maxsize=2)
def noise_of_each(world: World, seeds: tuple[int, ...], block: int) -> list[EpisodeNoise]:
    """Return the noise of the episodes of one block, each for all seeds: arrays `[G * ..]`, the seeds one after the other."""
    drawn = [episode_noise(world, block * BLOCK, BLOCK, seed) for seed in seeds]

    def by_episode(parts: list[Array]) -> Array:
        apart = np.stack([part.reshape(BLOCK, -1) for part in parts], axis=1)
        return apart.reshape(BLOCK, -1)

    variables = {
        level: {name: by_episode([noise.variables[level][name] for noise in drawn]) for name in names}
        for level, names in world.noises.items()
    }
    action = {level: by_episode([noise.action[level] for noise in drawn]) for level in world.noises}
    particle = by_episode([noise.particle for noise in drawn])
    return [
        EpisodeNoise(
            {level: {name: values[k] for name, values in names.items()} for level, names in variables.items()},
            {level: values[k] for level, values in action.items()},
            particle[k],
        )
        for k in range(BLOCK)
    ]
