"""`episode: row`, blank rows at the end of a text file, and categories that are declared as numbers."""

from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from log_samples import write_csv

from aegis.errors import LogError
from aegis.logs import Source, Split, to_table
from aegis.problem import Problem, parse_problem


def problem(context: str = "x", episode: str = "row") -> Problem:
    return parse_problem(
        f"episode: {episode}\nreward: {{column: gain, range: [0, 9]}}\n"
        f"levels: [{{name: oven, context: [{context}], action: {{column: oven, values: [low, high]}}, "
        "propensity: {policy: uniform}}]"
    )


def table(count: int = 40) -> pa.Table:
    number = np.arange(count)
    return pa.table({"x": number % 7, "oven": np.where(number % 3 == 0, "low", "high"), "gain": (number % 5) / 2})


def test_each_row_is_an_episode(tmp_path: Path) -> None:
    pq.write_table(table(), tmp_path / "log.parquet", row_group_size=16)
    for source in (table(), tmp_path / "log.parquet", write_csv(table(), tmp_path / "log.csv")):
        log = Source(source, problem())
        batch = log.read()
        assert batch.episode.tolist() == list(range(1, 41))
        parts = [part.episode for part in log.batches(rows=7)]
        assert np.concatenate(parts).tolist() == batch.episode.tolist()
        assert len(log.read(side="prior", split=Split())) + len(log.read(side="certify", split=Split())) == 40


def test_rows_of_several_files_are_different_episodes(tmp_path: Path) -> None:
    for name in ("a", "b", "c"):
        pq.write_table(table(), tmp_path / f"{name}.parquet")
    one, all_three = (Source(tmp_path / name, problem()).read().episode for name in ("a.parquet", ""))
    assert np.unique(all_three).size == 120
    assert np.array_equal(all_three[:40], one)  # what is added later leaves the sides of a split as they are


def test_a_column_called_row_is_that_column(tmp_path: Path) -> None:
    named = table(6).append_column("row", pa.array([1, 1, 2, 2, 3, 3]))
    assert Source(named, problem()).read().episode.tolist() == [1, 2, 3]
    pq.write_table(named, tmp_path / "a.parquet")
    pq.write_table(table(6), tmp_path / "b.parquet")
    with pytest.raises(LogError, match=r"b.parquet: a column is missing: 'row' \(episode id\)"):
        Source(tmp_path, problem()).read()
    again = to_table(Source(table(6), problem()).read(), problem())
    assert again["row"].to_pylist() == [1, 2, 3, 4, 5, 6]
    assert Source(again, problem()).read().episode.tolist() == [1, 2, 3, 4, 5, 6]


def test_another_missing_id_is_offered_the_row() -> None:
    with pytest.raises(LogError, match=r"'visit' \(episode id\).* write 'episode: row' if each row is a unit of its own"):
        Source(table(), problem(episode="visit")).read()


END = [";;\r\n", ";;\r\n;;\r\n\r\n", "\r\n;;\r\n ; ; \r\n", '"";"";""\r\n', ";;"]


@pytest.mark.parametrize("end", END)
@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16", "cp1252"])
def test_blank_rows_at_the_end_are_not_read(end: str, encoding: str, tmp_path: Path) -> None:
    text = "x;oven;gain\r\n" + "".join(f"{k},5;low;0,{k % 10}\r\n" for k in range(30)) + "7;high;\r\n" + end
    path = tmp_path / "log.csv"
    path.write_bytes(text.encode(encoding))
    log = Source(path, problem())
    for rows in (5, 1000):
        assert sum(len(batch) for batch in log.batches(rows=rows)) == 31
    assert "blank row" in next(iter(log.dialects.values()))
    packed = tmp_path / "log.csv.gz"
    packed.write_bytes(gzip.compress(text.encode(encoding)))
    assert len(Source(packed, problem()).read()) == 31


def test_very_many_blank_rows_at_the_end(tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    path.write_text("x,oven,gain\n1,low,2\n2,high,3\n" + ",,\n" * 100_000)
    assert len(Source(path, problem()).read()) == 2
    assert "without 100000 blank rows" in Source(path, problem()).dialects[str(path)]


def test_blank_rows_elsewhere_are_errors(tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    path.write_text("x,oven,gain\n1,low,2\n,,\n2,high,3\n,,\n")
    with pytest.raises(LogError, match=r"row 2, column 'oven': the action of level 'oven' is missing"):
        Source(path, problem()).read()
    path.write_text("x,oven,gain\n1,low,2\n2,,3\n")
    with pytest.raises(LogError, match=r"row 2, column 'oven': the action of level 'oven' is missing"):
        Source(path, problem()).read()


def test_text_in_a_context_is_answered_with_how_categories_are_declared(tmp_path: Path) -> None:
    steel = table(4).set_column(0, "x", pa.array(["steel", "brass", "steel", "zinc"]))
    found = r"column 'x': found 'steel' \(text\) .* list every value .* \{column: x, values: \[brass, steel, zinc\]\}"
    with pytest.raises(LogError, match=found):
        Source(steel, problem()).read()
    declared = problem(context="{column: x, values: [brass, steel, zinc]}")
    assert Source(steel, declared).read().levels["oven"].context["x"].tolist() == [1, 0, 1, 2]
    thousands = steel.set_column(0, "x", pa.array(["1.234,5", "2", "3", "4"]))
    with pytest.raises(LogError, match="thousands separators") as error:
        Source(thousands, problem()).read()
    assert "categories" not in str(error.value)
