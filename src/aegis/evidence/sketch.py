"""The sketch of an e-process: all that a certificate needs to remember of its data, and the lower bound it gives.

For units with values x_k and bets g_j it keeps the count n and `S_j = sum_k log(factor of unit k under bet j)`. The wealth
at a hypothetical mean v is `sum_j p_j exp(S_j - n log1p(g_j v))`. If v is the true mean (or above it) this is a nonnegative
supermartingale that starts at one, so it reaches 1/delta with probability at most delta, at any number of interim looks.
The lower bound is where the wealth has fallen to 1/delta.

Sums are integers of 2^-32, each unit rounded down: merging is exact in any order, and rounding can only lower the bound.

The logarithm of the wealth, `log sum_j exp(logs_j - count log1p(bets_j (mean + offsets_j)))`, falls in the mean and is
convex: each exponent is, and so is the logarithm of a sum of their exponentials. A tangent of it lies below it. Newton's
steps from a mean that is certified therefore end at means that are certified too, and close in from below, the error
squared each time. They start where the best single bet certifies by itself.

A blend averages the wealths of several tests of one claim: no worse than the best of them up to a factor, and still valid.

A tally holds many units in little memory: counts in fine bins, from which a sketch follows. `log1p(g x)` is concave in x, so
inside a bin it lies above the chord between the bin's ends: the number of units in a bin and how far they lie into it give a
lower bound of their sum under every bet. With 256 bins per octave it is at most 2e-6 below. Counts and distances are integers,
distances rounded down: tallies merge exactly, in any order, and can only lower a bound.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from aegis.errors import RefusedError, SettingError
from aegis.evidence.grid import Array, Grid

Ints = npt.NDArray[np.int64]

NEWTON_STEPS = 64  # of Newton; about ten are taken
LAST = 2.0**-50  # a step of this share of the mean is at the end of what numbers can tell


@dataclass(frozen=True, slots=True)
class WealthCurve:
    """The log wealth of bets `[J]` after `count` units. logs: log weights and sums; offsets: what was added to the values."""

    logs: Array
    bets: Array
    offsets: Array
    count: int

    def __call__(self, mean: float) -> float:
        """Return the log wealth; -inf if every bet is dead."""
        with np.errstate(divide="ignore"):
            return self._at(mean)[0]

    def lower(self, threshold: float, low: float, high: float) -> float:
        """Return the largest mean in [low, high] whose log wealth reaches the threshold, rounded down; `low` if none does.

        Raises RefusedError if even that of `high`, the largest mean possible, does: that contradicts the assumptions.
        """
        if not low < high:
            raise SettingError(f"a bound is looked for in [low, high] with low < high, found [{low}, {high}]")
        with np.errstate(divide="ignore"):
            if self._at(high)[0] >= threshold:
                raise RefusedError(
                    f"the data certify a mean above {high}, the largest possible: weights, propensities or the reward range are "
                    "wrong"
                )
            for start in (self._alone(threshold), low):  # the first may miss by rounding
                if low <= start < high and (at_start := self._at(start))[0] >= threshold:
                    return self._closed(threshold, *self._stepped(threshold, start, high, *at_start))
            return low

    def _alone(self, threshold: float) -> float:
        """Return the largest mean that a single bet certifies by itself; all bets together certify no less."""
        if not self.count:
            return -math.inf
        with np.errstate(over="ignore", invalid="ignore"):
            means = np.expm1((self.logs - threshold) / self.count) / self.bets - self.offsets
        return float(np.nanmax(means, initial=-np.inf))

    def _stepped(self, threshold: float, start: float, high: float, wealth: float, slope: float) -> tuple[float, float, float]:
        """Return a certified mean, one that is not, and between them where the last certified one is likely to be."""
        inside, outside = start, high
        for _ in range(NEWTON_STEPS):
            tangent = math.isfinite(wealth) and slope < 0  # infinite wealth, a bet that is sure to win at this mean, has none
            ahead = inside + ((wealth - threshold) / -slope if tangent else 0.5 * (outside - inside))
            if not inside < ahead < outside or (tangent and ahead - inside <= LAST * abs(inside)):
                return inside, outside, inside
            at_ahead = self._at(ahead)
            if at_ahead[0] >= threshold:
                inside, (wealth, slope) = ahead, at_ahead
            else:
                outside = ahead
                if tangent:  # beyond, by rounding alone
                    return inside, outside, outside
        return inside, outside, inside

    def _closed(self, threshold: float, inside: float, outside: float, near: float) -> float:
        """Return the last certified float: search beside `near` first, in growing steps, then by halving."""
        upwards, step = near == inside, 2.0 * math.ulp(near)
        while outside - inside > step:
            inside, outside = self._narrowed(threshold, inside, outside, inside + step if upwards else outside - step)
            step *= 4.0
        while inside < (middle := 0.5 * (inside + outside)) < outside:
            inside, outside = self._narrowed(threshold, inside, outside, middle)
        return inside

    def _narrowed(self, threshold: float, inside: float, outside: float, mean: float) -> tuple[float, float]:
        return (mean, outside) if self._at(mean)[0] >= threshold else (inside, mean)

    def _at(self, mean: float) -> tuple[float, float]:
        """Return the log wealth and its slope."""
        if not self.logs.size:
            return -math.inf, 0.0
        bet = self.bets * (mean + self.offsets)
        terms = self.logs - self.count * np.log1p(bet)
        best = float(terms.max())
        if not math.isfinite(best):
            return best, -math.inf
        shares = np.exp(terms - best)
        total = float(shares.sum())
        return best + math.log(total), -self.count * float(shares @ (self.bets / (1.0 + bet))) / total


UNIT = 2.0**32
LARGEST = 2.0**30  # no single log-factor is allowed beyond this
TOO_EXTREME = "a unit's factor is too extreme to be counted"
SKETCH_UNITS_AT_ONCE = 2**13  # units whose logarithms are held in memory at once


Sums = tuple[int | None, ...]  # over units, one for each bet; None for a bet that lost everything


class LowerBound(ABC):
    """The test of a mean by the wealth of bets against it, and the lower bound that inverts it."""

    __slots__ = ()

    @abstractmethod
    def curve(self) -> WealthCurve:
        """Return the wealth as a function of the mean."""

    def log_wealth(self, mean: float) -> float:
        """Return the logarithm of the wealth against the hypothesis that the mean is at most `mean`."""
        return self.curve()(mean)

    def certifies(self, mean: float, delta: float) -> bool:
        """Say whether the mean is certified to be above `mean` at risk delta; the same test that `lower` inverts."""
        return self.log_wealth(mean) >= math.log(1.0 / check_delta(delta))

    def lower(self, delta: float, low: float, high: float) -> float:
        """Return the largest mean in [low, high] that is certified to be exceeded, rounded down; `low` if none is.

        Raises RefusedError if even `high`, the largest mean possible, is certified to be exceeded: that contradicts the
        assumptions.
        """
        return self.curve().lower(math.log(1.0 / check_delta(delta)), low, high)


@dataclass(frozen=True, slots=True)
class Sketch(LowerBound):
    """n units and integer sums over the bets of a grid; a bet that lost everything is None for good."""

    grid: Grid
    count: int
    sums: Sums

    @classmethod
    def empty(cls, grid: Grid) -> Sketch:
        """Return the sketch of no units."""
        return cls(grid, 0, (0,) * grid.bets.size)

    def add_values(self, values: Array) -> Sketch:
        """Return the sketch after units with values `[k]` >= 0: the factor under bet g is 1 + g value."""
        checked = check_values(values)
        sums = self.sums
        for start in range(0, checked.size, SKETCH_UNITS_AT_ONCE):
            sums = _plus(sums, _floor_sums(np.log1p(self.grid.bets[:, None] * checked[start : start + SKETCH_UNITS_AT_ONCE])))
        return Sketch(self.grid, self.count + checked.size, sums)

    def add_factors(self, factors: Array) -> Sketch:
        """Return the sketch after units whose factors `[k, J]` are given; a factor of 0 or nan kills its bet for good."""
        checked = np.asarray(factors, dtype=np.float64)
        _check_factors(checked, self.grid)
        alive = np.asarray((checked - 1.0 > -1.0).all(axis=0))  # a factor that rounding makes equal to 0 counts as 0; so does nan
        sums = tuple(total if live else None for total, live in zip(self.sums, alive, strict=True))
        for start in range(0, len(checked), SKETCH_UNITS_AT_ONCE):
            some = np.where(alive[:, None], checked[start : start + SKETCH_UNITS_AT_ONCE].T, 1.0)
            sums = _plus(sums, _floor_sums(np.log1p(some - 1.0)))
        return Sketch(self.grid, self.count + len(checked), sums)

    def merge(self, other: Sketch) -> Sketch:
        """Return the sketch of both sets of units; exact, in any order. The grids must be the same."""
        if self.grid.digest != other.grid.digest:
            raise SettingError("sketches on different grids cannot be merged; they answer different questions")
        return Sketch(self.grid, self.count + other.count, _plus(self.sums, other.sums))

    def curve(self) -> WealthCurve:
        """Return the wealth as a function of the mean."""
        alive = np.array([total is not None for total in self.sums])
        logs = np.array([total / UNIT for total in self.sums if total is not None])
        return WealthCurve(self.grid.log_weights[alive] + logs, self.grid.bets[alive], np.zeros(len(logs)), self.count)


def check_delta(delta: float) -> float:
    """Return delta if it is a risk: above 0 and below 1."""
    if not (math.isfinite(delta) and 0 < delta < 1):
        raise SettingError(f"delta is a risk above 0 and below 1, found {delta}")
    return delta


def unit_logs(grid: Grid, units: Array) -> list[tuple[int | None, ...]]:
    """Return what each unit adds to the sums of a sketch, one number per bet, from values `[k]` or factors `[k, J]`.

    None kills the bet. Adding them one by one is the same as `add_values` or `add_factors` of all units, except that a
    factor of 0 kills its bet from that unit on.
    """
    values = np.asarray(units, dtype=np.float64)
    if values.ndim == 1:
        check_values(values)
        alive, logs = np.ones((values.size, grid.bets.size), dtype=np.bool_), np.log1p(grid.bets * values[:, None])
    else:
        _check_factors(values, grid)
        alive = values - 1.0 > -1.0  # a factor that rounding makes equal to 0 counts as 0; so does nan
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


def check_values(values: Array) -> Array:
    """Return the values `[k]` of units as floats; RefusedError unless they are finite numbers from 0."""
    checked = np.asarray(values, dtype=np.float64)
    if checked.size and not (checked.min() >= 0 and checked.max() < np.inf):
        bad = int(np.argmax(~(np.isfinite(checked) & (checked >= 0))))
        raise RefusedError(f"unit {bad}: a unit's value is a finite number from 0, found {checked[bad]}")
    return checked


def _check_factors(factors: Array, grid: Grid) -> None:
    if factors.ndim != 2 or factors.shape[1] != grid.bets.size:
        raise SettingError(f"factors have one column per bet: expected {grid.bets.size}, found shape {factors.shape}")
    if (factors < 0).any() or np.isposinf(factors).any():
        raise RefusedError("a unit's factor is a finite number from 0")


def _plus(one: Sums, other: Sums) -> Sums:
    """Return the sums of two sets of units; a bet that lost everything stays None."""
    return tuple(None if a is None or b is None else a + b for a, b in zip(one, other, strict=True))


def _floor_sums(logs: Array) -> Sums:
    """Return the sums `[J]` over each row of logs `[J, k]`, k <= AT_ONCE, in units of 2^-32, each log rounded down."""
    if logs.size and np.abs(logs).max() > LARGEST:
        raise RefusedError(TOO_EXTREME)
    whole = np.floor(logs * UNIT).astype(np.int64)
    # Terms of up to 2^62 would overflow when added, so their halves are added apart.
    high, low = (whole >> 32).sum(axis=1), (whole & 0xFFFFFFFF).sum(axis=1)
    return tuple((int(a) << 32) + int(b) for a, b in zip(high, low, strict=True))


@dataclass(frozen=True, slots=True)
class Blend(LowerBound):
    """Sketches of the same units, each with the offset by which its values were lifted: values x + offset, claims about x."""

    sketches: tuple[Sketch, ...]
    offsets: tuple[float, ...]

    @property
    def count(self) -> int:
        """Return the number of units."""
        return self.sketches[0].count

    def curve(self) -> WealthCurve:
        """Return the average wealth as a function of the mean."""
        curves = [sketch.curve() for sketch in self.sketches]
        offsets = [np.full(curve.logs.size, offset) for curve, offset in zip(curves, self.offsets, strict=True)]
        logs = np.concatenate([curve.logs for curve in curves]) - math.log(len(curves))
        return WealthCurve(logs, np.concatenate([curve.bets for curve in curves]), np.concatenate(offsets), self.count)

    def units_needed(self, mean: float, delta: float) -> int | None:
        """Return how many units in all it would take to certify `mean` if evidence went on growing as so far; an estimate.

        None if no bet has gained: more of the same data would not do.
        """
        if not self.count:
            return None
        needed = []
        for sketch, offset in zip(self.sketches, self.offsets, strict=True):
            for total, bet, weight in zip(sketch.sums, sketch.grid.bets, sketch.grid.log_weights, strict=True):
                if total is None or not 1.0 + bet * (mean + offset) > 0:
                    continue
                rate = total / UNIT / self.count - np.log1p(bet * (mean + offset))
                if rate > 0:
                    needed.append((math.log(len(self.sketches) / delta) - weight) / rate)
        return None if not needed else max(self.count + 1, math.ceil(min(needed)))


TALLY_BINS = 256  # per octave
TALLY_LOWEST, TALLY_HIGHEST = -40, 40  # octaves; smaller values count as 0, larger ones as the largest

# The distance from the smallest to the largest value that a tally holds.
TALLY_DISTANCE = 2.0**31
TALLY_UNITS_AT_ONCE = 2**20  # units whose distances are added in floating point, exactly: 2^20 times 2^31 is below 2^53
TALLY_SAFE = 1e-13  # relative; covers the rounding of the last sum


@dataclass(slots=True)
class Tally:
    """Units with values >= 0: how many, and by bin their number and how far into it they lie, in units of 2^-31 of its width."""

    count: int = 0
    numbers: Ints = field(default_factory=lambda: np.zeros((TALLY_HIGHEST - TALLY_LOWEST) * TALLY_BINS, dtype=np.int64))
    distances: Ints = field(default_factory=lambda: np.zeros((TALLY_HIGHEST - TALLY_LOWEST) * TALLY_BINS, dtype=np.int64))

    def add(self, values: Array) -> None:
        """Add units with values `[k]`; RefusedError unless they are finite numbers from 0."""
        checked = check_values(values)
        for start in range(0, checked.size, TALLY_UNITS_AT_ONCE):
            self._add(checked[start : start + TALLY_UNITS_AT_ONCE])
        self.count += checked.size

    def merge(self, other: Tally) -> Tally:
        """Return the tally of both sets of units; exact, in any order."""
        return Tally(self.count + other.count, self.numbers + other.numbers, self.distances + other.distances)

    def sketch(self, grid: Grid) -> Sketch:
        """Return the sketch of these units on a grid, every sum rounded down."""
        used = np.flatnonzero(self.numbers)
        octave, place = np.divmod(used, TALLY_BINS)
        scale = np.exp2(octave + float(TALLY_LOWEST))
        low, high = scale * (1.0 + place / TALLY_BINS), scale * (1.0 + (place + 1) / TALLY_BINS)
        numbers, distances = self.numbers[used].astype(np.float64), self.distances[used] / TALLY_DISTANCE
        start, stop = np.log1p(grid.bets[:, None] * low), np.log1p(grid.bets[:, None] * high)
        totals = (numbers * start + distances * (stop - start)).sum(axis=1)
        sums = [int(total) - (1 if used.size else 0) for total in np.floor(totals * (1.0 - TALLY_SAFE) * UNIT)]
        return Sketch(grid, self.count, tuple(sums))

    def _add(self, values: Array) -> None:
        counted = values[values >= 2.0**TALLY_LOWEST]
        mantissa, exponent = np.frexp(np.minimum(counted, np.nextafter(2.0**TALLY_HIGHEST, 0.0)))
        place = (2.0 * mantissa - 1.0) * TALLY_BINS
        whole = place.astype(np.int64)
        index = (exponent.astype(np.int64) - 1 - TALLY_LOWEST) * TALLY_BINS + whole
        self.numbers += np.bincount(index, minlength=self.numbers.size)
        distance = np.floor((place - whole) * TALLY_DISTANCE)
        self.distances += np.bincount(index, weights=distance, minlength=self.distances.size).astype(np.int64)
