"""Contexts without a log: rows in which one decision is to be taken, for a policy to be asked."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa

from aegis.errors import LogError
from aegis.logs.convert import convert
from aegis.logs.formats import LogFile, open_log
from aegis.logs.places import Places
from aegis.logs.propensities import Complaint, around_base, check_available, over_all, uniform
from aegis.logs.schema import Column, check_present, column_key, level_columns
from aegis.problem import AnyArray, Array, Batch, Level, LevelTable, Problem, Variable, chain

_BLOCK = 131072
_WANTED = ("context", "action", "available")


def read_contexts(path: str | Path, problem: Problem, level: str) -> tuple[Batch, pa.Table]:
    """Return decisions still to be taken at `level`, one per row of a file, each in an episode of its own; and the file's table.

    The file holds the contexts and masks of the level, and contexts, masks and actions of all levels above it. If it also holds
    the propensities of all actions at the level (columns, or the base action), or if the problem knows the legacy by name, the
    legacy's distribution comes along as `mu_full`. Raises LogError that names file, row and column.
    """
    spec = problem.level(level)
    file = open_log(Path(path))
    columns = _columns(problem, level)
    legacy = [column for column in level_columns(spec) if column.role in ("propensity", "base")]
    known = spec.propensity is not None and spec.propensity.full and all(column.name in file.names for column in legacy)
    wanted = (*columns, *legacy) if known else columns
    check_present(wanted, file.names, str(path))
    raw = _read(file)
    places = Places((str(path),), np.zeros(raw.num_rows, dtype=np.int32), np.arange(1, raw.num_rows + 1))
    table = convert(raw, wanted, {}, places)
    batch = _batch(table, problem, level, places)
    return (batch.with_level(level, _with_legacy(batch.levels[level], table, spec, places)) if known else batch), raw


def _columns(problem: Problem, level: str) -> tuple[Column, ...]:
    above = {spec.name for spec in problem.above(level)}
    found: list[Column] = []
    for spec in (*problem.above(level), problem.level(level)):
        for column in level_columns(spec):
            if column.role in _WANTED and (column.role != "action" or spec.name in above):
                found.append(column)
    return tuple(found)


def _read(file: LogFile) -> pa.Table:
    blocks = list(file.blocks(file.names, _BLOCK))
    if not blocks:
        raise LogError(f"{file.path}: there are no rows; give one row for each decision to be taken")
    return pa.concat_tables(blocks)


def _batch(table: pa.Table, problem: Problem, level: str, places: Places) -> Batch:
    rows: dict[str, AnyArray] = {}
    index: dict[str, AnyArray] = {}
    masks: dict[str, AnyArray] = {}
    for spec in (*problem.above(level), problem.level(level)):
        for variable in spec.context:
            rows[variable.name] = _variable(table, variable, spec)
        if spec.available:
            masks[spec.name] = np.column_stack([_column(table, "available", name, spec) for name in spec.available])
            _refuse_stuck(masks[spec.name], spec, places)
        if spec.name != level:
            index[spec.name] = _column(table, "action", spec.actions.column, spec)
            check_available(
                spec, index[spec.name], masks.get(spec.name), spec.actions.column, _complaint(places), "the action taken"
            )
    return chain(problem, level, table.num_rows, rows, index, masks)


def _with_legacy(table: LevelTable, found: pa.Table, level: Level, places: Places) -> LevelTable:
    return replace(table, mu_full=_legacy(table, found, level, places))


def _legacy(table: LevelTable, found: pa.Table, level: Level, places: Places) -> Array:
    """Return the legacy's distribution `[n, A]`."""
    given, actions, count = level.propensity, level.actions.count, len(table)
    if given is not None and given.columns:
        logged = np.column_stack([_column(found, "propensity", name, level) for name in given.columns])
        # No action has been taken: the likeliest one stands in for it where the checks want an action with a chance.
        return over_all(given.columns, logged, logged.argmax(axis=1).astype(np.int32), table.available, _complaint(places))
    if given is not None and given.base is not None and given.epsilon is not None:
        base = _column(found, "base", given.base, level)
        check_available(level, base, table.available, given.base, _complaint(places), "the base action")
        return around_base(base, given.epsilon, actions, table.available)
    return uniform(count, actions, table.available)


def _variable(table: pa.Table, variable: Variable, level: Level) -> AnyArray:
    if variable.kind == "vector":
        return np.column_stack([_column(table, "context", name, level) for name in variable.columns])
    return _column(table, "context", variable.columns[0], level)


def _column(table: pa.Table, role: str, name: str, level: Level) -> AnyArray:
    found: AnyArray = table[column_key(role, name, level.name)].to_numpy()  # type: ignore[arg-type]
    return found


def _refuse_stuck(mask: AnyArray, level: Level, places: Places) -> None:
    stuck = np.flatnonzero(~mask.any(axis=1))
    if stuck.size:
        text = f"no action of level '{level.name}' is available in this row; a decision needs at least one"
        raise places.error(int(stuck[0]), level.available[0], text)


def _complaint(places: Places) -> Complaint:
    """Return what turns wrong rows into an error at the first of them."""

    def complain(wrong: AnyArray, column: str, text: Callable[[int], str]) -> LogError:
        return places.error(int(wrong[0]), column, text(int(wrong[0])))

    return complain
