"""Linear controllers: Nearest (deterministic), Natural (noise, on a grid of actions) and Gaussian (noise, on an interval)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from scipy.special import ndtr, ndtri

from aegis.errors import PolicyError, check_choice, finite_number
from aegis.policies.base import (
    DescribedRule,
    level_label,
    linear_predictor,
    nearest_action,
    need_numbers,
    need_real,
    one_hot,
    open_actions,
    set_fields,
)
from aegis.problem import Array, Bools, Level, Rows, Variable, check_resolution


class LinearRule(DescribedRule):
    """A controller that follows intercept + sum of weight times variable."""

    __slots__ = ()
    weights: Mapping[str, float]
    intercept: float

    def __post_init__(self) -> None:
        # In the order of names, so that equal rules add up in the same order.
        weights = {
            name: finite_number(f"{self.kind}: the weight of '{name}'", self.weights[name]) for name in sorted(self.weights)
        }
        set_fields(self, weights=weights, intercept=finite_number(f"{self.kind}: 'intercept'", self.intercept))

    def target(self, level: Level, rows: Rows, count: int) -> Array:
        """Return the linear predictor `[n]`."""
        return linear_predictor(self.weights, self.intercept, rows, count, level_label(level))

    def check(self, level: Level, known: Mapping[str, Variable]) -> None:
        """Needs numeric actions and real variables."""
        need_numbers(level, self.kind)
        for name in self.weights:
            need_real(name, known, level_label(level))


@dataclass(frozen=True, slots=True)
class Natural(LinearRule):
    """A noisy linear controller: intercept + sum of weight times variable + N(0, sd^2), moved to the nearest available action.

    Probabilities are exact: differences of the normal distribution function at the midpoints between neighbouring values.
    """

    kind: ClassVar[str] = "natural"
    weights: Mapping[str, float]
    sd: float
    intercept: float = 0.0

    def __post_init__(self) -> None:
        LinearRule.__post_init__(self)
        set_fields(self, sd=finite_number("natural: 'sd'", self.sd, 0.0))

    def probabilities(self, level: Level, rows: Rows, count: int, available: Bools | None = None) -> Array:
        """Return `[n, A]`."""
        if self.sd == 0:
            return Nearest(self.weights, self.intercept).probabilities(level, rows, count, available)
        values, mean = level.actions.numbers, self.target(level, rows, count)
        order = np.argsort(values)
        chances = np.empty((count, values.size))
        if available is None:
            chances[:, order] = self._between(values[order], mean)
        else:
            mask = open_actions(available, count, values.size, level_label(level))
            chances[:, order] = self._among(values[order], mean, mask[:, order])
        return chances

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

    def _among(self, values: Array, mean: Array, mask: Bools) -> Array:
        """Return probabilities `[n, A]` of sorted values, not all of them available."""
        lower, upper = _cells(values, mask)
        with np.errstate(over="ignore"):  # a tiny sd: infinitely many of them away is what is meant
            low, high = (lower - mean[:, None]) / self.sd, (upper - mean[:, None]) / self.sd
        side = np.where(low > 0, -1.0, 1.0)
        mass = side * (ndtr(side * high) - ndtr(side * low))
        return np.asarray(np.where(mask, np.maximum(mass, 0.0), 0.0))  # ndtr is monotone only up to rounding


def _cells(values: Array, mask: Bools) -> tuple[Array, Array]:
    """Return lower and upper ends `[n, A]` of the cells around sorted values `[A]`, counting only the open ones `[n, A]`."""
    edge = np.full((mask.shape[0], 1), np.inf)
    right = np.minimum.accumulate(np.where(mask, values, np.inf)[:, ::-1], axis=1)[:, ::-1]
    left = np.maximum.accumulate(np.where(mask, values, -np.inf), axis=1)
    following, preceding = np.hstack([right[:, 1:], edge]), np.hstack([-edge, left[:, :-1]])
    return (preceding + values) / 2, (values + following) / 2


ENDS = ("cut", "clip")

_PEAK = 1.0 / np.sqrt(2.0 * np.pi)


@dataclass(frozen=True, slots=True)
class Gaussian(LinearRule):
    """intercept + sum of weight times variable + N(0, sd^2), on an interval.

    ends: 'cut' draws again until the number is inside (a truncated Gaussian); 'clip' moves it to the nearest end, which then
    has a probability of its own: the level has to name both ends as atoms.
    """

    kind: ClassVar[str] = "gaussian"
    weights: Mapping[str, float]
    sd: float
    intercept: float = 0.0
    ends: str = "cut"

    def __post_init__(self) -> None:
        LinearRule.__post_init__(self)
        set_fields(self, sd=finite_number("gaussian: 'sd' (without noise there is no density)", self.sd, above=0.0))
        check_choice(self.ends, ENDS, "'ends' of the rule 'gaussian'")

    def probabilities(self, level: Level, rows: Rows, count: int, available: Bools | None = None) -> Array:
        """Return `[n, A]`: the probability of the cell of each point, as a description; on an interval the rule draws numbers."""
        return Natural(self.weights, self.sd, self.intercept).probabilities(level, rows, count, available)

    def density(self, level: Level, rows: Rows, count: int, value: Array) -> Array:
        """Return `[n]`: the density, at the ends of a clipped Gaussian their probabilities."""
        low, high, mean = *level.actions.limits, self.target(level, rows, count)
        inside = _PEAK / self.sd * np.exp(-0.5 * ((value - mean) / self.sd) ** 2)
        below, above = ndtr((low - mean) / self.sd), ndtr((mean - high) / self.sd)
        if self.ends == "cut":
            return inside / self._mass(low, high, mean)
        return np.where(value <= low, below, np.where(value >= high, above, inside))

    def quantile(self, level: Level, rows: Rows, count: int, uniform: Array) -> Array:
        """Return `[n]`."""
        low, high, mean = *level.actions.limits, self.target(level, rows, count)
        if self.ends == "clip":
            return np.clip(mean + self.sd * ndtri(uniform), low, high)
        # Measured from the tail that is nearer, where digits are not lost.
        side = np.where(mean > (low + high) / 2, -1.0, 1.0)
        start = ndtr(side * np.where(side > 0, low - mean, high - mean) / self.sd)
        share = np.where(side > 0, uniform, 1.0 - uniform)
        return np.clip(mean + side * self.sd * ndtri(start + share * self._mass(low, high, mean)), low, high)

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
        LinearRule.check(self, level, known)

    def _mass(self, low: float, high: float, mean: Array) -> Array:
        """Return the probability `[n]` of the interval, from the side on which digits are not lost."""
        side = np.where(mean > (low + high) / 2, -1.0, 1.0)
        near = side * np.where(side > 0, high - mean, low - mean)
        far = side * np.where(side > 0, low - mean, high - mean)
        return np.maximum(ndtr(near / self.sd) - ndtr(far / self.sd), np.finfo(np.float64).tiny)


@dataclass(frozen=True, slots=True)
class Nearest(LinearRule):
    """Always the available action nearest to a linear predictor: a deterministic controller."""

    kind: ClassVar[str] = "nearest"
    weights: Mapping[str, float]
    intercept: float = 0.0

    def probabilities(self, level: Level, rows: Rows, count: int, available: Bools | None = None) -> Array:
        """Return `[n, A]`."""
        mask = open_actions(available, count, level.actions.count, level_label(level))
        return one_hot(nearest_action(level.actions.numbers, self.target(level, rows, count), mask), level.actions.count)
