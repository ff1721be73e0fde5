"""Contexts without a log: one decision per row of a file, to ask a policy about."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pyarrow as pa

from aegis.errors import LogError
from aegis.logs.columns import Column, Role, check_columns_present, column_key, level_columns
from aegis.logs.conversion import convert_table
from aegis.logs.findings import Findings
from aegis.logs.formats.base import LogFile
from aegis.logs.log_files import open_log
from aegis.logs.object_store import locate
from aegis.logs.propensities import base_distribution, check_available, check_distribution, declared_distribution
from aegis.problem import AnyArray, Array, Batch, Level, LevelTable, Problem, RowOrigins, Variable, hypothetical_batch

_BLOCK = 131072
_WANTED = ("context", "action", "available")


def read_contexts(path: str | Path, problem: Problem, level: str) -> tuple[Batch, pa.Table]:
    """Return decisions still to be taken at `level`, one per row of a file, each in an episode of its own; and the file's table.

    The file holds the contexts and masks of the level, and contexts, masks and actions of all levels above it. If it also holds
    the propensities of all actions at the level (columns, or the base action), or if the problem knows the legacy by name, the
    legacy's distribution comes along as `mu_full`; so does what the file holds of the incumbent. Raises LogError that names
    file, row and column.
    """
    spec = problem.level(level)
    place = locate(path)
    file = open_log(place)
    columns = _columns(problem, level)
    given = () if spec.propensity is None else spec.propensity.log_columns
    legacy = [column for column in level_columns(spec) if column.role in ("propensity", "base") and column.name in given]
    known = spec.propensity is not None and spec.propensity.full and all(column.name in file.names for column in legacy)
    stated = () if spec.comparator is None else spec.comparator.log_columns
    own = [column for column in level_columns(spec) if column.role in ("incumbent", "base") and column.name in stated]
    compared = bool(own) and all(column.name in file.names for column in own)
    wanted = tuple({column.key: column for column in (*columns, *(legacy if known else ()), *(own if compared else ()))}.values())
    check_columns_present(wanted, file.names, str(place), file.dialect)
    raw = _read(file)
    places = RowOrigins.following((str(place),), 0, 1, raw.num_rows)
    rows = _Rows(convert_table(raw, wanted, {}, places, file.decimals), Findings(places))
    batch = _batch(rows, problem, level)
    if known:
        table = batch.levels[level]
        batch = batch.with_level(level, replace(table, mu_full=_legacy(table, rows, spec)))
    if compared:
        batch = batch.with_level(level, _with_incumbent(batch.levels[level], rows, spec))
    rows.findings.settle()
    return batch, raw


@dataclass(frozen=True, slots=True)
class _Rows:
    """Converted rows, and what is wrong with them."""

    table: pa.Table
    findings: Findings

    def column(self, role: Role, name: str, level: Level) -> AnyArray:
        """Return a column in its role, `[n]`."""
        return self.table[column_key(role, name, level.name)].to_numpy()

    def columns(self, role: Role, names: Sequence[str], level: Level) -> AnyArray:
        """Return several columns side by side, `[n, columns]`."""
        return np.column_stack([self.column(role, name, level) for name in names])


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
        raise LogError(f"{file.name}: there are no rows; give one row for each decision to be taken")
    return pa.concat_tables(blocks)


def _batch(found: _Rows, problem: Problem, level: str) -> Batch:
    rows: dict[str, AnyArray] = {}
    index: dict[str, AnyArray] = {}
    masks: dict[str, AnyArray] = {}
    report = found.findings.add
    for spec in (*problem.above(level), problem.level(level)):
        for variable in spec.context:
            rows[variable.name] = _variable(found, variable, spec)
        if spec.available:
            masks[spec.name] = found.columns("available", spec.available, spec)
            _refuse_stuck(masks[spec.name], spec, found.findings)
        if spec.name != level:
            taken = index[spec.name] = found.column("action", spec.actions.column, spec)
            if spec.actions.continuous:
                continue
            check_available(spec, taken, masks.get(spec.name), spec.actions.column, report, "the action taken")
    return hypothetical_batch(problem, level, found.table.num_rows, rows, index, masks)


def _legacy(table: LevelTable, rows: _Rows, level: Level) -> Array:
    """Return the legacy's distribution `[n, A]`."""
    given, actions, count = level.propensity, level.actions.count, len(table)
    if given is not None and given.columns:
        logged = rows.columns("propensity", given.columns, level)
        # No action has been taken: the likeliest one stands in for it where the checks want an action with a chance.
        likeliest = logged.argmax(axis=1).astype(np.int32)
        check_distribution(given.columns, logged, likeliest, table.available, rows.findings.add)
        return logged
    if given is not None and given.base is not None and given.epsilon is not None:
        base = rows.column("base", given.base, level)
        check_available(level, base, table.available, given.base, rows.findings.add, "the base action")
        return base_distribution(base, given.epsilon, actions, table.available)
    return declared_distribution(level, count, table.available)


def _with_incumbent(table: LevelTable, rows: _Rows, level: Level) -> LevelTable:
    """Return the decisions with the action that the incumbent means to take, or with its probabilities."""
    own, report = level.comparator, rows.findings.add
    if own is None or own.base is None:
        columns = () if own is None else own.columns
        full = rows.columns("incumbent", columns, level)
        check_distribution(columns, full, full.argmax(axis=1).astype(np.int32), table.available, report)
        return replace(table, incumbent=full)
    base = rows.column("base", own.base, level)
    if level.propensity is None or level.propensity.base != own.base or table.mu_full is None:
        check_available(level, base, table.available, own.base, report, "the incumbent's action")
    return replace(table, base=base)


def _variable(rows: _Rows, variable: Variable, level: Level) -> AnyArray:
    if variable.kind == "vector":
        return rows.columns("context", variable.columns, level)
    return rows.column("context", variable.columns[0], level)


def _refuse_stuck(mask: AnyArray, level: Level, findings: Findings) -> None:
    stuck = np.flatnonzero(~mask.any(axis=1))
    if stuck.size:
        text = f"no action of level '{level.name}' is available in this row; a decision needs at least one"
        findings.add(stuck, level.available[0], lambda _: text)
