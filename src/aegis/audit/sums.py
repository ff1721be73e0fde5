"""Sums over parts of a tree of decisions, vectorised."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from scipy.special import ndtri

from aegis.problem import AnyArray, Array, Batch

Mask = npt.NDArray[np.bool_]


def means_below(batch: Batch, level: str, values: Array) -> Array:
    """Return the mean `[m]` of innermost values `[n]` below each decision at `level`; nan are left out, none at all gives nan."""
    innermost = list(batch.levels)[-1]
    return group_means(batch.ancestors(innermost)[level], values, len(batch.levels[level]))


def group_means(owner: AnyArray, values: Array, count: int) -> Array:
    """Return the mean `[count]` of the known values of each owner."""
    known = np.isfinite(values)
    total = np.bincount(owner, weights=np.where(known, values, 0.0), minlength=count)
    number = np.bincount(owner, weights=known, minlength=count)
    if not np.isfinite(total).all():  # a sum may be too large for a float where the mean is not
        shares = np.where(known, values, 0.0) / np.maximum(number, 1.0)[owner]
        return np.where(number > 0, np.bincount(owner, weights=shares, minlength=count), np.nan)
    return np.where(number > 0, total / np.maximum(number, 1.0), np.nan)


def scaled(values: Array, limits: tuple[float, float] | None) -> Array:
    """Return values `[n]` on a scale from 0 to 1, so that their squares can be added up; nan stays.

    Values outside the declared limits void a certificate and are reported as such; here they count as the limit. Without limits,
    which is reported too, all numbers are drawn together into (-1, 1).
    """
    if limits is None:
        return np.copysign(1.0 - 1.0 / (1.0 + np.abs(values)), values)  # the order stays, whatever rounding does
    low, high = limits
    half = high / 2.0 - low / 2.0  # of a range that may be wider than the largest number
    return np.clip((np.clip(values, low, high) / 2.0 - low / 2.0) / half, 0.0, 1.0)


def followed(parent: AnyArray) -> Mask:
    """Return which decisions `[m]` have a next sibling, the row after them; parents never decrease."""
    found = np.zeros(parent.size, dtype=np.bool_)
    found[:-1] = parent[1:] == parent[:-1]
    return found


def places(parent: AnyArray) -> AnyArray:
    """Return the place `[m]` of each decision among its siblings, from 0."""
    rows = np.arange(parent.size)
    started = np.ones(parent.size, dtype=np.bool_)
    started[1:] = parent[1:] != parent[:-1]
    return rows - np.maximum.accumulate(np.where(started, rows, 0))


def upper_quantile(probability: float) -> float:
    """Return the standard score that is exceeded with a probability; `scipy.stats` takes longer to import than an audit takes."""
    return -float(ndtri(probability))
