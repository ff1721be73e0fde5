"""A declared range of the mean reward below a decision, narrower than that of single rewards (theory section 5).

Rewards r in [0, 1] become r' = (r - low)/width in it. A bet of lam on a gain in r is a bet of lam width on the gain in r', which
is that many times smaller: evidence, bets and bounds stay on the scale of single rewards, and only their reach grows.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from aegis.certificate.measures import Measure, Observed
from aegis.errors import RefusedError
from aegis.problem import Array, Batch, Problem, Scope

ROUND_OFF = 1e-12


@dataclass(frozen=True, slots=True)
class Within:
    """Limits of the means below the decisions of a level, on the scale of the measure."""

    level: str
    measure: Measure
    low: float = 0.0
    high: float = 1.0

    @property
    def width(self) -> float:
        """Return the share of the range of single rewards that is left."""
        return self.high - self.low

    def scaled(self, values: Array) -> Array:
        """Return values on the scale on which the limits are 0 and 1; what lies outside is put at the nearer one."""
        return np.clip((values - self.low) / self.width, 0.0, 1.0)

    def observed(self, found: Observed, batch: Batch) -> Observed:
        """Return what was observed below each decision on that scale; RefusedError names the first outside the limits.

        Where rewards are missing the mean may be anything from `low` to `high`, and lies within the limits all the same.
        """
        outside = (found.low > self.high + ROUND_OFF) | (found.high < self.low - ROUND_OFF)
        seen = found.low == found.high
        outside |= seen & ~((found.low >= self.low - ROUND_OFF) & (found.high <= self.high + ROUND_OFF))
        if outside.any():
            raise RefusedError(self._outside(found, batch, int(np.argmax(outside))))
        low = self.scaled(found.low)
        return Observed(low, low if found.high is found.low else self.scaled(found.high))

    def _outside(self, found: Observed, batch: Batch, decision: int) -> str:
        measure = self.measure
        first = int(np.argmax(batch.ancestors(list(batch.levels)[-1])[self.level] == decision))
        limits = sorted(measure.value(end) for end in (self.low, self.high))
        return (
            f"{batch.where(first)}, column '{measure.column}': the mean below this decision of level '{self.level}' is "
            f"{measure.value(float(found.low[decision])):g}, outside the declared 'mean_range' [{limits[0]:g}, {limits[1]:g}]; "
            "widen it to what can occur, or leave it out"
        )


def within_of(problem: Problem, scope: Scope, measure: Measure) -> Within | None:
    """Return the limits of means at the level of a scope; None for guards, several levels, or where none are declared."""
    if len(scope) != 1 or measure.guard:
        return None
    (name,) = scope
    declared = problem.level(name).mean_range
    if declared is None:
        return None
    low, high = sorted(measure.scaled(np.array(declared)).tolist())
    return Within(name, measure, low, high)
