"""Tallies: never above the exact sums, hardly below them, and exact to merge."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aegis.errors import RefusedError
from aegis.evidence import Sketch, Tally, value_grid
from aegis.rng import stream

VALUES = st.lists(st.one_of(st.just(0.0), st.floats(0, 3), st.floats(0, 1e30), st.floats(0, 1e-9)), min_size=1, max_size=50).map(
    lambda found: np.array(found)
)


def _tally(values: np.ndarray) -> Tally:
    tally = Tally()
    tally.add(values)
    return tally


@settings(max_examples=60, deadline=None)
@given(VALUES, st.integers(-20, 20))
def test_sums_are_never_above_the_exact_ones(values: np.ndarray, centre: int) -> None:
    grid = value_grid(centre)
    found = _tally(values).sketch(grid)
    exact = [float(np.log1p(bet * values).sum()) * 2.0**32 for bet in grid.bets]
    assert found.count == values.size
    assert all(total is not None and total <= up + 1e-6 * abs(up) for total, up in zip(found.sums, exact, strict=True))
    assert all(total is not None and total >= -1 for total in found.sums)


@settings(max_examples=50, deadline=None)
@given(VALUES, VALUES, VALUES)
def test_merging_is_exact_in_any_order(one: np.ndarray, two: np.ndarray, three: np.ndarray) -> None:
    together = _tally(np.concatenate([one, two, three]))
    merged = _tally(three).merge(_tally(one)).merge(_tally(two))
    assert merged.count == together.count
    np.testing.assert_array_equal(merged.numbers, together.numbers)
    np.testing.assert_array_equal(merged.distances, together.distances)
    assert merged.sketch(value_grid(0)).sums == together.sketch(value_grid(0)).sums


@pytest.mark.parametrize("centre", [-3, 0, 4])
def test_bounds_are_those_of_the_sketch_but_for_a_millionth(centre: int) -> None:
    values = stream(1, "tally").gamma(2.0, 0.15, size=3000)
    grid = value_grid(centre)
    exact = Sketch.empty(grid).add_values(values).lower(0.05, 0.0, 1.0)
    found = _tally(values).sketch(grid).lower(0.05, 0.0, 1.0)
    assert exact * (1 - 2e-5) < found <= exact


def test_what_is_not_a_value_is_refused() -> None:
    for bad in (-1e-300, np.nan, np.inf):
        with pytest.raises(RefusedError, match="finite number from 0"):
            _tally(np.array([0.5, bad]))
