"""How much of the prior mass each slice has: half is for the log as a whole, so that slicing costs small logs little.

Every slice's evidence is expected to be at most one if propensities are right, and so is their mean under any weights that were
fixed beforehand. A fault in how often an action is taken shows in the log as a whole first.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import logsumexp

from aegis.audit.calibration import SliceEvidence

WHOLE = 0.5  # of the mass for slices that hold all rows; everything if there are no others


@dataclass(frozen=True, slots=True)
class SliceShares:
    """Logarithms of the weight that each slice has in the mean: one that holds all rows, and one that holds a part of them."""

    whole: float
    part: float

    @classmethod
    def of(cls, slices: Sequence[SliceEvidence]) -> SliceShares:
        """Return the shares of these slices, which add up to one."""
        wholes = sum(not found.where for found in slices)
        parts = len(slices) - wholes
        mass = 1.0 if not parts else WHOLE if wholes else 0.0
        return cls(_log(mass, wholes), _log(1.0 - mass, parts))

    def log(self, found: SliceEvidence) -> float:
        """Return the logarithm of what a slice contributes to the mean."""
        return found.log_evidence + (self.part if found.where else self.whole)

    def mean_log(self, slices: Iterable[SliceEvidence]) -> float:
        """Return the logarithm of the mean, in which slices that are not given count as 0; minus infinity of none."""
        logs = np.array([self.log(found) for found in slices], dtype=np.float64)
        return float(logsumexp(logs)) if logs.size else -math.inf


def _log(mass: float, number: int) -> float:
    return math.log(mass / number) if mass and number else -math.inf
