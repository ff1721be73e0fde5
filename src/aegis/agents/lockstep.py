"""Runs that differ in their seed alone, in lockstep: one call plans, simulates and learns an episode of all of them.

An episode of twenty rows is a few hundred small array operations, which cost Python much more than arithmetic; shared by G
runs they cost each a G-th. A run's numbers do not depend on which others run beside it: they are those of `run`, bit for bit.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Protocol, runtime_checkable

import numpy as np

from aegis.agents.identity import identity
from aegis.agents.online import Online
from aegis.agents.run import Result, run, whole_number
from aegis.errors import SettingError
from aegis.mechanisms import StackedBelief
from aegis.planning import Together
from aegis.problem import Array, Batch, Policy


@runtime_checkable
class ManySeeds(Protocol):
    """A plant that can run an episode of several seeds in one call."""

    def episode_of_each(self, episode: int, policy: Policy, seeds: Sequence[int]) -> Batch:
        """Run one episode for each seed: the g-th of the batch is `episodes(episode, 1, policy, seeds[g])`.

        The policy is asked for all of them at once, in the order of the seeds.
        """
        ...


def run_together(onlines: Sequence[Online], episodes: int) -> list[Result]:
    """Return what `run` returns for each of several runs that differ in seed and scalings alone.

    They are run in lockstep if the plant can (`ManySeeds`) and the mechanisms are regressions, otherwise one after the other.
    Raises SettingError if the runs differ in anything else.
    """
    last = whole_number("episodes", episodes)
    _check(onlines)
    beliefs = StackedBelief.of([online.prior() for online in onlines])
    if beliefs is None or not isinstance(onlines[0].plant, ManySeeds):
        return [run(online, last) for online in onlines]
    means, sums = np.empty((2, last, len(onlines)))
    for episode, (batch, found) in enumerate(steps(onlines, beliefs, 0, last)):
        beliefs = found
        reward: Array = batch.reward if batch.reward is not None else np.empty(0)
        means[episode], sums[episode] = batch.episode_means(reward), batch.episode_sums(reward)
    own = zip(means.T.copy(), sums.T.copy(), beliefs.beliefs(), strict=True)
    return [Result(each, total, belief) for each, total, belief in own]


def steps(onlines: Sequence[Online], beliefs: StackedBelief, first: int, last: int) -> Iterator[tuple[Batch, StackedBelief]]:
    """Yield the data of each episode, the g-th of its batch being the g-th run's, and the beliefs after it.

    For episodes `first .. last - 1`; as in `Online.steps` every number depends on seed and episode alone.
    """
    plant, seeds = onlines[0].plant, [online.seed for online in onlines]
    if not isinstance(plant, ManySeeds):
        raise SettingError(f"a {type(plant).__name__} cannot run several seeds at once; use `run` for each of them")
    planned = onlines[0].policy(beliefs.beliefs()[0], first)
    for episode in range(first, last):
        each = zip(onlines, beliefs.solved(), strict=True)
        choices = tuple(online.choice(belief, episode) for online, belief in each)
        policy = Together(replace(planned, choice=choices[0]), choices, beliefs.stacks)
        batch = plant.episode_of_each(episode, policy, seeds)
        beliefs = beliefs.update(batch)
        yield batch, beliefs


def _check(onlines: Sequence[Online]) -> None:
    if not onlines:
        raise SettingError("there are no runs; give at least one")
    for name in ("plant", "agent", "scope", "legacy"):
        parts = [getattr(online, name) for online in onlines]
        if any(part is not parts[0] for part in parts) and len({identity(part) for part in parts}) > 1:
            raise SettingError(f"runs in lockstep differ in their seeds alone; these differ in their {name}: run them one by one")
    seeds = [online.seed for online in onlines]
    if len(set(seeds)) < len(seeds):
        raise SettingError(f"every run in lockstep has a seed of its own, found {seeds}")
