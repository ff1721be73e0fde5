"""Linear controllers: Nearest (deterministic), Natural (noise, on a grid of actions) and Gaussian (noise, on an interval)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import ndtr, ndtri

from aegis.errors import PolicyError, SettingError
from aegis.policies.base import (
    Mask,
    checked_number,
    level_label,
    linear_predictor,
    named_weights,
    nearest_action,
    need_numbers,
    need_real,
    one_hot,
    open_actions,
)
from aegis.problem import Array, Level, Rows, Variable, check_resolution


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
        object.__setattr__(self, "sd", checked_number(self.sd, "natural: 'sd'", low=0.0))
        object.__setattr__(self, "intercept", checked_number(self.intercept, "natural: 'intercept'"))

    def probabilities(self, level: Level, rows: Rows, count: int, available: Mask | None = None) -> Array:
        """Return `[n, A]`."""
        self._fits(level)
        if self.sd == 0:
            return Nearest(self.weights, self.intercept).probabilities(level, rows, count, available)
        values = level.actions.numbers
        mean = linear_predictor(self.weights, self.intercept, rows, count, level_label(level))
        order = np.argsort(values)
        found = np.empty((count, values.size))
        if available is None:
            found[:, order] = self._between(values[order], mean)
        else:
            mask = open_actions(available, count, values.size, level_label(level))
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
            need_real(name, known, level_label(level))

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
        object.__setattr__(self, "sd", checked_number(self.sd, "gaussian: 'sd'", low=0.0))
        object.__setattr__(self, "intercept", checked_number(self.intercept, "gaussian: 'intercept'"))
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
            raise PolicyError(
                f"{level_label(level)}: 'gaussian' needs an action on an interval; on a grid use the rule 'natural'"
            )
        low, high = level.actions.limits
        check_resolution(level.actions.column, low, high, self.sd, "a Gaussian with an 'sd'")
        ends = {low, high}
        if self.ends == "clip" and not ends <= set(level.actions.atoms):
            taken = f"takes {sorted(ends)} with a probability"
            raise PolicyError(f"{level_label(level)}: a Gaussian that clips {taken}: name them as 'atoms'")
        for name in self.weights:
            need_real(name, known, level_label(level))

    def describe(self) -> dict[str, Any]:
        """Return plain data."""
        plain = {"kind": "gaussian", "weights": dict(self.weights), "sd": self.sd, "intercept": self.intercept}
        return {**plain, "ends": self.ends}

    def _mean(self, level: Level, rows: Rows, count: int) -> Array:
        return linear_predictor(self.weights, self.intercept, rows, count, level_label(level))

    def _mass(self, low: float, high: float, mean: Array) -> Array:
        """Return the probability `[n]` of the interval, from the side on which digits are not lost."""
        side = np.where(mean > (low + high) / 2, -1.0, 1.0)
        near = side * np.where(side > 0, high - mean, low - mean)
        far = side * np.where(side > 0, low - mean, high - mean)
        return np.maximum(ndtr(near / self.sd) - ndtr(far / self.sd), np.finfo(np.float64).tiny)


@dataclass(frozen=True, slots=True)
class Nearest:
    """Always the available action nearest to a linear predictor: a deterministic controller."""

    weights: Mapping[str, float]
    intercept: float = 0.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "weights", named_weights(self.weights, "nearest"))
        object.__setattr__(self, "intercept", checked_number(self.intercept, "nearest: 'intercept'"))

    def probabilities(self, level: Level, rows: Rows, count: int, available: Mask | None = None) -> Array:
        """Return `[n, A]`."""
        need_numbers(level, "nearest")
        target = linear_predictor(self.weights, self.intercept, rows, count, level_label(level))
        mask = open_actions(available, count, level.actions.count, level_label(level))
        return one_hot(nearest_action(level.actions.numbers, target, mask), level.actions.count)

    def check(self, level: Level, known: Mapping[str, Variable]) -> None:
        """Needs numeric actions and real variables."""
        need_numbers(level, "nearest")
        for name in self.weights:
            need_real(name, known, level_label(level))

    def describe(self) -> dict[str, Any]:
        """Return plain data."""
        return {"kind": "nearest", "weights": dict(self.weights), "intercept": self.intercept}
