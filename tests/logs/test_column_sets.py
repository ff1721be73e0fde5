"""Sets of columns with one column per action."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from aegis.logs.draft.column_profile import LogProfile
from aegis.logs.draft.column_sets import align_values, find_column_sets, widen_column_set


@pytest.mark.parametrize(
    ("values", "columns", "expected"),
    [
        ((1, 2, 5), ["p_1", "p_2", "p_5"], ["p_1", "p_2", "p_5"]),
        ((0, 5, 10), ["p_dose_0", "p_dose_1", "p_dose_2"], ["p_dose_0", "p_dose_1", "p_dose_2"]),
        ((0.5, 1.5), ["p_0_5", "p_1_5"], ["p_0_5", "p_1_5"]),
        (("day care", "ward"), ["Ward.ok", "Day_care.ok"], ["Day_care.ok", "Ward.ok"]),
        ((False, True), ["p0", "p1"], ["p0", "p1"]),
        ((7, 9), ["x1", "x2"], ["x1", "x2"]),
    ],
)
def test_sets_of_columns(values: tuple[object, ...], columns: list[str], expected: list[str]) -> None:
    assert list(next(find_column_sets(values, columns)).columns) == expected  # type: ignore[arg-type]


@pytest.mark.parametrize("columns", [["p_10", "p_20"], ["lowest", "high"], ["p_1", "q_2"]])
def test_parts_of_longer_words_are_no_labels(columns: list[str]) -> None:
    assert list(find_column_sets((1, 2), columns)) == []
    assert list(find_column_sets(("low", "high"), columns)) == []


def test_numbered_columns_do_not_say_which_label_they_are() -> None:
    assert list(find_column_sets(("low", "high"), ["p_0", "p_1"])) == []


def test_actions_that_were_never_taken_are_known_from_the_columns() -> None:
    columns = ["p_1", "p_2.5", "p_4"]
    found = widen_column_set(next(find_column_sets((1, 4), columns)), columns)
    assert found is not None and found.values == (1, 2.5, 4) and list(found.columns) == columns
    words = ["can high", "can low", "can mid"]
    found = widen_column_set(next(find_column_sets(("high", "low"), words)), words)
    assert found is not None and set(found.values) == {"high", "low", "mid"}
    # numbers that only count do not say which values they stand for
    counted = [f"p_{index}" for index in range(5)]
    found = widen_column_set(next(find_column_sets((1, 2), counted)), counted)
    assert found is not None and (found.values, list(found.columns)) == ((), counted)


def peaked(values: np.ndarray, taken: np.ndarray, where: np.ndarray, width: float) -> tuple[LogProfile, np.ndarray]:
    """Return actions drawn near `where` from a grid of values, those in `taken` only, and their chances."""
    rng = np.random.default_rng(1)
    chances = np.exp(-(((values[None, :] - where[:, None]) / width) ** 2))
    chances /= chances.sum(axis=1, keepdims=True)
    drawn = values[(chances.cumsum(axis=1) < rng.random(where.size)[:, None]).sum(axis=1)]
    kept = np.isin(drawn, taken)
    return LogProfile.of(pa.table({"a": drawn[kept]})), chances[kept]


def test_counted_columns_are_assigned_by_what_makes_the_log_likely() -> None:
    values = np.linspace(-2, 2, 7)
    where = np.random.default_rng(0).normal(scale=0.5, size=400)
    sheet, chances = peaked(values, values[2:5], where, 0.7)
    assert sheet.looks["a"].count == 3
    found = align_values(sheet.looks["a"], chances)
    assert found is not None and found == pytest.approx(values)
    shifted, chances = peaked(np.arange(1.0, 6.0), np.arange(2.0, 5.0), 3 + where, 0.7)
    assert align_values(shifted.looks["a"], chances) == (1, 2, 3, 4, 5)


def test_counted_columns_of_even_chances_are_not_assigned() -> None:
    sheet = LogProfile.of(pa.table({"a": np.tile([1.0, 2.0, 3.0], 100)}))
    assert align_values(sheet.looks["a"], np.full((300, 5), 0.2)) is None
