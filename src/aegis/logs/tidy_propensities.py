"""The propensities of a batch as the columns that a problem declares, checked as a reader would check them."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from aegis.errors import LogError
from aegis.logs.propensities import (
    SUM_TOLERANCE,
    check_atoms,
    check_available,
    check_columns,
    check_density,
    check_least,
    check_range,
    known_beforehand,
)
from aegis.problem import AnyArray, Array, Level, LevelTable


def propensity_columns(level: Level, found: LevelTable) -> dict[str, Array]:
    """Return the propensity columns of a level by name, one entry per decision `[n]`; base actions are not among them.

    Raises LogError if a reader would refuse them, or find other propensities.
    """

    def report(wrong: AnyArray, column: str, text: Callable[[int], str]) -> None:
        raise wrong_row(level, wrong, column, text(int(wrong[0])))

    check_available(level, found.action, found.available, level.actions.column, report, "the action taken")
    given = level.propensity
    if given is None:
        return {}
    if given.density and given.column is not None:
        check_density(given.column, found.mu_taken, report)
        if found.value is not None:
            check_atoms(level, given.column, found.value, found.mu_taken, report)
        return {given.column: found.mu_taken}
    if given.column is not None:
        check_range(given.column, found.mu_taken, report)
        check_least(level, given.column, found.mu_taken, None, found.available, report)
        return {given.column: found.mu_taken}
    check_least(
        level, next(iter(given.log_columns), level.actions.column), found.mu_taken, found.mu_full, found.available, report
    )
    if given.columns:
        if found.mu_full is None:
            raise LogError(
                f"level '{level.name}': the problem has propensity 'columns' for all actions, the batch knows only that of the "
                "action taken; declare 'column', or log the whole distribution"
            )
        columns = dict(zip(given.columns, found.mu_full.T, strict=True))
        for column, chances in columns.items():
            check_range(column, chances, report, positive=False)
        check_columns(given.columns, found.mu_full, found.action, found.available, report)
        _check_taken(level, found, found.mu_full, "its column says so; make them equal")
        return columns
    if given.policy is not None or given.shares:
        known = known_beforehand(level, len(found), found.available)
        said = "has these shares" if given.shares else f"is '{given.policy}'"
        _check_taken(level, found, known, f"the problem says that the policy {said}; declare a 'column'")
    return {}


def wrong_row(level: Level, rows: AnyArray, column: str, text: str) -> LogError:
    """Return an error that names the first of the rows of a batch; the caller raises it."""
    return LogError(f"level '{level.name}', row {rows[0]} of the batch (from 0), column '{column}': {text}")


def _check_taken(level: Level, found: LevelTable, full: Array, because: str) -> None:
    expected = full[np.arange(len(found)), found.action]
    wrong = np.flatnonzero(~(np.abs(found.mu_taken - expected) <= SUM_TOLERANCE))
    if wrong.size:
        chances = f"with probability {found.mu_taken[wrong[0]]:g}, but a reader would find {expected[wrong[0]]:g}"
        raise wrong_row(level, wrong, level.actions.column, f"the action was taken {chances}: {because}")
