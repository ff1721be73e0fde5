"""From episodes to units of evidence: dependent episodes of one cluster are put together.

Samples inside an episode are dependent, episodes of one cluster may be. The unit is what is independent of the rest.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from aegis.errors import RefusedError
from aegis.problem import AnyArray, Array, Problem

PARTS_OF_ONE = 2**44  # of one: what is added up by cluster is rounded down to multiples of this part
MOST_DISTANCE = 2.0**40

_Ints = npt.NDArray[np.int64]


@dataclass(slots=True)
class ClusterUnits:
    """Episodes of dependent clusters, put together as they come; what is added up is the distance from a base.

    most: the largest number of episodes a cluster can have, or None if the number does not depend on what happened in it: then
    a unit is the mean of its episodes, else `base + sum (x - base) / most`. Keeps one row for each cluster.
    """

    bases: Array
    most: int | None
    column: str
    rows: dict[Any, int] = field(default_factory=dict)
    whole: _Ints = field(init=False)
    parts: _Ints = field(init=False)
    counts: Array = field(init=False)
    extreme: Array | None = None

    def __post_init__(self) -> None:
        self.whole = np.zeros((0, self.bases.size), dtype=np.int64)
        self.parts = np.zeros((0, self.bases.size), dtype=np.int64)
        self.counts = np.zeros(0)

    @classmethod
    def start(cls, problem: Problem, bases: Array) -> ClusterUnits | None:
        """Return no clusters yet, for values with these bases `[J]`; None if the units of a problem are episodes."""
        return None if problem.cluster is None else cls(bases, problem.cluster_most, problem.cluster_name)

    @property
    def totals(self) -> Array:
        """Return the sums `[U, J]` of the distances from the base."""
        totals = self.whole + self.parts / PARTS_OF_ONE
        if self.extreme is not None:
            totals[: len(self.extreme)] += self.extreme
        return totals

    def add(self, cluster: AnyArray, values: Array) -> None:
        """Add episodes with their cluster ids `[E]` and values `[E, J]`."""
        ids, inverse = np.unique(cluster, return_inverse=True)
        place = np.array([self.rows.setdefault(key, len(self.rows)) for key in ids.tolist()], dtype=np.int64)
        self._grow()
        distance = values - self.bases
        far = ~(np.abs(distance) < MOST_DISTANCE)  # or not a number, of a bet that has lost everything
        if far.any():
            np.add.at(self._extremes_by_row(), place[inverse], np.where(far, distance, 0.0))
            distance = np.where(far, 0.0, distance)
        # Whole numbers and parts of one are added apart, as whole numbers: in any order the sum is the same, rounded down.
        whole = np.floor(distance)
        np.add.at(self.whole, place[inverse], whole.astype(np.int64))
        np.add.at(self.parts, place[inverse], np.floor((distance - whole) * PARTS_OF_ONE).astype(np.int64))
        np.add.at(self.counts, place[inverse], 1.0)
        self._carry()

    def merge(self, other: ClusterUnits) -> None:
        """Add the episodes of another; exact, in any order, but for distances beyond all numbers."""
        place = np.array([self.rows.setdefault(key, len(self.rows)) for key in other.rows], dtype=np.int64)
        self._grow()
        if other.extreme is not None:
            extreme = self._extremes_by_row()
            extreme[place[: len(other.extreme)]] += other.extreme
        self.whole[place] += other.whole
        self.parts[place] += other.parts
        self.counts[place] += other.counts
        self._carry()

    def _grow(self) -> None:
        grown = len(self.rows) - len(self.counts)
        if grown:
            more = np.zeros((grown, self.bases.size), dtype=np.int64)
            self.whole, self.parts = np.concatenate([self.whole, more]), np.concatenate([self.parts, more])
            self.counts = np.concatenate([self.counts, np.zeros(grown)])

    def _extremes_by_row(self) -> Array:
        extreme = np.zeros_like(self.totals) if self.extreme is None else self.extreme
        self.extreme = np.concatenate([extreme, np.zeros((len(self.counts) - len(extreme), self.bases.size))])
        return self.extreme

    def _carry(self) -> None:
        self.whole += self.parts // PARTS_OF_ONE
        self.parts %= PARTS_OF_ONE

    def units(self) -> Array:
        """Return the values `[U, J]` of all clusters; RefusedError if one has more episodes than declared possible."""
        if self.most is None:
            return self.bases + self.totals / np.maximum(self.counts, 1.0)[:, None]
        if self.counts.size and self.counts.max() > self.most:
            name = next(key for key, row in self.rows.items() if self.counts[row] == self.counts.max())
            raise RefusedError(
                f"column '{self.column}': cluster {name!r} has {int(self.counts.max())} episodes, but at most {self.most} were "
                "declared possible ('cluster: {column, most}')",
                fix="declare the largest number that can occur",
            )
        return self.bases + self.totals / self.most


def unit_word(problem: Problem) -> str:
    """Return what a unit of evidence is called."""
    return "clusters" if problem.cluster is not None else "episodes"
