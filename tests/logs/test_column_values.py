"""Values of columns: decimal marks from the first rows, and matching to the values that a problem allows."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aegis.errors import LogError
from aegis.logs import Source
from aegis.logs.column_values import (
    COMMA,
    POINT,
    TEXT_TYPE,
    UNSURE,
    decimal_marks,
    match_values,
    number_hint,
    parse_text,
    suggest_values,
    values_column,
)
from aegis.problem import Value, parse_problem

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


@settings(max_examples=25, deadline=None)
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


# ---- matching ----

value = st.one_of(st.integers(-1000, 1000), st.floats(-1e6, 1e6), st.text(max_size=5), st.booleans())


@settings(max_examples=50, deadline=None)
@given(st.lists(value, min_size=2, max_size=8, unique_by=lambda v: str(v).lower()), st.data())
def test_what_is_written_matches_itself(values: list[Value], data: st.DataObject) -> None:
    if len({float(v) for v in values if not isinstance(v, str)}) < sum(not isinstance(v, str) for v in values):
        return  # 1 and True, or 0.0 and -0.0: a problem refuses them
    codes = np.array(data.draw(st.lists(st.integers(-1, len(values) - 1), min_size=1, max_size=10)), dtype=np.int32)
    column = values_column(values, codes)
    numbers = [float(v) for v in values if not isinstance(v, str | bool)]
    if len(numbers) == len(values) and np.diff(np.sort(numbers)).min() <= 2e-9 * (max(numbers) - min(numbers)):
        return  # closer than what is taken for round-off
    np.testing.assert_array_equal(match_values(column, values), codes)


@pytest.mark.parametrize(
    ("column", "values", "codes"),
    [
        ([2, 1, 3, None], (1, 2, 3), [1, 0, 2, -1]),
        ([2.0, 1.5], (1, 2, 3), [1, -1]),
        (["2", "2.0", " 2", "2_0", "x", "nan", "inf"], (1, 2, 20), [1, 1, 1, -1, -1, -1, -1]),
        ([True, False], (0, 1), [1, 0]),
        (["true", "FALSE", "True", "1", "0", "yes"], (True, False), [0, 1, 0, 0, 1, -1]),
        ([True, False], ("True", "False"), [0, 1]),
        (["a", "A", "a "], ("a", "b"), [0, -1, -1]),
        ([2.0, 3.0], ("low", "2"), [1, -1]),
        ([float("nan"), float("inf"), float("-inf")], (1, 2), [-1, -1, -1]),
        ([3, 1], (3, 1, 2), [0, 1]),
    ],
)
def test_spellings(column: list[Any], values: tuple[Value, ...], codes: list[int]) -> None:
    assert match_values(pa.array(column), values).tolist() == codes


@settings(max_examples=30, deadline=None)
@given(st.integers(2, 50), st.floats(-100, 100), st.floats(0.1, 1000), st.floats(-0.9e-9, 0.9e-9))
def test_grids_match_within_round_off_and_not_beyond(points: int, low: float, span: float, off: float) -> None:
    grid = np.linspace(low, low + span, points)
    values = tuple(grid.tolist())
    assert match_values(pa.array(grid + off * span), values).tolist() == list(range(points))
    assert match_values(pa.array(grid + 3e-9 * span), values).tolist() == [-1] * points


def test_columns_have_the_type_of_their_values() -> None:
    assert values_column((1, 2), [0, 1]).type == pa.int64()
    assert values_column((1, 2.5), [0, 1]).type == pa.float64()
    assert values_column((True, False), [0, 1]).type == pa.bool_()
    assert values_column(("a", 2), [1, 0]).to_pylist() == ["2", "a"]


def test_values_that_look_the_same_in_a_log_are_refused() -> None:
    for use in (lambda: values_column((1, "1"), [0, 1]), lambda: match_values(pa.array(["1"]), (1, "1"))):
        with pytest.raises(LogError, match="both read '1'"):
            use()


def test_suggestions_name_the_nearest() -> None:
    assert suggest_values(2.2, (1, 2, 3)) == "allowed: 1, 2, 3; the nearest is 2"
    assert suggest_values("hgih", ("low", "high")) == "allowed: low, high (did you mean 'high'?)"
    assert "(30 in all)" in suggest_values(5, tuple(range(30)))


def test_floats_match_whole_labels_and_text_does_not() -> None:
    assert match_values(pa.array([1.0, 2.5]), ["1", "b"]).tolist() == [0, -1]
    assert match_values(pa.array(["1.0", "1"]), ["1", "b"]).tolist() == [-1, 0]
