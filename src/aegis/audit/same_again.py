"""Do actions come again more or less often than their propensities say? Pairs of decisions, the later one is bet on.

Given everything before it, a decision takes the action of an earlier one with that action's own propensity: the surprise has
mean zero with the whole distribution known; with the probability of the action taken only, the weight of "the same again" has
mean one.
"""

from __future__ import annotations

import numpy as np

from aegis.evidence.calibration import blended, moment_evidence, moments, weight_logs
from aegis.problem import AnyArray, Array, LevelTable


class SameAgain:
    """Evidence of one kind of pairs; sums add up over batches in any order."""

    def __init__(self) -> None:
        self.surprises: Array | None = None
        self.logs: Array | None = None
        self.pairs = 0
        self.same = 0

    def add(self, table: LevelTable, before: AnyArray, now: AnyArray) -> None:
        """Add pairs of decisions `[p]` of a table, the earlier and the later; propensities of the later ones are known."""
        self.pairs += now.size
        previous = table.action[before]
        same = table.action[now] == previous
        self.same += int(same.sum())
        if table.mu_full is not None:
            found = moments(same - table.mu_full[now, previous])
            self.surprises = found if self.surprises is None else self.surprises + found
            return
        again = np.ones(now.size, dtype=np.bool_) if table.available is None else table.available[now, previous]
        # All that is not the same has a weight of zero: counting it is enough.
        logs = weight_logs(1.0 / table.mu_taken[now[same]]).sum(axis=1)
        logs = logs + weight_logs(np.zeros(1))[:, 0] * np.count_nonzero(again & ~same)
        self.logs = logs if self.logs is None else self.logs + logs

    def merge(self, other: SameAgain) -> None:
        """Add the pairs of another of the same kind."""
        self.surprises = plus(self.surprises, other.surprises)
        self.logs = plus(self.logs, other.logs)
        self.pairs += other.pairs
        self.same += other.same

    def evidence(self) -> float:
        """Return the logarithm of the evidence that the propensities do not say how often actions come again."""
        full = -np.inf if self.surprises is None else float(moment_evidence(self.surprises))
        return max(full, -np.inf if self.logs is None else float(blended(self.logs)))


def plus(one: Array | None, other: Array | None) -> Array | None:
    """Return the sum of what is there."""
    return other if one is None else one if other is None else one + other
