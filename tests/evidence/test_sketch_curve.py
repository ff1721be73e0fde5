"""The bound found by tangents is the one found by halving: the last number whose wealth reaches the threshold."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from aegis.errors import RefusedError, SettingError
from aegis.evidence import Sketch, value_grid
from aegis.evidence.sketch import WealthCurve
from aegis.rng import stream


def naive(curve: WealthCurve, mean: float) -> float:
    """The log wealth, bet by bet."""
    terms = [
        log - curve.count * math.log1p(bet * (mean + offset))
        for log, bet, offset in zip(curve.logs, curve.bets, curve.offsets, strict=True)
    ]
    best = max(terms)
    return best + math.log(sum(math.exp(term - best) for term in terms))


def halved(curve: WealthCurve, threshold: float, low: float, high: float) -> float:
    """The largest certified mean by halving alone."""
    if curve(low) < threshold:
        return low
    while low < (middle := 0.5 * (low + high)) < high:
        low, high = (middle, high) if curve(middle) >= threshold else (low, middle)
    return low


@st.composite
def curves(draw: st.DrawFn) -> WealthCurve:
    seed, count = draw(st.integers(0, 2**32)), draw(st.integers(1, 10**7))
    rng = stream(seed, "curves")
    bets = np.exp2(rng.uniform(-12, 6, draw(st.integers(1, 40))))
    offsets = rng.choice([0.0, draw(st.floats(0, 20))], bets.size)
    truth = draw(st.floats(0, 1))
    logs = count * np.log1p(bets * (truth + offsets)) - bets * count * rng.exponential(draw(st.sampled_from([1e-3, 1e-6, 1.0])))
    return WealthCurve(logs - math.log(bets.size), bets, offsets, count)


@given(curves(), st.floats(1e-6, 1e3))
def test_tangents_find_what_halving_finds(curve, threshold):
    high = 100.0
    if curve(high) >= threshold:
        with pytest.raises(RefusedError, match="the largest possible"):
            curve.lower(threshold, 0.0, high)
        return
    found, expected = curve.lower(threshold, 0.0, high), halved(curve, threshold, 0.0, high)
    assert found == pytest.approx(expected, rel=1e-12, abs=1e-300)
    if found > 0:
        assert curve(found) >= threshold > curve(math.nextafter(found, math.inf))


@given(curves(), st.floats(0, 50))
def test_wealth_is_the_sum_over_bets_and_its_slope_the_derivative(curve, mean):
    wealth, slope = curve._at(mean)
    assert wealth == pytest.approx(naive(curve, mean), rel=1e-9, abs=1e-9 * curve.count)
    step = 1e-6 * (1 + mean)
    slopes = [(naive(curve, mean + sign * step) - naive(curve, mean)) / (sign * step) for sign in (-1, 1)]
    noise = 1e-8 * (abs(slope) + curve.count)
    assert slopes[0] - noise <= slope <= slopes[1] + noise  # convex: the tangent lies between the chords


def test_few_evaluations_are_enough(monkeypatch):
    """Halving takes more than fifty."""
    values = np.where(stream(1, "few").random(100_000) < 0.2, 4.5, 0.125) * 0.6
    curve = Sketch.empty(value_grid(0)).add_values(values).curve()
    asked = []
    plain = WealthCurve._at
    monkeypatch.setattr(WealthCurve, "_at", lambda self, mean: asked.append(mean) or plain(self, mean))
    curve.lower(math.log(20), 0.0, 1.0)
    assert len(asked) < 15


def test_a_bet_that_is_sure_to_win_at_the_lowest_mean():
    """At the mean -1 the bet of 1 gains without limit: no tangent there, and still a bound."""
    curve = WealthCurve(np.array([5.0]), np.array([1.0]), np.array([0.0]), 10)
    assert curve(-1.0) == math.inf
    assert curve.lower(3.0, -1.0, 1.0) == pytest.approx(math.expm1(0.2), rel=1e-12)


def test_ends_the_wrong_way_round_are_refused():
    curve = WealthCurve(np.array([5.0]), np.array([1.0]), np.array([0.0]), 10)
    with pytest.raises(SettingError, match="low < high"):
        curve.lower(3.0, 1.0, 1.0)


def test_no_bet_left_certifies_nothing():
    nothing = WealthCurve(np.zeros(0), np.zeros(0), np.zeros(0), 10)
    assert nothing(0.3) == -math.inf
    assert nothing.lower(3.0, 0.1, 1.0) == 0.1
