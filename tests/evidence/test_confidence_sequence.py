"""The path of anytime bounds: never above the exact bound, close below it, whatever the data; and the hedged sequence."""

from __future__ import annotations

import math
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import logsumexp

from aegis.errors import RefusedError, SettingError
from aegis.evidence import Sketch, lower_path, value_grid
from aegis.rng import stream

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))

from hedged import hedged_path

KINDS = {
    "weights": lambda rng, n: np.where(rng.random(n) < 0.2, 4.5, 0.125) * (rng.random(n) < 0.6),
    "uniform": lambda rng, n: rng.random(n),
    "heavy": lambda rng, n: np.exp(rng.normal(-4.5, 2.5, n)),
    "clicks": lambda rng, n: (rng.random(n) < 2e-3) * 1.0,
    "rare and huge": lambda rng, n: (rng.random(n) < 5e-4) * 1e3,
    "constant": lambda rng, n: np.full(n, 0.5),
    "zeros": lambda rng, n: np.zeros(n),
    "falls": lambda rng, n: np.where(np.arange(n) < n // 2, rng.random(n), 0.0),
    "starts late": lambda rng, n: np.where(np.arange(n) < n // 2, 0.0, rng.random(n)),
    "spike": lambda rng, n: np.where(np.arange(n) == 7 * n // 8, 4e3, 0.1),
    "tiny": lambda rng, n: 1e-6 * rng.random(n),
}


def excess(values, grid, path, delta):
    """Log wealth at the path's bounds minus log(1/delta), `[K]`, from plain cumulative sums."""
    sums = np.cumsum(np.log1p(values[:, None] * grid.bets), axis=0)
    count = np.arange(1, values.size + 1)[:, None]
    return logsumexp(grid.log_weights + sums - count * np.log1p(grid.bets * path[:, None]), axis=1) - math.log(1 / delta)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("centre", [-5, 4])
def test_path_is_valid_everywhere_and_close_to_exact(kind, centre):
    """Where it is above 0 the log wealth reaches log(1/delta), by no more than 0.1 too far; where it is 0, 0 is not certified."""
    values, grid = KINDS[kind](stream(1, kind), 3000), value_grid(centre)
    path = lower_path(values, grid, 0.05, high=10.0)
    over, above = excess(values, grid, path, 0.05), path > 0
    assert (over[above] >= -1e-9).all()
    assert (over[above] <= 0.1).all()
    assert (over[~above] <= 0.1).all()
    if above.any():
        assert np.median(over[above]) < 0.04


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 10_000), st.integers(1, 700), st.floats(0.001, 0.5), st.sampled_from(sorted(KINDS)))
def test_path_of_any_length_is_that_of_sketches(seed, units, delta, kind):
    values, grid = KINDS[kind](stream(seed, "length"), units), value_grid(0)
    path = lower_path(values, grid, delta, high=1e5)
    assert path.shape == (units,)
    for k in {1, units // 3 + 1, units}:
        exact = Sketch.empty(grid).add_values(values[:k]).lower(delta, 0.0, 1e5)
        assert path[k - 1] <= exact * (1 + 1e-6) + 1e-12
        later = excess(values[:k], grid, path[:k], delta)[-1]
        assert later <= 0.1


def test_prefixes_agree_up_to_what_the_tangents_miss():
    values, grid = KINDS["weights"](stream(3, "prefix"), 2000), value_grid(0)
    assert lower_path(values[:700], grid, 0.05) == pytest.approx(lower_path(values, grid, 0.05)[:700], abs=3e-3)


def test_the_bound_may_fall_with_a_mean_that_falls():
    path = lower_path(KINDS["falls"](stream(1, "falls"), 2000), value_grid(0), 0.05)
    assert path[999] > 0.4
    assert path[-1] < 0.25


def test_values_so_large_that_products_would_overflow():
    values, grid = 1e12 * (0.5 + stream(1, "large").random(1200)), value_grid(0)
    path = lower_path(values, grid, 0.05, high=1e13)
    over = excess(values, grid, path, 0.05)[path > 0]
    assert (over >= -1e-8).all()
    assert (over < 0.1).all()


def test_parts_of_blocks_give_the_same_path(monkeypatch):
    values, grid = KINDS["heavy"](stream(1, "slices"), 2500), value_grid(0)
    whole = lower_path(values, grid, 0.05, high=10.0)
    monkeypatch.setattr("aegis.evidence.bounds.confidence_sequence.AT_ONCE", 500)
    assert lower_path(values, grid, 0.05, high=10.0) == pytest.approx(whole, rel=1e-5)


def test_path_refuses_what_contradicts_it():
    with pytest.raises(RefusedError, match="after 1 units the data certify a mean above 1"):
        lower_path(np.full(50, 1e6), value_grid(0), 0.05)
    with pytest.raises(RefusedError, match="unit 1: a unit's value is a finite number from 0"):
        lower_path(np.array([0.5, -0.1]), value_grid(0), 0.05)
    with pytest.raises(SettingError, match="above 0, found 0"):
        lower_path(np.ones(3), value_grid(0), 0.05, high=0.0)


def plain_hedged(values, delta, breaks):
    """Waudby-Smith and Ramdas (2024): capital of both bets for every candidate mean, in plain loops."""
    lower, upper = [], []
    rise, fall = [0.5] * (breaks + 1), [0.5] * (breaks + 1)
    mean, variance, squares = 0.5, 0.25, 0.0
    for t, x in enumerate(values, 1):
        stake = math.sqrt(2 * math.log(1 / delta) / (variance * t * math.log(1 + t)))
        for i in range(breaks + 1):
            m = i / breaks
            rise[i] *= 1 + min(stake, 0.5 / m if m > 0 else math.inf) * (x - m)
            fall[i] *= 1 - min(stake, 0.5 / (1 - m) if m < 1 else math.inf) * (x - m)
        left = [i / breaks for i in range(breaks + 1) if max(rise[i], fall[i]) <= 1 / delta]
        lower.append(max(left[0] - 1 / breaks, 0.0))
        upper.append(min(left[-1] + 1 / breaks, 1.0))
        mean = (0.5 + sum(values[:t])) / (t + 1)
        squares += (x - mean) ** 2
        variance = (0.25 + squares) / (t + 1)
    return lower, upper


def test_hedged_sequence_is_its_formula():
    values = stream(1, "hedged").beta(2, 3, 120)
    lower, upper = hedged_path(values, 0.05, breaks=50)
    expected = plain_hedged(values.tolist(), 0.05, 50)
    assert lower == pytest.approx(expected[0])
    assert upper == pytest.approx(expected[1])
    assert lower[-1] < 0.4 < upper[-1]
    assert (hedged_path(values, 0.05, 50, above=1.0)[0] >= lower - 1e-12)[60:].all()
    with pytest.raises(SettingError, match="values lie in"):
        hedged_path(np.array([0.5, 1.5]), 0.05)


def test_path_is_tighter_than_the_hedged_sequence_on_importance_weights():
    values = KINDS["weights"](stream(9, "tighter"), 2500)
    ours, hedged = lower_path(values, value_grid(0), 0.05), 4.5 * hedged_path(values / 4.5, 0.05, above=1.0)[0]
    assert ours[-1] > hedged[-1]
    assert np.median(ours) > np.median(hedged)
