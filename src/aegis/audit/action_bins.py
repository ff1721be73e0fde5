"""Actions merged into fewer: an interval as ten cells and its atoms, numeric actions as a lower and an upper half.

Interval. A density can be wrong about two kinds of policies. The one that acts uniformly in a cell has the importance
weight `1{A in cell} / (length mu(A))`; the one that always takes an atom has one over its probability. Both have mean one
where the legacy reaches all of the cell, and never more. So cells and atoms become the actions, and length times density
the propensity, which may exceed 1.

Halves. A context that was measured after the decision leans a little to the side of the action. Every single action then
moves by less than a bet on that action can show. The policy that chooses evenly from a half has the weight `1 / (number of
its actions times mu)`, with a mean of at most one, and shows the lean as a whole. Atoms stay by themselves.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass, replace

import numpy as np

from aegis.problem import Actions, AnyArray, Array, Batch, Level, LevelTable, Problem, Propensity, Value, is_atom

CELLS = 10  # few enough that a density which is wrong by a factor shows in a small log, also in slices of the context


def bin_problem(problem: Problem) -> Problem:
    """Return the problem with the cells and atoms of every interval as its actions; itself if it has none."""
    if not any(level.actions.continuous for level in problem.levels):
        return problem
    return replace(problem, levels=tuple(_celled(level) for level in problem.levels))


def bin_batch(problem: Problem, batch: Batch) -> Batch:
    """Return the batch with cells and atoms as the actions of every interval; itself if there is none.

    problem: the one with the intervals.
    """
    for level in problem.levels:
        if level.actions.continuous and level.name in batch.levels:
            batch = batch.with_level(level.name, _table(level.actions, batch.levels[level.name]))
    return batch


def atom_counts(problem: Problem) -> dict[str, int]:
    """Return the number of atoms of each level whose actions are an interval; no entry for other levels."""
    return {level.name: len(level.actions.atoms) for level in problem.levels if level.actions.continuous}


def _celled(level: Level) -> Level:
    if not level.actions.continuous:
        return level
    edges = [f"{edge:.6g}" for edge in np.linspace(*level.actions.limits, CELLS + 1)]
    cells = [f"{low} to {high}" for low, high in itertools.pairwise(edges)]
    atoms = [f"exactly {atom:.9g}" for atom in level.actions.atoms]
    spec = level.propensity
    plain = None if spec is None else replace(spec, density=False)
    return replace(level, actions=Actions(level.actions.column, (*cells, *atoms), "labels"), propensity=plain, incumbent=None)


def _table(actions: Actions, table: LevelTable) -> LevelTable:
    if table.value is None:
        return table
    low, high = actions.limits
    index = np.clip((table.value - low) / (high - low) * CELLS, 0, CELLS - 1).astype(np.int32)
    mu = table.mu_taken * (high - low) / CELLS
    for place, atom in enumerate(actions.atoms):
        taken = is_atom(replace(actions, atoms=(atom,)), table.value)
        index = np.where(taken, CELLS + place, index)
        mu = np.where(taken, table.mu_taken, mu)
    return replace(table, action=index.astype(np.int32), mu_taken=mu, value=None)


SEVERAL = 4  # actions: halves of fewer are single actions, or nearly


@dataclass(frozen=True, slots=True)
class ActionHalves:
    """The half `[A]` that each action of a level is in, and the level with halves (and atoms) as its actions."""

    level: Level
    member: AnyArray

    @classmethod
    def of(cls, level: Level, atoms: int | None = None) -> ActionHalves | None:
        """Return the halves; None if actions have no order (two need none), or there is one only.

        atoms: of the cells of an interval, which are in order, how many of the last actions are atoms.
        """
        count = level.actions.count - (atoms or 0)
        numeric = atoms is None and level.actions.numeric
        if count < 2 or (atoms is None and not numeric and count > 2):
            return None
        order = np.argsort(level.actions.numbers, kind="stable") if numeric else np.arange(count)
        member = np.arange(level.actions.count, dtype=np.int32) - count + 2
        member[order] = (np.arange(count) >= count // 2).astype(np.int32)
        values = level.actions.values
        ends = [(0, count // 2 - 1), (count // 2, count - 1)]
        names = [_between(values[order[first]], values[order[last]]) for first, last in ends]
        actions = Actions(level.actions.column, (*names, *[str(value) for value in values[count:]]), "labels")
        least = None if level.propensity is None else level.propensity.least
        # A half is at least as likely as one of its actions, so that what is promised of these holds of it too.
        return cls(
            replace(level, actions=actions, propensity=Propensity("half", least=least), available=(), incumbent=None), member
        )

    @property
    def several(self) -> bool:
        """Say whether halves are more than single actions."""
        return int((self.member < 2).sum()) >= SEVERAL

    def table(self, table: LevelTable) -> LevelTable:
        """Return the decisions `[n]` of a table, among the halves."""
        return merge_actions(table, self.member, self.level.actions.count)


def merge_actions(table: LevelTable, member: AnyArray, sets: int) -> LevelTable:
    """Return decisions `[n]` among actions as decisions among sets of actions; member `[A]`: the set of each action.

    Without the whole distribution, the propensity is that of a uniform choice from the available actions of the set taken.
    """
    rows, chosen = np.arange(len(table)), member[table.action]
    inside = np.zeros((member.size, sets))
    inside[np.arange(member.size), member] = 1.0
    if table.mu_full is not None:
        full: Array = table.mu_full @ inside
        return replace(table, action=chosen, mu_taken=full[rows, chosen], mu_full=full, available=None)
    if table.available is None:
        return replace(table, action=chosen, mu_taken=table.mu_taken * inside.sum(axis=0)[chosen])
    number: Array = table.available @ inside
    return replace(table, action=chosen, mu_taken=table.mu_taken * number[rows, chosen], available=number > 0)


def _between(first: Value, last: Value) -> str:
    return str(first) if first == last else f"{first} ... {last}"
