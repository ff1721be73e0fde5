"""From a converted table of whole episodes to a Batch."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from aegis.logs.column_values import decode_column, values_column
from aegis.logs.columns import Column, Role, column_key
from aegis.logs.conversion import FILE, ROW
from aegis.logs.episode_tree import EpisodeTree, RowGroups, agree_within, build_tree, check_agreement
from aegis.logs.findings import Findings, RowReport, show_value
from aegis.logs.ids import values_at
from aegis.logs.propensities import (
    base_distribution,
    check_atoms,
    check_available,
    check_declared_minimum,
    check_distribution,
    declared_distribution,
)
from aegis.problem import AnyArray, Array, Batch, Ints, Level, LevelTable, Problem, RowOrigins, Variable, nearest_points


def group_episodes(table: pa.Table, columns: Sequence[Column], problem: Problem, files: tuple[str, ...]) -> Batch:
    """Return the episodes of a table made by `convert`; the rows of an episode are all there and in the log's order.

    Episodes come in the order in which they appear, decisions below one parent in the order that their ids or times tell (see
    `build_tree`), else in the order in which they appear. An id of several columns becomes a structured array with a field per
    column. Base actions go to Batch.extra, so that the batch can be written again.
    Rewards, guards and outcomes that are missing are nan (a categorical outcome: -1). The time of an episode is that of its
    earliest row. Raises LogError if rows of one decision disagree, or if actions, masks and propensities do not go together.
    """
    table = _in_one_piece(table, columns, problem)
    findings = Findings(RowOrigins(files, _numpy(table[FILE]), _numpy(table[ROW])))
    tree = build_tree(table, problem, findings)
    _check_repeated(table, columns, problem, tree, findings)
    rows = _Rows(table, findings)
    reward = table[column_key("reward", problem.reward.column)]
    innermost = tree.levels[problem.innermost.name]
    closed = problem.reward.closed
    batch = Batch(
        episode=_ids(rows, "episode", problem.episode, tree.episodes),
        levels={level.name: _level_table(rows, level, tree) for level in problem.levels},
        reward=first_values(_numpy(reward), innermost),
        observed=first_values(_numpy(reward.is_valid()), innermost),
        outcome=None if problem.outcome is None else rows.variable(problem.outcome, "outcome", None, innermost),
        guards={guard.column: rows.column("guard", guard.column, None, innermost) for guard in problem.guards},
        cluster=None if problem.cluster is None else _ids(rows, "cluster", problem.cluster_columns, tree.episodes),
        time=None if problem.time is None else _starts(rows, problem.time, tree.episodes),
        extra=_base_actions(table, columns, innermost)
        | {column.name: first_values(_numpy(table[column.key]), innermost) for column in columns if column.role == "extra"},
        closed=None if closed is None else rows.column("closed", closed, None, innermost),
        places=findings.places if innermost.single else findings.places.take(innermost.first),
    )
    _check_closed(batch, problem, rows.report(innermost))
    findings.settle()
    return batch


@dataclass(frozen=True, slots=True)
class _Rows:
    """The rows of a converted table, to be taken out column by column."""

    table: pa.Table
    findings: Findings

    def column(self, role: Role, name: str, level: str | None, groups: RowGroups) -> AnyArray:
        """Return a column in its role `[m]`, at the first row of each group."""
        found = self.table[column_key(role, name, level)]
        if pa.types.is_primitive(found.type) or pa.types.is_boolean(found.type):
            return first_values(_numpy(found), groups)
        # Text becomes Python objects: only that which is kept.
        if groups.ordered and pa.types.is_dictionary(found.type):
            return _numpy(values_at(found, groups.first))
        return _numpy(decode_column(found if groups.single else found.take(pa.array(groups.first))))

    def columns(self, role: Role, names: Sequence[str], level: str | None, groups: RowGroups) -> AnyArray:
        """Return several columns side by side, `[m, columns]`."""
        return np.column_stack([self.column(role, name, level, groups) for name in names])

    def variable(self, variable: Variable, role: Role, level: str | None, groups: RowGroups) -> AnyArray:
        """Return a context or outcome: `f64[n]`, `f64[n, d]` or codes `i32[n]`."""
        if variable.kind == "vector":
            return self.columns(role, variable.columns, level, groups)
        if variable.kind == "real":
            return self.column(role, variable.columns[0], level, groups)
        found = decode_column(self.table[column_key(role, variable.columns[0], level)])
        return first_values(_numpy(found.fill_null(-1)), groups)

    def report(self, groups: RowGroups) -> RowReport:
        """Return what notes wrong decisions of a level at their first rows."""

        def note(wrong: AnyArray, column: str, text: Callable[[int], str]) -> None:
            self.findings.add(groups.first[wrong], column, lambda row: text(int(groups.of[row])))

        return note


def first_values(values: AnyArray, groups: RowGroups) -> AnyArray:
    """Return the values `[n]` at the first row of each group `[m]`, in an array of their own."""
    if groups.single:
        return values if values.flags.owndata else values.copy()
    return values[groups.first]


def _level_table(rows: _Rows, level: Level, tree: EpisodeTree) -> LevelTable:
    groups = tree.levels[level.name]
    action = rows.column("action", level.actions.column, level.name, groups)
    if level.actions.continuous:
        return _interval_table(rows, level, tree, groups, action)
    available = rows.columns("available", level.available, level.name, groups) if level.available else None
    report = rows.report(groups)
    check_available(level, action, available, level.actions.column, report, "the action taken")
    mu_taken, mu_full = _propensities(rows, level, groups, action, available)
    given = level.propensity
    if given is not None:
        column = next(iter(given.log_columns), level.actions.column)
        check_declared_minimum(level, column, mu_taken, mu_full, available, report)
    context = {v.name: rows.variable(v, "context", level.name, groups) for v in level.context}
    base, incumbent = _incumbent(rows, level, groups, available)
    return LevelTable(tree.parent(level.name), context, action, mu_taken, mu_full, available, base=base, incumbent=incumbent)


def _incumbent(rows: _Rows, level: Level, groups: RowGroups, available: AnyArray | None) -> tuple[Ints | None, Array | None]:
    """Return what the log holds of the incumbent: the action it means to take `[n]`, or its probabilities `[n, A]`."""
    own = level.comparator
    if own is None:
        return None, None
    report = rows.report(groups)
    if own.base is not None:
        base = rows.column("base", own.base, level.name, groups)
        if level.propensity is None or level.propensity.base != own.base:  # else it has been checked with the propensities
            check_available(level, base, available, own.base, report, "the incumbent's action")
        return base, None
    if not own.columns:
        return None, None
    full = rows.columns("incumbent", own.columns, level.name, groups)
    check_distribution(own.columns, full, full.argmax(axis=1).astype(np.int32), available, report)
    return None, full


def _interval_table(rows: _Rows, level: Level, tree: EpisodeTree, groups: RowGroups, found: Array) -> LevelTable:
    """Return the table of a level whose actions are an interval: exact numbers, the nearest points, and densities."""
    value = np.clip(found, *level.actions.limits)  # round-off at the ends; what lies outside has been refused
    mu = np.full(value.size, np.nan)
    given = level.propensity
    if given is not None and given.column is not None:
        mu = rows.column("propensity", given.column, level.name, groups)
        check_atoms(level, given.column, value, mu, rows.report(groups))
    context = {v.name: rows.variable(v, "context", level.name, groups) for v in level.context}
    return LevelTable(tree.parent(level.name), context, nearest_points(level.actions, value), mu, value=value)


def _propensities(
    rows: _Rows, level: Level, groups: RowGroups, action: Ints, available: AnyArray | None
) -> tuple[Array, Array | None]:
    """Return mu_taken `[n]` (nan if the problem declares no propensity) and mu_full `[n, A]` where it is known."""
    given, count = level.propensity, level.actions.count
    if given is None:
        return np.full(action.size, np.nan), None
    if given.column is not None:
        return rows.column("propensity", given.column, level.name, groups), None
    if given.columns:
        full = rows.columns("propensity", given.columns, level.name, groups)
        check_distribution(given.columns, full, action, available, rows.report(groups))
    elif given.base is not None and given.epsilon is not None:
        base = rows.column("base", given.base, level.name, groups)
        check_available(level, base, available, given.base, rows.report(groups), "the base action")
        full = base_distribution(base, given.epsilon, count, available)
    else:
        full = declared_distribution(level, action.size, available)
    return full[np.arange(action.size), action], full


def _base_actions(table: pa.Table, columns: Sequence[Column], groups: RowGroups) -> dict[str, AnyArray]:
    """Return the values of base actions `[n]` by column, unless the batch holds the column in another role."""
    held = {column.name for column in columns if column.role != "base"}
    return {
        column.name: _numpy(values_column(column.values, first_values(_numpy(table[column.key]), groups)))
        for column in columns
        if column.role == "base" and column.name not in held
    }


def _in_one_piece(table: pa.Table, columns: Sequence[Column], problem: Problem) -> pa.Table:
    """Return the table with columns of outer levels in one chunk each: they are looked at twice, to compare and to take."""
    outer = {level.name for level in problem.levels[:-1]}
    for column in columns:
        found = table[column.key]
        if column.level in outer and found.num_chunks > 1 and pa.types.is_primitive(found.type):
            table = table.set_column(table.column_names.index(column.key), column.key, pa.chunked_array([found.combine_chunks()]))
    return table


def _check_repeated(table: pa.Table, columns: Sequence[Column], problem: Problem, tree: EpisodeTree, findings: Findings) -> None:
    """Check that what belongs to an episode or to an outer decision is the same in all its rows."""
    outer = {level.name for level in problem.levels[:-1]}
    for column in columns:
        if column.role == "cluster" or (column.role == "time" and not _has_order(table[column.key].type)):
            check_agreement(table, column, tree.episodes, "episode", findings)
        elif column.level in outer and column.role != "decision":
            advice = "" if problem.level(column.level).decision else "; name a 'decision' id if there are several in one parent"
            unit = f"decision of level '{column.level}'"
            check_agreement(table, column, tree.levels[column.level], unit, findings, advice)
        elif column.role in ("reward", "closed") and problem.reward.per not in ("decision", problem.innermost.name):
            groups = tree.episodes if problem.reward.per == "episode" else tree.levels[problem.reward.per]
            unit = "episode" if problem.reward.per == "episode" else f"'{problem.reward.per}' decision"
            advice = f" (reward 'per: {problem.reward.per}' says so): copy the value into all rows of the {unit}"
            check_agreement(table, column, groups, problem.reward.per, findings, advice)


def _starts(rows: _Rows, column: str, episodes: RowGroups) -> AnyArray:
    """Return when each episode started `[E]`: the earliest time in its rows."""
    times = _numpy(rows.table[column_key("time", column)])
    if times.dtype == object or agree_within(times, episodes):
        return first_values(times, episodes)
    return episodes.earliest(times)


def _has_order(kind: pa.DataType) -> bool:
    """Say whether times of this type can be compared; text cannot, because its order is not that of time."""
    return pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_temporal(kind)


def _check_closed(batch: Batch, problem: Problem, report: RowReport) -> None:
    if batch.closed is None or batch.observed is None or batch.reward is None:
        return
    rewards, early = batch.reward, np.flatnonzero(batch.observed & ~batch.closed)
    if early.size:
        report(
            early,
            problem.reward.column,
            lambda row: (
                f"found {show_value(float(rewards[row]))}, but '{problem.reward.closed}' is false: the reward is still "
                "awaited; leave "
                "the field empty until it is final"
            ),
        )


def _ids(rows: _Rows, role: Role, names: Sequence[str], episodes: RowGroups) -> AnyArray:
    parts = {name: rows.column(role, name, None, episodes) for name in names}
    if len(parts) == 1:
        return parts[names[0]]
    ids = np.empty(episodes.first.size, dtype=[(name, part.dtype) for name, part in parts.items()])
    for name, part in parts.items():
        ids[name] = part
    return ids


def _numpy(column: pa.ChunkedArray | pa.Array) -> AnyArray:
    if column.null_count and pa.types.is_floating(column.type):
        column = pc.fill_null(column, np.nan)
    if isinstance(column, pa.Array):
        return column.to_numpy(zero_copy_only=False)
    if column.num_chunks > 1 and not column.null_count and pa.types.is_primitive(column.type):
        return np.concatenate([chunk.to_numpy(zero_copy_only=False) for chunk in column.chunks])  # copied once, not twice
    return column.to_numpy()
