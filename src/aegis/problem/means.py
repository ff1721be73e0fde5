"""The mean reward below every decision."""

from __future__ import annotations

import numpy as np

from aegis.errors import SettingError
from aegis.problem.batch import Array, Batch


def subtree_means(batch: Batch) -> dict[str, Array]:
    """Return the nested mean `[n]` of the rewards below each decision, by level; nan where none was observed.

    A mean is over the children that have one: missing rewards are left out.
    """
    if batch.reward is None:
        raise SettingError("the batch holds no rewards; give a log that has them")
    values = batch.reward if batch.observed is None else np.where(batch.observed, batch.reward, np.nan)
    names = list(batch.levels)
    found = {names[-1]: values}
    for inner, outer in zip(reversed(names), reversed(names[:-1]), strict=False):
        known = np.isfinite(values)
        parent, size = batch.levels[inner].parent[known], len(batch.levels[outer])
        total = np.bincount(parent, weights=values[known], minlength=size)
        count = np.bincount(parent, minlength=size)
        values = np.where(count > 0, total / np.maximum(count, 1), np.nan)
        found[outer] = values
    return found
