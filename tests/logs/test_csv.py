"""Exports as spreadsheets and plants write them: titles above the header, rows of units and of totals, percent signs, blanks."""

from __future__ import annotations

from pathlib import Path

import pytest

from aegis.errors import InputError, LogError
from aegis.logs import Source, draft_problem
from aegis.logs.formats.csv import recognise_dialect
from aegis.problem import parse_problem

PROBLEM = parse_problem(
    """
episode: id
reward: {column: gain, range: [0, 10]}
levels:
  - name: kind
    context: [temp]
    action: {column: kind, values: [A, B]}
    propensity: {column: p}
"""
)
HEADER = "id;temp;kind;p;gain;note"
ROWS = [f"{number};2{number % 7},5;{'AB'[number % 2]};0,5;{number % 4},25;" for number in range(1, 21)]


def saved(path: Path, *lines: str) -> Path:
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def test_the_log_without_a_fault_is_read(tmp_path: Path) -> None:
    assert len(Source(saved(tmp_path / "log.csv", HEADER, *ROWS), PROBLEM).read()) == 20


@pytest.mark.parametrize(
    ("titles", "line"),
    [(("Export line 3", "made: 01.02.2025 08:00", ""), 4), (("Export line 3",), 2), (("sep=;", "Export, line 3, all"), 3)],
)
def test_titles_above_the_header_are_named(titles: tuple[str, ...], line: int, tmp_path: Path) -> None:
    path = saved(tmp_path / "log.csv", *titles, HEADER, *ROWS)
    found = rf"the header does not seem to be the first line, which is 'Export.*line {line} and those below it have 6 fields"
    for read in (lambda: Source(path, PROBLEM).read(), lambda: draft_problem(path)):
        with pytest.raises(LogError, match=found):
            read()


def test_a_damaged_row_is_no_title(tmp_path: Path) -> None:
    path = saved(tmp_path / "log.csv", HEADER, *ROWS[:-1], ROWS[-1][:9])
    assert recognise_dialect(path).separator == ";"
    assert recognise_dialect(saved(tmp_path / "one.csv", "note", "a;b", "c")).separator == ","


def test_columns_without_a_name_are_counted(tmp_path: Path) -> None:
    path = saved(tmp_path / "log.csv", "Export line 3;;;;;", HEADER, *ROWS)
    with pytest.raises(
        LogError, match=r"5 of 6 columns have no name \(the first is 'Export line 3'\); the header is the first line"
    ):
        draft_problem(path)


def test_a_row_of_units_or_of_totals_is_asked_about(tmp_path: Path) -> None:
    units = draft_problem(saved(tmp_path / "units.csv", HEADER, ";°C;;-;EUR;", *ROWS))
    assert units.questions[0].startswith("Is row 1 a decision? Column 'temp' holds '°C' there and numbers in other rows")
    totals = draft_problem(saved(tmp_path / "totals.csv", HEADER, *ROWS, "Sum;;;;40,0;"))
    assert totals.questions[0].startswith("Is row 21 a decision? Column 'id' holds 'Sum' there")
    assert not any("a decision?" in text for text in draft_problem(saved(tmp_path / "log.csv", HEADER, *ROWS)).questions)


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ([";°C;;-;EUR;", *ROWS], r"'p' cannot be a propensity: it holds text \(row 1: '-'\)"),
        ([ROWS[0], ROWS[1].replace("0,5", "50 %"), *ROWS[2:]], r"it holds text \(row 2: '50 %'; write the plain number, without"),
        ([*ROWS[:3], ROWS[3].replace("0,5", ""), *ROWS[4:]], r"'p' cannot be a propensity: it holds nothing in 1 row \(row 4\)"),
        ([*ROWS, "21;20,5;;0,5;1,0;"], r"'kind' cannot be an action: found 2 texts, and nothing in 1 row \(row 21\)"),
        (["0;20,5;;0,5;1,0;", *ROWS, "21;20,5;;0,5;1,0;"], r"nothing in 2 rows \(the first is row 1\)"),
    ],
)
def test_what_a_column_cannot_be_is_said_with_row_and_value(lines: list[str], message: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=message):
        draft_problem(saved(tmp_path / "log.csv", HEADER, *lines), actions=("kind",), propensities=("p",))


def test_a_note_that_is_mostly_blank_is_not_the_same_in_every_row(tmp_path: Path) -> None:
    rows = [row + ("checked" if number < 4 else "") for number, row in enumerate(ROWS)]
    found = dict(draft_problem(saved(tmp_path / "log.csv", HEADER, *rows)).unused)
    assert found["note"] == "mostly empty: nothing in 16 of 20 rows, and the same in the others"
