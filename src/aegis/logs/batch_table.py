"""A batch as a tidy table: one row per innermost decision, outer columns repeated, checked as a reader would check it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from aegis.errors import LogError
from aegis.logs.column_values import match_values, values_column
from aegis.logs.columns import required_columns
from aegis.logs.episode_tree import order_matters
from aegis.logs.ids import value_ranks
from aegis.logs.propensities import (
    SUM_TOLERANCE,
    base_distribution,
    check_atoms,
    check_available,
    check_declared_minimum,
    check_density,
    check_distribution,
    check_probability_range,
    declared_distribution,
)
from aegis.problem import AnyArray, Array, Batch, Level, LevelTable, Problem, Variable


def propensity_columns(level: Level, table: LevelTable) -> dict[str, Array]:
    """Return the propensity columns of a level by name, one entry per decision `[n]`; base actions are not among them.

    Raises LogError if a reader would refuse them, or find other propensities.
    """

    def report(wrong: AnyArray, column: str, text: Callable[[int], str]) -> None:
        raise batch_row_error(level, wrong, column, text(int(wrong[0])))

    check_available(level, table.action, table.available, level.actions.column, report, "the action taken")
    logged = level.propensity
    if logged is None:
        return {}
    if logged.density and logged.column is not None:
        check_density(logged.column, table.mu_taken, report)
        if table.value is not None:
            check_atoms(level, logged.column, table.value, table.mu_taken, report)
        return {logged.column: table.mu_taken}
    column = next(iter(logged.log_columns), level.actions.column)
    if logged.column is not None:
        check_probability_range(column, table.mu_taken, report)
        check_declared_minimum(level, column, table.mu_taken, None, table.available, report)
        return {column: table.mu_taken}
    check_declared_minimum(level, column, table.mu_taken, table.mu_full, table.available, report)
    if logged.columns:
        if table.mu_full is None:
            raise LogError(
                f"level '{level.name}': the problem has propensity 'columns' for all actions, the batch knows only that of the "
                "action taken; declare 'column', or log the whole distribution"
            )
        columns = dict(zip(logged.columns, table.mu_full.T, strict=True))
        for column, chances in columns.items():
            check_probability_range(column, chances, report, positive=False)
        check_distribution(logged.columns, table.mu_full, table.action, table.available, report)
        _check_propensities(level, table, table.mu_full, "its column says so; make them equal")
        return columns
    if logged.policy is not None or logged.shares:
        rule = "has these shares" if logged.shares else f"is '{logged.policy}'"
        declared = declared_distribution(level, len(table), table.available)
        _check_propensities(level, table, declared, f"the problem says that the policy {rule}; declare a 'column'")
    return {}


def batch_row_error(level: Level, rows: AnyArray, column: str, text: str) -> LogError:
    """Return an error that names the first of the rows of a batch; the caller raises it."""
    return LogError(f"level '{level.name}', row {rows[0]} of the batch (from 0), column '{column}': {text}")


def _check_propensities(level: Level, table: LevelTable, expected: Array, because: str) -> None:
    """Raise LogError unless a batch holds the propensities `[n, A]` that a reader would find."""
    rows = np.arange(len(table))
    wrong = ~(np.abs(table.mu_taken - expected[rows, table.action]) <= SUM_TOLERANCE)
    if table.mu_full is not None:
        wrong |= ~(np.abs(table.mu_full - expected) <= SUM_TOLERANCE).all(axis=1)
    if wrong.any():
        row = int(wrong.argmax())
        chances = f"with probability {table.mu_taken[row]:g}, but a reader would find {expected[row, table.action[row]]:g}"
        raise batch_row_error(
            level, np.flatnonzero(wrong), level.actions.column, f"the action was taken {chances} (or others differ): {because}"
        )


def _check_base_actions(column: pa.Array, base: str, epsilon: float, level: Level, batch: Batch) -> None:
    """Raise LogError unless base actions, one per innermost decision, give the propensities of the batch."""
    table = batch.levels[level.name]
    codes = match_values(column, level.actions.values)[batch.first_rows(level.name)]
    unknown = np.flatnonzero(codes < 0)
    if unknown.size:
        raise batch_row_error(level, unknown, base, "the base action is not an action of this level; correct it")
    expected = base_distribution(codes, epsilon, level.actions.count, table.available)
    because = f"the base action '{base}' says so, with exploration {epsilon:g}; correct it, or declare a 'column' or 'columns'"
    _check_propensities(level, table, expected, because)


def _check_decision_id(column: pa.Array, level: Level, batch: Batch) -> None:
    """Raise LogError unless a column with another role besides, one entry per innermost decision, is an id of the decisions.

    A reader puts rows of one value below one parent into one decision, and siblings into the order of their values.
    """
    usable = not column.null_count
    if usable:
        ranks, parent = value_ranks(column), batch.levels[level.name].parent
        own = ranks[batch.first_rows(level.name)]
        constant = np.array_equal(ranks, own[batch.ancestors(list(batch.levels)[-1])[level.name]])
        usable = constant and not ((parent[1:] == parent[:-1]) & (own[1:] <= own[:-1])).any()
    if not usable:
        raise LogError(
            f"level '{level.name}': the column '{level.decision}' has another role besides decision id, and is missing, changes "
            "within a decision, or does not grow from one decision to the next below a parent; a reader would find other "
            "decisions: name a column of its own under 'decision'"
        )


def to_table(batch: Batch, problem: Problem) -> pa.Table:
    """Return the batch as the columns that the problem names, rows in the order of the batch, extra columns last.

    A declared decision id is the position of the decision below its parent, unless its column has another role as well (a
    context, an extra column) and so a content of its own. Base actions are taken from the extra columns, where reading puts
    them. Rewards that were not observed are null, as are outcomes and guards that are nan. `LevelTable.version` has no column
    and is left out. Raises LogError if the problem's columns cannot say what the batch holds: a reader would find something
    else, or nothing.
    """
    _check_shape(batch, problem)
    above = batch.ancestors(problem.innermost.name)
    elsewhere = {column.name for column in required_columns(problem) if column.role != "decision"} | set(batch.extra)
    table = _Tidy()
    _add_episode(table, batch, problem)
    shared: list[Level] = []
    for level in problem.levels:
        if level.decision in elsewhere:
            shared.append(level)
        elif level.decision is not None:
            table.add(level.decision, _positions(batch.levels[level.name], above[level.name]))
            elsewhere.add(level.decision)  # a level further in may have the same id: one decision below each
        _add_level(table, level, batch, above[level.name])
    _add_results(table, batch, problem)
    for name, values in batch.extra.items():
        table.add(name, _column(values, name))
    for level in shared:
        _check_decision_id(table.columns[str(level.decision)], level, batch)
    for level in problem.levels:
        _check_base(table, level, batch)
    return pa.table(table.columns)


@dataclass(frozen=True, slots=True)
class _Tidy:
    """Columns so far; one that has two roles must have the same content in both."""

    columns: dict[str, pa.Array] = field(default_factory=dict)

    def add(self, name: str, values: pa.Array) -> None:
        """Add a column; raises LogError if it does not fit the others."""
        length = len(next(iter(self.columns.values()), values))
        if len(values) != length:
            raise LogError(f"column '{name}' has {len(values)} entries, the batch has {length} innermost decisions")
        known = self.columns.get(name)
        if known is not None and not known.equals(values):
            raise LogError(f"column '{name}' has two roles in the problem and different content in them; give it two names")
        self.columns[name] = values


def _check_shape(batch: Batch, problem: Problem) -> None:
    if tuple(batch.levels) != problem.names:
        raise LogError(f"the batch has the levels {list(batch.levels)}, the problem {list(problem.names)}; they must be the same")
    if batch.reward is None:
        raise LogError("the batch has no rewards yet; only finished episodes can be written")
    sizes = [len(batch), *[len(table) for table in batch.levels.values()]]
    for level, size in zip(problem.levels, sizes, strict=False):
        table = batch.levels[level.name]
        children = np.bincount(table.parent, minlength=size)
        if (children == 0).any():
            row = int(np.argmin(children))
            raise LogError(
                f"level '{level.name}': nothing was decided below row {row} of the table above it (rows from 0); a table with "
                "one row per innermost decision cannot hold that: leave the episode out and say so, or log a decision"
            )
        if (children > 1).any() and level.decision is None:
            several = f"level '{level.name}' has up to {children.max()} decisions below one parent, but no 'decision' column"
            if level is not problem.innermost:
                raise LogError(f"{several} to tell them apart; name one in the problem")
            if order_matters(problem, level.name):
                raise LogError(
                    f"{several}; under 'carry_over: within' their order counts: name one in the problem, it will number them"
                )
        if (table.action < 0).any():
            raise LogError(f"level '{level.name}': row {int(np.argmin(table.action))} has no action yet (rows from 0)")


def _add_episode(table: _Tidy, batch: Batch, problem: Problem) -> None:
    rows = batch.episode_of(problem.innermost.name)
    _add_ids(table, "episode", problem.episode, batch.episode, rows)
    timed = () if problem.time is None else (problem.time,)
    for what, columns, values in (("cluster", problem.cluster_columns, batch.cluster), ("time", timed, batch.time)):
        if (not columns) != (values is None):
            has, lacks = ("the problem", "the batch") if values is None else ("the batch", "the problem")
            raise LogError(f"{has} has a {what}, {lacks} has none; it would be lost or made up")
        if values is not None:
            _add_ids(table, what, columns, values, rows)


def _add_ids(table: _Tidy, what: str, columns: Sequence[str], values: AnyArray, rows: AnyArray) -> None:
    fields = values.dtype.names
    if len(columns) == 1 and fields is None:
        table.add(columns[0], _keys(values[rows], columns[0]))
    elif fields is not None and set(fields) == set(columns):
        for name in columns:
            table.add(name, _keys(values[name][rows], name))
    else:
        shape = "ids without fields" if fields is None else f"the fields {list(fields)}"
        raise LogError(
            f"the problem's {what} id is made of {list(columns)}; the batch has {shape}. An id of several columns is a "
            "structured array with a field for each"
        )


def _positions(table: LevelTable, rows: AnyArray) -> pa.Array:
    """Return the place of each decision below its parent, one entry per innermost decision."""
    first = np.searchsorted(table.parent, table.parent, side="left")
    return pa.array((np.arange(len(table)) - first)[rows], pa.int64())


def _add_level(table: _Tidy, level: Level, batch: Batch, rows: AnyArray) -> None:
    decisions = batch.levels[level.name]
    for variable in level.context:
        values = decisions.context[variable.name]
        missing = values < 0 if variable.kind == "categorical" else ~np.isfinite(values)
        unknown = np.flatnonzero(missing.reshape(len(values), -1).any(axis=1))
        if unknown.size:
            raise batch_row_error(level, unknown, variable.name, "the context is missing or not finite; a log needs it")
        _add_variable(table, variable, values[rows])
    kinds = level.actions
    if kinds.continuous:
        table.add(kinds.column, pa.array(_exact(level, decisions)[rows], pa.float64()))
    else:
        table.add(kinds.column, values_column(kinds.values, decisions.action[rows]))
    _add_mask(table, level, decisions, rows)
    for column, chances in propensity_columns(level, decisions).items():
        table.add(column, pa.array(chances[rows], pa.float64()))
    own = level.comparator
    if own is not None and own.columns:
        if decisions.incumbent is None:
            raise LogError(
                f"level '{level.name}': the problem has incumbent 'columns', the batch holds no probabilities of the incumbent "
                "(LevelTable.incumbent)"
            )
        for column, chances in zip(own.columns, decisions.incumbent.T, strict=True):
            table.add(column, pa.array(chances[rows], pa.float64()))


def _exact(level: Level, decisions: LevelTable) -> npt.NDArray[np.float64]:
    """Return the exact actions `[n]` of a level whose actions are an interval; LogError if one is not known or outside."""
    low, high = level.actions.limits
    if decisions.value is None:
        raise LogError(f"level '{level.name}': actions are an interval, and the batch holds no exact ones (LevelTable.value)")
    wrong = np.flatnonzero(~((decisions.value >= low) & (decisions.value <= high)))
    if wrong.size:
        text = f"{decisions.value[wrong[0]]} is not in the interval [{low:g}, {high:g}]"
        raise batch_row_error(level, wrong, level.actions.column, text)
    return decisions.value


def _add_variable(table: _Tidy, variable: Variable, values: AnyArray) -> None:
    if variable.kind == "categorical":
        table.add(variable.columns[0], values_column(variable.values, values))
        return
    for column, part in zip(variable.columns, values.reshape(len(values), -1).T, strict=True):
        table.add(column, _numbers(np.ascontiguousarray(part)))


def _add_mask(table: _Tidy, level: Level, decisions: LevelTable, rows: AnyArray) -> None:
    if decisions.available is not None and not level.available and not decisions.available.all():
        raise LogError(f"level '{level.name}': the batch has masked actions, the problem no 'available' columns; name them")
    for index, column in enumerate(level.available):
        flags = np.ones(rows.size, dtype=np.bool_) if decisions.available is None else decisions.available[rows, index]
        table.add(column, pa.array(flags))


def _check_base(table: _Tidy, level: Level, batch: Batch) -> None:
    logged, own = level.propensity, level.comparator
    if own is not None and own.base is not None and own.base not in table.columns and (logged is None or logged.base != own.base):
        raise LogError(
            f"level '{level.name}': the batch does not know the incumbent's action; put it into Batch.extra['{own.base}']"
        )
    if logged is None or logged.base is None or logged.epsilon is None:
        return
    if logged.base not in table.columns:
        raise LogError(
            f"level '{level.name}': the batch does not know the base action; put it into Batch.extra['{logged.base}'], or "
            "declare the propensity as a 'column'"
        )
    _check_base_actions(table.columns[logged.base], logged.base, logged.epsilon, level, batch)


def _add_results(table: _Tidy, batch: Batch, problem: Problem) -> None:
    rewards = np.asarray(batch.reward, dtype=np.float64)
    observed = np.ones(rewards.size, dtype=np.bool_) if batch.observed is None else batch.observed
    wrong = np.flatnonzero(observed & ~np.isfinite(rewards))
    if wrong.size:
        raise LogError(f"the reward of row {wrong[0]} (from 0) is {rewards[wrong[0]]} and marked as observed; it must be finite")
    table.add(problem.reward.column, pa.array(rewards, pa.float64(), mask=~observed))
    _add_closed(table, batch, problem, observed)
    if problem.outcome is not None:
        if batch.outcome is None:
            raise LogError(f"the problem has the outcome '{problem.outcome.name}', the batch has none")
        _add_variable(table, problem.outcome, batch.outcome)
    for guard in problem.guards:
        if guard.column not in batch.guards:
            raise LogError(f"the problem has the guard '{guard.column}', the batch has {sorted(batch.guards) or 'none'}")
        table.add(guard.column, _numbers(batch.guards[guard.column]))


def _add_closed(table: _Tidy, batch: Batch, problem: Problem, observed: npt.NDArray[np.bool_]) -> None:
    column = problem.reward.closed
    closed = np.ones(observed.size, dtype=np.bool_) if batch.closed is None else batch.closed
    if column is None:
        if not closed.all():
            raise LogError(
                f"{int((~closed).sum())} rewards of the batch are still awaited, which the problem has no column for; name one "
                "under reward 'closed'"
            )
        return
    early = np.flatnonzero(observed & ~closed)
    if early.size:
        raise LogError(f"the reward of row {early[0]} (from 0) is observed, although it is marked as still awaited")
    table.add(column, pa.array(closed))


def _numbers(values: AnyArray) -> pa.Array:
    """Return numbers with nan as null: a number that is missing is not a number that is wrong."""
    return pa.array(values, pa.float64(), mask=np.isnan(values))


def _keys(values: AnyArray, name: str) -> pa.Array:
    """Return ids or times; raises LogError if one is missing."""
    column = _column(values, name)
    if column.null_count:
        raise LogError(f"column '{name}' has {column.null_count} entries without a value; every episode needs one")
    return column


def _column(values: AnyArray, name: str) -> pa.Array:
    try:
        return pa.array(values)
    except (pa.ArrowException, TypeError, ValueError) as error:
        raise LogError(
            f"column '{name}' ({values.dtype}{list(values.shape)}) is not a list of values of one type: {error}"
        ) from error
