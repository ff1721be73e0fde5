"""What single units add to a sketch: the same whole numbers as adding them together."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aegis.errors import RefusedError, SettingError
from aegis.evidence import Sketch, gain_grid, unit_logs, value_grid


@settings(max_examples=40, deadline=None)
@given(st.lists(st.floats(0.0, 1e6), min_size=0, max_size=12))
def test_values_one_by_one(values: list[float]) -> None:
    grid, found = value_grid(2), np.array(values)
    single = unit_logs(grid, found)
    together = Sketch.empty(grid).add_values(found)
    assert [sum(column) for column in zip(*single, strict=True)] == (list(together.sums) if values else [])


@settings(max_examples=40, deadline=None)
@given(st.lists(st.lists(st.floats(0.0, 50.0), min_size=14, max_size=14), min_size=1, max_size=6))
def test_factors_one_by_one(rows: list[list[float]]) -> None:
    grid, found = gain_grid(0.5, 3), np.array(rows)
    sums: list[int | None] = [0] * 14
    for unit in unit_logs(grid, found):
        sums = [None if a is None or b is None else a + b for a, b in zip(sums, unit, strict=True)]
    assert tuple(sums) == Sketch.empty(grid).add_factors(found).sums


def test_a_dead_bet_and_nonsense() -> None:
    grid = gain_grid(0.5, 3)
    factors = np.ones((2, 14))
    factors[1, 3], factors[1, 4] = 0.0, np.nan
    first, second = unit_logs(grid, factors)
    assert first == (0,) * 14 and [place for place, value in enumerate(second) if value is None] == [3, 4]
    for wrong in (np.array([-1.0]), np.array([np.nan]), np.array([np.inf])):
        with pytest.raises(RefusedError, match="finite number from 0"):
            unit_logs(grid, wrong)
    with pytest.raises(SettingError, match="one column per bet"):
        unit_logs(grid, np.ones((2, 3)))
    with pytest.raises(RefusedError):
        unit_logs(grid, -np.ones((2, 14)))
