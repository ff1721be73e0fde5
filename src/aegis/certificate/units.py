"""From decisions to units of evidence: nested means up to the episode, then episodes to clusters.

Samples inside an episode are dependent, episodes of one cluster may be; the unit is what is independent of the rest.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from aegis.certificate.exact import settled
from aegis.errors import RefusedError
from aegis.problem import AnyArray, Array, Batch, Problem

PARTS = 2**44  # of one: what is added up by cluster is rounded down to multiples of this part
MOST_DISTANCE = 2.0**40

Ints = npt.NDArray[np.int64]


def nested_means(batch: Batch, level: str | None, values: Array) -> Array:
    """Return `[E]` or `[E, J]`: means over the children of each parent, level by level, from `level` up to the episode.

    values `[n]` or `[n, J]` at the decisions of `level`; None means that they are at the episodes already. Episodes without a
    decision there are nan.
    """
    if level is None:
        return values
    names = list(batch.levels)
    for position in range(names.index(level), -1, -1):
        size = len(batch) if position == 0 else len(batch.levels[names[position - 1]])
        values = parent_means(batch.levels[names[position]].parent, values, size)
    return values


def parent_means(parent: AnyArray, values: Array, size: int) -> Array:
    """Return the mean of the children of each of `size` parents, `[size]` or `[size, J]`; nan without children."""
    return Siblings.of(parent, size).means(values)


@dataclass(frozen=True, slots=True)
class Siblings:
    """The children of each of `size` parents, which follow each other: where they start and how many there are.

    starts, counts `[m]`: of those parents that have children; parents `[m]`: which these are, None if all have. single: every
    parent has one child.
    """

    size: int
    starts: AnyArray
    counts: AnyArray
    parents: AnyArray | None
    single: bool

    @classmethod
    def of(cls, parent: AnyArray, size: int) -> Siblings:
        """Return the siblings below `size` parents, from the parent `[n]` of each child, which never decreases."""
        starts = np.flatnonzero(parent[1:] != parent[:-1]) + 1
        starts = np.concatenate([np.zeros(1, dtype=starts.dtype), starts]) if parent.size else starts
        counts = np.diff(np.append(starts, parent.size))
        whole = starts.size == size
        return cls(size, starts, counts, None if whole else parent[starts], whole and parent.size == size)

    def means(self, values: Array) -> Array:
        """Return the mean over the children of each parent, `[size]` or `[size, J]`; nan without children."""
        if self.single:  # rounded as elsewhere: what a batch holds beside a unit makes no difference to it
            return settled(values, self.starts, self.counts)
        if not self.starts.size:
            return np.full((self.size, *values.shape[1:]), np.nan)
        exact = settled(values, self.starts, self.counts)
        means: Array = np.add.reduceat(exact, self.starts, axis=0) / self.counts.reshape(-1, *(1,) * (values.ndim - 1))
        if self.parents is None:
            # One memory layout, whatever that of the values: logarithms of strided arrays may differ in the last digit.
            return np.ascontiguousarray(means)
        found = np.full((self.size, *values.shape[1:]), np.nan)
        found[self.parents] = means
        return found


@dataclass(slots=True)
class Clusters:
    """Episodes of dependent clusters, put together as they come; what is added up is the distance from a base.

    most: the largest number of episodes a cluster can have, or None if the number does not depend on what happened in it: then
    a unit is the mean of its episodes, else `base + sum (x - base) / most`. Keeps one row for each cluster.
    """

    bases: Array
    most: int | None
    column: str
    rows: dict[Any, int] = field(default_factory=dict)
    whole: Ints = field(init=False)
    parts: Ints = field(init=False)
    counts: Array = field(init=False)
    extreme: Array | None = None

    def __post_init__(self) -> None:
        self.whole = np.zeros((0, self.bases.size), dtype=np.int64)
        self.parts = np.zeros((0, self.bases.size), dtype=np.int64)
        self.counts = np.zeros(0)

    @property
    def totals(self) -> Array:
        """Return the sums `[U, J]` of the distances from the base."""
        found = self.whole + self.parts / PARTS
        if self.extreme is not None:
            found[: len(self.extreme)] += self.extreme
        return found

    def add(self, cluster: AnyArray, values: Array) -> None:
        """Add episodes with their cluster ids `[E]` and values `[E, J]`."""
        ids, inverse = np.unique(cluster, return_inverse=True)
        place = np.array([self.rows.setdefault(key, len(self.rows)) for key in ids.tolist()], dtype=np.int64)
        self._grow()
        distance = values - self.bases
        far = ~(np.abs(distance) < MOST_DISTANCE)  # or not a number, of a bet that has lost everything
        if far.any():
            np.add.at(self._room_for_extremes(), place[inverse], np.where(far, distance, 0.0))
            distance = np.where(far, 0.0, distance)
        # Whole numbers and parts of one are added apart, as whole numbers: in any order the sum is the same, rounded down.
        whole = np.floor(distance)
        np.add.at(self.whole, place[inverse], whole.astype(np.int64))
        np.add.at(self.parts, place[inverse], np.floor((distance - whole) * PARTS).astype(np.int64))
        np.add.at(self.counts, place[inverse], 1.0)
        self._carry()

    def merge(self, other: Clusters) -> None:
        """Add the episodes of another; exact, in any order, but for distances beyond all numbers."""
        place = np.array([self.rows.setdefault(key, len(self.rows)) for key in other.rows], dtype=np.int64)
        self._grow()
        if other.extreme is not None:
            extreme = self._room_for_extremes()
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

    def _room_for_extremes(self) -> Array:
        extreme = np.zeros_like(self.totals) if self.extreme is None else self.extreme
        self.extreme = np.concatenate([extreme, np.zeros((len(self.counts) - len(extreme), self.bases.size))])
        return self.extreme

    def _carry(self) -> None:
        self.whole += self.parts // PARTS
        self.parts %= PARTS

    def units(self) -> Array:
        """Return the values `[U, J]` of all clusters; RefusedError if one has more episodes than declared possible."""
        if self.most is None:
            return self.bases + self.totals / np.maximum(self.counts, 1.0)[:, None]
        if self.counts.size and self.counts.max() > self.most:
            name = next(key for key, row in self.rows.items() if self.counts[row] == self.counts.max())
            raise RefusedError(
                f"column '{self.column}': cluster {name!r} has {int(self.counts.max())} episodes, but at most {self.most} were "
                "declared possible ('cluster: {column, most}'); declare the largest number that can occur"
            )
        return self.bases + self.totals / self.most


def unit_word(problem: Problem) -> str:
    """Return what a unit of evidence is called."""
    return "clusters" if problem.cluster is not None else "episodes"
