"""A log with actions on an interval, seen through finitely many: ten cells of equal length, and its atoms.

Two kinds of policies know the whole of what a density can be wrong about: the one that acts uniformly in a cell, whose weight is
`1{A in cell} / (length mu(A))`, and the one that always takes an atom, whose weight is one over its probability. Both have mean
one where the controller reaches all of the cell, and never more. That is what the tests ask of a finite set of actions with the
propensity of the one taken: so cells and atoms become the actions, and length times density the propensity, which may exceed 1.
"""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np

from aegis.problem import Actions, Batch, Level, LevelTable, Problem, at_atom

CELLS = 10  # few enough that a density which is wrong by a factor shows in a small log, also in slices of the context


def celled_problem(problem: Problem) -> Problem:
    """Return the problem with the cells and atoms of every interval as its actions; itself if it has none."""
    if not any(level.actions.continuous for level in problem.levels):
        return problem
    return replace(problem, levels=tuple(_celled(level) for level in problem.levels))


def celled_batch(problem: Problem, batch: Batch) -> Batch:
    """Return the batch with cells and atoms as the actions of every interval; itself if there is none.

    problem: the one with the intervals.
    """
    for level in problem.levels:
        if level.actions.continuous and level.name in batch.levels:
            batch = batch.with_level(level.name, _table(level.actions, batch.levels[level.name]))
    return batch


def atoms_of(problem: Problem) -> dict[str, int]:
    """Return the number of atoms of each level whose actions are an interval; no entry for other levels."""
    return {level.name: len(level.actions.atoms) for level in problem.levels if level.actions.continuous}


def _celled(level: Level) -> Level:
    if not level.actions.continuous:
        return level
    edges = [f"{edge:.6g}" for edge in np.linspace(*level.actions.limits, CELLS + 1)]
    cells = [f"{low} to {high}" for low, high in itertools.pairwise(edges)]
    atoms = [f"exactly {atom:.9g}" for atom in level.actions.atoms]
    given = level.propensity
    plain = None if given is None else replace(given, density=False)
    return replace(level, actions=Actions(level.actions.column, (*cells, *atoms), "labels"), propensity=plain, incumbent=None)


def _table(actions: Actions, table: LevelTable) -> LevelTable:
    if table.value is None:
        return table
    low, high = actions.limits
    index = np.clip((table.value - low) / (high - low) * CELLS, 0, CELLS - 1).astype(np.int32)
    mu = table.mu_taken * (high - low) / CELLS
    for place, atom in enumerate(actions.atoms):
        taken = at_atom(replace(actions, atoms=(atom,)), table.value)
        index = np.where(taken, CELLS + place, index)
        mu = np.where(taken, table.mu_taken, mu)
    return replace(table, action=index.astype(np.int32), mu_taken=mu, value=None)
