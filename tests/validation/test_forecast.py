"""The forecast: simulated units, the growth of their evidence, and the paths."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aegis.evidence import Grid, gain_grid, gain_stakes, water_filled_factors
from aegis.problem import Array
from aegis.rng import stream
from aegis.validation.planner.forecast import (
    NO_GAIN,
    NOTHING,
    PLACINGS,
    STATIONS,
    SUMMED,
    Growth,
    HypotheticalStudy,
    crossing_times,
    forecast_row,
    placed_grids,
    simulate_growth,
)
from aegis.validation.planner.guess import study_from_guess


def some_play(seed: int, explore: float = 0.4, cap: float = 2.0, decisions: int = 3) -> HypotheticalStudy:
    return study_from_guess(6, explore, cap, 0.1, 0.05, 0.1, 0.5, decisions, stream(seed, "play"))


@settings(max_examples=8, deadline=None)
@given(st.floats(0.1, 1.0), st.sampled_from([1.5, 2.0, 4.0]), st.integers(1, 4), st.integers(0, 100))
def test_factors_have_their_known_mean(explore: float, cap: float, decisions: int, seed: int) -> None:
    play = some_play(seed, explore, cap, decisions)
    bets = gain_grid(play.largest).bets
    found = play.factors(bets, 8, stream(seed, "factors"))
    error = found.std(axis=0) / math.sqrt(len(found))
    np.testing.assert_allclose(play.expected(bets), 1 + bets * play.gain)
    assert (np.abs(found.mean(axis=0) - play.expected(bets)) < 5 * error + 1e-9).all()
    assert found.min() >= 0.05 - 1e-9


def test_factors_are_those_of_a_certificate() -> None:
    """The same draws, computed by what certificates are computed with."""
    play = some_play(4, decisions=1)
    bets = gain_grid(play.largest).bets
    rows = np.arange(len(play.logging))
    chances = np.cumsum(play.logging, axis=1)
    action = (chances <= stream(5, "draws").random(len(rows))[:, None] * chances[:, -1:]).sum(axis=1)
    stakes = gain_stakes(play.candidate, play.comparator, play.logging)
    reward = np.clip(play.mean[rows, action] + play.residual, 0.0, 1.0)
    wanted = water_filled_factors(stakes, play.logging, play.control, action, reward, bets)
    np.testing.assert_allclose(play.factors(bets, 1, stream(5, "draws")), wanted, rtol=1e-12)


def test_a_mean_that_rests_on_what_was_not_drawn_does_not_lift_the_rest() -> None:
    """An action that is hardly ever logged carries the gain: evidence must not grow in simulations that never saw it."""
    count, rare = 400, 1e-7
    logging = np.tile([1.0 - rare, rare], (count, 1))
    candidate = np.tile([0.0, 1.0], (count, 1))
    mean = np.tile([0.2, 0.8], (count, 1))
    play = HypotheticalStudy(logging, candidate, mean, mean, np.zeros(count), 1.0, lambda values: values, logging)
    assert play.gain == pytest.approx(0.6)
    found = simulate_growth((play,), 0.0, 100, stream(1, "rare"))
    assert found.logs.mean(axis=0).max() < 1e-4


def test_a_margin_slows_growth_down() -> None:
    play = some_play(1)
    free, held = (simulate_growth((play,), margin, 100, stream(1, "margin")) for margin in (0.0, 0.001))
    assert np.array_equal(free.bets, held.bets)
    np.testing.assert_allclose(free.logs - held.logs, np.tile(np.log1p(free.bets * 0.001), (len(free.logs), 1)), atol=1e-12)


def test_few_prior_units_place_bets_worse_than_many() -> None:
    """Rare large weights: on a few units the growth of the largest bets is a matter of luck."""
    play = study_from_guess(11, 0.4, math.inf, 0.16, -0.06, 0.03, 0.5, 20, stream(1, "play"))
    few, many = (placed_grids((play,), 0.0, prior, stream(1, "placing")) for prior in (20, 2000))
    assert len(few) == len(many) == PLACINGS
    assert np.ptp([grid.centre for grid in few]) > np.ptp([grid.centre for grid in many])
    taken = [forecast_row((play,), 0.4, math.inf, 0.0, 0.01, 1.0, prior, 1).episodes for prior in (20, 2000)]
    assert taken[0] is not None and taken[1] is not None and taken[0] > 1.1 * taken[1]


def test_every_grid_has_its_share_of_the_paths() -> None:
    """Two grids, one of which has next to no weight on the only bet that grows."""
    logs = np.tile([0.2, -10.0], (50, 1))
    weights = np.log([[0.5, 0.5], [1e-4, 1 - 1e-4]])
    found = crossing_times(Growth(logs, np.array([1.0, 0.5]), weights), 0.05, stream(1, "paths"), 10)
    wanted = [math.ceil((math.log(1 / 0.05) - weight) / 0.2) for weight in weights[:, 0]]
    assert found.tolist() == wanted * 5
    lacking = np.array([[0.0, -np.inf], [-np.inf, 0.0]])  # the second grid does not have the bet at all
    found = crossing_times(Growth(logs, np.array([1.0, 0.5]), lacking), 0.05, stream(1, "paths"), 10)
    assert np.isfinite(found).tolist() == [True, False] * 5


def grown(logs: Array, grid: Grid) -> Growth:
    """What grows under one grid."""
    return Growth(logs, grid.bets, grid.log_weights[None])


def test_constant_growth_crosses_when_it_must() -> None:
    grid = gain_grid(0.5)
    rate = 0.2
    logs = np.where(np.arange(grid.bets.size) == 0, rate, -10.0) * np.ones((50, 1))
    needed = math.ceil((math.log(1 / 0.05) - grid.log_weights[0]) / rate)
    assert (crossing_times(grown(logs, grid), 0.05, stream(1, "paths")) == needed).all()


@pytest.mark.parametrize("rate", [0.05, 0.0025])
def test_long_paths_agree_with_paths_unit_by_unit(rate: float, monkeypatch: pytest.MonkeyPatch) -> None:
    grid = gain_grid(0.5)
    noise = stream(3, "noise").standard_normal((2000, 1)) * math.sqrt(2 * rate)
    logs = rate + (noise - noise.mean()) * np.linspace(1.0, 0.2, grid.bets.size)
    quick = np.median(crossing_times(grown(logs, grid), 0.05, stream(1, "paths")))
    monkeypatch.setattr("aegis.validation.planner.forecast.STATIONS", 10**6)
    exact = np.median(crossing_times(grown(logs, grid), 0.05, stream(2, "paths")))
    assert quick == pytest.approx(exact, rel=0.12)
    if rate < 0.01:
        assert quick > STATIONS * SUMMED  # the quick way was not taken in vain


def test_evidence_that_does_not_grow_never_crosses() -> None:
    grid = gain_grid(0.5)
    logs = np.full((20, grid.bets.size), -0.01)
    assert np.isinf(crossing_times(grown(logs, grid), 0.05, stream(1, "paths"))).all()
    logs[:, 0] = 0.5
    logs[3, 0] = -np.inf  # a bet that dies now and then is no bet to count on
    assert np.isinf(crossing_times(grown(logs, grid), 0.05, stream(1, "paths"))).all()


def test_a_forecast_says_why_there_is_none() -> None:
    play = some_play(1)
    same = HypotheticalStudy(play.logging, play.logging, play.control, play.mean, play.residual, 0.5, play.pool, play.logging)
    assert forecast_row((same,), 0.4, 2.0, 0.0, 0.05, 1.0, 100, 1).why == NOTHING
    assert forecast_row((play,), 0.4, 2.0, 0.5, 0.05, 1.0, 100, 1).why == NO_GAIN
    found = forecast_row((play,), 0.4, 2.0, 0.0, 0.05, 10.0, 100, 1)
    assert found.episodes is not None and found.likely is not None and found.episodes < found.likely
    assert found.gain == pytest.approx(10 * play.gain)


def test_fewer_episodes_than_the_largest_bet_allows_are_never_promised() -> None:
    play = some_play(1)
    found = forecast_row((play,), 0.4, 2.0, 0.0, 0.05, 1.0, 100, 1)
    least = math.log(1 / 0.05) / math.log1p(gain_grid(play.largest).bets[0] * play.gain)
    assert found.episodes is not None and found.episodes >= least
