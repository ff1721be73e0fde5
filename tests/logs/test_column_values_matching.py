"""Matching log entries to the values a problem allows."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aegis.errors import LogError
from aegis.logs.column_values import match_values, suggest_values, values_column
from aegis.problem import Value

value = st.one_of(st.integers(-1000, 1000), st.floats(-1e6, 1e6), st.text(max_size=5), st.booleans())


@settings(max_examples=200, deadline=None)
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


@settings(max_examples=100, deadline=None)
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
