"""A message lists the first finding of each kind, in the order of the rows, and how many more there are."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from log_samples import PROBLEMS

from aegis.errors import LogError
from aegis.logs import Source
from aegis.logs.column_values import find_unreadable
from aegis.logs.columns import Findings
from aegis.problem import RowOrigins

ROWS = 8


def places(count: int = ROWS) -> RowOrigins:
    return RowOrigins(
        ("a.csv", "b.csv"), np.repeat(np.array([0, 1], dtype=np.int32), count // 2), np.tile(np.arange(count // 2) + 1, 2)
    )


def said(findings: Findings) -> list[str]:
    with pytest.raises(LogError) as caught:
        findings.settle()
    return str(caught.value).splitlines()


def test_nothing_found_is_nothing_raised() -> None:
    findings = Findings(places())
    assert not findings
    findings.settle()


def test_one_finding_is_one_line_without_a_count() -> None:
    findings = Findings(places())
    findings.add(np.array([2]), "x", lambda index: f"found {index}")
    assert findings
    assert said(findings) == ["a.csv, row 3, column 'x': found 2"]


def test_kinds_come_in_the_order_of_their_first_rows_and_count_the_others() -> None:
    findings = Findings(places())
    findings.add(np.array([5]), "y", lambda index: "late")
    findings.add(np.array([6, 1, 3]), "x", lambda index: f"found {index}")
    findings.add(np.array([1, 2]), "a", lambda index: "second in its row", more=True)
    assert said(findings) == [
        "a.csv, row 2, column 'x': found 1 (and 2 more rows like it nearby)",
        "a.csv, row 2, column 'a': second in its row (and at least 1 more row like it nearby)",
        "b.csv, row 2, column 'y': late",
    ]


def test_ten_kinds_are_listed_and_the_rest_is_counted() -> None:
    findings = Findings(places())
    for number in range(12):
        findings.add(np.array([0]), f"c{number}", lambda index: "wrong")
    lines = said(findings)
    assert len(lines) == 11
    assert lines[-1] == "and 2 more kinds of findings in these rows"


def wrong_log() -> dict[str, list[object]]:
    return {
        "visit": [1, 2, 3, 4, 5, 6],
        "age": [0.5, None, 2.5, None, None, 5.5],
        "dose": [1, 2, 9, 1, 2, 3],
        "p": [0.0, 0.5, 0.5, 2.5, -0.5, 0.5],
        "score": [1.0, 0.0, 0.5, float("inf"), 0.0, 1.0],
    }


def test_all_kinds_of_a_block_are_in_one_message(tmp_path: Path) -> None:
    path = tmp_path / "log.parquet"
    pq.write_table(pa.table(wrong_log()), path)
    with pytest.raises(LogError) as caught:
        Source(path, PROBLEMS["flat"]).read()
    lines = str(caught.value).splitlines()
    assert [line.removeprefix(f"{path}, ").partition(":")[0] for line in lines] == [
        "row 1, column 'p'",
        "row 2, column 'age'",
        "row 3, column 'dose'",
        "row 4, column 'p'",
        "row 4, column 'score'",
        "row 5, column 'p'",
    ]
    assert "and 2 more rows like it nearby" in lines[1]


def test_kinds_of_one_block_do_not_wait_for_the_next(tmp_path: Path) -> None:
    path = tmp_path / "log.parquet"
    pq.write_table(pa.table(wrong_log()), path)
    with pytest.raises(LogError) as caught:
        list(Source(path, PROBLEMS["flat"]).batches(rows=2))
    assert [line.split(":")[0].removeprefix(f"{path}, ") for line in str(caught.value).splitlines()] == [
        "row 1, column 'p'",
        "row 2, column 'age'",
    ]


def test_checks_of_whole_decisions_are_collected_too(tmp_path: Path) -> None:
    row = {
        "batch": 1, "machine": "m", "started": 0, "run": 0, "task": 0.5, "shape": "round", "setting": "low", "can_low": True,
        "can_mid": True, "can_high": False, "p_low": 0.5, "p_mid": 0.5, "p_high": 0.0, "step": 0, "s1": 0.0, "s2": 0.0,
        "dose": -2.0, "p_dose": 0.5, "purity": 1.0, "margin": 1.0, "scrap": 0.0,
    }  # fmt: skip
    rows = [
        row,
        {**row, "step": 1, "task": 0.75},  # another task in one decision
        {**row, "step": 1},  # a step again
        {**row, "batch": 2, "p_low": 0.25},  # a sum below 1
        {**row, "batch": 3, "setting": "high", "machine": "n"},  # masked, and without a chance
        {**row, "batch": 3, "setting": "high", "step": 1},  # another machine
    ]
    path = tmp_path / "log.parquet"
    pq.write_table(pa.Table.from_pylist(rows), path)
    with pytest.raises(LogError) as caught:
        Source(path, PROBLEMS["nested"]).read()
    found = [line.removeprefix(f"{path}, ").partition(":")[0] for line in str(caught.value).splitlines()]
    assert found == [
        "row 2, column 'task'",
        "row 3, column 'step'",
        "row 4, column 'p_low'",
        "row 5, column 'setting'",
        "row 5, column 'p_high'",
        "row 6, column 'machine'",
    ]


def test_the_search_for_what_cannot_be_read_is_complete_or_says_that_it_is_not() -> None:
    def refuse_odd(part: pa.Array) -> None:
        if any(value % 2 for value in part.to_pylist()):
            raise pa.ArrowInvalid("odd")

    found, more = find_unreadable(pa.array([2, 4, 5, 6, 7, 8]), refuse_odd)
    assert (found.tolist(), more) == ([2, 4], False)
    found, more = find_unreadable(pa.array(range(100_000)), refuse_odd)
    assert found[0] == 1 and more and 100 < found.size < 100_000
    assert all(index % 2 for index in found.tolist())


def test_a_column_of_wrong_text_is_counted_without_reading_each(tmp_path: Path) -> None:
    log = {"visit": list(range(9000)), "age": ["old"] * 9000, "dose": [1] * 9000, "p": [0.5] * 9000, "score": [1.0] * 9000}
    path = tmp_path / "log.parquet"
    pq.write_table(pa.table(log), path)
    with pytest.raises(LogError, match=r"row 1, column 'age': found 'old' .* \(and at least [0-9,]+ more rows like it nearby\)"):
        Source(path, PROBLEMS["flat"]).read()
