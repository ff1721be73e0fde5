"""A plant on which the published gate hands over to a worse agent (docs/theory.md, The published recipe, and where it fails).

The legacy always does the same in the same context: a = x. It earns +2 where x = 1 and -0.5 where x = -1. The log never shows
what a = +1 would earn where x = -1: -2. A linear model shares what it cannot tell apart between x and a, and takes a = +1 to be
better everywhere. An agent that does so earns +2 and -2, which is 0.75 less on average.

With weights `pi(a) / 1` the rows where the two differ get weight 0: the legacy's losses vanish and the agent's never show. On
raw rewards the estimate is then +1 against the legacy's 0.75, and the published gate hands over.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from aegis.errors import PolicyError
from aegis.policies import Legacy, Sign, path_full
from aegis.problem import Actions, Array, Batch, Level, LevelTable, Policy, Problem, Propensity, Reward, Variable
from aegis.rng import stream

LEVEL = "setting"
BLOCK = 64  # episodes whose noise is drawn at once
EARNS = np.array([[-0.5, -2.0], [0.0, 2.0]])  # by sign of x and by action


@dataclass(frozen=True, slots=True)
class CounterExample:
    """One level, a context x of -1 or 1, two actions. decisions: per episode. noise: by how much rewards scatter either way."""

    name: ClassVar[str] = "counter-example"
    decisions: int = 4
    noise: float = 0.3
    problem: Problem = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        actions = Actions.grid("a", -1.0, 1.0, 2)
        level = Level(LEVEL, actions, (Variable("x"),), Propensity(columns=("p_low", "p_high")), decision="run")
        problem = Problem((level,), Reward("earned", (-2.0 - self.noise, 2.0 + self.noise)))
        object.__setattr__(self, "problem", problem)

    @property
    def legacy(self) -> Policy:
        """Return the legacy, which always takes a = x."""
        return Legacy(self.problem, {LEVEL: Sign("x", 1.0)})

    def true_value(self, policy: Policy) -> float:
        """Return what a policy earns on average, from the table of rewards."""
        table = LevelTable.undecided([0, 0], {"x": np.array([-1.0, 1.0])})
        chances = path_full(policy, LEVEL, Batch(np.zeros(1, dtype=np.int64), {LEVEL: table}))
        return float((chances * EARNS).sum(axis=1).mean())

    def episodes(self, first: int, count: int, policy: Policy, seed: int) -> Batch:
        """Run episodes; every policy meets the same noise."""
        uniform = self._noise(first, count, seed)
        episode = np.repeat(np.arange(count), self.decisions)
        context = np.where(uniform[..., 0].ravel() < 0.5, -1.0, 1.0)
        table = LevelTable.undecided(episode, {"x": context})
        batch = Batch(np.arange(first, first + count, dtype=np.int64), {LEVEL: table})
        chances = policy.full(LEVEL, batch)
        if chances.shape[1:] != (episode.size, 2) or not (np.abs(chances.sum(axis=2) - 1.0) <= 1e-6).all():
            raise PolicyError(f"level '{LEVEL}': the policy's probabilities are not distributions over 2 actions")
        particle = (np.cumsum(policy.weights) <= uniform[:, 0, 3, None]).sum(axis=1)  # one acts in all of an episode
        own = chances[np.minimum(particle, len(chances) - 1)[episode], np.arange(episode.size)]
        action = (uniform[..., 1].ravel() >= own[:, 0]).astype(np.int32)
        full = path_full(policy, LEVEL, batch)
        decided = table.decided(action, full[np.arange(action.size), action], full)
        earned = EARNS[(context > 0).astype(int), action] + self.noise * (2.0 * uniform[..., 2].ravel() - 1.0)
        return Batch(batch.episode, {LEVEL: decided}, earned, np.ones(earned.size, dtype=np.bool_))

    def _noise(self, first: int, count: int, seed: int) -> Array:
        """Return uniform numbers `[count, decisions, 4]` by episode number."""
        blocks = range(first // BLOCK, (first + count - 1) // BLOCK + 1)
        drawn = np.concatenate([stream(seed, self.name, block).random((BLOCK, self.decisions, 4)) for block in blocks])
        start = first - blocks[0] * BLOCK
        return np.asarray(drawn[start : start + count])
