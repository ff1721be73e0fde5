"""A study that has not been made yet: what would be logged at one level under one exploration rate, and what it would bet on.

Everything is scaled to rewards in [0, 1], 1 best.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from aegis.evidence import FLOOR, gain_stakes
from aegis.evidence.waterfill import water_levels
from aegis.problem import Array

Pool = Callable[[Array], Array]


@dataclass(frozen=True, slots=True)
class Play:
    """Decisions of one level, a logging policy, a candidate and the incumbent that it is compared with, and a world that answers.

    logging, candidate, comparator `[n, A]`: distributions. control `[n, A]`: the prediction in [0, 1] that the bets use. mean
    `[n, A]`: what an action earns in the world on average. residual `[n]`: by how much a reward differs from that, whatever
    the action. largest: T_max of the candidate. pool: from factors of decisions `[n, J]` to those of the units they belong to
    `[U, J]`; a unit in which nothing is at stake has the factor 1.
    """

    logging: Array
    candidate: Array
    control: Array
    mean: Array
    residual: Array
    largest: float
    pool: Pool
    comparator: Array

    @property
    def gain(self) -> float:
        """Return the candidate's gain in this world."""
        return self._over_units(self._gains())

    @property
    def moved(self) -> float:
        """Return the probability that the candidate moves from some actions to others, on average over units."""
        return self._over_units(np.maximum(self.comparator - self.candidate, 0.0).sum(axis=1))

    def factors(self, bets: Array, repeats: int, rng: np.random.Generator) -> Array:
        """Return the factors `[repeats U, J]` of simulated units: the same contexts, new actions, rewards kept within [0, 1].

        Units come in an order without meaning.
        """
        stakes, rows = gain_stakes(self.candidate, self.comparator, self.logging), np.arange(len(self.logging))
        up, down = np.maximum(stakes.weights, 0.0), np.maximum(-stakes.weights, 0.0)
        kappa = up * self.control + down * (1.0 - self.control)
        target = (1.0 - FLOOR) / bets - stakes.worst[:, None]
        # Levels do not depend on what is drawn: they are found once, and not as often as `water_filled` would.
        level = np.where(target >= 0, water_levels(kappa, self.logging, target), np.nan)
        chances = np.cumsum(self.logging, axis=1)
        found = []
        for _ in range(repeats):
            action = (chances <= rng.random(len(rows))[:, None] * chances[:, -1:]).sum(axis=1)
            reward = np.clip(self.mean[rows, action] + self.residual, 0.0, 1.0)
            earned = up[rows, action] * reward + down[rows, action] * (1.0 - reward)
            stake = np.maximum(level - kappa[rows, action][:, None], 0.0) + earned[:, None]
            found.append(self.pool(FLOOR + bets * stake))
        return np.concatenate(found)

    def expected(self, bets: Array) -> Array:
        """Return the mean `[J]` of a unit's factor under each bet, which needs no simulation: one plus bet times gain."""
        return np.asarray(self.pool(1.0 + self._gains()[:, None] * bets).mean(axis=0))

    @property
    def units(self) -> int:
        """Return how many units the decisions belong to."""
        return len(self.pool(np.ones((len(self.logging), 1))))

    def _gains(self) -> Array:
        return np.asarray(((self.candidate - self.comparator) * self.mean).sum(axis=1))

    def _over_units(self, values: Array) -> float:
        return float(self.pool(1.0 + values[:, None]).mean() - 1.0)
