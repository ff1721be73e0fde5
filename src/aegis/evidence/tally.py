"""Many units in little memory: counts in fine bins, from which a sketch follows.

`log1p(g x)` is concave in x, so inside a bin it lies above the chord between the bin's ends: the number of units in a bin
and how far they lie into it give a lower bound of their sum under every bet. With 256 bins per octave it is at most 2e-6
below. Counts and distances are integers, distances rounded down: tallies merge exactly, in any order, and can only lower a
bound.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from aegis.evidence.grid import Array, Grid
from aegis.evidence.sketch import UNIT, Sketch, check_values

TALLY_BINS = 256  # per octave
TALLY_LOWEST, TALLY_HIGHEST = -40, 40  # octaves; smaller values count as 0, larger ones as the largest

# The distance from the smallest to the largest value that a tally holds.
TALLY_DISTANCE = 2.0**31
TALLY_UNITS_AT_ONCE = 2**20  # units whose distances are added in floating point, exactly: 2^20 times 2^31 is below 2^53
SAFE = 1e-13  # relative; covers the rounding of the last sum


Ints = npt.NDArray[np.int64]


def _none() -> Ints:
    return np.zeros((TALLY_HIGHEST - TALLY_LOWEST) * TALLY_BINS, dtype=np.int64)


@dataclass(slots=True)
class Tally:
    """Units with values >= 0: how many, and by bin their number and how far into it they lie, in units of 2^-31 of its width."""

    count: int = 0
    numbers: Ints = field(default_factory=_none)
    distances: Ints = field(default_factory=_none)

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
        sums = [int(total) - (1 if used.size else 0) for total in np.floor(totals * (1.0 - SAFE) * UNIT)]
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
