"""Write batches to a Parquet file that `Source` reads back, and result tables to Parquet or CSV."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq

from aegis.errors import LogError, OutputError
from aegis.files import atomic_write
from aegis.logs.batch_table import to_table
from aegis.logs.column_values import decode_column
from aegis.logs.ids import hash_ids, id_parts
from aegis.problem import Batch, Hashes, Problem

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
