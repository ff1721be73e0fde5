"""Contexts without a log: one decision per row of a file, to ask a policy about."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa

from aegis.errors import LogError
from aegis.logs.columns import Column, Findings, Role, check_columns_present, level_columns
from aegis.logs.conversion import convert_table
from aegis.logs.episode_tree import every_row
from aegis.logs.episodes import DecisionRows, check_available, logged_distribution, logged_incumbent
from aegis.logs.formats.base import locate
from aegis.logs.log_files import open_log
from aegis.problem import AnyArray, Batch, Level, Problem, RowOrigins, hypothetical_batch

_BLOCK = 131072
_WANTED = ("context", "available", "action")


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
    logged = _columns_of(spec, ("propensity", "base"), () if spec.propensity is None else spec.propensity.log_columns)
    known = spec.propensity is not None and spec.propensity.full and all(column.name in file.names for column in logged)
    own = _columns_of(spec, ("incumbent", "base"), () if spec.comparator is None else spec.comparator.log_columns)
    compared = bool(own) and all(column.name in file.names for column in own)
    needed = [*_context_columns(problem, level), *(logged if known else ()), *(own if compared else ())]
    columns = tuple({column.key: column for column in needed}.values())
    check_columns_present(columns, file.names, str(place), file.dialect)
    blocks = list(file.blocks(file.names, _BLOCK))
    if not blocks:
        raise LogError(f"{file.name}: there are no rows; give one row for each decision to be taken")
    raw = pa.concat_tables(blocks)
    places = RowOrigins.following((str(place),), 0, 1, raw.num_rows)
    converted, findings = convert_table(raw, columns, {}, places, file.decimals), Findings(places)
    batch = _batch(converted, findings, problem, level)
    rows, table = DecisionRows(converted, findings, every_row(raw.num_rows), level), batch.levels[level]
    if known:
        table = replace(table, mu_full=logged_distribution(rows, spec, None, table.available))
    if compared:
        base, incumbent = logged_incumbent(rows, spec, table.available, table.mu_full)
        table = replace(table, base=base, incumbent=incumbent)
    findings.settle()
    return batch.with_level(level, table), raw


def _columns_of(level: Level, roles: Sequence[Role], names: Sequence[str]) -> list[Column]:
    """Return the columns of a level that have some roles and names."""
    return [column for column in level_columns(level) if column.role in roles and column.name in names]


def _context_columns(problem: Problem, level: str) -> list[Column]:
    """Return contexts and masks of a level, and contexts, masks and actions above it."""
    columns = [column for spec in problem.above(level) for column in level_columns(spec) if column.role in _WANTED]
    return columns + [column for column in level_columns(problem.level(level)) if column.role in _WANTED[:2]]


def _batch(table: pa.Table, findings: Findings, problem: Problem, level: str) -> Batch:
    contexts: dict[str, AnyArray] = {}
    actions: dict[str, AnyArray] = {}
    masks: dict[str, AnyArray] = {}
    for spec in (*problem.above(level), problem.level(level)):
        rows = DecisionRows(table, findings, every_row(table.num_rows), spec.name)
        contexts |= {variable.name: rows.variable(variable, "context") for variable in spec.context}
        if spec.available:
            masks[spec.name] = rows.columns("available", spec.available)
            stuck = np.flatnonzero(~masks[spec.name].any(axis=1))
            if stuck.size:
                text = f"no action of level '{spec.name}' is available in this row; a decision needs at least one"
                findings.add(stuck, spec.available[0], lambda _, text=text: text)  # type: ignore[misc]
        if spec.name != level:
            actions[spec.name] = rows.column("action", spec.actions.column)
            if not spec.actions.continuous:
                mask, column = masks.get(spec.name), spec.actions.column
                check_available(spec, actions[spec.name], mask, column, findings.add, "the action taken")
    return hypothetical_batch(problem, level, table.num_rows, contexts, actions, masks)
