"""The noisy linear controller."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import ndtr

from aegis.policies.deterministic import Nearest
from aegis.policies.rule import named_weights, need_numbers, place
from aegis.policies.support import Mask, linear, need_real, number, open_actions
from aegis.problem import Array, Level, Rows, Variable


@dataclass(frozen=True, slots=True)
class Natural:
    """A noisy linear controller: intercept + sum of weight times variable + N(0, sd^2), moved to the nearest available action.

    Probabilities are exact: differences of the normal distribution function at the midpoints between neighbouring values.
    """

    weights: Mapping[str, float]
    sd: float
    intercept: float = 0.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "weights", named_weights(self.weights, "natural"))
        object.__setattr__(self, "sd", number(self.sd, "natural: 'sd'", low=0.0))
        object.__setattr__(self, "intercept", number(self.intercept, "natural: 'intercept'"))

    def probabilities(self, level: Level, rows: Rows, count: int, available: Mask | None = None) -> Array:
        """Return `[n, A]`."""
        self._fits(level)
        if self.sd == 0:
            return Nearest(self.weights, self.intercept).probabilities(level, rows, count, available)
        values = level.actions.numbers
        mean = linear(self.weights, self.intercept, rows, count, place(level))
        order = np.argsort(values)
        found = np.empty((count, values.size))
        if available is None:
            found[:, order] = self._between(values[order], mean)
        else:
            mask = open_actions(available, count, values.size, place(level))
            found[:, order] = self._among(values[order], mean, mask[:, order])
        return found

    def _between(self, values: Array, mean: Array) -> Array:
        """Return probabilities `[n, A]` of sorted values, all of them available: cells touch, and an end is looked up once."""
        lower, upper = _cells(values, np.ones((1, values.size), dtype=bool))
        with np.errstate(over="ignore"):
            ends = (np.append(lower, upper[:, -1:], axis=1) - mean[:, None]) / self.sd
        # In the upper tail both distribution functions are near 1: measured from the other side they keep their digits.
        tails = ndtr(-np.abs(ends))
        mass = np.abs(np.diff(tails, axis=1))
        every, middle = np.arange(mean.size), np.count_nonzero(ends <= 0, axis=1) - 1  # the cell that has the mean in it
        mass[every, middle] = ndtr(ends[every, middle + 1]) - tails[every, middle]
        return mass

    def _among(self, values: Array, mean: Array, mask: Mask) -> Array:
        """Return probabilities `[n, A]` of sorted values, not all of them available."""
        lower, upper = _cells(values, mask)
        with np.errstate(over="ignore"):  # a tiny sd: infinitely many of them away is what is meant
            low, high = (lower - mean[:, None]) / self.sd, (upper - mean[:, None]) / self.sd
        side = np.where(low > 0, -1.0, 1.0)
        mass = side * (ndtr(side * high) - ndtr(side * low))
        found: Array = np.where(mask, np.maximum(mass, 0.0), 0.0)  # ndtr is monotone only up to rounding
        return found

    def check(self, level: Level, known: Mapping[str, Variable]) -> None:
        """Needs numeric actions and real variables."""
        self._fits(level)
        for name in self.weights:
            need_real(name, known, place(level))

    def describe(self) -> dict[str, Any]:
        """Return plain data."""
        return {"kind": "natural", "weights": dict(self.weights), "sd": self.sd, "intercept": self.intercept}

    def _fits(self, level: Level) -> None:
        need_numbers(level, "natural")


def _cells(values: Array, mask: Mask) -> tuple[Array, Array]:
    """Return lower and upper ends `[n, A]` of the cells around sorted values `[A]`, counting only the open ones `[n, A]`."""
    edge = np.full((mask.shape[0], 1), np.inf)
    right = np.minimum.accumulate(np.where(mask, values, np.inf)[:, ::-1], axis=1)[:, ::-1]
    left = np.maximum.accumulate(np.where(mask, values, -np.inf), axis=1)
    following, preceding = np.hstack([right[:, 1:], edge]), np.hstack([-edge, left[:, :-1]])
    return (preceding + values) / 2, (values + following) / 2
