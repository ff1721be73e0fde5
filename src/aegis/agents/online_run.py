"""Algorithm 1 of the paper: nested causal Thompson sampling on a plant, for any number of levels, scope and agent.

Each episode has a random stream of its own, reached by a jump. A short log of the legacy, made before the run and used for
nothing else, standardises inputs and targets.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
from numpy.random.bit_generator import ISeedSequence

from aegis.agents.agent import Agent
from aegis.errors import SettingError, whole_number
from aegis.mechanisms import Belief, Scaling, build_belief, fit_scalings
from aegis.planning import COMMITS, Choice, Planned, Rule, plan_policy
from aegis.problem import Batch, Plant, Policy, Scope
from aegis.rng import stream

JUMP = 0x9E3779B97F4A7C15F39CC0605CEDC835  # numpy's: the golden ratio times 2^128, which leaves parts far apart and unaligned

MOST_EPISODES = 2**64

STREAMS = "jumps of one stream"  # recorded with a run: other random numbers would not go on where these stopped


def episode_stream(seed: int, name: str, part: str, episode: int) -> np.random.Generator:
    """Return the generator of one episode under `stream(seed, name, part)`: as far from its start as `episode` jumps."""
    whole_number("the number of an episode", episode, 0, MOST_EPISODES - 1)
    bits = np.random.PCG64(_start(seed, name, part))  # type: ignore[arg-type]  # any ISeedSequence will do
    bits.advance(int(episode) * JUMP)
    return np.random.Generator(bits)


class _Words(ISeedSequence):
    """The words with which a stream starts, kept, so that they need not be mixed again."""

    def __init__(self, words: npt.NDArray[Any]) -> None:
        self.words = words

    def generate_state(self, n_words: int, dtype: Any = np.uint32) -> npt.NDArray[Any]:
        """Return the words; PCG64 always asks for the same ones."""
        return self.words


@functools.lru_cache(maxsize=1024)
def _start(seed: int, name: str, part: str) -> _Words:
    sequence = stream(seed, name, part).bit_generator.seed_seq
    return _Words(sequence.generate_state(4, np.uint64))


@dataclass(frozen=True, slots=True)
class Online:
    """One online run of an agent on a plant.

    Parameters
    ----------
    plant, agent, seed
        The plant, the agent that learns, and the seed of the run.
    scope
        The levels that the agent controls.
    legacy
        The policy at the other levels; None if the scope is all levels.
    scalings
        Standardisation fitted on prior data, if there is any.

    Attributes
    ----------
    controlled
        The levels at which the agent acts: those of the scope that its commit shape plans.
    rule
        The agent's rule with its parameters.

    Raises
    ------
    SettingError
        If the agent controls no level, a legacy is missing or built for another problem, or the problem has carry-over.
    """

    plant: Plant
    agent: Agent
    scope: Scope
    seed: int
    legacy: Policy | None = None
    scalings: dict[str, Scaling] = field(default_factory=dict)
    controlled: Scope = field(init=False, repr=False, compare=False)
    rule: Rule = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        problem = self.plant.problem
        controlled = COMMITS[self.agent.commit].scope(problem, problem.scope(self.scope))
        object.__setattr__(self, "controlled", controlled)
        object.__setattr__(self, "rule", self.agent.make_rule())
        if not controlled:
            raise SettingError(
                f"agent '{self.agent.name}' controls no level of the scope {sorted(self.scope)}; an agent with the commit shape "
                f"'{self.agent.commit}' can control {sorted(COMMITS[self.agent.commit].scope(problem, problem.scope()))}"
            )
        if problem.carry_over == "within":
            raise SettingError(
                "planning supposes that a decision affects only its own subtree; this problem says 'carry_over: within'"
            )
        built_for = getattr(self.legacy, "problem", problem)
        if built_for != problem:
            raise SettingError("the legacy was built for another problem than the plant's; build it from the same world")
        missing = [name for name in problem.names if name not in controlled]
        if missing and self.legacy is None:
            raise SettingError(
                f"agent '{self.agent.name}' does not control {', '.join(missing)}: give the legacy that acts there"
            )

    def prior(self) -> Belief:
        """Return the belief before the first episode, over the mechanisms that the controlled levels look at."""
        return build_belief(self.plant.problem, self.agent.model, self.controlled, self.scalings, self.seed)

    def policy(self, belief: Belief, episode: int) -> Planned:
        """Return the policy of one episode: beliefs drawn from p_(k-1), held fixed for the episode."""
        agent, rng = self.agent, self._stream(episode)
        return plan_policy(belief, self.rule, rng, self.scope, self.legacy, agent.commit, agent.integration, episode)

    def choice(self, belief: Belief, episode: int) -> Choice:
        """Return the part of `policy` that differs from episode to episode."""
        return self.rule.prepare(belief, self._stream(episode), episode, self.controlled)

    def steps(self, belief: Belief, first: int, last: int) -> Iterator[tuple[Batch, Belief]]:
        """Yield each episode's data and the belief after it, for episodes `first .. last - 1`.

        Every number depends on the seed and the episode alone, so that a restart from the belief after episode k is exact.
        """
        for episode in range(first, last):
            batch = self.plant.episodes(episode, 1, self.policy(belief, episode), self.seed)
            belief = belief.update(batch)
            yield batch, belief

    def _stream(self, episode: int) -> np.random.Generator:
        return episode_stream(self.seed, "agent", self.agent.name, episode)


def make_online(
    plant: Plant, agent: Agent, seed: int, legacy: Policy | None = None, scope: Iterable[str] | None = None
) -> Online:
    """Return the run of an agent on a plant.

    Agents that standardise get `agent.prior_episodes` episodes of the legacy first.

    Parameters
    ----------
    plant, agent, seed
        The plant, the agent and the seed of the run.
    legacy
        The policy at levels that the agent does not control.
    scope
        The levels that the agent may control; None for all.

    Returns
    -------
    Online
        The run, before its first episode.

    Raises
    ------
    SettingError
        If the agent needs a legacy, or cannot act on this plant.
    """
    controlled = plant.problem.scope(scope)
    if agent.prior_episodes == 0:
        return Online(plant, agent, controlled, seed, legacy)
    if legacy is None:
        raise SettingError(
            f"agent '{agent.name}' standardises by a short log of the legacy: give the legacy, or set standardise=False"
        )
    return Online(plant, agent, controlled, seed, legacy, prior_scalings(plant, legacy, agent.prior_episodes, seed))


def prior_scalings(plant: Plant, legacy: Policy, episodes: int, seed: int) -> dict[str, Scaling]:
    """Return the standardisation fitted on episodes of the legacy, whose noise is independent of the run's."""
    other = int(stream(seed, "prior").integers(2**62))
    return fit_scalings(plant.problem, [plant.episodes(0, episodes, legacy, other)])
