"""Averaged wealth: one valid test, and its bound is the same test inverted."""

from __future__ import annotations

import math

import numpy as np
import pytest

from aegis.errors import SettingError
from aegis.evidence import Blend, Sketch, value_grid
from aegis.rng import stream


def _sketch(values: np.ndarray, offset: float = 0.0) -> Sketch:
    return Sketch.empty(value_grid(0)).add_values(values + offset)


def test_wealth_is_the_average_of_the_wealths() -> None:
    values = stream(1, "blend").random(50)
    one, two = _sketch(values), _sketch(values, 0.5)
    blend = Blend((one, two), (0.0, 0.5))
    naive = math.log((math.exp(one.log_wealth(0.3)) + math.exp(two.log_wealth(0.8))) / 2)
    assert blend.log_wealth(0.3) == pytest.approx(naive)


def test_the_bound_is_where_the_test_turns() -> None:
    values = stream(2, "blend").random(200)
    blend = Blend((_sketch(values), _sketch(values, 1.0)), (0.0, 1.0))
    bound = blend.lower(0.05, 0.0, 1.0)
    assert 0.2 < bound < values.mean()
    assert blend.certifies(bound, 0.05)
    assert not blend.certifies(np.nextafter(bound, 1), 0.05)


def test_units_needed_is_about_where_the_test_turns() -> None:
    values = np.tile([0.2, 0.8], 1000)  # even, so that what comes is like what came
    short = Blend((_sketch(values[:40]),), (0.0,))
    assert not short.certifies(0.45, 0.05)
    needed = short.units_needed(0.45, 0.05)
    turned = next(n for n in range(40, 2000, 2) if Blend((_sketch(values[:n]),), (0.0,)).certifies(0.45, 0.05))
    assert needed == pytest.approx(turned, rel=0.35)
    assert short.units_needed(0.9, 0.05) is None


def test_sketches_of_different_units_are_refused() -> None:
    with pytest.raises(SettingError, match="same units"):
        Blend((_sketch(np.ones(3)), _sketch(np.ones(4))), (0.0, 0.0))
