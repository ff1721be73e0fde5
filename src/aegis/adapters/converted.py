"""What a converter makes of a file of another library: a log, the problem it belongs to, and what was decided on the way."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from aegis.errors import LogError
from aegis.files import written_aside
from aegis.logs import Source
from aegis.problem import Problem, save_problem

LOG, PROBLEM = "log.parquet", "problem.yaml"


@dataclass(frozen=True, slots=True)
class Converted:
    """A log as a tidy table, its problem, and notes: what was assumed, and what to look at before certifying."""

    table: pa.Table
    problem: Problem
    notes: tuple[str, ...] = ()

    @property
    def source(self) -> Source:
        """Return the log, to be read."""
        return Source(self.table, self.problem)


def write_converted(tables: Iterable[pa.Table], problem: Problem, folder: str | Path) -> int:
    """Write `log.parquet`, block by block, and `problem.yaml` into a folder; return the rows. LogError if there are none."""
    place, rows = Path(folder), 0
    with written_aside(place / LOG) as aside:
        writer: pq.ParquetWriter | None = None
        try:
            for table in tables:
                writer = writer or pq.ParquetWriter(aside, table.schema, compression="zstd", write_page_checksum=True)
                writer.write_table(table)
                rows += table.num_rows
        finally:
            if writer is not None:
                writer.close()
        if writer is None:
            raise LogError("there is nothing to convert: the file holds no decisions")
    save_problem(problem, place / PROBLEM)
    return rows
