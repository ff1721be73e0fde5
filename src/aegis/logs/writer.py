"""Write batches to a Parquet file that `Source` reads back, and result tables to Parquet or CSV."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq

from aegis.errors import LogError, OutputError
from aegis.files import atomic_write
from aegis.logs.batch_table import to_table
from aegis.logs.column_values import decode_column
from aegis.logs.ids import IdHashes, hash_ids
from aegis.problem import Batch, Problem

TABLE_ENDINGS = (".parquet", ".pq", ".csv")


def check_table_path(path: str | Path) -> None:
    """Raise OutputError unless the name ends as a table does."""
    if Path(path).suffix.lower() not in TABLE_ENDINGS:
        raise OutputError(
            f"cannot write {path}: a table is written as Parquet or CSV; let its name end in {' or '.join(TABLE_ENDINGS)}"
        )


def write_table(table: pa.Table, path: str | Path) -> None:
    """Write a table in one step, as the ending of its name says; in CSV what is missing is an empty field."""
    check_table_path(path)
    with atomic_write(path) as aside:
        if Path(path).suffix.lower() == ".csv":
            pyarrow.csv.write_csv(table, aside)
        else:
            pq.write_table(table, aside, compression="zstd")


_ENDINGS = (".parquet", ".pq")


def write_log(batches: Batch | Iterable[Batch], problem: Problem, path: str | Path) -> None:
    """Write a batch, or batches as they come, to one Parquet file (zstd, with page checksums).

    The file appears under its name when it is complete. See `to_table` for what is in it. Raises LogError if a batch
    cannot be written as this problem declares, if an episode id comes twice (a reader would take the two for one) or if
    there is nothing to write; OutputError if the file cannot be written.
    """
    target = Path(path)
    if target.suffix.lower() not in _ENDINGS:
        raise OutputError(f"cannot write {target}: a log is written as Parquet; let its name end in {' or '.join(_ENDINGS)}")
    with atomic_write(target) as aside:
        writer: pq.ParquetWriter | None = None
        seen: list[IdHashes] = []
        try:
            for batch in [batches] if isinstance(batches, Batch) else batches:
                if not len(batch):
                    continue  # no episodes, no rows
                table = to_table(batch, problem)
                seen.append(_episode_hashes(batch, problem))
                if writer is None:
                    writer = pq.ParquetWriter(aside, table.schema, compression="zstd", write_page_checksum=True)
                writer.write_table(_like(table, writer.schema))
        finally:
            if writer is not None:
                writer.close()
        if writer is None:
            raise LogError(f"{target}: there are no episodes to write")
        _refuse_repeated(seen, target)


def _episode_hashes(batch: Batch, problem: Problem) -> IdHashes:
    parts = [batch.episode[name] for name in problem.episode] if batch.episode.dtype.names else [batch.episode]
    return hash_ids([decode_column(pa.chunked_array([pa.array(part)])) for part in parts])


def _refuse_repeated(seen: list[IdHashes], target: Path) -> None:
    ordered = np.sort(np.concatenate(seen))
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
