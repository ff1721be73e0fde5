"""Joint cells of several cuts, so that one sum over rows serves all slices: a slice is a set of cells."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
from scipy.sparse import csc_matrix

from aegis.audit.cuts import Cut
from aegis.problem import AnyArray, Array, Rows

Mask = npt.NDArray[np.bool_]
MOST_CELLS = 256  # of one group of cuts
MANY_ACTIONS = 64  # from which a group has a quarter of the cells
MOST_PAIRS = 128  # slices of two cuts at a time, in one group
MOST_SUMS = 4096  # slices of two cuts times actions


@dataclass(frozen=True, slots=True)
class Cells:
    """The cells of some cuts; cell 0 holds the rows that placed the cuts, on which no bet by them is valid.

    whole: there is a slice with all rows. most: so many slices of two cuts at a time. fine: only quarters are slices.
    """

    cuts: tuple[Cut, ...]
    whole: bool
    most: int = MOST_PAIRS
    fine: bool = False

    @property
    def count(self) -> int:
        """How many cells there are, cell 0 included."""
        return 1 + math.prod(cut.parts for cut in self.cuts)

    def codes(self, rows: Rows, fresh: Mask) -> AnyArray:
        """Return the cell `[n]` of each row."""
        code = np.zeros(fresh.size, dtype=np.int64)
        for cut in self.cuts:
            code = code * cut.parts + cut.part_codes(rows)
        return np.where(fresh, code + 1, 0)

    def slices(self) -> list[tuple[str, Mask]]:
        """Return the slices as words and cells `bool[count]`: each bin and quarter of a cut, bins of two cuts at a time.

        The whole, with all rows, only if this group has it.
        """
        found: list[tuple[str, Mask]] = [("", np.ones(self.count, dtype=np.bool_))] if self.whole else []
        parts = self._parts()
        bins = [part if cut.quarters is None else part // 2 for cut, part in zip(self.cuts, parts, strict=True)]
        fresh = np.arange(self.count) > 0
        for cut, part, place in zip(self.cuts, parts, bins, strict=True):
            found += [(label, fresh & (place == number)) for number, label in enumerate(() if self.fine else cut.labels)]
            found += [(label, fresh & (part == number)) for number, label in enumerate(cut.part_labels)]
        taken = 0
        for one, other in _nearest_pairs(len(self.cuts)):
            taken += self.cuts[one].bins * self.cuts[other].bins
            if taken > self.most:
                break
            for first, label in enumerate(self.cuts[one].labels):
                here = fresh & (bins[one] == first)
                found += [
                    (f"{label} and {more}", here & (bins[other] == second)) for second, more in enumerate(self.cuts[other].labels)
                ]
        return found

    def _parts(self) -> list[AnyArray]:
        """Return the part `[count]` of each cut that a cell lies in; anything for cell 0."""
        code, step = np.maximum(np.arange(self.count) - 1, 0), self.count - 1
        found = []
        for cut in self.cuts:
            step //= cut.parts
            found.append((code // step) % cut.parts)
        return found


def grouped(cuts: tuple[Cut, ...], actions: int = 2) -> tuple[Cells, ...]:
    """Return the cuts in groups whose joint cells are not too many; at least one group, the first one with the whole.

    If the quarters of all cuts do not fit into one group, their bins come first, so that most pairs of cuts are in one group.
    """
    most = MOST_CELLS if actions < MANY_ACTIONS else MOST_CELLS // 4
    pairs = min(MOST_PAIRS, MOST_SUMS // actions)
    groups = _fitting(cuts, most)
    if len(groups) < 2:
        return (Cells(groups[0] if groups else (), True, pairs),)
    coarse = _fitting(tuple(replace(cut, quarters=None) for cut in cuts), most)
    fine = _fitting(tuple(cut for cut in cuts if cut.quarters is not None), most)
    return (
        *[Cells(group, place == 0, pairs) for place, group in enumerate(coarse)],
        *[Cells(group, False, 0, True) for group in fine],
    )


def _fitting(cuts: tuple[Cut, ...], most: int) -> list[tuple[Cut, ...]]:
    """Return the cuts in groups with at most so many joint cells each."""
    groups: list[tuple[Cut, ...]] = []
    for cut in cuts:
        if groups and math.prod(other.parts for other in groups[-1]) * cut.parts <= most:
            groups[-1] = (*groups[-1], cut)
        else:
            groups.append((cut,))
    return groups


def summed(values: Array, codes: AnyArray, count: int) -> Array:
    """Return the sums `[count, A]` of values `[n, A]` over the rows of each code."""
    rows = codes.size
    picks = csc_matrix((np.ones(rows), codes.astype(np.int32), np.arange(rows + 1, dtype=np.int64)), shape=(count, rows))
    return np.asarray(picks @ values)


def counted(action: AnyArray, codes: AnyArray, actions: int, count: int, weights: Array | None = None) -> Array:
    """Return the sums `[A, count]` of weights (one each if None) over the rows of each action and code."""
    found = np.bincount(action * np.int64(count) + codes, weights=weights, minlength=actions * count)
    return found.reshape(actions, count).astype(np.float64)


def _nearest_pairs(count: int) -> Iterator[tuple[int, int]]:
    """Yield all pairs of places, those of the first cuts first."""
    return ((one, other) for other in range(1, count) for one in range(other))
