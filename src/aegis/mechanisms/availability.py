"""Which actions will be open at a decision that is still ahead: learned like any other mechanism.

A planner at an outer level must not count on inner actions that its own choice closes. For every masked level inside the
scope the belief therefore regresses the indicators of *closed* actions on what is known at that level; with no data the
prediction is zero, everything open. What a controlled decision is worth is then the expectation of the best open action, with
actions opening independently given what is known. A legacy is asked with the likelier of open and closed for each action.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import numpy.typing as npt

from aegis.mechanisms.mechanism import Function
from aegis.problem import AnyArray, Array, Batch, Level, Problem, Rows, Variable, augmented

CLOSED_FROM = 0.5


def availability_name(level: str) -> str:
    """Return the name under which a belief keeps the availability of a level."""
    return f"available({level})"


def masked_levels(problem: Problem, scope: Iterable[str] | None) -> list[Level]:
    """Return the masked levels that a planner for `scope` has to imagine: those below its outermost level."""
    inside = problem.scope(scope)
    top = max((problem.index(name) for name in inside), default=0)
    return [level for level in problem.levels if level.masked and problem.index(level.name) < top]


def availability_target(level: Level) -> Variable:
    """Return the indicators of closed actions as a vector variable."""
    return Variable(availability_name(level.name), "vector", level.available)


def availability_parents(problem: Problem, level: str) -> tuple[Variable, ...]:
    """Return everything known at a decision: contexts at and above it, actions above it."""
    outer = problem.above(level)
    found = [variable for spec in outer for variable in (*spec.context, spec.actions.variable)]
    return (*found, *problem.level(level).context)


def availability_rows(problem: Problem, batch: Batch, level: str) -> tuple[Rows, AnyArray]:
    """Return what was known at each decision, and the indicators `[n, A]` of its closed actions."""
    table = batch.levels[level]
    closed = np.zeros((len(table), problem.level(level).actions.count))
    if table.available is not None:
        closed = (~table.available).astype(np.float64)
    return augmented(problem, batch, level), closed


def open_actions(function: Function, rows: Rows, count: int) -> npt.NDArray[np.bool_]:
    """Return which actions a drawn belief expects to be open, `[S, n, A]`; where it expects none, the likeliest one."""
    closed: Array = function.mean(rows, count)
    return (closed < CLOSED_FROM) | (closed == closed.min(axis=-1, keepdims=True))


def open_chances(function: Function, rows: Rows, count: int) -> Array:
    """Return the probability under a drawn belief that each action will be open, `[S, n, A]`; one of them above 0."""
    chances = 1.0 - np.clip(function.mean(rows, count), 0.0, 1.0)
    none = chances.max(axis=-1, keepdims=True) <= 0
    return np.where(none, 1.0, chances)


def expected_best(values: Array, chances: Array) -> Array:
    """Return E[best open action] `[S, n]` for values `[S, n, A]` when actions open independently, given that one is open.

    Sorted from the best down, action k is the one taken if it is open and all better ones are closed.
    """
    order = np.argsort(-values, axis=-1, kind="stable")
    ranked = np.take_along_axis(np.broadcast_to(chances, values.shape), order, axis=-1)
    all_better_closed = np.cumprod(1.0 - ranked, axis=-1)
    reach = np.concatenate([np.ones((*values.shape[:-1], 1)), all_better_closed[..., :-1]], axis=-1) * ranked
    total = np.sum(reach * np.take_along_axis(values, order, axis=-1), axis=-1)
    return total / reach.sum(axis=-1)
