"""Results as files of tables: Parquet or CSV."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq

from aegis.errors import OutputError
from aegis.files import written_aside

ENDINGS = (".parquet", ".pq", ".csv")


def check_table_path(path: str | Path) -> None:
    """Raise OutputError unless the name ends as a table does."""
    if Path(path).suffix.lower() not in ENDINGS:
        raise OutputError(
            f"cannot write {path}: a table is written as Parquet or CSV; let its name end in {' or '.join(ENDINGS)}"
        )


def write_table(table: pa.Table, path: str | Path) -> None:
    """Write a table in one step, as the ending of its name says; in CSV what is missing is an empty field."""
    check_table_path(path)
    with written_aside(path) as aside:
        if Path(path).suffix.lower() == ".csv":
            pyarrow.csv.write_csv(table, aside)
        else:
            pq.write_table(table, aside, compression="zstd")
