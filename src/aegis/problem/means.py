"""Nested means over the tree of decisions, and sums that do not depend on the order of what is added.

A sum of floats depends on their order in its last digit; a sum of whole numbers does not. Values are rounded to a grid that
depends only on the values that belong together, so fine that the rounding never shows. Numbers are then the same however a
log is cut into batches.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from aegis.errors import SettingError
from aegis.problem.variables import AnyArray, Array

if TYPE_CHECKING:
    from aegis.problem.batch import Batch

Mean = Callable[[AnyArray, Array, int], Array]  # of the values of each parent: parent of each value, values, number of parents

LARGEST_WHOLE_FLOAT = 2.0**53  # floats hold whole numbers up to here

HALF_BITS = 32

SPARE_BITS = 11  # values that add up to less than 2^11 are rounded to multiples of 2^-40


def exact_sum(values: Array, bits: int) -> int | None:
    """Return the sum of values `[n]` in units of 2^-bits, each rounded to the nearest; None if one of them is not finite."""
    if not values.size:
        return 0
    most = max(float(values.max()), -float(values.min()))
    if not most < np.inf:
        return None
    if most < 2.0 ** (62 - bits) / values.size:
        return int(np.rint(values * 2.0**bits).astype(np.int64).sum())
    whole = np.abs(values) >= LARGEST_WHOLE_FLOAT  # as all floats beyond are
    small = _exact_sum_of_whole(np.rint(np.where(whole, 0.0, values) * 2.0**bits))
    return small + (_exact_sum_of_whole(np.where(whole, values, 0.0)) << bits)


def _exact_sum_of_whole(values: Array) -> int:
    """Return the sum of whole numbers `[n]` of any size: their upper and lower halves are added apart."""
    most = float(np.abs(values).max())
    if most * values.size < LARGEST_WHOLE_FLOAT:
        return int(values.sum())
    upper = np.floor(values * 2.0**-HALF_BITS)
    lower = values - upper * 2.0**HALF_BITS
    return (_exact_sum_of_whole(upper) << HALF_BITS) + int(lower.astype(np.int64).sum())


def round_for_sums(values: Array, starts: AnyArray, counts: AnyArray) -> Array:
    """Return values `[n]` or `[n, J]` rounded so that sums over groups are exact in any order.

    starts, counts `[m]`: where each group of values that follow each other starts, and how many there are. The grid is 2^-40
    where the values of a group add up to less than 2^11, coarser in proportion beyond; it depends on the group alone.
    """
    if not values.size:
        return values
    most = max(float(values.max()), -float(values.min()))
    if most * float(counts.max()) < 2.0**SPARE_BITS:
        lifted = values + 3.0 * 2.0**SPARE_BITS  # the last digit of a number between 2^12 and 2^13 is 2^-40
        lifted -= 3.0 * 2.0**SPARE_BITS
        return lifted
    shape = (-1, *(1,) * (values.ndim - 1))
    height = np.maximum.reduceat(np.abs(values), starts, axis=0) * counts.reshape(shape)
    exponent = np.clip(np.frexp(height)[1], SPARE_BITS, 1020)
    lift = np.repeat(np.ldexp(3.0, exponent), counts, axis=0)
    with np.errstate(over="ignore", invalid="ignore"):
        rounded: Array = (values + lift) - lift
    return rounded


def has_next_sibling(parent: AnyArray) -> npt.NDArray[np.bool_]:
    """Return which decisions `[m]` have a next sibling, the row after them; parents never decrease."""
    followed = np.zeros(parent.size, dtype=np.bool_)
    followed[:-1] = parent[1:] == parent[:-1]
    return followed


def sibling_positions(parent: AnyArray) -> AnyArray:
    """Return the place `[m]` of each decision among its siblings, from 0."""
    rows = np.arange(parent.size)
    started = np.ones(parent.size, dtype=np.bool_)
    started[1:] = parent[1:] != parent[:-1]
    return rows - np.maximum.accumulate(np.where(started, rows, 0))


def nested_means(batch: Batch, level: str | None, values: Array, mean: Mean | None = None) -> Array:
    """Return `[E]` or `[E, J]`: means over the children of each parent, level by level, from `level` up to the episode.

    values `[n]` or `[n, J]` at the decisions of `level`; None means that they are at the episodes already. mean: `parent_means`
    by default, `plain_means` for values in raw units, `group_means` to leave out missing values. Episodes without a decision
    at `level` are nan.
    """
    names = list(batch.levels)
    for position in range(-1 if level is None else names.index(level), -1, -1):
        size = len(batch) if position == 0 else len(batch.levels[names[position - 1]])
        values = (mean or parent_means)(batch.levels[names[position]].parent, values, size)
    return values


def subtree_means(batch: Batch) -> dict[str, Array]:
    """Return the nested mean `[n]` of the rewards below each decision, by level; nan where none was observed.

    A mean is over the children that have one: missing rewards are left out.
    """
    if batch.reward is None:
        raise SettingError("the batch holds no rewards; give a log that has them")
    values = batch.reward if batch.observed is None else np.where(batch.observed, batch.reward, np.nan)
    names = list(batch.levels)
    means = {names[-1]: values}
    for inner, outer in itertools.pairwise(reversed(names)):
        means[outer] = group_means(batch.levels[inner].parent, means[inner], len(batch.levels[outer]))
    return means


def means_below(batch: Batch, level: str, values: Array) -> Array:
    """Return the mean `[m]` of all innermost values `[n]` below each decision at `level`, as `group_means`: not nested."""
    innermost = list(batch.levels)[-1]
    return group_means(batch.ancestors(innermost)[level], values, len(batch.levels[level]))


def group_means(owner: AnyArray, values: Array, count: int) -> Array:
    """Return the mean `[count]` of the known values of each owner: nan are left out, nan if all are."""
    known = np.isfinite(values)
    total = np.bincount(owner, weights=np.where(known, values, 0.0), minlength=count)
    number = np.bincount(owner, weights=known, minlength=count)
    if not np.isfinite(total).all():  # a sum may be too large for a float where the mean is not
        shares = np.where(known, values, 0.0) / np.maximum(number, 1.0)[owner]
        return np.where(number > 0, np.bincount(owner, weights=shares, minlength=count), np.nan)
    return np.where(number > 0, total / np.maximum(number, 1.0), np.nan)


def plain_means(parent: AnyArray, values: Array, size: int) -> Array:
    """Return the mean `[size]` of the children of each parent, in floats; nan without children, or if one child is nan."""
    with np.errstate(invalid="ignore"):
        return np.bincount(parent, weights=values, minlength=size) / np.bincount(parent, minlength=size)


def parent_means(parent: AnyArray, values: Array, size: int) -> Array:
    """Return the mean of the children of each of `size` parents, `[size]` or `[size, J]`, in sums that no order changes."""
    return SiblingGroups.of(parent, size).means(values)


@dataclass(frozen=True, slots=True)
class SiblingGroups:
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
    def of(cls, parent: AnyArray, size: int) -> SiblingGroups:
        """Return the siblings below `size` parents, from the parent `[n]` of each child, which never decreases."""
        starts = np.flatnonzero(parent[1:] != parent[:-1]) + 1
        starts = np.concatenate([np.zeros(1, dtype=starts.dtype), starts]) if parent.size else starts
        counts = np.diff(np.append(starts, parent.size))
        whole = starts.size == size
        return cls(
            size=size,
            starts=starts,
            counts=counts,
            parents=None if whole else parent[starts],
            single=whole and parent.size == size,
        )

    def means(self, values: Array) -> Array:
        """Return the mean over the children of each parent, `[size]` or `[size, J]`; nan without children."""
        if self.single:  # rounded as elsewhere: what a batch holds beside a unit makes no difference to it
            return round_for_sums(values, self.starts, self.counts)
        if not self.starts.size:
            return np.full((self.size, *values.shape[1:]), np.nan)
        exact = round_for_sums(values, self.starts, self.counts)
        means: Array = np.add.reduceat(exact, self.starts, axis=0) / self.counts.reshape(-1, *(1,) * (values.ndim - 1))
        if self.parents is None:
            # Always the same memory layout: logarithms of strided arrays may differ in the last digit.
            return np.ascontiguousarray(means)
        every = np.full((self.size, *values.shape[1:]), np.nan)
        every[self.parents] = means
        return every
