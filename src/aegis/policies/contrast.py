"""Where a policy differs from the incumbent in the contexts of a log: by level, by bin of the context, and as a lookup table.

Each level is read as if it alone were handed over: a mixture counts with the weights of its particles, whatever was done above.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from aegis.errors import choose
from aegis.policies.bins import Binned, binned
from aegis.policies.incumbent import StatedIncumbent
from aegis.policies.smoothed import at_taken
from aegis.policies.support import table_of, visible
from aegis.problem import AnyArray, Array, Batch, Level, LevelTable, Policy, Problem

TIE = 1e-9  # probabilities closer than this are equally likely


@dataclass(frozen=True, slots=True)
class Difference:
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
    difference: Difference


@dataclass(frozen=True, slots=True)
class LevelContrast:
    """The difference at one level, overall and by bin, the largest first; mean probabilities `[A]` of both.

    comparator: None where its distribution is not known.
    """

    level: str
    overall: Difference
    bins: tuple[BinDifference, ...]
    policy: Array
    comparator: Array | None


@dataclass(frozen=True, slots=True)
class Cell:
    """One row of a lookup table: bins by variable, how many decisions, mean probabilities `[A]` of policy and comparator."""

    level: str
    where: dict[str, str]
    decisions: int
    policy: Array
    comparator: Array | None


def contrast(problem: Problem, policy: Policy, batch: Batch, levels: Iterable[str], bins: int = 4) -> list[LevelContrast]:
    """Return, level by level, where the policy differs from the incumbent in the contexts of a batch; else from the logger."""
    found = []
    for level in levels:
        table, chances = table_of(batch, level), level_chances(policy, level, batch)
        other = comparator_chances(problem, level, batch)
        apart, favourite = _apart(chances, other, problem.level(level), table)
        parts = [
            BinDifference(axis.name, label, _difference(axis.codes == code, apart, favourite))
            for axis in binned(problem, batch, level, None, bins)
            for code, label in enumerate(axis.labels)
            if (axis.codes == code).any()
        ]
        parts.sort(key=lambda part: -part.difference.total_variation)
        mean = None if other is None else other.mean(axis=0)
        everything = np.ones(len(table), dtype=bool)
        found.append(LevelContrast(level, _difference(everything, apart, favourite), tuple(parts), chances.mean(axis=0), mean))
    return found


def lookup(
    problem: Problem, policy: Policy, batch: Batch, levels: Iterable[str], by: tuple[str, ...] = (), bins: int = 4
) -> list[Cell]:
    """Return mean action probabilities in every cell of context bins that the batch reaches.

    by: variables that make up the cells, those of them that a level knows when it decides; without any, the level's own
    contexts. Raises SettingError for a variable that no level looks at.
    """
    asked = tuple(levels)
    known = {level: visible(problem, level) for level in asked}
    for name in by:
        choose(name, dict.fromkeys(found for names in known.values() for found in names), "variable to look up by")
    found: list[Cell] = []
    for level in asked:
        table, chances = table_of(batch, level), level_chances(policy, level, batch)
        other = comparator_chances(problem, level, batch)
        names = tuple(name for name in by if name in known[level]) if by else None
        axes = binned(problem, batch, level, names, bins)
        codes, places = _joint(axes, len(table))
        for cell, first in enumerate(places):
            inside = codes == cell
            found.append(
                Cell(
                    level,
                    {axis.name: axis.labels[axis.codes[first]] for axis in axes},
                    int(inside.sum()),
                    chances[inside].mean(axis=0),
                    None if other is None else other[inside].mean(axis=0),
                )
            )
    return found


def level_chances(policy: Policy, level: str, batch: Batch) -> Array:
    """Return the policy's distribution at a level handed over alone, `[n, A]`: particles count with their weights."""
    return np.einsum("s,sna->na", policy.weights, policy.full(level, batch))


def comparator_chances(problem: Problem, level: str, batch: Batch) -> Array | None:
    """Return the distribution `[n, A]` of the incumbent at a level, of the logger if none is stated; None if it is not known."""
    incumbent = StatedIncumbent(problem)
    if level in incumbent.levels and not problem.level(level).actions.continuous:
        return incumbent.full(level, batch)[0]
    return table_of(batch, level).mu_full


def _apart(chances: Array, other: Array | None, level: Level, table: LevelTable) -> tuple[Array, AnyArray | None]:
    """Return total variation `[n]` (or its estimate) and whether the favourites differ `[n]` (None if not known)."""
    if other is None:
        weight = at_taken(chances[None], level, table)[0] / table.mu_taken
        return np.maximum(1.0 - weight, 0.0), None
    likeliest = other >= other.max(axis=1, keepdims=True) - TIE
    favourite = chances.argmax(axis=1)
    return 0.5 * np.abs(chances - other).sum(axis=1), ~likeliest[np.arange(len(table)), favourite]


def _difference(chosen: AnyArray, apart: Array, favourite: AnyArray | None) -> Difference:
    share = None if favourite is None else float(favourite[chosen].mean())
    return Difference(int(chosen.sum()), float(apart[chosen].mean()), share)


def _joint(axes: list[Binned], count: int) -> tuple[AnyArray, AnyArray]:
    """Return the cell `[n]` of each decision, counted over the cells that occur, and the first decision of each cell."""
    joint = np.zeros(count, dtype=np.int64)
    for axis in axes:
        joint = joint * len(axis.labels) + axis.codes
        _, joint = np.unique(joint, return_inverse=True)
    _, first, codes = np.unique(joint, return_index=True, return_inverse=True)
    return codes, first
