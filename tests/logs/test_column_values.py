"""Decimal marks: what the first rows say decides, and what they do not say is refused."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aegis.errors import LogError
from aegis.logs import Source
from aegis.logs.column_values import COMMA, POINT, TEXT_TYPE, UNSURE, decimal_marks, number_hint, parse_text
from aegis.problem import parse_problem

PROBLEM = parse_problem("episode: v\nreward: {column: r}\nlevels: [{name: a, context: [c], action: {column: x, values: [0, 1]}}]")


@pytest.mark.parametrize(
    ("columns", "marks"),
    [
        ({"a": ["1,5", "2"]}, {"a": COMMA}),
        ({"a": ["1.5", "2"]}, {"a": POINT}),
        ({"a": ["1", "2"]}, {"a": POINT}),
        ({"a": ["0,250"]}, {"a": COMMA}),  # a leading zero is no thousand
        ({"a": ["1,234", "-12,345"]}, {"a": UNSURE}),
        ({"a": ["1.234"]}, {"a": POINT}),  # nothing in the file has a decimal comma
        ({"a": ["1,234"], "b": ["0,5"]}, {"a": COMMA, "b": COMMA}),
        ({"a": ["1,234"], "b": ["0.5"]}, {"a": UNSURE, "b": POINT}),
        ({"a": ["1.234"], "b": ["0,5"]}, {"a": UNSURE, "b": COMMA}),
        ({"a": ["1.234", "1,234"]}, {"a": UNSURE}),
        ({"a": ["1"], "b": ["0,5"]}, {"a": COMMA, "b": COMMA}),
        ({"a": ["1"], "b": ["0,5"], "c": ["0.5"]}, {"a": POINT, "b": COMMA, "c": POINT}),
        ({"a": ["01.03.2024", "hello, world"], "b": ["1,5e-3"]}, {"a": COMMA, "b": COMMA}),
        ({"a": []}, {"a": POINT}),
    ],
)
def test_marks_of_columns(columns: dict[str, list[str]], marks: dict[str, str]) -> None:
    assert decimal_marks(columns) == marks


@settings(max_examples=60, deadline=None)
@given(st.lists(st.floats(-1e6, 1e6).map(lambda number: round(number, 5)), min_size=1, max_size=20), st.booleans())
def test_a_column_is_read_as_written_or_refused(numbers: list[float], comma: bool) -> None:
    written = [f"{number:f}".replace(".", "," if comma else ".") for number in numbers]
    mark = decimal_marks({"a": written})["a"]
    assert mark == (COMMA if comma else POINT)  # six decimals are no thousands
    assert parse_text(pa.array(written, TEXT_TYPE), pa.float64(), mark).to_pylist() == numbers


@pytest.mark.parametrize(
    ("written", "words"),
    [
        ("1.234,5", "thousands separators"),
        ("1'234,5", "thousands separators"),
        ("1.5", "other numbers of this column have a decimal comma"),
        ("12 %", "without the percent sign"),
        ("much", "a number is needed"),
    ],
)
def test_numbers_that_do_not_go_with_their_column_are_named(written: str, words: str, tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    path.write_text(f"v;x;c;r\n1;0;0,5;1\n2;1;{written};1\n")
    with pytest.raises(LogError) as caught:
        Source(path, PROBLEM).read()
    said = str(caught.value)
    assert said.startswith(f"{path}, row 2, column 'c': found {written!r} (text) as context") and words in said


def test_thousands_or_decimals_are_refused_where_they_are_used_and_only_there(tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    path.write_text("v;x;c;r;other\n1;0;1,234;1;9,999\n2;1;5;1;8,888\n")
    with pytest.raises(
        LogError, match=r"row 1, column 'c': found '1,234' .*may mean 1234, or be a number with decimals.*save it"
    ):
        Source(path, PROBLEM).read()
    path.write_text("v;x;c;r;other\n1;0;1;1;9,999\n2;1;5;1;8,888\n")
    assert Source(path, PROBLEM).read().levels["a"].context["c"].tolist() == [1, 5]


def test_commas_between_commas_are_no_decimals(tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    path.write_text('v,x,c,r\n1,0,"0,5",1\n2,1,"1,234.5",1\n')
    with pytest.raises(LogError, match=r"found '0,5' .*write a decimal point, or separate the columns by semicolons"):
        Source(path, PROBLEM).read()
    assert "thousands separators" in number_hint("1,234.5", POINT)
