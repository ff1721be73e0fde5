"""Cutting what a policy looks at into bins that a person can read."""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import numpy as np

from aegis.errors import SettingError, nearest
from aegis.policies.support import visible
from aegis.problem import AnyArray, Array, Batch, Problem, Variable, augmented

MOST_VALUES = 12  # of a numeric action: with more, its values are cut into bins like a context


@dataclass(frozen=True, slots=True)
class Binned:
    """One number or category of n decisions, cut into bins: `codes` `i64[n]` into `labels`."""

    name: str
    labels: tuple[str, ...]
    codes: AnyArray


def binned(problem: Problem, batch: Batch, level: str, names: tuple[str, ...] | None = None, bins: int = 4) -> list[Binned]:
    """Return the variables of the decisions at `level` in bins: those named, or the level's own contexts.

    Numbers are cut at quantiles of the batch, categories and numeric actions of few values are kept; a vector gives one entry
    for each coordinate. Raises SettingError for a variable that is not known when the level decides.
    """
    if bins < 1:
        raise SettingError(f"there is at least one bin, found {bins}")
    known = visible(problem, level)
    wanted = tuple(variable.name for variable in problem.level(level).context) if names is None else names
    rows = augmented(problem, batch, level)
    found: list[Binned] = []
    for name in wanted:
        if name not in known:
            listed = ", ".join(known) or "nothing"
            raise SettingError(
                f"level '{level}' does not look at '{name}'{nearest(name, known)}; known when it decides: {listed}"
            )
        found += _variable(known[name], rows[name], bins)
    return found


def _variable(variable: Variable, values: AnyArray, bins: int) -> list[Binned]:
    if variable.kind == "categorical":
        return [Binned(variable.name, tuple(str(value) for value in variable.values), values.astype(np.int64))]
    columns = values.reshape(len(values), -1).T
    return [_numbers(name, column, bins) for name, column in zip(variable.columns, columns, strict=True)]


def _numbers(name: str, values: Array, bins: int) -> Binned:
    distinct = np.unique(values)
    if distinct.size <= MOST_VALUES:
        return Binned(name, tuple(f"{value:.4g}" for value in distinct), np.searchsorted(distinct, values))
    edges = np.unique(np.quantile(values, np.linspace(0, 1, bins + 1)[1:-1]))
    cuts = [f"{edge:.3g}" for edge in edges]
    inside = [f"{low} to {high}" for low, high in itertools.pairwise(cuts)]
    labels = (f"below {cuts[0]}", *inside, f"from {cuts[-1]}") if cuts else ("all",)
    return Binned(name, labels, np.searchsorted(edges, values, side="right"))
