"""Units that wait are counted: a stream is the sketch of its units."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from aegis.errors import RefusedError
from aegis.evidence import Sketch, SketchStream, value_grid
from aegis.evidence.sketch import SKETCH_UNITS_AT_ONCE
from aegis.rng import stream


@given(st.lists(st.one_of(st.floats(0, 1e6), st.none()), max_size=40))
def test_a_stream_is_the_sketch_of_its_units_whenever_one_looks(steps):
    grid = value_grid(0)
    found, seen = SketchStream(grid), []
    for step in steps:
        if step is None:
            assert found.sketch().sums == Sketch.empty(grid).add_values(np.array(seen)).sums
        else:
            found.add(step)
            seen.append(step)
        assert found.count == len(seen)
    assert found.sketch().sums == Sketch.empty(grid).add_values(np.array(seen)).sums


def test_more_units_than_are_held():
    values = stream(1, "streamed").random(SKETCH_UNITS_AT_ONCE + 10)
    found = SketchStream(value_grid(0))
    for value in values.tolist():
        found.add(value)
    whole = Sketch.empty(value_grid(0)).add_values(values)
    assert found.sketch().sums == whole.sums
    assert found.lower(0.05, 0.0, 1.0) == whole.lower(0.05, 0.0, 1.0) > 0.4


@pytest.mark.parametrize("bad", [-1e-9, float("nan"), float("inf")])
def test_a_bad_unit_is_refused_and_the_others_stay(bad):
    found = SketchStream(value_grid(0))
    found.add(0.5)
    with pytest.raises(RefusedError, match="unit 1: a unit's value is a finite number from 0"):
        found.add(bad)
    assert found.count == 1
    assert found.sketch().count == 1
