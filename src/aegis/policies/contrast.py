"""Where a policy differs from the incumbent in the contexts of a log: by level, by bin of context, as a lookup table.

Each level is read as if it alone were handed over.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from aegis.errors import check_choice
from aegis.policies.base import probability_taken, table_of
from aegis.policies.legacy import StatedIncumbent
from aegis.problem import AnyArray, Array, Batch, Level, LevelTable, Policy, Problem, Variable, augmented_context

MOST_VALUES = 12  # of a numeric action: with more, its values are cut into bins like a context


@dataclass(frozen=True, slots=True)
class BinnedVariable:
    """One number or category of n decisions, cut into bins: `codes` `i64[n]` into `labels`."""

    name: str
    labels: tuple[str, ...]
    codes: AnyArray


def bin_variables(
    problem: Problem, batch: Batch, level: str, names: tuple[str, ...] | None = None, bins: int = 4
) -> list[BinnedVariable]:
    """Return the variables of the decisions at `level` in bins: those named, or the level's own contexts.

    Numbers are cut at quantiles of the batch, categories and numeric actions of few values are kept; a vector gives one entry
    for each coordinate. Raises SettingError for a variable that is not known when the level decides.
    """
    known = problem.visible(level)
    wanted = tuple(variable.name for variable in problem.level(level).context) if names is None else names
    rows = augmented_context(problem, batch, level)
    binned: list[BinnedVariable] = []
    for name in wanted:
        check_choice(name, known, f"variable that level '{level}' looks at")
        binned += _variable(known[name], rows[name], bins)
    return binned


def _variable(variable: Variable, values: AnyArray, bins: int) -> list[BinnedVariable]:
    if variable.kind == "categorical":
        return [BinnedVariable(variable.name, tuple(str(value) for value in variable.values), values.astype(np.int64))]
    columns = values.reshape(len(values), -1).T
    return [_numbers(name, column, bins) for name, column in zip(variable.columns, columns, strict=True)]


def _numbers(name: str, values: Array, bins: int) -> BinnedVariable:
    distinct = np.unique(values)
    if distinct.size <= MOST_VALUES:
        return BinnedVariable(name, tuple(f"{value:.4g}" for value in distinct), np.searchsorted(distinct, values))
    edges = np.unique(np.quantile(values, np.linspace(0, 1, bins + 1)[1:-1]))
    cuts = [f"{edge:.3g}" for edge in edges]
    inside = [f"{low} to {high}" for low, high in itertools.pairwise(cuts)]
    labels = (f"below {cuts[0]}", *inside, f"from {cuts[-1]}") if cuts else ("all",)
    return BinnedVariable(name, labels, np.searchsorted(edges, values, side="right"))


TIE = 1e-9  # probabilities closer than this are equally likely


@dataclass(frozen=True, slots=True)
class PolicyDifference:
    """How much the policy differs over some decisions.

    total_variation: mean of half the summed absolute difference of the two distributions; where only the taken action's
    propensity was logged, its unbiased estimate, the mean of (1 - w)^+. favourite_differs: share of decisions in which the
    policy's likeliest action is not among the comparator's likeliest; None if the comparator's distribution is not known.
    """

    decisions: int
    total_variation: float
    favourite_differs: float | None


@dataclass(frozen=True, slots=True)
class BinDifference:
    """The difference in one bin of one variable."""

    variable: str
    label: str
    difference: PolicyDifference


@dataclass(frozen=True, slots=True)
class LevelContrast:
    """The difference at one level, overall and by bin, the largest first; mean probabilities `[A]` of both.

    comparator: None where its distribution is not known.
    """

    level: str
    overall: PolicyDifference
    bins: tuple[BinDifference, ...]
    policy: Array
    comparator: Array | None


@dataclass(frozen=True, slots=True)
class LookupCell:
    """One row of a lookup table: bins by variable, how many decisions, mean probabilities `[A]` of policy and comparator."""

    level: str
    where: dict[str, str]
    decisions: int
    policy: Array
    comparator: Array | None


def contrast_policies(
    problem: Problem, policy: Policy, batch: Batch, levels: Iterable[str], bins: int = 4
) -> list[LevelContrast]:
    """Return, level by level, where the policy differs from the incumbent in the contexts of a batch; else from the logger."""
    contrasts = []
    for level in levels:
        table, chances = table_of(batch, level), level_probabilities(policy, level, batch)
        other = comparator_probabilities(problem, level, batch)
        apart, favourite = _distance(chances, other, problem.level(level), table)
        parts = [
            BinDifference(axis.name, label, _difference(axis.codes == code, apart, favourite))
            for axis in bin_variables(problem, batch, level, None, bins)
            for code, label in enumerate(axis.labels)
            if (axis.codes == code).any()
        ]
        parts.sort(key=lambda part: -part.difference.total_variation)
        mean = None if other is None else other.mean(axis=0)
        everything = np.ones(len(table), dtype=bool)
        contrasts.append(
            LevelContrast(
                level=level,
                overall=_difference(everything, apart, favourite),
                bins=tuple(parts),
                policy=chances.mean(axis=0),
                comparator=mean,
            )
        )
    return contrasts


def lookup_table(
    problem: Problem, policy: Policy, batch: Batch, levels: Iterable[str], by: tuple[str, ...] = (), bins: int = 4
) -> list[LookupCell]:
    """Return mean action probabilities in every cell of context bins that the batch reaches.

    by: variables that make up the cells, those of them that a level knows when it decides; without any, the level's own
    contexts. Raises SettingError for a variable that no level looks at.
    """
    names_of_levels = tuple(levels)
    known = {level: problem.visible(level) for level in names_of_levels}
    for name in by:
        check_choice(name, dict.fromkeys(cells for names in known.values() for cells in names), "variable to look up by")
    cells: list[LookupCell] = []
    for level in names_of_levels:
        table, chances = table_of(batch, level), level_probabilities(policy, level, batch)
        other = comparator_probabilities(problem, level, batch)
        names = tuple(name for name in by if name in known[level]) if by else None
        axes = bin_variables(problem, batch, level, names, bins)
        codes, places = _joint(axes, len(table))
        for cell, first in enumerate(places):
            inside = codes == cell
            cells.append(
                LookupCell(
                    level=level,
                    where={axis.name: axis.labels[axis.codes[first]] for axis in axes},
                    decisions=int(inside.sum()),
                    policy=chances[inside].mean(axis=0),
                    comparator=None if other is None else other[inside].mean(axis=0),
                )
            )
    return cells


def level_probabilities(policy: Policy, level: str, batch: Batch) -> Array:
    """Return the policy's distribution at a level handed over alone, `[n, A]`: particles count with their weights."""
    return np.einsum("s,sna->na", policy.weights, policy.full(level, batch))


def comparator_probabilities(problem: Problem, level: str, batch: Batch) -> Array | None:
    """Return the distribution `[n, A]` of the incumbent at a level, of the logger if none is stated; None if it is not known."""
    incumbent = StatedIncumbent(problem)
    if level in incumbent.levels and not problem.level(level).actions.continuous:
        return incumbent.full(level, batch)[0]
    return table_of(batch, level).mu_full


def _distance(chances: Array, other: Array | None, level: Level, table: LevelTable) -> tuple[Array, AnyArray | None]:
    """Return total variation `[n]` (or its estimate) and whether the favourites differ `[n]` (None if not known)."""
    if other is None:
        weight = probability_taken(chances[None], level, table)[0] / table.mu_taken
        return np.maximum(1.0 - weight, 0.0), None
    likeliest = other >= other.max(axis=1, keepdims=True) - TIE
    favourite = chances.argmax(axis=1)
    return 0.5 * np.abs(chances - other).sum(axis=1), ~likeliest[np.arange(len(table)), favourite]


def _difference(chosen: AnyArray, apart: Array, favourite: AnyArray | None) -> PolicyDifference:
    share = None if favourite is None else float(favourite[chosen].mean())
    return PolicyDifference(int(chosen.sum()), float(apart[chosen].mean()), share)


def _joint(axes: list[BinnedVariable], count: int) -> tuple[AnyArray, AnyArray]:
    """Return the cell `[n]` of each decision, counted over the cells that occur, and the first decision of each cell."""
    joint = np.zeros(count, dtype=np.int64)
    for axis in axes:
        joint = joint * len(axis.labels) + axis.codes
        _, joint = np.unique(joint, return_inverse=True)
    _, first, codes = np.unique(joint, return_index=True, return_inverse=True)
    return codes, first
