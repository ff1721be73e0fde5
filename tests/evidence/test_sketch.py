"""Sketches and blends: wealth, merging, rounding, and bounds that hold at every look."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from aegis.errors import RefusedError, SettingError
from aegis.evidence import Blend, Sketch, gain_grid, unit_logs, value_grid
from aegis.rng import stream

VALUES = st.lists(st.floats(0, 50), min_size=1, max_size=40)


def plain_log_wealth(values, grid, v):
    """sum_j p_j prod_k (1 + g_j x_k) / (1 + g_j v), by logarithms, in loops."""
    logs = []
    for bet, weight in zip(grid.bets, grid.log_weights, strict=True):
        logs.append(weight + sum(math.log1p(bet * x) - math.log1p(bet * v) for x in values))
    top = max(logs)
    return top + math.log(sum(math.exp(value - top) for value in logs))


@settings(max_examples=60, deadline=None)
@given(VALUES, st.integers(-5, 5), st.floats(0.001, 1))
def test_wealth_is_the_mixture_of_products(values, centre, v):
    sketch = Sketch.empty(value_grid(centre)).add_values(np.array(values))
    assert sketch.log_wealth(v) == pytest.approx(plain_log_wealth(values, value_grid(centre), v), abs=1e-6)


@settings(max_examples=60, deadline=None)
@given(VALUES, st.integers(0, 40), st.integers(0, 40))
def test_merging_is_exact_and_order_free(values, first, second):
    grid = value_grid(1)
    whole = Sketch.empty(grid).add_values(np.array(values))
    cuts = sorted({0, min(first, len(values)), min(second, len(values)), len(values)})
    parts = [Sketch.empty(grid).add_values(np.array(values[a:b])) for a, b in itertools.pairwise(cuts)]
    merged = Sketch.empty(grid)
    for part in reversed(parts):
        merged = part.merge(merged)
    assert merged.sums == whole.sums
    assert merged.count == whole.count
    assert Sketch.empty(grid).add_values(np.array(values[::-1])).sums == whole.sums


@settings(max_examples=60, deadline=None)
@given(VALUES)
def test_sums_are_rounded_down(values):
    sketch = Sketch.empty(value_grid(0)).add_values(np.array(values))
    for bet, total in zip(sketch.grid.bets, sketch.sums, strict=True):
        exact = sum(Fraction(float(np.log1p(bet * x))) for x in values)
        assert Fraction(total, 2**32) <= exact
        assert exact - Fraction(total, 2**32) <= Fraction(len(values), 2**32)


def test_sums_beyond_64_bits_do_not_overflow():
    grid = value_grid(0)
    part = Sketch.empty(grid).add_values(np.full(100_000, 1e6))
    total = part
    for _ in range(10):
        total = total.merge(total)
    assert total.sums[-1] == part.sums[-1] * 1024
    assert total.sums[-1] > 2**62


def test_bound_and_test_agree_and_the_bound_is_where_the_wealth_falls():
    values = stream(1, "bound").beta(2, 3, 400)
    sketch = Sketch.empty(value_grid(1)).add_values(values)
    bound = sketch.lower(0.05, 0.0, 1.0)
    assert 0.3 < bound < values.mean()
    assert sketch.certifies(bound, 0.05)
    assert not sketch.certifies(np.nextafter(bound, 1), 0.05)
    assert sketch.log_wealth(bound) == pytest.approx(math.log(20), abs=1e-6)
    assert sketch.lower(0.01, 0.0, 1.0) < bound


def test_no_evidence_gives_the_lower_end_and_impossible_evidence_is_refused():
    assert Sketch.empty(value_grid(0)).lower(0.05, 0.0, 1.0) == 0.0
    with pytest.raises(RefusedError, match="largest possible"):
        Sketch.empty(value_grid(0)).add_values(np.full(200, 3.0)).lower(0.05, 0.0, 1.0)


def test_a_dead_bet_stays_dead():
    grid = gain_grid(0.5)
    good = np.full((3, grid.bets.size), 1.2)
    bad = good.copy()
    bad[1, 0], bad[2, 3] = np.nan, 0.0
    sketch = Sketch.empty(grid).add_factors(bad).add_factors(good)
    assert sketch.sums[0] is None and sketch.sums[3] is None and sketch.sums[1] is not None
    assert sketch.merge(Sketch.empty(grid)).sums[0] is None
    assert sketch.log_wealth(0.0) < Sketch.empty(grid).add_factors(good).add_factors(good).log_wealth(0.0)


def test_bad_units_and_grids_are_refused():
    with pytest.raises(RefusedError, match="unit 1"):
        Sketch.empty(value_grid(0)).add_values(np.array([0.5, -0.1]))
    with pytest.raises(RefusedError, match="unit 0"):
        Sketch.empty(value_grid(0)).add_values(np.array([np.nan]))
    with pytest.raises(SettingError, match="different grids"):
        Sketch.empty(value_grid(0)).merge(Sketch.empty(value_grid(1)))
    with pytest.raises(SettingError, match="delta"):
        Sketch.empty(value_grid(0)).lower(1.5, 0.0, 1.0)
    with pytest.raises(SettingError, match="total variation"):
        gain_grid(0.0)


@pytest.mark.parametrize("law", ["beta", "weights"])
def test_the_bound_holds_along_the_whole_path(law):
    """Share of paths on which the bound ever exceeds the truth: at most delta, and the last bound is not vacuous."""
    rng = stream(3, "path", law)
    runs, units, delta = 400, 300, 0.05
    if law == "beta":
        data, truth = rng.beta(1, 3, (runs, units)), 0.25
    else:  # importance weights: 20 with probability 1/20
        data, truth = np.where(rng.random((runs, units)) < 0.05, 20.0, 0.0) * rng.beta(2, 2, (runs, units)), 0.5
    grid = value_grid(1 if law == "beta" else -2)
    logs = np.log1p(grid.bets[:, None, None] * data).cumsum(axis=2)  # [J, runs, units]
    known = np.arange(1, units + 1) * np.log1p(grid.bets * truth)[:, None]
    wealth = np.logaddexp.reduce(grid.log_weights[:, None, None] + logs - known[:, None], axis=0)
    crossed = int((wealth >= math.log(1 / delta)).any(axis=1).sum())
    assert stats.binomtest(crossed, runs, delta, alternative="greater").pvalue > 0.001
    last = [Sketch.empty(grid).add_values(row).lower(delta, 0.0, 1.0) for row in data[:40]]
    assert np.median(last) > 0.3 * truth


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
