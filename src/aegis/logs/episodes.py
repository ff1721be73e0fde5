"""From a converted table of whole episodes to a Batch, with masks and propensities completed and checked."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from aegis.logs.column_values import decode_column, values_column
from aegis.logs.columns import PROBABILITY_ADVICE, ROUND_OFF, Column, Findings, Role, RowReport, column_key, note_rows, show_value
from aegis.logs.conversion import FILE, ROW
from aegis.logs.episode_tree import EpisodeTree, RowGroups, agree_within, build_tree, check_agreement
from aegis.logs.ids import values_at
from aegis.problem import (
    SUM_TOLERANCE,
    AnyArray,
    Array,
    Batch,
    Ints,
    Level,
    LevelTable,
    Problem,
    RowOrigins,
    Variable,
    is_atom,
    nearest_points,
)


def group_episodes(table: pa.Table, columns: Sequence[Column], problem: Problem, files: tuple[str, ...]) -> Batch:
    """Return the episodes of a table made by `convert`; the rows of an episode are all there and in the log's order.

    Episodes come in the order in which they appear, decisions below one parent in the order that their ids or times tell (see
    `build_tree`), else in the order in which they appear. An id of several columns becomes a structured array with a field per
    column. Base actions go to Batch.extra, so that the batch can be written again.
    Rewards, guards and outcomes that are missing are nan (a categorical outcome: -1). The time of an episode is that of its
    earliest row. Raises LogError if rows of one decision disagree, or if actions, masks and propensities do not go together.
    """
    table = _combine_outer_columns(table, columns, problem)
    findings = Findings(RowOrigins(files, _numpy(table[FILE]), _numpy(table[ROW])))
    tree = build_tree(table, problem, findings)
    _check_repeated(table, columns, problem, tree, findings)
    innermost = tree.levels[problem.innermost.name]
    episodes, decisions = DecisionRows(table, findings, tree.episodes), DecisionRows(table, findings, innermost)
    reward, closed = table[column_key("reward", problem.reward.column)], problem.reward.closed
    batch = Batch(
        episode=episodes.ids("episode", problem.episode),
        levels={
            level.name: _level_table(DecisionRows(table, findings, tree.levels[level.name], level.name), level, tree)
            for level in problem.levels
        },
        reward=first_values(_numpy(reward), innermost),
        observed=first_values(_numpy(reward.is_valid()), innermost),
        outcome=None if problem.outcome is None else decisions.variable(problem.outcome, "outcome"),
        guards={guard.column: decisions.column("guard", guard.column) for guard in problem.guards},
        cluster=None if problem.cluster is None else episodes.ids("cluster", problem.cluster_columns),
        time=None if problem.time is None else _starts(table, problem.time, tree.episodes),
        extra=_base_actions(table, columns, innermost)
        | {column.name: first_values(_numpy(table[column.key]), innermost) for column in columns if column.role == "extra"},
        closed=None if closed is None else decisions.column("closed", closed),
        places=findings.places if innermost.single else findings.places.take(innermost.first),
    )
    _check_closed(batch, problem, decisions.report)
    findings.settle()
    return batch


@dataclass(frozen=True, slots=True)
class DecisionRows:
    """Decisions of a level (or episodes) in a converted table: columns are taken at the first row of each group."""

    table: pa.Table
    findings: Findings
    groups: RowGroups
    level: str | None = None

    def column(self, role: Role, name: str) -> AnyArray:
        """Return a column in its role `[m]`."""
        column, groups = self.table[column_key(role, name, self.level)], self.groups
        if pa.types.is_primitive(column.type) or pa.types.is_boolean(column.type):
            return first_values(_numpy(column), groups)
        # Text becomes Python objects: only those that are used.
        if groups.ordered and pa.types.is_dictionary(column.type):
            return _numpy(values_at(column, groups.first))
        return _numpy(decode_column(column if groups.single else column.take(pa.array(groups.first))))

    def columns(self, role: Role, names: Sequence[str]) -> AnyArray:
        """Return several columns side by side, `[m, columns]`."""
        return np.column_stack([self.column(role, name) for name in names])

    def variable(self, variable: Variable, role: Role) -> AnyArray:
        """Return a context or outcome: `f64[n]`, `f64[n, d]` or codes `i32[n]`."""
        if variable.kind == "vector":
            return self.columns(role, variable.columns)
        if variable.kind == "real":
            return self.column(role, variable.columns[0])
        codes = decode_column(self.table[column_key(role, variable.columns[0], self.level)])
        return first_values(_numpy(codes.fill_null(-1)), self.groups)

    def ids(self, role: Role, names: Sequence[str]) -> AnyArray:
        """Return ids `[m]`; those of several columns as a structured array."""
        parts = {name: self.column(role, name) for name in names}
        if len(parts) == 1:
            return parts[names[0]]
        ids = np.empty(self.groups.first.size, dtype=[(name, part.dtype) for name, part in parts.items()])
        for name, part in parts.items():
            ids[name] = part
        return ids

    def report(self, wrong: AnyArray, column: str, text: Callable[[int], str]) -> None:
        """Note wrong decisions at their first rows."""
        self.findings.add(self.groups.first[wrong], column, lambda row: text(int(self.groups.of[row])))


def first_values(values: AnyArray, groups: RowGroups) -> AnyArray:
    """Return the values `[n]` at the first row of each group `[m]`, in an array of their own."""
    if groups.single:
        return values if values.flags.owndata else values.copy()
    return values[groups.first]


def logged_distribution(rows: DecisionRows, level: Level, action: Ints | None, available: AnyArray | None) -> Array | None:
    """Return the logger's probabilities of all actions `[n, A]`; None if at most that of the action taken is logged.

    action: those taken, None if no action has been taken yet.
    """
    logged, count = level.propensity, rows.groups.first.size
    if logged is None or logged.column is not None:
        return None
    if logged.columns:
        full = rows.columns("propensity", logged.columns)
        check_distribution(logged.columns, full, _likeliest(full) if action is None else action, available, rows.report)
        return full
    if logged.base is not None and logged.epsilon is not None:
        base = rows.column("base", logged.base)
        check_available(level, base, available, logged.base, rows.report, "the base action")
        return base_distribution(base, logged.epsilon, level.actions.count, available)
    return declared_distribution(level, count, available)


def logged_incumbent(
    rows: DecisionRows, level: Level, available: AnyArray | None, mu_full: Array | None
) -> tuple[Ints | None, Array | None]:
    """Return what the log holds of the incumbent: the action it means to take `[n]`, or its probabilities `[n, A]`."""
    own = level.comparator
    if own is not None and own.base is not None:
        base = rows.column("base", own.base)
        if level.propensity is None or level.propensity.base != own.base or mu_full is None:  # else it has been checked
            check_available(level, base, available, own.base, rows.report, "the incumbent's action")
        return base, None
    if own is None or not own.columns:
        return None, None
    full = rows.columns("incumbent", own.columns)
    check_distribution(own.columns, full, _likeliest(full), available, rows.report)
    return None, full


def _likeliest(full: Array) -> Ints:
    """Return the likeliest actions `[n]`, where the checks want an action with a chance."""
    return full.argmax(axis=1).astype(np.int32)


def _level_table(rows: DecisionRows, level: Level, tree: EpisodeTree) -> LevelTable:
    parent, context = tree.parent(level.name), {v.name: rows.variable(v, "context") for v in level.context}
    action = rows.column("action", level.actions.column)
    logged = level.propensity
    taken = None if logged is None or logged.column is None else rows.column("propensity", logged.column)
    if level.actions.continuous:
        value = np.clip(action, *level.actions.limits)  # round-off at the ends; other numbers outside have been refused
        if logged is None or logged.column is None or taken is None:
            taken = np.full(value.size, np.nan)
        else:
            check_atoms(level, logged.column, value, taken, rows.report)
        return LevelTable(parent, context, nearest_points(level.actions, value), taken, value=value)
    available = rows.columns("available", level.available) if level.available else None
    check_available(level, action, available, level.actions.column, rows.report, "the action taken")
    mu_full = logged_distribution(rows, level, action, available)
    if taken is None:
        taken = np.full(action.size, np.nan) if mu_full is None else mu_full[np.arange(action.size), action]
    if logged is not None:
        column = next(iter(logged.log_columns), level.actions.column)
        check_declared_minimum(level, column, taken, mu_full, available, rows.report)
    base, incumbent = logged_incumbent(rows, level, available, mu_full)
    return LevelTable(parent, context, action, taken, mu_full, available, base=base, incumbent=incumbent)


def _base_actions(table: pa.Table, columns: Sequence[Column], groups: RowGroups) -> dict[str, AnyArray]:
    """Return the values of base actions `[n]` by column, unless the batch holds the column in another role."""
    held = {column.name for column in columns if column.role != "base"}
    return {
        column.name: _numpy(values_column(column.values, first_values(_numpy(table[column.key]), groups)))
        for column in columns
        if column.role == "base" and column.name not in held
    }


def _combine_outer_columns(table: pa.Table, columns: Sequence[Column], problem: Problem) -> pa.Table:
    """Return the table with columns of outer levels in one chunk each: they are looked at twice, to compare and to take."""
    outer = {level.name for level in problem.levels[:-1]}
    for column in columns:
        values = table[column.key]
        if column.level in outer and values.num_chunks > 1 and pa.types.is_primitive(values.type):
            table = table.set_column(
                table.column_names.index(column.key), column.key, pa.chunked_array([values.combine_chunks()])
            )
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


def _starts(table: pa.Table, column: str, episodes: RowGroups) -> AnyArray:
    """Return when each episode started `[E]`: the earliest time in its rows."""
    times = _numpy(table[column_key("time", column)])
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
                "awaited; leave the field empty until it is final"
            ),
        )


def _numpy(column: pa.ChunkedArray | pa.Array) -> AnyArray:
    if column.null_count and pa.types.is_floating(column.type):
        column = pc.fill_null(column, np.nan)
    if isinstance(column, pa.Array):
        return column.to_numpy(zero_copy_only=False)
    if column.num_chunks > 1 and not column.null_count and pa.types.is_primitive(column.type):
        return np.concatenate([chunk.to_numpy(zero_copy_only=False) for chunk in column.chunks])  # copied once, not twice
    return column.to_numpy()


_Mask = npt.NDArray[np.bool_]


def uniform_distribution(count: int, actions: int, available: _Mask | None) -> Array:
    """Return the uniform distribution over the available actions, `[n, A]`; nan where none is."""
    if available is None:
        return np.full((count, actions), 1.0 / actions)
    with np.errstate(invalid="ignore"):
        return available / available.sum(axis=1, keepdims=True)


def declared_distribution(level: Level, count: int, available: _Mask | None) -> Array:
    """Return the distribution that the problem itself knows, `[n, A]`: fixed shares, or uniform over the available actions."""
    if level.propensity is not None and level.propensity.shares:
        return np.tile(np.asarray(level.propensity.shares, dtype=np.float64), (count, 1))
    return uniform_distribution(count, level.actions.count, available)


def base_distribution(base: Ints, epsilon: float, actions: int, available: _Mask | None) -> Array:
    """Return `(1 - epsilon)` on the base action plus `epsilon` spread over the available ones, `[n, A]`."""
    full = epsilon * uniform_distribution(base.size, actions, available)
    full[np.arange(base.size), base] += 1.0 - epsilon
    return full


def check_available(level: Level, action: Ints, available: _Mask | None, column: str, report: RowReport, what: str) -> None:
    """Report actions (those taken, or the base actions: `what`) that are masked in their own row."""
    if available is None:
        return

    def text(row: int) -> str:
        mask = level.available[action[row]]
        return (
            f"{what} {level.actions.values[action[row]]!r} is not available: '{mask}' is false; correct the mask, or the action"
        )

    note_rows(report, ~available[np.arange(action.size), action], column, text)


def check_atoms(level: Level, column: str, value: Array, mu: Array, report: RowReport) -> None:
    """Report atoms `[n]` whose logged number is no probability: a density has been logged there."""
    if not level.actions.atoms:
        return

    def text(row: int) -> str:
        return (
            f"found {mu[row]:.9g} at {value[row]:g}, which 'atoms' of level '{level.name}' names: there the controller has a "
            "probability, at most 1, not a density"
        )

    note_rows(report, is_atom(level.actions, value) & (mu > 1 + ROUND_OFF), column, text)


def check_distribution(columns: Sequence[str], full: Array, action: Ints, available: _Mask | None, report: RowReport) -> None:
    """Report distributions `[n, A]`, each entry in range, that are none: a sum other than 1, above 0 if masked, 0 if taken."""
    never = full[np.arange(action.size), action] == 0
    for index in np.unique(action[never]):
        note_rows(
            report,
            never & (action == index),
            columns[index],
            lambda row: f"found 0: an action that was taken had a chance; {PROBABILITY_ADVICE}",
        )
    for index, column in enumerate(columns if available is not None else ()):
        values = full[:, index]

        def text(row: int, values: Array = values) -> str:
            return f"found {values[row]:g} for an action that is not available; write 0 there"

        note_rows(report, (values > 0) & ~available[:, index], column, text)  # type: ignore[index]
    total = full.sum(axis=1)

    def summed(row: int) -> str:
        return (
            f"the propensities of all actions ({columns[0]} to {columns[-1]}) sum to {total[row]:.9g}, not to 1 within "
            f"{SUM_TOLERANCE:g}; log the whole distribution, with enough digits"
        )

    note_rows(report, np.abs(total - 1) > SUM_TOLERANCE, columns[0], summed)


def check_declared_minimum(
    level: Level, column: str, taken: Array, full: Array | None, available: _Mask | None, report: RowReport
) -> None:
    """Report propensities below what the problem promises of every available action. taken `[n]`, full `[n, A]` where known."""
    least = None if level.propensity is None else level.propensity.least
    if least is None:
        return
    lowest = taken if full is None else np.where(True if available is None else available, full, np.inf).min(axis=1)

    def text(row: int) -> str:
        which = "this action" if full is None else "an available action"
        return (
            f"{which} had the probability {lowest[row]:.9g}, below the {least:g} that propensity 'least' of level '{level.name}' "
            "promises of every available action; declare less, or correct the log"
        )

    note_rows(report, lowest < least * (1 - ROUND_OFF), column, text)
