"""Statistics of importance weights: effective sample size, largest, mean, quantiles and histograms.

`WeightSpread` belongs to a certificate: whole-number sums that do not depend on the order of the weights. `WeightHistogram`
belongs to the audit: finer bins, for quantiles and the share of the heaviest units.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from aegis.problem import AnyArray, Array, exact_sum

STEPS_PER_DOUBLING = 4  # bins of the histogram in one doubling
DOUBLINGS = 64  # below and above one that have bins of their own
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
    def square(self) -> float:
        """Return the sum of the squares of all weights."""
        return math.inf if self.squares is None else self.squares / 2**SQUARE_BITS

    def plain(self) -> dict[str, Any]:
        """Return plain data: shares per bin, a bin at i from 2^i to 2^(i+1); weights of 0 have a share of their own.

        ess_share: the effective sample size as a share of the sample, (sum w)^2 / (n sum w^2). top_share: about what share of
        the total weight the largest hundredth of the weights carries, from the histogram.
        """
        bins, mass, count, square = self.bins, self.mass, self.count, self.square
        total = float(mass.sum())
        left, carried = count * 0.01, 0.0
        for place in np.flatnonzero(bins > 0)[::-1]:
            carried += min(1.0, left / bins[place]) * mass[place]
            left -= bins[place]
            if left <= 0:
                break
        used = np.flatnonzero(bins[1:]) + 1
        return {
            "decisions": self.all,
            "ess_share": (total / square) * (total / count) if square > 0 else 0.0,  # squares may be beyond floats
            "largest": self.largest,
            "top_share": float(min(1.0, carried / total)) if total else 0.0,
            "mean": total / count if count else None,
            "zero_share": float(bins[0] / count) if count else None,
            "histogram": [[int(place - 1 + LOWEST_OCTAVE), float(bins[place] / count)] for place in used] if count else [],
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


class WeightHistogram:
    """Weights: count, sum, squares and the largest, and counts and sums on a scale of doublings."""

    def __init__(self) -> None:
        self.count = 0
        self.total = self.squares = self.largest = 0.0
        self.counts = np.zeros(2 * DOUBLINGS * STEPS_PER_DOUBLING + 1)
        self.sums = np.zeros(2 * DOUBLINGS * STEPS_PER_DOUBLING + 1)

    def add(self, weights: Array) -> None:
        """Add weights `[k]` from 0."""
        self.count += weights.size
        self.total += float(weights.sum())
        self.squares += float((weights * weights).sum())
        self.largest = max(self.largest, float(weights.max(initial=0.0)))
        some = weights[weights > 0]
        place = np.floor(np.log2(some) * STEPS_PER_DOUBLING) + DOUBLINGS * STEPS_PER_DOUBLING
        place = np.clip(place, 0, self.counts.size - 1).astype(np.int64)
        self.counts += np.bincount(place, minlength=self.counts.size)
        self.sums += np.bincount(place, weights=some, minlength=self.sums.size)

    def __add__(self, other: WeightHistogram) -> WeightHistogram:
        both = WeightHistogram()
        for name in ("count", "total", "squares", "counts", "sums"):
            setattr(both, name, getattr(self, name) + getattr(other, name))
        both.largest = max(self.largest, other.largest)
        return both

    @property
    def mean(self) -> float:
        """The mean weight; one is expected, less where the candidate leaves the support."""
        return self.total / self.count if self.count else math.nan

    @property
    def effective(self) -> float:
        """The share of units that equal weights would need for the same spread: (sum w)^2 / (n sum w^2)."""
        return self.total**2 / (self.count * self.squares) if self.squares > 0 else 0.0

    def heaviest(self, share: float) -> float:
        """Return which part of all weight the heaviest `share` of the units carries, to the accuracy of a bin."""
        wanted, carried = share * self.count, 0.0
        for number, total in zip(self.counts[::-1], self.sums[::-1], strict=True):
            if number > wanted:
                carried += total * wanted / number
                break
            wanted, carried = wanted - number, carried + total
        return carried / self.total if self.total > 0 else 0.0

    def quantile(self, share: float) -> float:
        """Return a weight that the share of the units does not exceed, to the accuracy of a bin."""
        below = self.count - float(self.counts.sum()) + np.cumsum(self.counts)
        place = int(np.searchsorted(below, share * self.count))
        none = share * self.count <= self.count - self.counts.sum()
        return 0.0 if none else float(2.0 ** ((min(place, self.counts.size - 1) + 1) / STEPS_PER_DOUBLING - DOUBLINGS))
