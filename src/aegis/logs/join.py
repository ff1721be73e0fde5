"""Joining log parts of the same problem into one file."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pyarrow.parquet as pq

from aegis.errors import LogError
from aegis.files import written_aside


def join_logs(parts: Sequence[Path], path: str | Path) -> None:
    """Write the rows of Parquet files with the same columns into one file, in order, one part in memory at a time."""
    if not parts:
        raise LogError(f"there is nothing to join into {path}")
    schema = pq.read_schema(parts[0])
    with written_aside(path) as aside, pq.ParquetWriter(aside, schema, compression="zstd") as writer:
        for part in parts:
            table = pq.read_table(part)
            if not table.schema.equals(schema):
                raise LogError(f"{part} has other columns than {parts[0]}; parts of one log have the same columns")
            writer.write_table(table)
