"""Rows in groups: the episodes of a table, or the decisions of a level."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from aegis.problem import AnyArray

Longs = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Groups:
    """Rows in groups: episodes, or the decisions of a level, in the order in which a Batch holds them.

    of `i64[n]`: the group of each row. first `i64[m]`: the row of each group that comes first in the log. ordered: `of` never
    decreases, so that the rows of a group are next to each other.
    """

    of: Longs
    first: Longs
    ordered: bool

    @property
    def single(self) -> bool:
        """Whether each row is a group of its own, in the order of the rows."""
        return self.ordered and self.first.size == self.of.size

    def earliest(self, values: AnyArray) -> AnyArray:
        """Return the smallest of the values `[n]` in each group `[m]`."""
        if self.first.size == self.of.size:
            return values[self.first]
        if self.ordered:
            found: AnyArray = np.minimum.reduceat(values, self.first)
            return found
        order = np.lexsort((values, self.of))
        return values[order[np.searchsorted(self.of[order], np.arange(self.first.size))]]

    def rearranged(self, order: AnyArray) -> Groups:
        """Return the groups in another order: `order[i]` is the group that comes at place i."""
        if bool((order[1:] > order[:-1]).all()):
            return self
        place = np.empty(order.size, dtype=np.int64)
        place[order] = np.arange(order.size)
        of = place[self.of]
        return Groups(of, self.first[order], bool((of[1:] >= of[:-1]).all()))


def agrees(values: AnyArray, groups: Groups) -> bool:
    """Say whether all rows of each group hold the same value."""
    if groups.single:
        return True
    if groups.ordered:
        return not bool(((values[1:] != values[:-1]) & (groups.of[1:] == groups.of[:-1])).any())
    return not bool((values != values[groups.first[groups.of]]).any())
