"""Bets on all earlier decisions at once: does what comes now depend on the mean of what was chosen before?

The sign of what comes now times the mean excess of the earlier choices has mean zero if they do not act on it, and is at least
-1; so has its mean over the decisions of an episode. Turned around, an earlier choice has the sum of the later signs, each
divided by how many choices come before it: sums from the end, one pass over the rows.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from aegis.audit.sums import places
from aegis.problem import AnyArray, Array


@dataclass(frozen=True, slots=True)
class Earlier:
    """Decisions `[p]` of whole groups of siblings, one group after the other, and how many come before each of them.

    rows `[p]`: the decisions. place `[p]`: the place of each among its siblings, from 0. last `[p]`: where its group ends.
    lag: so far back is the nearest decision that counts as earlier.
    """

    rows: AnyArray
    place: AnyArray
    last: AnyArray
    lag: int

    @classmethod
    def of(cls, parent: AnyArray, fresh: AnyArray, lag: int, most: int) -> Earlier:
        """Return the groups of parents `[m]` that may be bet on and have a decision so far back; at most so many decisions.

        A group is taken as a whole or not at all; which ones depends on counts only, so that bets stay fair.
        """
        place = places(parent)
        starts = np.flatnonzero(place == 0)
        sizes = np.diff(np.append(starts, parent.size))
        kept = fresh[starts] & (sizes > max(lag, 2))  # of two siblings there is one pair, which is a test of its own
        kept &= np.cumsum(np.where(kept, sizes, 0)) <= most
        rows = np.flatnonzero(np.repeat(kept, sizes))
        sizes = sizes[kept]
        return cls(rows, place[rows], np.repeat(np.cumsum(sizes) - 1, sizes), lag)

    @property
    def later(self) -> AnyArray:
        """Which decisions `bool[p]` have one so far back: those that something is asked of."""
        return self.place >= self.lag

    def shares(self, sign: Array) -> Array:
        """Return for each decision the sum over later ones of sign >= 0, `[p]` or `[p, B]`, by the number that come before."""
        number = np.maximum(self.place - self.lag + 1, 1)
        each = np.where(self.later, 1.0 / number, 0.0)
        spread = sign * (each if sign.ndim == 1 else each[:, None])
        before = np.concatenate([np.zeros((1, *spread.shape[1:])), np.cumsum(spread, axis=0)])
        # What comes at or after the place that is `lag` on; nothing if the group ends before.
        first = np.minimum(np.arange(self.rows.size) + self.lag, self.last + 1)
        return np.asarray(np.maximum(before[self.last + 1] - before[first], 0.0))
