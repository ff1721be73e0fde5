"""The product of every log adapter: a log as a tidy table, its problem, and notes; written as a folder."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from aegis.errors import LogError
from aegis.files import atomic_write
from aegis.logs import Source
from aegis.policies import save_policy
from aegis.problem import Policy, Problem, save_problem

# The files of a converted log.
LOG_NAME, PROBLEM_NAME = "log.parquet", "problem.yaml"


@dataclass(frozen=True, slots=True)
class ConvertedLog:
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
    with atomic_write(place / LOG_NAME) as aside:
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
    save_problem(problem, place / PROBLEM_NAME)
    return rows


DATASET_LOG_NAME, DATASET_PROBLEM_NAME, DATASET_POLICIES = "log.parquet", "problem.yaml", "policies"


@dataclass(frozen=True, slots=True)
class DatasetLog:
    """A data set as a log.

    log: tidy table, one row for each row of the published file, in its order, unless a note says how many are left out and why.
    policies: by name, candidates that were fixed without the rewards of this log. notes: what was decided, in plain sentences.
    """

    log: pa.Table
    problem: Problem
    policies: Mapping[str, Policy] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    def write(self, folder: str | Path) -> dict[str, Path]:
        """Write `log.parquet`, `problem.yaml` and `policies/NAME/` into a folder; return their places. Raises OutputError."""
        place = Path(folder)
        written = {"log": place / DATASET_LOG_NAME, "problem": place / DATASET_PROBLEM_NAME}
        with atomic_write(written["log"]) as aside:
            pq.write_table(self.log, aside, compression="zstd", write_page_checksum=True)
        save_problem(self.problem, written["problem"])
        for name, policy in self.policies.items():
            written[name] = place / DATASET_POLICIES / name
            save_policy(policy, written[name])
        return written
