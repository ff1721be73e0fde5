"""What a reader would make of ids and base actions that a table takes from elsewhere, compared with the batch it came from."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from aegis.errors import LogError
from aegis.logs.keys import ranks
from aegis.logs.propensities import SUM_TOLERANCE, around_base
from aegis.logs.values import match
from aegis.problem import AnyArray, Array, Batch, Level


def check_decision_id(column: pa.Array, level: Level, batch: Batch) -> None:
    """Raise LogError unless a column with another role besides, one entry per innermost decision, is an id of the decisions.

    A reader puts rows of one value below one parent into one decision, and siblings into the order of their values.
    """
    if column.null_count:
        raise _not_an_id(level, f"has {column.null_count} entries without a value")
    place, first = ranks(column), batch.first_rows(level.name)
    apart = np.flatnonzero(place != place[first][batch.ancestors(list(batch.levels)[-1])[level.name]])
    if apart.size:
        raise _not_an_id(level, f"changes within a decision, first at row {apart[0]} of the table (from 0)")
    parent, own = batch.levels[level.name].parent, place[first]
    wrong = np.flatnonzero((parent[1:] == parent[:-1]) & (own[1:] <= own[:-1]))
    if wrong.size:
        raise _not_an_id(level, f"does not grow from decision {wrong[0]} to the next, below the same parent (from 0)")


def check_base(column: pa.Array, base: str, epsilon: float, level: Level, batch: Batch) -> None:
    """Raise LogError unless base actions, one per innermost decision, give the propensities that the batch holds."""
    table, first = batch.levels[level.name], batch.first_rows(level.name)
    codes = match(column, level.actions.values)
    unknown = np.flatnonzero(codes < 0)
    if unknown.size:
        found = column[int(unknown[0])].as_py()
        raise _wrong_base(level, base, f"row {unknown[0]} of the table (from 0) holds {found!r}, which is not an action")
    apart = np.flatnonzero(codes != codes[first][batch.ancestors(list(batch.levels)[-1])[level.name]])
    if apart.size:
        raise _wrong_base(level, base, f"it changes within a decision, first at row {apart[0]} of the table (from 0)")
    expected = around_base(codes[first], epsilon, level.actions.count, table.available)
    rows = np.arange(len(table))
    differ = np.flatnonzero(_differs(expected[rows, table.action], table.mu_taken))
    if not differ.size and table.mu_full is not None:
        differ = np.flatnonzero(_differs(expected, table.mu_full).any(axis=1))
    if differ.size:
        text = f"the propensities of decision {differ[0]} (from 0) are not those of the base action with exploration {epsilon:g}"
        raise _wrong_base(level, base, text)


def _differs(expected: Array, found: Array) -> AnyArray:
    return ~(np.abs(expected - found) <= SUM_TOLERANCE)


def _not_an_id(level: Level, text: str) -> LogError:
    return LogError(
        f"level '{level.name}': the column '{level.decision}' has another role besides decision id, and {text}; a reader would "
        "find other decisions: name a column of its own under 'decision'"
    )


def _wrong_base(level: Level, base: str, text: str) -> LogError:
    return LogError(
        f"level '{level.name}', base action '{base}': {text}; a reader would find other propensities: correct it, or declare the "
        "propensity as a 'column' or 'columns'"
    )
