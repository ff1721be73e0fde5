"""Grids of bets and where prior units place them."""

from __future__ import annotations

import numpy as np
import pytest

from aegis.errors import SettingError
from aegis.evidence import (
    FLOOR,
    Sketch,
    factor_centre,
    gain_bets,
    gain_grid,
    place_gain_grid,
    value_bets,
    value_centre,
    value_grid,
)
from aegis.rng import stream


def test_the_grid_is_placed_where_the_bound_is_best():
    """Weights up to 1e4 need tiny bets: a grid centred on prior data is far better than one centred at 1."""
    rng = stream(2, "heavy")
    values = np.where(rng.random(60_000) < 1e-3, 1e3, 0.0) * rng.random(60_000)
    centre = value_centre(values[:30_000], 30_000, 0.05)
    assert centre < -4
    placed, fixed = (Sketch.empty(value_grid(c)).add_values(values[30_000:]).lower(0.05, 0.0, 2.0) for c in (centre, 8))
    assert placed > fixed


def test_weights_of_every_grid_sum_to_one_and_peak_at_the_centre():
    for grid in (value_grid(3), gain_grid(0.5, 4)):
        assert np.exp(grid.log_weights).sum() == pytest.approx(1.0)
    assert gain_grid(0.5, 4).bets[np.argmax(gain_grid(0.5, 4).log_weights)] == gain_bets(0.5)[4]
    assert gain_grid(0.5).bets[0] * 0.5 == pytest.approx(1 - FLOOR)
    assert value_grid(0).digest != value_grid(1).digest


def test_a_gain_grid_is_placed_at_the_bet_that_grew_fastest_and_never_at_a_dead_one():
    bets = gain_bets(0.5)
    factors = 1.0 + bets * stream(5, "grid").normal(0.05, 0.3, (200, 1)).clip(-0.4, 0.4)
    growth = [np.log(column).mean() - np.log1p(bet * 0.01) for column, bet in zip(factors.T, bets, strict=True)]
    placed = place_gain_grid(0.5, factors, 0.01)
    assert placed.centre == int(np.argmax(growth)) > 0
    factors[0, placed.centre] = np.nan
    assert place_gain_grid(0.5, factors, 0.01).centre != placed.centre
    assert place_gain_grid(0.5, np.zeros((0, bets.size)), 0.0).centre == 0


def test_factors_place_a_value_grid_where_values_do():
    values = stream(6, "grid").exponential(0.6, 300)
    assert factor_centre(1.0 + value_bets() * values[:, None], 1000, 0.05) == value_centre(values, 1000, 0.05)
    with pytest.raises(SettingError, match="at least one prior unit"):
        factor_centre(np.ones((0, value_bets().size)), 10, 0.05)
