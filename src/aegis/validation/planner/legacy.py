"""What the legacy did at a level of a pilot log, and what it would do with another rate of exploration."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from aegis.problem import Array, LevelTable

CERTAIN = 1.0 - 1e-9


@dataclass(frozen=True, slots=True)
class Behaviour:
    """The legacy's distribution at the decisions of a level, and a uniform choice among the available actions, both `[n, A]`."""

    logged: Array
    uniform: Array

    @classmethod
    def of(cls, table: LevelTable, actions: int) -> Behaviour | None:
        """Return the behaviour; None if only the probability of the action taken is known, or if some are missing."""
        logged = table.mu_full
        if logged is None and table.value is None and bool((table.mu_taken >= CERTAIN).all()):
            logged = np.zeros((len(table), actions))
            logged[np.arange(len(table)), table.action] = 1.0
        if logged is None or not np.isfinite(logged).all():
            return None
        mask: npt.NDArray[np.bool_] = np.ones(logged.shape, dtype=bool) if table.available is None else table.available
        return cls(logged, mask / mask.sum(axis=1, keepdims=True))

    @property
    def deterministic(self) -> bool:
        """Say whether nothing was left to chance where there was a choice."""
        free = (self.uniform > 0).sum(axis=1) > 1
        return bool((self.logged.max(axis=1) >= CERTAIN)[free].all())

    @property
    def rate(self) -> Array:
        """Return the rate of exploration that is in the logged distributions, `[n]`: the share of a uniform choice in them."""
        open_action = self.uniform > 0
        ratio = np.where(open_action, self.logged / np.where(open_action, self.uniform, 1.0), np.inf)
        return np.asarray(np.minimum(ratio.min(axis=1), 1.0))

    @property
    def uniform_already(self) -> bool:
        """Say whether every decision was a uniform choice, so that what the legacy itself would do is not known."""
        return bool((self.rate >= CERTAIN).all())

    def own(self) -> Array:
        """Return what the legacy does when it does not explore, `[n, A]`; where all is exploration, that."""
        rate = self.rate[:, None]
        some = rate < CERTAIN
        return np.where(some, (self.logged - rate * self.uniform) / np.where(some, 1.0 - rate, 1.0), self.uniform)

    def exploring(self, rate: float | None) -> Array:
        """Return the distribution `[n, A]` with another rate of exploration; None is as logged."""
        if rate is None:
            return self.logged
        return np.maximum((1.0 - rate) * self.own() + rate * self.uniform, 0.0)
