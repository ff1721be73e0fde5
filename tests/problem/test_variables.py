"""Variables and actions: kinds, widths, grids, labels, and what is refused."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aegis.errors import ProblemError
from aegis.problem import Actions, Variable


def test_a_variable_is_one_real_column_by_default() -> None:
    variable = Variable("temperature")
    assert (variable.kind, variable.columns, variable.values, variable.width) == ("real", ("temperature",), (), 1)


def test_widths_count_what_a_regression_sees() -> None:
    assert Variable("patient", "vector", ("age", "weight", "height")).width == 3
    assert Variable("ward", "categorical", values=("a", "b")).width == 2


def test_variables_and_actions_cannot_be_changed() -> None:
    for thing, name in ((Variable("x"), "name"), (Actions("a", (1, 2)), "column")):
        with pytest.raises(dataclasses.FrozenInstanceError):
            setattr(thing, name, "other")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"name": ""}, "needs a name"),
        ({"name": "x", "kind": "categorical"}, "at least two values"),
        ({"name": "x", "kind": "categorical", "values": ("a",)}, "at least two values, found \\['a'\\]"),
        ({"name": "x", "kind": "categorical", "values": ("a", "b", "a")}, "'a' is listed twice"),
        ({"name": "x", "kind": "categorical", "values": (1, 1.0)}, "1.0 is listed twice"),
        ({"name": "x", "kind": "categorical", "values": (1.0, math.nan)}, "nan is not a category"),
        ({"name": "x", "kind": "categorical", "values": (1.0, math.inf)}, "inf is not a category"),
        ({"name": "x", "values": ("a", "b")}, "only a categorical variable has values"),
        ({"name": "x", "kind": "vector", "columns": ("u", "v"), "values": ("a", "b")}, "only a categorical variable has values"),
        ({"name": "x", "columns": ("u", "v")}, "one column"),
        ({"name": "x", "columns": ("u",)}, "of the same name, found \\['u'\\]"),
        ({"name": "x", "kind": "vector", "columns": ("u", "u")}, "'u' is listed twice"),
    ],
)
def test_a_wrong_variable_is_refused(arguments: dict[str, object], message: str) -> None:
    with pytest.raises(ProblemError, match=message):
        Variable(**arguments)  # type: ignore[arg-type]


def test_a_grid_is_even_and_includes_both_ends() -> None:
    dose = Actions.grid("dose", -2, 2, 21)
    assert (dose.kind, dose.count, dose.values[0], dose.values[10], dose.values[-1]) == ("grid", 21, -2.0, 0.0, 2.0)
    np.testing.assert_allclose(np.diff(dose.numbers), 0.2)
    assert all(type(value) is float for value in dose.values)


@settings(max_examples=25, deadline=None)
@given(st.floats(-1e6, 1e6), st.floats(1e-3, 1e6), st.integers(2, 60))
def test_every_grid_passes_its_own_check(low: float, width: float, points: int) -> None:
    grid = Actions.grid("a", low, low + width, points)
    assert dataclasses.replace(grid) == grid
    assert (grid.values[0], grid.values[-1], grid.count) == (low, low + width, points)


@pytest.mark.parametrize("points", [1, 0, -3])
def test_a_grid_has_at_least_two_points(points: int) -> None:
    with pytest.raises(ProblemError, match=f"the number of points is a whole number from 2 to .*, found {points}"):
        Actions.grid("dose", 0, 1, points)


@pytest.mark.parametrize(("low", "high"), [(1, 1), (2, 1), (math.nan, 1), (0, math.inf), (-math.inf, 0)])
def test_a_grid_has_finite_ends_in_order(low: float, high: float) -> None:
    with pytest.raises(ProblemError, match="finite low < high"):
        Actions.grid("dose", low, high, 3)


def test_an_uneven_grid_is_refused() -> None:
    with pytest.raises(ProblemError, match="not an even grid"):
        Actions("a", (0.0, 1.0, 3.0), "grid")


def test_numbers_stay_numbers_and_words_make_labels() -> None:
    assert Actions.of("a", (1, 2.5)) == Actions("a", (1, 2.5), "numbers")
    assert Actions.of("a", ("low", "high")) == Actions("a", ("low", "high"), "labels")
    assert Actions.of("a", (1, "high")) == Actions("a", ("1", "high"), "labels")
    assert Actions.of("a", (True, False)) == Actions("a", ("True", "False"), "labels")


@pytest.mark.parametrize(
    ("column", "values", "kind", "message"),
    [
        ("a", (), "numbers", "at least two actions, found 0"),
        ("a", (1,), "numbers", "at least two actions, found 1"),
        ("a", (1, 2, 1.0), "numbers", "1.0 is listed twice"),
        ("a", (1, math.nan), "numbers", "nan is not a finite number"),
        ("a", (1, -math.inf), "numbers", "-inf is not a finite number"),
        ("a", (1, 10**400), "numbers", "is not a finite number"),
        ("a", (1, "x"), "numbers", "'x' is not a finite number"),
        ("a", (0, True), "numbers", "True is not a finite number"),
        ("a", (1, 2), "labels", "1 is not a text"),
        ("a", ("x", "x"), "labels", "'x' is listed twice"),
        ("", (1, 2), "numbers", "needs a column"),
    ],
)
def test_wrong_actions_are_refused(column: str, values: tuple[object, ...], kind: str, message: str) -> None:
    with pytest.raises(ProblemError, match=message):
        Actions(column, values, kind)  # type: ignore[arg-type]


def test_a_number_and_its_own_text_are_one_label() -> None:
    with pytest.raises(ProblemError, match="'1' is listed twice"):
        Actions.of("a", (1, "1"))


def test_models_see_numbers_for_numbers_and_codes_for_labels() -> None:
    index = np.array([2, 0, 1, 2], dtype=np.int32)
    numeric, labelled = Actions("a", (10, 20, 40)), Actions.of("b", ("x", "y", "z"))
    assert numeric.numeric and not labelled.numeric
    np.testing.assert_array_equal(numeric.as_rows(index), [40.0, 10.0, 20.0, 40.0])
    np.testing.assert_array_equal(labelled.as_rows(index.astype(np.int64)), index)
    assert numeric.as_rows(index).dtype == np.float64 and labelled.as_rows(index).dtype == np.int32
    assert numeric.as_rows(index[:0]).shape == (0,)
    assert numeric.variable == Variable("a")
    assert labelled.variable == Variable("b", "categorical", values=("x", "y", "z"))


def test_labels_have_no_numbers() -> None:
    with pytest.raises(ProblemError, match="labels, not numbers"):
        _ = Actions.of("a", ("x", "y")).numbers


@pytest.mark.parametrize("actions", [Actions("a", (1, 2)), Actions.of("a", ("x", "y"))])
@pytest.mark.parametrize("index", [-1, 2])
def test_an_action_not_yet_chosen_does_not_pass_as_the_last_one(actions: Actions, index: int) -> None:
    with pytest.raises(ProblemError, match="from 0 to 1"):
        actions.as_rows(np.array([0, index]))
