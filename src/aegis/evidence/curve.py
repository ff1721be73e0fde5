"""Wealth as a function of the hypothetical mean, and the mean at which it has fallen to a threshold: the lower bound.

The logarithm of the wealth, `log sum_j exp(logs_j - count log1p(bets_j (mean + offsets_j)))`, falls in the mean and is convex:
each exponent is, and so is the logarithm of a sum of their exponentials. A tangent of it lies below it. Newton's steps from a
mean that is certified therefore end at means that are certified too, and close in from below, the error squared each time. They
start where the best single bet certifies by itself.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from aegis.errors import RefusedError, SettingError
from aegis.evidence.grid import Array

STEPS = 64  # of Newton; about ten are taken
LAST = 2.0**-50  # a step of this share of the mean is at the end of what numbers can tell


@dataclass(frozen=True, slots=True)
class Curve:
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
                if low <= start < high and (found := self._at(start))[0] >= threshold:
                    return self._closed(threshold, *self._stepped(threshold, start, high, *found))
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
        for _ in range(STEPS):
            tangent = math.isfinite(wealth) and slope < 0  # infinite wealth, a bet that is sure to win at this mean, has none
            ahead = inside + ((wealth - threshold) / -slope if tangent else 0.5 * (outside - inside))
            if not inside < ahead < outside or (tangent and ahead - inside <= LAST * abs(inside)):
                return inside, outside, inside
            found = self._at(ahead)
            if found[0] >= threshold:
                inside, (wealth, slope) = ahead, found
            else:
                outside = ahead
                if tangent:  # beyond, by rounding alone
                    return inside, outside, outside
        return inside, outside, inside

    def _closed(self, threshold: float, inside: float, outside: float, near: float) -> float:
        """Return the last certified float: looked for beside `near` first, in growing steps, then by halving."""
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
