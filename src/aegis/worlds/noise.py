"""All randomness of an episode, drawn before anybody acts: from named streams, 64 episodes at a time."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from aegis.problem import Array
from aegis.rng import stream

if TYPE_CHECKING:
    from aegis.worlds.world import World

BLOCK = 64


@dataclass(frozen=True, slots=True)
class EpisodeNoise:
    """Noise of E episodes at the largest shape the world allows, flattened with the episode first.

    variables: by level and noise name `[E * I_L * ... * I_l]`, standard normal or uniform. action: by level, the uniform
    number that picks each action. particle `[E]`: the uniform number that picks the policy's particle.
    """

    variables: Mapping[str, Mapping[str, Array]]
    action: Mapping[str, Array]
    particle: Array


def episode_noise(world: World, first: int, count: int, seed: int) -> EpisodeNoise:
    """Return the noise of episodes `first .. first + count - 1`; it depends on nothing but world, seed and episode number."""
    last = first + count - 1
    numbers = range(first // BLOCK, last // BLOCK + 1)
    blocks = [_block(world, seed, number) for number in numbers]
    bounds = [(max(first - number * BLOCK, 0), min(last - number * BLOCK, BLOCK - 1) + 1) for number in numbers]

    def cut(parts: list[Array]) -> Array:
        # Every array holds whole episodes, `width` entries each; a single block stays a view of the cached one.
        width = parts[0].size // BLOCK
        pieces = [part[low * width : high * width] for part, (low, high) in zip(parts, bounds, strict=True)]
        return pieces[0] if len(pieces) == 1 else np.concatenate(pieces)

    variables = {
        level: {name: cut([block.variables[level][name] for block in blocks]) for name in names}
        for level, names in world.noises.items()
    }
    action = {level: cut([block.action[level] for block in blocks]) for level in world.noises}
    return EpisodeNoise(variables, action, cut([block.particle for block in blocks]))


@functools.lru_cache(maxsize=4)  # a block of the longest episodes takes 300 MB
def _block(world: World, seed: int, number: int) -> EpisodeNoise:
    """Draw one block. An online learner asks for one episode at a time, hence the cache; its arrays are read-only."""
    draw, pick = stream(seed, "world", world.name, number), stream(seed, "action", world.name, number)
    variables: dict[str, dict[str, Array]] = {}
    action: dict[str, Array] = {}
    size = BLOCK
    for level, steps in zip(world.problem.names, world.steps, strict=True):
        size *= steps
        variables[level] = {
            name: _frozen(draw.standard_normal(size) if law == "normal" else draw.random(size))
            for name, law in world.noises[level].items()
        }
        action[level] = _frozen(pick.random(size))
    return EpisodeNoise(variables, action, _frozen(stream(seed, "particle", world.name, number).random(BLOCK)))


def _frozen(values: Array) -> Array:
    values.setflags(write=False)
    return values
