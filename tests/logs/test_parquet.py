"""Parquet files: row ranges, blocks of some columns, and text that stays packed in dictionaries."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from aegis.errors import LogError
from aegis.logs.formats import base
from aegis.logs.formats.base import LocalFile
from aegis.logs.formats.parquet import ParquetLog

TABLE = pa.table({"id": ["a long text"] * 600 + ["another one"] * 600, "x": list(range(1200))})


@pytest.fixture
def log(tmp_path: Path) -> ParquetLog:
    pq.write_table(TABLE, tmp_path / "x.parquet", row_group_size=100)
    return ParquetLog.open(LocalFile(tmp_path / "x.parquet"))


def test_row_ranges_are_read_by_themselves_and_are_the_file_together(log: ParquetLog, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(base, "CHUNK_ROWS", 250)
    ranges = log.row_ranges()
    assert [row_range.rows for row_range in ranges] == [300, 300, 300, 300] and ranges[1].first == 301
    parts = [pa.concat_tables(log.blocks(["x"], 128, (), row_range)) for row_range in ranges]
    assert [part["x"][0].as_py() for part in parts] == [0, 300, 600, 900]
    assert pa.concat_tables(parts)["x"].to_pylist() == TABLE["x"].to_pylist()


def test_repeated_text_comes_packed_and_other_columns_do_not(log: ParquetLog) -> None:
    (block,) = log.blocks(["id", "x"], 5000, ["id"])
    assert pa.types.is_dictionary(block["id"].type) and block["x"].type == pa.int64()
    (plain,) = log.blocks(["id"], 5000)
    assert plain["id"].type == pa.string() and plain["id"].to_pylist() == block["id"].to_pylist()


def test_without_columns_the_number_of_rows_is_right(log: ParquetLog) -> None:
    assert sum(block.num_rows for block in log.blocks([], 100)) == 1200


def test_what_is_no_parquet_is_named(tmp_path: Path) -> None:
    (tmp_path / "x.parquet").write_text("a,b")
    with pytest.raises(LogError, match=r"x\.parquet: cannot be read as Parquet"):
        ParquetLog.open(LocalFile(tmp_path / "x.parquet"))
