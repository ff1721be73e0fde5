"""Write batches to a Parquet file that `Source` reads back, and result tables to Parquet or CSV.

A batch becomes a tidy table, one row per innermost decision, outer columns repeated, and is read back to see that it says the
same.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq

from aegis.errors import LogError, OutputError
from aegis.files import atomic_write
from aegis.logs.column_values import decode_column, values_column
from aegis.logs.columns import required_columns
from aegis.logs.ids import hash_ids, id_parts
from aegis.logs.source import Source
from aegis.problem import SUM_TOLERANCE, AnyArray, Array, Batch, Hashes, Level, LevelTable, Problem, Variable


def to_table(batch: Batch, problem: Problem) -> pa.Table:
    """Return the batch as the columns that the problem names, rows in the order of the batch, extra columns last.

    A declared decision id is the position of the decision below its parent, unless its column has another role as well (a
    context, an extra column) and so a content of its own. Base actions are taken from the extra columns, where reading puts
    them. Rewards that were not observed are null, as are outcomes and guards that are nan. `LevelTable.version` has no column
    and is left out. Raises LogError if the problem's columns cannot say what the batch holds: a reader would find something
    else, or nothing.
    """
    if tuple(batch.levels) != problem.names:
        raise LogError(f"the batch has the levels {list(batch.levels)}, the problem {list(problem.names)}; they must be the same")
    if batch.reward is None:
        raise LogError("the batch has no rewards yet; only finished episodes can be written")
    above = batch.ancestors(problem.innermost.name)
    elsewhere = {column.name for column in required_columns(problem) if column.role != "decision"} | set(batch.extra)
    table = _Tidy()
    _add_episode(table, batch, problem)
    for level in problem.levels:
        if level.decision is not None and level.decision not in elsewhere:
            table.add(level.decision, _positions(batch.levels[level.name])[above[level.name]])
            elsewhere.add(level.decision)  # a level further in may have the same id: one decision below each
        _add_level(table, level, batch.levels[level.name], above[level.name])
    _add_results(table, batch, problem)
    for name, values in batch.extra.items():
        table.add(name, values)
    for level in problem.levels:
        for base in {own.base for own in (level.propensity, level.comparator) if own is not None} - {None, *table.columns}:
            raise LogError(f"level '{level.name}': the batch does not know the base action; put it into Batch.extra['{base}']")
    _check_read_back(pa.table(table.columns), batch, problem)
    return pa.table(table.columns)


@dataclass(frozen=True, slots=True)
class _Tidy:
    """Columns so far; one that has two roles must have the same content in both."""

    columns: dict[str, pa.Array] = field(default_factory=dict)

    def add(self, name: str, values: pa.Array | AnyArray, missing: AnyArray | None = None) -> None:
        """Add a column; raises LogError if it does not fit the others."""
        if not isinstance(values, pa.Array):
            try:
                values = pa.array(values, mask=missing)
            except (pa.ArrowException, TypeError, ValueError) as error:
                shape = f"{values.dtype}{list(values.shape)}"
                raise LogError(f"column '{name}' ({shape}) is not a list of values of one type: {error}") from error
        length = len(next(iter(self.columns.values()), values))
        if len(values) != length:
            raise LogError(f"column '{name}' has {len(values)} entries, the batch has {length} innermost decisions")
        if name in self.columns and not self.columns[name].equals(values):
            raise LogError(f"column '{name}' has two roles in the problem and different content in them; give it two names")
        self.columns[name] = values

    def add_variable(self, variable: Variable, values: AnyArray) -> None:
        """Add a context or an outcome; what is missing in it is null."""
        if variable.kind == "categorical":
            self.add(variable.columns[0], values_column(variable.values, values))
            return
        for column, part in zip(variable.columns, values.reshape(len(values), -1).T, strict=True):
            self.add(column, np.array(part, dtype=np.float64), np.isnan(part))


def _add_episode(table: _Tidy, batch: Batch, problem: Problem) -> None:
    rows = batch.episode_of(problem.innermost.name)
    timed = () if problem.time is None else (problem.time,)
    ids = (("episode", problem.episode, batch.episode), ("cluster", problem.cluster_columns, batch.cluster))
    for what, columns, values in (*ids, ("time", timed, batch.time)):
        if (not columns) != (values is None):
            has, lacks = ("the problem", "the batch") if values is None else ("the batch", "the problem")
            raise LogError(f"{has} has a {what}, {lacks} has none; it would be lost or made up")
        if values is not None:
            _add_ids(table, what, columns, values, rows)


def _add_ids(table: _Tidy, what: str, columns: Sequence[str], values: AnyArray, rows: AnyArray) -> None:
    fields = values.dtype.names
    if len(columns) == 1 and fields is None:
        table.add(columns[0], values[rows])
    elif fields is not None and set(fields) == set(columns):
        for name in columns:
            table.add(name, values[name][rows])
    else:
        shape = "ids without fields" if fields is None else f"the fields {list(fields)}"
        raise LogError(
            f"the problem's {what} id is made of {list(columns)}; the batch has {shape}. An id of several columns is a "
            "structured array with a field for each"
        )


def _positions(table: LevelTable) -> AnyArray:
    """Return the place of each decision below its parent."""
    return np.arange(len(table)) - np.searchsorted(table.parent, table.parent, side="left")


def _add_level(table: _Tidy, level: Level, decisions: LevelTable, rows: AnyArray) -> None:
    for variable in level.context:
        table.add_variable(variable, decisions.context[variable.name][rows])
    if not level.actions.continuous:
        table.add(level.actions.column, values_column(level.actions.values, decisions.action[rows]))
    else:
        table.add(level.actions.column, _known(decisions.value, level, "exact actions", "value")[rows])
    if decisions.available is not None and not level.available and not decisions.available.all():
        raise LogError(f"level '{level.name}': the batch has masked actions, the problem no 'available' columns; name them")
    for index, column in enumerate(level.available):
        table.add(column, np.ones(rows.size, np.bool_) if decisions.available is None else decisions.available[rows, index])
    logged, own = level.propensity, level.comparator
    if logged is not None and logged.column is not None:
        table.add(logged.column, decisions.mu_taken[rows])
    for source, name, columns in (("propensity", "mu_full", logged), ("incumbent", "incumbent", own)):
        if columns is not None and columns.columns:
            full = _known(getattr(decisions, name), level, f"{source} of all actions", name)
            for column, chances in zip(columns.columns, full.T, strict=True):
                table.add(column, np.ascontiguousarray(chances[rows]))


def _known(values: Array | None, level: Level, what: str, name: str) -> Array:
    if values is None:
        raise LogError(f"level '{level.name}': the problem has columns for the {what}, the batch none (LevelTable.{name})")
    return values


def _add_results(table: _Tidy, batch: Batch, problem: Problem) -> None:
    rewards = np.asarray(batch.reward, dtype=np.float64)
    table.add(problem.reward.column, rewards, None if batch.observed is None else ~batch.observed)
    closed = np.ones(rewards.size, dtype=np.bool_) if batch.closed is None else batch.closed
    if problem.reward.closed is not None:
        table.add(problem.reward.closed, closed)
    elif not closed.all():
        raise LogError(
            f"{int((~closed).sum())} rewards of the batch are still awaited, which the problem has no column for; name one "
            "under reward 'closed'"
        )
    if problem.outcome is not None:
        if batch.outcome is None:
            raise LogError(f"the problem has the outcome '{problem.outcome.name}', the batch has none")
        table.add_variable(problem.outcome, batch.outcome)
    for guard in problem.guards:
        if guard.column not in batch.guards:
            raise LogError(f"the problem has the guard '{guard.column}', the batch has {sorted(batch.guards) or 'none'}")
        table.add(guard.column, batch.guards[guard.column], np.isnan(batch.guards[guard.column]))


def _check_read_back(table: pa.Table, batch: Batch, problem: Problem) -> None:
    """Raise LogError unless a reader of the table finds the decisions of the batch, with the same contexts and propensities."""
    try:
        copy = Source(table, problem).read()
    except LogError as error:
        raise LogError(f"the batch cannot be read back from a table ('frame 1'): {error}") from error
    for level in problem.levels:
        here, there = batch.levels[level.name], copy.levels[level.name]
        if (len(here), len(batch)) != (len(there), len(copy)):
            raise LogError(
                f"level '{level.name}': of {len(batch)} episodes and {len(here)} decisions a reader would find {len(copy)} and "
                f"{len(there)}; every episode needs a decision at each level, and several decisions below one parent an id: name "
                "it under 'decision'"
            )
        pairs: dict[str, tuple[AnyArray, AnyArray]] = {
            "parent": (here.parent, there.parent),
            "action": (here.action, there.action),
        }
        pairs |= {f"context '{name}'": (values, there.context[name]) for name, values in here.context.items()}
        if level.propensity is not None:
            pairs["propensity"] = (here.mu_taken, there.mu_taken)
            if here.mu_full is not None and there.mu_full is not None:
                pairs["propensity of all actions"] = (here.mu_full, there.mu_full)
        for what, (mine, read) in pairs.items():
            wrong = ~np.isclose(mine, read, rtol=0, atol=SUM_TOLERANCE if what.startswith("propensity") else 0)
            if wrong.any():
                row = int(wrong.reshape(len(here), -1).any(axis=1).argmax())
                raise LogError(
                    f"level '{level.name}', row {row} of the batch (from 0): the {what} is {mine[row]}, but a reader would find "
                    f"{read[row]}; make the batch agree with what the problem declares"
                )


LOG_ENDINGS = (".parquet", ".pq")
TABLE_ENDINGS = (*LOG_ENDINGS, ".csv")


def check_table_path(path: str | Path) -> None:
    """Raise OutputError unless the name ends as a table does."""
    _check_ending(path, TABLE_ENDINGS, "a table is written as Parquet or CSV")


def _check_ending(path: str | Path, endings: Sequence[str], rule: str) -> None:
    if Path(path).suffix.lower() not in endings:
        raise OutputError(f"cannot write {path}: {rule}; let its name end in {' or '.join(endings)}")


def write_table(table: pa.Table, path: str | Path) -> None:
    """Write a table in one step, as the ending of its name says; in CSV what is missing is an empty field."""
    check_table_path(path)
    with atomic_write(path) as aside:
        if Path(path).suffix.lower() == ".csv":
            pyarrow.csv.write_csv(table, aside)
        else:
            pq.write_table(table, aside, compression="zstd")


def write_log(batches: Batch | Iterable[Batch], problem: Problem, path: str | Path) -> None:
    """Write a batch, or batches as they come, to one Parquet file (zstd, with page checksums).

    The file appears under its name when it is complete. `to_table` describes its columns.

    Parameters
    ----------
    batches
        A batch, or an iterable of batches.
    problem
        The problem that names the columns.
    path
        The file, which ends in `.parquet` or `.pq`.

    Raises
    ------
    LogError
        If a batch cannot be written as the problem declares, if an episode id comes twice (a reader would take the two for one)
        or if there is nothing to write.
    OutputError
        If the file cannot be written.
    """
    target = Path(path)
    _check_ending(target, LOG_ENDINGS, "a log is written as Parquet")
    with atomic_write(target) as aside:
        writer: pq.ParquetWriter | None = None
        hashes: list[Hashes] = []
        try:
            for batch in [batches] if isinstance(batches, Batch) else batches:
                if not len(batch):
                    continue  # no episodes, no rows
                table = to_table(batch, problem)
                ids = [decode_column(pa.chunked_array([pa.array(part)])) for part in id_parts(batch.episode)]
                hashes.append(hash_ids(ids))
                if writer is None:
                    writer = pq.ParquetWriter(aside, table.schema, compression="zstd", write_page_checksum=True)
                writer.write_table(_like(table, writer.schema))
        finally:
            if writer is not None:
                writer.close()
        if writer is None:
            raise LogError(f"{target}: there are no episodes to write")
        _refuse_repeated(hashes, target)


def _refuse_repeated(hashes: list[Hashes], target: Path) -> None:
    ordered = np.sort(np.concatenate(hashes))
    repeated = int(np.count_nonzero(ordered[1:] == ordered[:-1]))
    if repeated:
        raise LogError(
            f"{target}: {repeated} episode ids come more than once; on reading, episodes of one id would be taken for one. "
            "Give each episode an id of its own"
        )


def _like(table: pa.Table, schema: pa.Schema) -> pa.Table:
    """Return the table with the types of the first one, for columns whose type depends on the content of a batch."""
    if table.schema.names != schema.names:
        raise LogError(f"a batch has the columns {table.schema.names}, an earlier one {schema.names}; they must be the same")
    try:
        return table.cast(schema)
    except pa.ArrowInvalid as error:
        raise LogError(f"a batch holds values of another type than the batches before it: {error}") from error
