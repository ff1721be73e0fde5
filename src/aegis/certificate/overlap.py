"""How the weights of a candidate are spread: what is described here explains a certificate, it is no part of it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from aegis.problem import AnyArray, Array

LOWEST, HIGHEST = -20, 40  # log2 of the weights that are told apart
EXPONENTS = 2048  # of a float, as its bits tell them


@dataclass(slots=True)
class Spread:
    """Sums over weights, and a histogram of their logarithms to base 2; the first bin holds weights of 0."""

    count: int = 0
    total: float = 0.0
    square: float = 0.0
    largest: float = 0.0
    bins: Array = field(default_factory=lambda: np.zeros(HIGHEST - LOWEST + 2))
    mass: Array = field(default_factory=lambda: np.zeros(HIGHEST - LOWEST + 2))

    def add(self, weights: Array) -> None:
        """Add weights `[n]`."""
        self.count += weights.size
        self.total += float(weights.sum())
        self.square += float((weights * weights).sum())
        self.largest = max(self.largest, float(weights.max(initial=0.0)))
        # The exponent of a float is in its bits 52 to 62, 1023 too large; weights have no sign.
        exponent = np.ascontiguousarray(weights).view(np.int64) >> 52
        zero = weights.size - int(np.count_nonzero(weights))
        self.bins += _folded(np.bincount(exponent, minlength=EXPONENTS), zero)
        self.mass += _folded(np.bincount(exponent, weights=weights, minlength=EXPONENTS), 0)

    @property
    def effective(self) -> float:
        """Return the effective sample size as a share of the sample: (sum w)^2 / (n sum w^2); 0 if all weights are."""
        return self.total**2 / (self.count * self.square) if self.square > 0 else 0.0

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
        histogram = [[int(place - 1 + LOWEST), float(self.bins[place] / self.count)] for place in used] if self.count else []
        return {
            "decisions": self.count,
            "ess_share": self.effective,
            "largest": self.largest,
            "top_share": self.top_share,
            "mean": self.total / self.count if self.count else None,
            "zero_share": float(self.bins[0] / self.count) if self.count else None,
            "histogram": histogram,
        }


def _folded(sums: AnyArray, zero: int) -> Array:
    """Return sums by bin from sums by exponent `[EXPONENTS]`; zero: how much of the first is of weights of 0."""
    low, high = 1023 + LOWEST, 1023 + HIGHEST
    found = np.zeros(HIGHEST - LOWEST + 2)
    found[0] = zero
    found[1:] = sums[low : high + 1]
    found[1] += sums[:low].sum() - zero
    found[-1] += sums[high + 1 :].sum()
    return found
