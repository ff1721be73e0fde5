"""Running a world level by level, for many episodes of one seed or one episode of many seeds.

All randomness of an episode is drawn from named streams, 64 episodes at a time, before any policy acts.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

import numpy as np

from aegis.errors import PolicyError, SettingError, check_choice, whole_number
from aegis.policies import bad_distribution, draw_numbers, path_full, path_taken, sequential_full, sequential_taken
from aegis.problem import AnyArray, Array, Batch, Bools, Level, LevelTable, Policy, Rows, concat, nearest_points
from aegis.rng import stream

if TYPE_CHECKING:
    from aegis.worlds.base import World


NOISE_BLOCK = 64


@dataclass(frozen=True, slots=True)
class EpisodeNoise:
    """Noise of E episodes at the largest shape the world allows, flattened with the episode first.

    variables: by level and noise name `[E * I_L * ... * I_l]`, standard normal or uniform. action: by level, the uniform
    number that picks each action. particle `[E]`: the uniform number that picks the policy's particle.
    """

    variables: Mapping[str, Mapping[str, Array]]
    action: Mapping[str, Array]
    particle: Array

    def at(self, level: str, slot: AnyArray, whole: bool) -> tuple[Mapping[str, Array], Array]:
        """Return the noise of the decisions of a level in places `slot` `[n]`, and the uniform numbers of their actions.

        whole: if there are as many places as entries, every one is used, in order.
        """
        variables, action = self.variables[level], self.action[level]
        if whole and slot.size == action.size:
            return variables, action
        return {name: values[slot] for name, values in variables.items()}, action[slot]


def episode_noise(world: World, first: int, count: int, seed: int) -> EpisodeNoise:
    """Return the noise of episodes `first .. first + count - 1`; it depends on nothing but world, seed and episode number."""
    last = first + count - 1
    numbers = range(first // NOISE_BLOCK, last // NOISE_BLOCK + 1)
    blocks = [_block(world, seed, number) for number in numbers]
    bounds = [(max(first - number * NOISE_BLOCK, 0), min(last - number * NOISE_BLOCK, NOISE_BLOCK - 1) + 1) for number in numbers]

    def cut(parts: list[Array]) -> Array:
        # Every array holds whole episodes, `width` entries each; a single block stays a view of the cached one.
        width = parts[0].size // NOISE_BLOCK
        pieces = [part[low * width : high * width] for part, (low, high) in zip(parts, bounds, strict=True)]
        return pieces[0] if len(pieces) == 1 else np.concatenate(pieces)

    return _combine(blocks, cut)


def _combine(parts: Sequence[EpisodeNoise], join: Callable[[list[Array]], Array]) -> EpisodeNoise:
    """Return the noise whose every array is made of the same array of each part."""
    return EpisodeNoise(
        variables={
            level: {name: join([part.variables[level][name] for part in parts]) for name in names}
            for level, names in parts[0].variables.items()
        },
        action={level: join([part.action[level] for part in parts]) for level in parts[0].action},
        particle=join([part.particle for part in parts]),
    )


@functools.lru_cache(maxsize=4)  # a block of the longest episodes takes 300 MB
def _block(world: World, seed: int, number: int) -> EpisodeNoise:
    """Draw one block. An online learner asks for one episode at a time, hence the cache; its arrays are read-only."""
    draw, pick = stream(seed, "world", world.name, number), stream(seed, "action", world.name, number)
    variables: dict[str, dict[str, Array]] = {}
    action: dict[str, Array] = {}
    size = NOISE_BLOCK
    for level, steps in zip(world.problem.names, world.steps, strict=True):
        size *= steps
        variables[level] = {
            name: _read_only(draw.standard_normal(size) if law == "normal" else draw.random(size))
            for name, law in world.noises[level].items()
        }
        action[level] = _read_only(pick.random(size))
    return EpisodeNoise(variables, action, _read_only(stream(seed, "particle", world.name, number).random(NOISE_BLOCK)))


def _read_only(values: Array) -> Array:
    values.setflags(write=False)
    return values


# Probabilities held at once, particles x decisions x actions; longer runs go piece by piece (4 MB, which stays in cache).
_AT_ONCE = 1 << 19

_MOST = 1 << 24  # ... and even a piece of one noise block is cut if it would hold more than this (128 MB)

_PROPENSITIES = {"path": path_full, "sequential": sequential_full}

_TAKEN = {"path": path_taken, "sequential": sequential_taken}


def simulate(
    world: World, first: int, count: int, policy: Policy, seed: int, propensities: Literal["path", "sequential"] = "path"
) -> Batch:
    """Run episodes `first .. first + count - 1` of `world` under `policy` and return what a log would hold.

    Each episode draws one particle of the policy, which acts at all its levels; the logged propensities are the
    mixture's conditional ones, given the actions on the decision's own path (`path`) or all earlier actions of the
    episode (`sequential`). Episode ids are the episode numbers, `int64`. Raises PolicyError, with level and row, for
    probabilities that are not a distribution or that touch an action that is not available.
    """
    check_choice(propensities, _PROPENSITIES, "kind of propensities")
    whole_number("episodes: 'first'", first, 0)
    whole_number("episodes: 'count'", count)
    weights = _particle_weights(policy)
    rows, largest = 1, 1
    for level, steps in zip(world.problem.levels, world.steps, strict=True):
        rows *= steps
        largest = max(largest, rows * level.actions.count)
    # Pieces end where noise blocks end, so that no block is drawn twice.
    piece = max(_AT_ONCE // (largest * weights.size) // NOISE_BLOCK, 1) * NOISE_BLOCK
    start = (first // NOISE_BLOCK) * NOISE_BLOCK
    if piece * largest * weights.size > _MOST:
        piece, start = max(_MOST // (largest * weights.size), 1), first  # the block is kept meanwhile, see `noise`
    ends = [first, *range(start + piece, first + count, piece), first + count]
    batches = []
    for begin, end in itertools.pairwise(ends):
        ids, noise = np.arange(begin, end, dtype=np.int64), episode_noise(world, begin, end - begin, seed)
        batches.append(_run(world, ids, noise, policy, weights, propensities))
    return concat(batches)


def _run(world: World, ids: AnyArray, noise: EpisodeNoise, policy: Policy, weights: Array, propensities: str) -> Batch:
    """Return the episodes `ids`, whose noise is given, under a policy with these particle weights."""
    single, count = weights.size == 1, len(ids)
    particle = np.zeros(count, np.int64) if single else pick(np.broadcast_to(weights, (count, weights.size)), noise.particle)
    batch = Batch(ids, {})
    known: Rows = {}
    episode: AnyArray = np.arange(count)
    slot: AnyArray = episode  # place of each decision in the noise arrays, which have entries for the most decisions
    here: Mapping[str, Array] = {}
    answers: dict[str, Array] = {}
    for level, steps in zip(world.problem.levels, world.steps, strict=True):
        number = world.children(level.name, known, here) if known else None
        parent, slot = _child_slots(slot, number, steps)
        episode, rows = episode[parent], np.arange(parent.size)
        known = {name: values[parent] for name, values in known.items()}
        here, uniform = noise.at(level.name, slot, whole=number is None)
        context = world.contexts(level.name, known, here)
        known.update(context)
        available = world.available(level.name, known)
        table = LevelTable.undecided(parent, context, available)
        batch = batch.with_level(level.name, table)
        if level.actions.continuous:
            batch, answers[level.name] = _from_interval(level, batch, policy, uniform, particle[episode])
            known[level.actions.column] = np.asarray(batch.levels[level.name].value)
            continue
        full = np.asarray(policy.full(level.name, batch), dtype=np.float64)
        _check_probabilities(level.name, full, (weights.size, parent.size, level.actions.count), available)
        answers[level.name] = full
        own = full[0] if single else full[particle[episode], rows]
        action = pick(own, uniform)
        # A mixture's propensities may need later actions of the same level: they are filled in at the end.
        batch = batch.with_level(level.name, table.decided(action, own[rows, action], own))
        known[level.actions.column] = level.actions.as_rows(action)
    outcome, reward = world.results(known, here)
    if not single:
        batch = _with_propensities(batch, _Answers(weights, answers), propensities)
    return Batch(
        episode=batch.episode, levels=batch.levels, reward=reward, observed=np.ones(reward.size, dtype=bool), outcome=outcome
    )


def _from_interval(level: Level, batch: Batch, policy: Policy, uniform: Array, particle: AnyArray) -> tuple[Batch, Array]:
    """Return the batch with numbers drawn from an interval and their densities, and the densities `[S, n]` of all particles."""
    rows, table = np.arange(uniform.size), batch.levels[level.name]
    value = draw_numbers(policy, level, batch, uniform)[particle, rows]
    table = table.decided(nearest_points(level.actions, value), np.ones(value.size), None, value)
    densities = np.asarray(policy.taken(level.name, batch.with_level(level.name, table)), dtype=np.float64)
    own = densities[particle, rows]
    if not ((own > 0) & (own < np.inf)).all():
        row = int(np.argmin((own > 0) & (own < np.inf)))
        raise PolicyError(
            f"level '{level.name}', row {row}: the policy drew {value[row]:g}, at which it gives a density of {own[row]}; a "
            "number that is drawn has a density above 0"
        )
    return batch.with_level(level.name, replace(table, mu_taken=own)), densities


def pick(probabilities: Array, uniform: Array) -> AnyArray:
    """Return for each row the action `[n]` that its uniform number selects from `probabilities` `[n, A]`, by inverse cdf.

    An action of probability 0 is never selected: its step in the cumulated probabilities is empty, and uniform x total
    stays below the total even after rounding.
    """
    cumulated = np.cumsum(probabilities, axis=1)
    return np.asarray((cumulated <= (uniform * cumulated[:, -1])[:, None]).sum(axis=1))


def _child_slots(slot: AnyArray, number: AnyArray | None, steps: int) -> tuple[AnyArray, AnyArray]:
    """Return parent rows and noise slots of the decisions below each parent."""
    if number is None:
        return np.repeat(np.arange(slot.size), steps), (slot[:, None] * steps + np.arange(steps)).ravel()
    parent = np.repeat(np.arange(slot.size), number)
    position = np.arange(parent.size) - np.repeat(np.cumsum(number) - number, number)
    return parent, slot[parent] * steps + position


@dataclass(frozen=True, slots=True)
class _Answers:
    """What a policy answered level by level, so that it need not be asked twice for the same decisions."""

    weights: Array
    answers: Mapping[str, Array]

    def full(self, level: str, batch: Batch) -> Array:
        """Return `[S, n, A]` as answered."""
        return self.answers[level]

    def taken(self, level: str, batch: Batch) -> Array:
        """Return `[S, n]` at the actions taken."""
        table = batch.levels[level]
        if table.value is not None:
            return self.answers[level]
        action = table.action
        return np.take_along_axis(self.answers[level], action[None, :, None].astype(np.int64), axis=2)[:, :, 0]


def _with_propensities(batch: Batch, policy: Policy, propensities: str) -> Batch:
    conditional = _PROPENSITIES[propensities]
    for name, table in batch.levels.items():
        if table.value is not None:
            batch = batch.with_level(name, replace(table, mu_taken=_TAKEN[propensities](policy, name, batch)))
            continue
        full = conditional(policy, name, batch)
        batch = batch.with_level(name, table.decided(table.action, full[np.arange(len(table)), table.action], full))
    return batch


def _particle_weights(policy: Policy) -> Array:
    weights = np.asarray(policy.weights, dtype=np.float64)
    if weights.ndim != 1 or weights.size == 0 or bad_distribution(weights, None) is not None:
        raise PolicyError(f"particle weights are not negative and sum to 1; found {weights.tolist()}")
    return weights


def _check_probabilities(level: str, full: Array, shape: tuple[int, int, int], available: Bools | None) -> None:
    if full.shape != shape:
        raise PolicyError(
            f"level '{level}': the policy returned probabilities of shape {full.shape}; expected {shape}: particles, "
            "decisions, actions"
        )
    wrong = bad_distribution(full, available)
    if wrong is not None:
        (particle, row), expected = wrong
        shown = np.array2string(full[particle, row], precision=4, threshold=12)
        raise PolicyError(f"level '{level}', row {row}, particle {particle}: the policy returned {shown}; {expected}")


def episode_of_each(world: World, episode: int, policy: Policy, seeds: Sequence[int]) -> Batch:
    """Run one episode of `world` for each seed; the g-th of the batch is `world.episodes(episode, 1, policy, seeds[g])`."""
    if any(level.actions.continuous for level in world.problem.levels):
        raise SettingError(f"world '{world.name}' has actions on an interval and runs one seed at a time: use World.episodes")
    noise = noise_of_each(world, tuple(seeds), episode // NOISE_BLOCK)[episode % NOISE_BLOCK]
    ids = np.full(len(seeds), episode, dtype=np.int64)
    return _run(world, ids, noise, policy, _particle_weights(policy), "path")


@functools.lru_cache(maxsize=2)
def noise_of_each(world: World, seeds: tuple[int, ...], block: int) -> list[EpisodeNoise]:
    """Return the noise of the episodes of one block, each for all seeds: arrays `[G * ..]`, the seeds one after the other."""
    drawn = [episode_noise(world, block * NOISE_BLOCK, NOISE_BLOCK, seed) for seed in seeds]

    def by_episode(parts: list[Array]) -> Array:
        apart = np.stack([part.reshape(NOISE_BLOCK, -1) for part in parts], axis=1)
        return apart.reshape(NOISE_BLOCK, -1)

    whole = _combine(drawn, by_episode)

    def episode(place: int) -> EpisodeNoise:
        return _combine([whole], lambda parts: parts[0][place])

    return [episode(place) for place in range(NOISE_BLOCK)]
