"""The product of every log adapter: a log as a tidy table, its problem, and notes; written as a folder."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from aegis.errors import InputError, LogError
from aegis.files import atomic_write
from aegis.logs import Source
from aegis.policies import save_policy
from aegis.problem import Array, Policy, Problem, save_problem

LOG_NAME, PROBLEM_NAME, POLICIES_NAME = "log.parquet", "problem.yaml", "policies"  # the files of a converted log


@dataclass(frozen=True, slots=True)
class ConvertedLog:
    """A log as a tidy table and its problem.

    Of a published data set the table has one row for each row of the file, in its order, unless a note says how many are left
    out and why. notes: in plain sentences, what was assumed, and what to look at before certifying. policies: by name,
    candidates that were fixed without the rewards of this log.
    """

    table: pa.Table
    problem: Problem
    notes: tuple[str, ...] = ()
    policies: Mapping[str, Policy] = field(default_factory=dict)

    @property
    def source(self) -> Source:
        """Return the log, to be read."""
        return Source(self.table, self.problem)

    def write(self, folder: str | Path) -> dict[str, Path]:
        """Write `log.parquet`, `problem.yaml` and `policies/NAME/` into a folder; return their places. Raises OutputError."""
        place = Path(folder)
        write_converted([self.table], self.problem, place)
        places = {"log": place / LOG_NAME, "problem": place / PROBLEM_NAME}
        for name, policy in self.policies.items():
            places[name] = place / POLICIES_NAME / name
            save_policy(policy, places[name])
        return places


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


def finite_numbers(
    values: npt.ArrayLike, shape: tuple[int, ...], place: str, row: str = "row", error: type[InputError] = LogError
) -> Array:
    """Return values as finite numbers of a shape; `error` names the place, and the first bad row (called `row`) from 0."""
    try:
        numbers = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError) as reason:
        raise error(f"{place}: expected numbers; {reason}") from reason
    if numbers.shape != shape:
        raise error(f"{place}: has the shape {list(numbers.shape)}, expected {list(shape)}")
    bad = ~np.isfinite(numbers).reshape(len(numbers), -1).all(axis=1)
    if bad.any():
        raise error(f"{place}, {row} {int(np.argmax(bad))} (from 0): is not finite ({int(bad.sum())} such {row}s)")
    return numbers
