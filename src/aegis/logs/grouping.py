"""From a converted table of whole episodes to a Batch."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from aegis.errors import LogError
from aegis.logs.convert import FILE, ROW, plain
from aegis.logs.places import Places
from aegis.logs.propensities import around_base, check_available, over_all, taken_only, uniform
from aegis.logs.schema import Column, Role, column_key
from aegis.logs.tree import Groups, Tree, build_tree, check_agreement
from aegis.logs.values import as_column
from aegis.problem import AnyArray, Array, Batch, Ints, Level, LevelTable, Problem, Variable


def group(table: pa.Table, columns: Sequence[Column], problem: Problem, files: tuple[str, ...]) -> Batch:
    """Return the episodes of a table made by `convert`; the rows of an episode are all there and in the log's order.

    Episodes come in the order in which they appear, decisions below one parent by decision id if the level declares one,
    else in the order in which they appear. An id of several columns becomes a structured array with a field per column. Base
    actions go to Batch.extra, so that the batch can be written again.
    Rewards, guards and outcomes that are missing are nan (a categorical outcome: -1). Raises LogError if rows of one
    decision disagree, or if actions, masks and propensities do not go together.
    """
    places = Places(files, _numpy(table[FILE]), _numpy(table[ROW]))
    tree = build_tree(table, problem, places)
    _check_repeated(table, columns, problem, tree, places)
    rows = _Rows(table, places)
    reward = table[column_key("reward", problem.reward.column)]
    order = tree.levels[problem.innermost.name].first
    return Batch(
        episode=_episode_ids(rows, problem, tree.episodes),
        levels={level.name: _level_table(rows, level, tree) for level in problem.levels},
        reward=_numpy(reward)[order],
        observed=_numpy(reward.is_valid())[order],
        outcome=None if problem.outcome is None else rows.variable(problem.outcome, "outcome", None, order),
        guards={guard.column: rows.column("guard", guard.column, None, order) for guard in problem.guards},
        cluster=None if problem.cluster is None else rows.column("cluster", problem.cluster, None, tree.episodes.first),
        time=None if problem.time is None else rows.column("time", problem.time, None, tree.episodes.first),
        extra=_base_actions(table, columns, order)
        | {column.name: _numpy(table[column.key])[order] for column in columns if column.role == "extra"},
    )


@dataclass(frozen=True, slots=True)
class _Rows:
    """The rows of a converted table, to be taken out column by column."""

    table: pa.Table
    places: Places

    def column(self, role: Role, name: str, level: str | None, index: AnyArray) -> AnyArray:
        """Return a column in its role, at the rows `index`."""
        return _numpy(self.table[column_key(role, name, level)])[index]

    def columns(self, role: Role, names: Sequence[str], level: str | None, index: AnyArray) -> AnyArray:
        """Return several columns side by side, `[n, columns]`."""
        return np.column_stack([self.column(role, name, level, index) for name in names])

    def variable(self, variable: Variable, role: Role, level: str | None, index: AnyArray) -> AnyArray:
        """Return a context or outcome: `f64[n]`, `f64[n, d]` or codes `i32[n]`."""
        if variable.kind == "vector":
            return self.columns(role, variable.columns, level, index)
        if variable.kind == "real":
            return self.column(role, variable.columns[0], level, index)
        found = plain(self.table[column_key(role, variable.columns[0], level)])
        return _numpy(found.fill_null(-1))[index]

    def complaint(self, groups: Groups) -> Callable[[AnyArray, str, Callable[[int], str]], LogError]:
        """Return what turns wrong decisions of a level into an error at the earliest of their rows."""

        def complain(wrong: AnyArray, column: str, text: Callable[[int], str]) -> LogError:
            first = groups.first[wrong]
            row = self.places.earliest(first)
            return self.places.error(row, column, text(int(wrong[np.flatnonzero(first == row)[0]])))

        return complain


def _level_table(rows: _Rows, level: Level, tree: Tree) -> LevelTable:
    groups = tree.levels[level.name]
    action = rows.column("action", level.actions.column, level.name, groups.first)
    available = rows.columns("available", level.available, level.name, groups.first) if level.available else None
    check_available(level, action, available, level.actions.column, rows.complaint(groups), "the action taken")
    mu_taken, mu_full = _propensities(rows, level, groups, action, available)
    context = {v.name: rows.variable(v, "context", level.name, groups.first) for v in level.context}
    return LevelTable(tree.parent(level.name), context, action, mu_taken, mu_full, available)


def _propensities(
    rows: _Rows, level: Level, groups: Groups, action: Ints, available: AnyArray | None
) -> tuple[Array, Array | None]:
    """Return mu_taken `[n]` (nan if the problem declares no propensity) and mu_full `[n, A]` where it is known."""
    given, count = level.propensity, level.actions.count
    if given is None:
        return np.full(action.size, np.nan), None
    complain = rows.complaint(groups)
    if given.column is not None:
        found = rows.column("propensity", given.column, level.name, groups.first)
        return taken_only(given.column, found, complain), None
    if given.columns:
        logged = rows.columns("propensity", given.columns, level.name, groups.first)
        full = over_all(given.columns, logged, action, available, complain)
    elif given.base is not None and given.epsilon is not None:
        base = rows.column("base", given.base, level.name, groups.first)
        check_available(level, base, available, given.base, complain, "the base action")
        full = around_base(base, given.epsilon, count, available)
    else:
        full = uniform(action.size, count, available)
    return full[np.arange(action.size), action], full


def _base_actions(table: pa.Table, columns: Sequence[Column], order: AnyArray) -> dict[str, AnyArray]:
    """Return the values of base actions `[n]` by column, unless the batch holds the column in another role."""
    held = {column.name for column in columns if column.role != "base"}
    return {
        column.name: _numpy(as_column(column.values, _numpy(table[column.key])[order]))
        for column in columns
        if column.role == "base" and column.name not in held
    }


def _check_repeated(table: pa.Table, columns: Sequence[Column], problem: Problem, tree: Tree, places: Places) -> None:
    """Check that what belongs to an episode or to an outer decision is the same in all its rows."""
    outer = {level.name for level in problem.levels[:-1]}
    for column in columns:
        if column.role in ("cluster", "time"):
            check_agreement(table, column, tree.episodes, "episode", places)
        elif column.level in outer and column.role != "decision":
            advice = "" if problem.level(column.level).decision else "; name a 'decision' id if there are several in one parent"
            unit = f"decision of level '{column.level}'"
            check_agreement(table, column, tree.levels[column.level], unit, places, advice)
        elif column.role == "reward" and problem.reward.per not in ("decision", problem.innermost.name):
            groups = tree.episodes if problem.reward.per == "episode" else tree.levels[problem.reward.per]
            advice = " (reward 'per' says so; repeat it in each row)"
            check_agreement(table, column, groups, problem.reward.per, places, advice)


def _episode_ids(rows: _Rows, problem: Problem, episodes: Groups) -> AnyArray:
    parts = {name: rows.column("episode", name, None, episodes.first) for name in problem.episode}
    if len(parts) == 1:
        return parts[problem.episode[0]]
    ids = np.empty(episodes.first.size, dtype=[(name, part.dtype) for name, part in parts.items()])
    for name, part in parts.items():
        ids[name] = part
    return ids


def _numpy(column: pa.ChunkedArray | pa.Array) -> AnyArray:
    if pa.types.is_floating(column.type):
        column = pc.fill_null(column, np.nan)
    return column.to_numpy() if isinstance(column, pa.ChunkedArray) else column.to_numpy(zero_copy_only=False)
