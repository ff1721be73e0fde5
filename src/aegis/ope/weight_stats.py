"""How the importance weights of a candidate are spread: histogram, effective sample size, largest weights.

This describes a certificate and is no part of it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from aegis.problem import AnyArray, Array, exact_sum

LOWEST_OCTAVE, HIGHEST_OCTAVE = -20, 40  # log2 of the weights that have bins of their own
EXPONENTS = 2048  # of a float, as its bits tell them
FRACTION = 32  # bits of a float beyond its exponent that count
SQUARE_BITS = 30
WEIGHTS_AT_ONCE = 2**20
MOST_WEIGHTS = 2**20  # weights that are all looked at; then those of one batch in STEP, but for the largest
BATCH_STEP = 16

_Ints = npt.NDArray[np.int64]


@dataclass(slots=True)
class WeightSpread:
    """Sums over weights, and a histogram of their logarithms to base 2; the first bin holds weights of 0.

    Sums are whole numbers, so that they do not depend on the order of the weights: numbers and fractions `[EXPONENTS]` how many
    weights have each exponent, and how far beyond the power of two they lie in units of 2^-FRACTION of it; squares in units of
    2^-BITS, None if they are beyond all numbers. all, largest: of all weights; the others of those that were looked at,
    count. skimmed: no more than these two are of interest.
    """

    all: int = 0
    skimmed: bool = False
    batches: int = 0
    count: int = 0
    zero: int = 0
    squares: int | None = 0
    largest: float = 0.0
    numbers: _Ints = field(default_factory=lambda: np.zeros(EXPONENTS, dtype=np.int64))
    fractions: _Ints = field(default_factory=lambda: np.zeros(EXPONENTS, dtype=np.int64))

    def add(self, weights: Array) -> None:
        """Add the weights `[n]` of a batch."""
        self.all += weights.size
        self.batches += 1
        self.largest = max(self.largest, float(weights.max(initial=0.0)))
        if self.skimmed or (self.count >= MOST_WEIGHTS and self.batches % BATCH_STEP):
            return
        self.count += weights.size
        self.zero += weights.size - int(np.count_nonzero(weights))
        with np.errstate(over="ignore"):
            squares = exact_sum(weights * weights, SQUARE_BITS)
        self.squares = None if self.squares is None or squares is None else self.squares + squares
        for start in range(0, weights.size, WEIGHTS_AT_ONCE):
            # The exponent of a float is in its bits 52 to 62, 1023 too large; weights have no sign.
            bits = np.ascontiguousarray(weights[start : start + WEIGHTS_AT_ONCE]).view(np.int64)
            exponent, fraction = bits >> 52, (bits >> (52 - FRACTION)) & (2**FRACTION - 1)
            self.numbers += np.bincount(exponent, minlength=EXPONENTS)
            # Whole numbers, and few enough of them that floats hold their sum exactly.
            self.fractions += np.bincount(exponent, weights=fraction, minlength=EXPONENTS).astype(np.int64)

    def merge(self, other: WeightSpread) -> None:
        """Add the weights of another."""
        self.all += other.all
        self.batches += other.batches
        self.count += other.count
        self.zero += other.zero
        self.squares = None if self.squares is None or other.squares is None else self.squares + other.squares
        self.largest = max(self.largest, other.largest)
        self.numbers = self.numbers + other.numbers
        self.fractions = self.fractions + other.fractions

    @property
    def bins(self) -> Array:
        """Return how many weights each bin holds."""
        return _folded(self.numbers, self.zero)

    @property
    def mass(self) -> Array:
        """Return the sum of the weights of each bin, to some nine digits."""
        used = np.flatnonzero(self.numbers[1:]) + 1  # weights below 2^-1022 are as good as none
        sums = np.zeros(EXPONENTS)
        with np.errstate(over="ignore"):
            sums[used] = np.ldexp(self.numbers[used] + self.fractions[used] / 2.0**FRACTION, used - 1023)
        return _folded(sums, 0)

    @property
    def total(self) -> float:
        """Return the sum of all weights."""
        return float(self.mass.sum())

    @property
    def square(self) -> float:
        """Return the sum of the squares of all weights."""
        return math.inf if self.squares is None else self.squares / 2**SQUARE_BITS

    @property
    def effective(self) -> float:
        """Return the effective sample size as a share of the sample: (sum w)^2 / (n sum w^2); 0 if all weights are."""
        return (self.total / self.square) * (self.total / self.count) if self.square > 0 else 0.0  # squares may be beyond floats

    @property
    def top_share(self) -> float:
        """Return about what share of the total weight the largest hundredth of the weights carries, from the histogram."""
        if not self.total:
            return 0.0
        left, carried = self.count * 0.01, 0.0
        for place in range(self.bins.size - 1, -1, -1):
            if self.bins[place] <= 0:
                continue
            share = min(1.0, left / self.bins[place])
            carried += share * self.mass[place]
            left -= self.bins[place]
            if left <= 0:
                break
        return float(min(1.0, carried / self.total))

    def plain(self) -> dict[str, Any]:
        """Return plain data: shares per bin, a bin at i from 2^i to 2^(i+1); weights of 0 have a share of their own."""
        used = np.flatnonzero(self.bins[1:]) + 1
        histogram = (
            [[int(place - 1 + LOWEST_OCTAVE), float(self.bins[place] / self.count)] for place in used] if self.count else []
        )
        return {
            "decisions": self.all,
            "ess_share": self.effective,
            "largest": self.largest,
            "top_share": self.top_share,
            "mean": self.total / self.count if self.count else None,
            "zero_share": float(self.bins[0] / self.count) if self.count else None,
            "histogram": histogram,
        }


def _folded(sums: AnyArray, zero: int) -> Array:
    """Return sums by bin from sums by exponent `[EXPONENTS]`; zero: how much of the first is of weights of 0."""
    low, high = 1023 + LOWEST_OCTAVE, 1023 + HIGHEST_OCTAVE
    bins = np.zeros(HIGHEST_OCTAVE - LOWEST_OCTAVE + 2)
    bins[0] = zero
    bins[1:] = sums[low : high + 1]
    bins[1] += sums[:low].sum() - zero
    bins[-1] += sums[high + 1 :].sum()
    return bins
