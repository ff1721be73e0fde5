"""The noisy linear controller on an interval: Gaussian, cut or clipped at the ends."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import ndtr, ndtri

from aegis.errors import PolicyError, SettingError
from aegis.policies.natural import Natural
from aegis.policies.rule import named_weights, place
from aegis.policies.support import Mask, linear, need_real, number
from aegis.problem import Array, Level, Rows, Variable, check_resolution

ENDS = ("cut", "clip")
_PEAK = 1.0 / np.sqrt(2.0 * np.pi)


@dataclass(frozen=True, slots=True)
class Gaussian:
    """intercept + sum of weight times variable + N(0, sd^2), on an interval.

    ends: 'cut' draws again until the number is inside (a truncated Gaussian); 'clip' moves it to the nearest end, which then
    has a probability of its own: the level has to name both ends as atoms.
    """

    weights: Mapping[str, float]
    sd: float
    intercept: float = 0.0
    ends: str = "cut"

    def __post_init__(self) -> None:
        object.__setattr__(self, "weights", named_weights(self.weights, "gaussian"))
        object.__setattr__(self, "sd", number(self.sd, "gaussian: 'sd'", low=0.0))
        object.__setattr__(self, "intercept", number(self.intercept, "gaussian: 'intercept'"))
        if self.sd == 0:
            raise SettingError("gaussian: 'sd' is above 0: without noise there is no density; use the rule 'nearest'")
        if self.ends not in ENDS:
            raise SettingError(f"gaussian: 'ends' is one of {', '.join(ENDS)}, found {self.ends!r}")

    def probabilities(self, level: Level, rows: Rows, count: int, available: Mask | None = None) -> Array:
        """Return `[n, A]`: the probability of the cell of each point, as a description; on an interval the rule draws numbers."""
        return Natural(self.weights, self.sd, self.intercept).probabilities(level, rows, count, available)

    def density(self, level: Level, rows: Rows, count: int, value: Array) -> Array:
        """Return `[n]`: the density, at the ends of a clipped Gaussian their probabilities."""
        low, high, mean = *level.actions.limits, self._mean(level, rows, count)
        inside = _PEAK / self.sd * np.exp(-0.5 * ((value - mean) / self.sd) ** 2)
        below, above = ndtr((low - mean) / self.sd), ndtr((mean - high) / self.sd)
        if self.ends == "cut":
            return inside / self._mass(low, high, mean)
        return np.where(value <= low, below, np.where(value >= high, above, inside))

    def quantile(self, level: Level, rows: Rows, count: int, uniform: Array) -> Array:
        """Return `[n]`."""
        low, high, mean = *level.actions.limits, self._mean(level, rows, count)
        if self.ends == "clip":
            return np.clip(mean + self.sd * ndtri(uniform), low, high)
        # Measured from the tail that is nearer, where digits are not lost.
        side = np.where(mean > (low + high) / 2, -1.0, 1.0)
        start = ndtr(side * np.where(side > 0, low - mean, high - mean) / self.sd)
        share = np.where(side > 0, uniform, 1.0 - uniform)
        found = mean + side * self.sd * ndtri(start + share * self._mass(low, high, mean))
        return np.clip(found, low, high)

    def check(self, level: Level, known: Mapping[str, Variable]) -> None:
        """Needs an interval, real variables, and both ends as atoms if it clips."""
        if not level.actions.continuous:
            raise PolicyError(f"{place(level)}: 'gaussian' needs an action on an interval; on a grid use the rule 'natural'")
        low, high = level.actions.limits
        check_resolution(level.actions.column, low, high, self.sd, "a Gaussian with an 'sd'")
        ends = {low, high}
        if self.ends == "clip" and not ends <= set(level.actions.atoms):
            taken = f"takes {sorted(ends)} with a probability"
            raise PolicyError(f"{place(level)}: a Gaussian that clips {taken}: name them as 'atoms'")
        for name in self.weights:
            need_real(name, known, place(level))

    def describe(self) -> dict[str, Any]:
        """Return plain data."""
        plain = {"kind": "gaussian", "weights": dict(self.weights), "sd": self.sd, "intercept": self.intercept}
        return {**plain, "ends": self.ends}

    def _mean(self, level: Level, rows: Rows, count: int) -> Array:
        return linear(self.weights, self.intercept, rows, count, place(level))

    def _mass(self, low: float, high: float, mean: Array) -> Array:
        """Return the probability `[n]` of the interval, from the side on which digits are not lost."""
        side = np.where(mean > (low + high) / 2, -1.0, 1.0)
        near = side * np.where(side > 0, high - mean, low - mean)
        far = side * np.where(side > 0, low - mean, high - mean)
        return np.maximum(ndtr(near / self.sd) - ndtr(far / self.sd), np.finfo(np.float64).tiny)
