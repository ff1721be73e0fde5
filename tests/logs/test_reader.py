"""Whole episodes from blocks; scattered rows gathered in files that do not stay."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.csv
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from log_samples import PROBLEMS, columns_of, random_batch

from aegis.errors import LogError, OutputError
from aegis.logs import Source
from aegis.logs.formats.base import even_blocks
from aegis.logs.reader import gather_episodes, whole_episodes
from aegis.rng import stream

ids = st.lists(st.integers(0, 6), min_size=1, max_size=40)


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Send temporary files to a folder of their own."""
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    return folder


def blocks(table: pa.Table, rows: int) -> Iterator[pa.Table]:
    for start in range(0, table.num_rows, rows):
        yield table.slice(start, rows)


@settings(max_examples=30, deadline=None)
@given(ids, st.integers(1, 9))
def test_episodes_are_never_cut(found: list[int], rows: int) -> None:
    found = sorted(found)
    table = pa.table({"id": found, "n": list(range(len(found)))})
    parts = list(whole_episodes(blocks(table, rows), ["id"]))
    assert pa.concat_tables(parts).to_pydict() == table.to_pydict()
    groups = [set(part["id"].to_pylist()) for part in parts]
    assert sum(len(group) for group in groups) == len(set(found))
    assert all(part.num_rows < rows + max(found.count(k) for k in found) for part in parts)


@settings(max_examples=25, deadline=None)
@given(ids, st.integers(1, 9))
def test_gathering_puts_episodes_together_and_keeps_the_order_of_their_rows(found: list[int], rows: int) -> None:
    table = pa.table({"id": found, "n": list(range(len(found)))})
    with gather_episodes(blocks(table, rows), ["id"], len(found), rows) as tables:
        together = pa.concat_tables(tables)
    seen = together["id"].to_pylist()
    assert sorted(together["n"].to_pylist()) == list(range(len(found)))
    assert sum(k == 0 or seen[k - 1] != seen[k] for k in range(len(seen))) == len(set(found))
    for one in set(found):
        numbers = [row["n"] for row in together.to_pylist() if row["id"] == one]
        assert numbers == sorted(numbers)


def scattered_log(tmp_path: Path, wrong: bool) -> Source:
    problem = PROBLEMS["flat"]
    log = columns_of(problem, random_batch(problem, stream(1, "scattered"), 30))
    count = len(log["visit"])
    log["visit"] = [k % 10 for k in range(count)]
    if wrong:
        log["p"] = [2.0 if k == count - 1 else value for k, value in enumerate(log["p"])]
    pa.csv.write_csv(pa.table(log), tmp_path / "log.csv")
    return Source(tmp_path / "log.csv", problem)


def test_temporary_files_are_there_while_reading_and_gone_after(tmp_path: Path, temporary: Path) -> None:
    stream_of_batches = scattered_log(tmp_path, wrong=False).batches(rows=4)
    next(stream_of_batches)
    assert list(temporary.rglob("*.arrow"))
    assert sum(len(batch) for batch in stream_of_batches) == 10 - 1
    assert not list(temporary.iterdir())


def test_temporary_files_are_gone_after_an_error(tmp_path: Path, temporary: Path) -> None:
    with pytest.raises(LogError, match="column 'p': found 2, above 1"):
        list(scattered_log(tmp_path, wrong=True).batches(rows=4))
    assert not list(temporary.iterdir())


def test_temporary_files_are_gone_when_the_reader_stops_early(tmp_path: Path, temporary: Path) -> None:
    batches = scattered_log(tmp_path, wrong=False).batches(rows=4)
    next(batches)
    batches.close()  # type: ignore[attr-defined]
    assert not list(temporary.iterdir())


def test_no_temporary_files_when_episodes_follow_each_other(tmp_path: Path, temporary: Path) -> None:
    problem = PROBLEMS["flat"]
    pa.csv.write_csv(pa.table(columns_of(problem, random_batch(problem, stream(2, "s"), 30))), tmp_path / "log.csv")
    batches = Source(tmp_path / "log.csv", problem).batches(rows=4)
    next(batches)
    assert not list(temporary.iterdir())


def test_a_place_that_cannot_be_written_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "nowhere"))
    with pytest.raises(OutputError, match=r"cannot write temporary files in .*nowhere.*TMPDIR"):
        list(scattered_log(tmp_path, wrong=False).batches(rows=4))


@settings(max_examples=30, deadline=None)
@given(st.lists(st.integers(0, 12), max_size=12), st.integers(1, 9))
def test_blocks_of_any_size_become_even_ones(sizes: list[int], rows: int) -> None:
    """No row is lost or moved; no table is longer than asked for, and only the last is less than half as long."""
    numbers = iter(range(sum(sizes)))
    parts = [
        pa.record_batch({"n": pa.array([next(numbers) for _ in range(size)], pa.int64()), "other": [0] * size}) for size in sizes
    ]
    found = list(even_blocks(parts, ["n"], rows))
    assert [number for table in found for number in table["n"].to_pylist()] == list(range(sum(sizes)))
    assert all(table.column_names == ["n"] for table in found)
    assert all(0 < table.num_rows <= rows for table in found)
    assert all(2 * table.num_rows > rows for table in found[:-1])
