"""The monitor after a handover: has the value fallen below what was certified? (docs/theory.md, The gate)

Under the hypothesis E[L_k | past] >= v0 each `e = 1 - g (L_k - v0) / (1 - v0)` has mean at most one. New wealth enters at every
step, `A_k = (A_(k-1) + 1/(k (k+1))) e`, so that a drop after a long good time is still found quickly.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np

from aegis.errors import RefusedError, SettingError
from aegis.evidence.grid import Array

STAKES = np.array([0.9, *[2.0**-i for i in range(1, 8)]])


@dataclass(frozen=True, slots=True)
class Monitor:
    """State after `count` units: wealth `[G]` of each stake. floor: v0, a *lower* bound of the value, fixed at the handover."""

    floor: float
    count: int = 0
    wealth: Array = field(default_factory=lambda: np.zeros(STAKES.size))

    def __post_init__(self) -> None:
        if not (math.isfinite(self.floor) and 0 <= self.floor < 1):
            raise SettingError(f"a monitor watches a value in [0, 1), found {self.floor}")

    def step(self, value: float) -> Monitor:
        """Return the state after one more unit, its value in [0, 1]; a missing reward counts as 1."""
        if not 0 <= value <= 1:
            raise RefusedError(f"a unit's value lies in [0, 1], found {value}")
        k = self.count + 1
        factor = 1.0 - STAKES * (value - self.floor) / (1.0 - self.floor)
        return Monitor(self.floor, k, (self.wealth + 1.0 / (k * (k + 1))) * factor)

    @property
    def evidence(self) -> float:
        """Return the evidence that the value has fallen; an alarm is due when it reaches 1/alpha."""
        return float(self.wealth.mean() + 1.0 / (self.count + 1))

    def alarm(self, alpha: float) -> bool:
        """Say whether an alarm is due at level alpha."""
        return self.evidence >= 1.0 / alpha
