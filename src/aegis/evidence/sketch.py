"""The sketch: all that a certificate needs to remember of its data.

For units with values x_k and bets g_j it keeps the count n and `S_j = sum_k log(factor of unit k under bet j)`. The wealth at a
hypothetical mean v is `sum_j p_j exp(S_j - n log1p(g_j v))`; if v is the true mean (or above it) this is a nonnegative
supermartingale that starts at one, so it reaches 1/delta with probability at most delta, whenever one looks. The lower bound
is where the wealth has fallen to 1/delta.

Sums are integers of 2^-32, each unit rounded down: merging is exact in any order, and rounding can only lower the bound.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from aegis.errors import RefusedError, SettingError
from aegis.evidence.curve import Curve
from aegis.evidence.grid import Array, Grid

UNIT = 2.0**32
LARGEST = 2.0**30  # no single log-factor is allowed beyond this
TOO_EXTREME = "a unit's factor is too extreme to be counted"
AT_ONCE = 2**13  # units whose logarithms are held in memory at once


@dataclass(frozen=True, slots=True)
class Sketch:
    """n units and integer sums over the bets of a grid; a bet that lost everything is None for good."""

    grid: Grid
    count: int
    sums: tuple[int | None, ...]

    @classmethod
    def empty(cls, grid: Grid) -> Sketch:
        """Return the sketch of no units."""
        return cls(grid, 0, (0,) * grid.bets.size)

    def add_values(self, values: Array) -> Sketch:
        """Return the sketch after units with values `[k]` >= 0: the factor under bet g is 1 + g value."""
        found = np.asarray(values, dtype=np.float64)
        _check_values(found)
        grown = [0] * self.grid.bets.size
        for start in range(0, found.size, AT_ONCE):
            part = _floor_sums(np.log1p(self.grid.bets[:, None] * found[start : start + AT_ONCE]))
            grown = [a + b for a, b in zip(grown, part, strict=True)]
        total = tuple(None if before is None else before + more for before, more in zip(self.sums, grown, strict=True))
        return Sketch(self.grid, self.count + found.size, total)

    def add_factors(self, factors: Array) -> Sketch:
        """Return the sketch after units whose factors `[k, J]` are given; a factor of 0 or nan kills its bet for good."""
        found = np.asarray(factors, dtype=np.float64)
        _check_factors(found, self.grid)
        alive = np.asarray((found - 1.0 > -1.0).all(axis=0))  # so small that it cannot be told from 0 counts as 0; nan too
        grown = [0] * self.grid.bets.size
        for start in range(0, len(found), AT_ONCE):
            some = np.where(alive[:, None], found[start : start + AT_ONCE].T, 1.0)
            grown = [a + b for a, b in zip(grown, _floor_sums(np.log1p(some - 1.0)), strict=True)]
        kept = zip(self.sums, grown, alive, strict=True)
        total = tuple(None if before is None or not live else before + more for before, more, live in kept)
        return Sketch(self.grid, self.count + len(found), total)

    def merge(self, other: Sketch) -> Sketch:
        """Return the sketch of both sets of units; exact, in any order. The grids must be the same."""
        if self.grid.digest != other.grid.digest:
            raise SettingError("sketches on different grids cannot be merged; they answer different questions")
        sums = tuple(None if a is None or b is None else a + b for a, b in zip(self.sums, other.sums, strict=True))
        return Sketch(self.grid, self.count + other.count, sums)

    def log_wealth(self, mean: float) -> float:
        """Return the logarithm of the wealth against the hypothesis that the mean is at most `mean`."""
        return self.curve()(mean)

    def curve(self) -> Curve:
        """Return the wealth as a function of the mean."""
        alive = np.array([total is not None for total in self.sums])
        logs = np.array([total / UNIT for total in self.sums if total is not None])
        return Curve(self.grid.log_weights[alive] + logs, self.grid.bets[alive], np.zeros(len(logs)), self.count)

    def certifies(self, mean: float, delta: float) -> bool:
        """Say whether the mean is certified to be above `mean` at risk delta; the same test that `lower` inverts."""
        return self.log_wealth(mean) >= math.log(1.0 / check_delta(delta))

    def lower(self, delta: float, low: float, high: float) -> float:
        """Return the largest mean in [low, high] that is certified to be exceeded, rounded down; `low` if none is.

        Raises RefusedError if even `high`, the largest mean possible, is certified to be exceeded: that contradicts the
        assumptions.
        """
        return self.curve().lower(math.log(1.0 / check_delta(delta)), low, high)


def check_delta(delta: float) -> float:
    """Return delta if it is a risk: above 0 and below 1."""
    if not (math.isfinite(delta) and 0 < delta < 1):
        raise SettingError(f"delta is a risk above 0 and below 1, found {delta}")
    return delta


def unit_logs(grid: Grid, found: Array) -> list[tuple[int | None, ...]]:
    """Return what each unit adds to the sums of a sketch, one number per bet, from values `[k]` or factors `[k, J]`.

    None kills the bet. Adding them one by one is the same as `add_values` or `add_factors` of all units, except that a
    factor of 0 kills its bet from that unit on.
    """
    values = np.asarray(found, dtype=np.float64)
    if values.ndim == 1:
        _check_values(values)
        alive, logs = np.ones((values.size, grid.bets.size), dtype=np.bool_), np.log1p(grid.bets * values[:, None])
    else:
        _check_factors(values, grid)
        alive = values - 1.0 > -1.0  # so small that it cannot be told from 0 counts as 0; a nan is not above 0
        logs = np.log1p(np.where(alive, values, 1.0) - 1.0)
    if logs.size and np.abs(logs).max() > LARGEST:
        raise RefusedError(TOO_EXTREME)
    whole = np.floor(logs * UNIT).astype(np.int64).tolist()
    if alive.all():
        return [tuple(unit) for unit in whole]
    return [
        tuple(value if live else None for value, live in zip(unit, row, strict=True))
        for unit, row in zip(whole, alive.tolist(), strict=True)
    ]


def _check_values(found: Array) -> None:
    if not (np.isfinite(found).all() and (found >= 0).all()):
        bad = int(np.argmax(~(np.isfinite(found) & (found >= 0))))
        raise RefusedError(f"unit {bad}: a unit's value is a finite number from 0, found {found[bad]}")


def _check_factors(found: Array, grid: Grid) -> None:
    if found.ndim != 2 or found.shape[1] != grid.bets.size:
        raise SettingError(f"factors have one column per bet: expected {grid.bets.size}, found shape {found.shape}")
    if (found < 0).any() or np.isposinf(found).any():
        raise RefusedError("a unit's factor is a finite number from 0")


def _floor_sums(logs: Array) -> list[int]:
    """Return the sums `[J]` over each row of logs `[J, k]`, k <= AT_ONCE, in units of 2^-32, each log rounded down."""
    if logs.size and np.abs(logs).max() > LARGEST:
        raise RefusedError(TOO_EXTREME)
    whole = np.floor(logs * UNIT).astype(np.int64)
    # Terms of up to 2^62 would overflow when added, so their halves are added apart.
    high, low = (whole >> 32).sum(axis=1), (whole & 0xFFFFFFFF).sum(axis=1)
    return [(int(a) << 32) + int(b) for a, b in zip(high, low, strict=True)]
