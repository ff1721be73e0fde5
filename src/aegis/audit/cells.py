"""Joint cells of several cuts, so that one sum over rows serves all slices: a slice is a set of cells."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.sparse import csc_matrix

from aegis.audit.cuts import Cut
from aegis.problem import AnyArray, Array, Rows

Mask = npt.NDArray[np.bool_]
MOST_CELLS = 64  # of one group of cuts


@dataclass(frozen=True, slots=True)
class Cells:
    """The cells of some cuts; cell 0 holds the rows that placed the cuts, on which no bet by them is valid."""

    cuts: tuple[Cut, ...]
    whole: bool

    @property
    def count(self) -> int:
        """How many cells there are, cell 0 included."""
        return 1 + math.prod(cut.bins for cut in self.cuts)

    def codes(self, rows: Rows, fresh: Mask) -> AnyArray:
        """Return the cell `[n]` of each row."""
        code = np.zeros(fresh.size, dtype=np.int64)
        for cut in self.cuts:
            code = code * cut.bins + cut.codes(rows)
        return np.where(fresh, code + 1, 0)

    def slices(self) -> list[tuple[str, Mask]]:
        """Return the slices as words and cells `bool[count]`; the whole, with all rows, only if this group has it."""
        found: list[tuple[str, Mask]] = [("", np.ones(self.count, dtype=np.bool_))] if self.whole else []
        code, step = np.arange(self.count) - 1, self.count - 1
        for cut in self.cuts:
            step //= cut.bins
            found += [(label, (code >= 0) & ((code // step) % cut.bins == place)) for place, label in enumerate(cut.labels)]
        return found


def grouped(cuts: tuple[Cut, ...]) -> tuple[Cells, ...]:
    """Return the cuts in groups whose joint cells are not too many; at least one group, the first one with the whole."""
    groups: list[list[Cut]] = [[]]
    for cut in cuts:
        if math.prod(other.bins for other in groups[-1]) * cut.bins > MOST_CELLS:
            groups.append([])
        groups[-1].append(cut)
    return tuple(Cells(tuple(group), place == 0) for place, group in enumerate(groups))


def summed(values: Array, codes: AnyArray, count: int) -> Array:
    """Return the sums `[count, A]` of values `[n, A]` over the rows of each code."""
    rows = codes.size
    picks = csc_matrix((np.ones(rows), codes.astype(np.int32), np.arange(rows + 1, dtype=np.int64)), shape=(count, rows))
    return np.asarray(picks @ values)


def counted(action: AnyArray, codes: AnyArray, actions: int, count: int, weights: Array | None = None) -> Array:
    """Return the sums `[A, count]` of weights (one each if None) over the rows of each action and code."""
    found = np.bincount(action * np.int64(count) + codes, weights=weights, minlength=actions * count)
    return found.reshape(actions, count).astype(np.float64)
