"""The sharp bounds against their equation, never below the published form, and their promise by replication."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from aegis.errors import RefusedError, SettingError
from aegis.evidence import Sketch, matching_bet, published_bound, sharp_bound, sharp_grid_bound, value_grid
from aegis.evidence.bounds.pac_bayes import particle_kl
from aegis.rng import stream


def plain_sharp(values, bet, delta, kl, q):
    total = sum(sum(w * math.log(1 + bet * v) for w, v in zip(q, row, strict=True)) for row in values)
    return (math.exp((total - kl - math.log(1 / delta)) / len(values)) - 1) / bet


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.floats(0, 30), min_size=1, max_size=15),
    st.floats(-6, 4).map(lambda x: 2.0**x),
    st.floats(0, 20),
    st.integers(1, 4),
    st.integers(0, 5),
)
def test_one_bet_is_the_equation(rows, bet, kl, particles, seed):
    rng = stream(seed, "sharp")
    values, q = np.array(rows)[:, None] * rng.random(particles), rng.dirichlet(np.ones(particles))
    bound = sharp_bound(values, bet, 0.05, kl, q)
    assert bound.value == pytest.approx(plain_sharp(values, bet, 0.05, kl, q), rel=1e-9, abs=1e-9)
    assert bound.certificate
    assert bound.kl == kl


@settings(max_examples=100, deadline=None)
@given(
    st.lists(st.floats(0, 1), min_size=1, max_size=25),
    st.floats(0.05, 50),
    st.floats(0.001, 0.999),
    st.floats(0, 60),
    st.floats(0.001, 0.5),
    st.integers(1, 4),
    st.integers(0, 9),
)
def test_the_sharp_form_is_never_below_the_published_one(shares, largest, share, kl, delta, particles, seed):
    """At g = lam / (1 - lam B), with the same values in [0, B], KL and delta."""
    rng = stream(seed, "dominance")
    values, q = largest * np.array(shares)[:, None] * rng.random(particles), rng.dirichlet(np.ones(particles))
    lam = share / largest
    published = published_bound(values, delta, lam, largest, kl, q).value
    sharp = sharp_bound(values, matching_bet(lam, largest), delta, kl, q).value
    assert sharp >= published - 1e-9 * max(1.0, abs(published))


def test_matching_bet_makes_the_same_martingale():
    """log(1 - lam (B - L)) = log(1 - lam B) + log(1 + g L)."""
    lam, largest = 0.2, 3.0
    bet = matching_bet(lam, largest)
    assert bet == pytest.approx(0.5)
    for value in (0.0, 1.3, 3.0):
        assert math.log(1 - lam * (largest - value)) == pytest.approx(math.log(1 - lam * largest) + math.log(1 + bet * value))


def test_the_published_form_is_much_looser_where_weights_are_large():
    weights = np.where(stream(1, "loose").random(1000) < 0.1, 10.0, 0.0)
    published = max(published_bound(weights, 0.05, lam, 10.0).value for lam in np.geomspace(1e-3, 0.09, 30))
    assert published < 0.3
    assert sharp_bound(weights, 0.03, 0.05).value > 0.6


@settings(max_examples=40, deadline=None)
@given(st.lists(st.floats(0, 0.9), min_size=1, max_size=30), st.floats(0, 8), st.integers(-4, 4))
def test_grid_bound_is_where_the_wealth_falls_to_the_threshold(rows, kl, centre):
    values, grid = np.array(rows), value_grid(centre)
    bound = sharp_grid_bound(values, grid, 0.05, kl).value

    def log_wealth(v):
        terms = [
            weight + sum(math.log1p(bet * x) - math.log1p(bet * v) for x in rows)
            for bet, weight in zip(grid.bets, grid.log_weights, strict=True)
        ]
        return max(terms) + math.log(sum(math.exp(t - max(terms)) for t in terms))

    threshold = math.log(20) + kl
    assert log_wealth(bound) == pytest.approx(threshold, abs=1e-6) if bound > 0 else log_wealth(0.0) < threshold + 1e-9


def test_grid_bound_without_kl_is_that_of_the_sketch():
    values, grid = stream(1, "same").beta(2, 3, 500), value_grid(1)
    expected = Sketch.empty(grid).add_values(values).lower(0.05, 0.0, 1.0)
    assert sharp_grid_bound(values, grid, 0.05).value == pytest.approx(expected, abs=1e-7)
    assert sharp_grid_bound(values[:, None] * np.ones(3), grid, 0.05).value == pytest.approx(expected, abs=1e-7)


def test_many_units_are_added_in_parts(monkeypatch):
    values, grid = stream(1, "parts").random((300, 3)), value_grid(0)
    whole = sharp_grid_bound(values, grid, 0.05).value
    monkeypatch.setattr("aegis.evidence.bounds.pac_bayes.LOGS_AT_ONCE", 1000)
    assert sharp_grid_bound(values, grid, 0.05).value == pytest.approx(whole, abs=1e-12)


def test_coverage_over_all_units_with_heavy_weights_and_a_posterior_chosen_on_the_data():
    """10 particles whose weighted values have means 0.3 to 0.5; Q is the exponential tilt of the data so far, at every look."""
    rng, runs, violations, bounds = stream(2, "coverage"), 200, 0, []
    truth = np.linspace(0.3, 0.5, 10)
    for _ in range(runs):
        weights = np.where(rng.random((800, 1)) < 0.05, 20.0, 0.0)
        values = weights * (rng.random((800, 10)) < truth)
        for units in (50, 100, 200, 400, 800):
            tilt = np.log1p(0.05 * values[:units]).sum(axis=0)
            q = np.exp(tilt - tilt.max())
            q /= q.sum()
            bound = sharp_bound(values[:units], 0.05, 0.05, particle_kl(q), q).value
            if bound > q @ truth:
                violations += 1
                break
        bounds.append(bound)
    assert stats.binomtest(violations, runs, 0.05, alternative="greater").pvalue > 0.001
    assert np.median(bounds) > 0.05


def test_labels_and_refusals():
    values = np.array([[0.2, 0.4], [0.9, 1.0]])
    assert "Monte-Carlo" in sharp_bound(values, 0.5, 0.05, draws=True).label
    assert "saw the certified units" in sharp_bound(values, 0.5, 0.05, prior_fixed=False).label
    assert sharp_bound(values[:, 0], 0.5, 0.05, draws=True).certificate
    with pytest.raises(RefusedError, match="unit 1: a unit's value is a finite number from 0"):
        sharp_bound(np.array([0.1, -0.1]), 0.5, 0.05)
    with pytest.raises(RefusedError, match="largest possible"):
        sharp_grid_bound(np.full(100, 3.0), value_grid(0), 0.05)
    with pytest.raises(SettingError, match="a bet is"):
        sharp_bound(values, 0.0, 0.05)
    with pytest.raises(SettingError, match="below 1/B"):
        matching_bet(1.0, 1.0)


def test_the_ratios_of_smoothed_gaps_are_a_martingale_that_starts_at_one():
    """Y_k written out, its prior mean over all sequences of values: E[M_k | past] = M_(k-1) exactly, at every step.

    exp(Y_k) = (1 - lam (B - L_k)) / (1 - lam (B - V)) is the wealth factor of the bet that belongs to lam.
    """
    lam, largest, prior = 0.3, 2.0, (0.25, 0.75)
    laws = (((0.0, 0.5), (1.0, 0.3), (2.0, 0.2)), ((0.0, 0.1), (0.5, 0.6), (2.0, 0.3)))  # values and chances, for each theta
    bet = matching_bet(lam, largest)
    means = [sum(value * chance for value, chance in law) for law in laws]

    def y(theta, value):
        return -math.log(1 - lam * (largest - means[theta])) + math.log(1 - lam * (largest - value))

    for theta, law in enumerate(laws):
        for value, _ in law:
            assert math.exp(y(theta, value)) == pytest.approx((1 + bet * value) / (1 + bet * means[theta]))
    joint = [((a, b), p * q) for a, p in laws[0] for b, q in laws[1]]  # one episode has a value under each theta

    def mixture(past):
        return sum(share * math.exp(sum(y(theta, pair[theta]) for pair in past)) for theta, share in enumerate(prior))

    assert mixture([]) == 1.0
    for past in ([], [(0.0, 2.0)], [(2.0, 0.5), (1.0, 0.0)], [(0.0, 0.0)] * 3):
        ahead = sum(chance * mixture([*past, pair]) for pair, chance in joint)
        assert ahead == pytest.approx(mixture(past), rel=1e-12)


def test_divergence_of_weights():
    q, p = np.array([0.5, 0.5, 0.0]), np.array([0.25, 0.25, 0.5])
    assert particle_kl(q, p) == pytest.approx(math.log(2))
    assert particle_kl(q) == pytest.approx(math.log(3) - math.log(2))
    assert particle_kl(np.array([1.0, 0, 0]), np.array([0.0, 0.5, 0.5])) == math.inf
    assert particle_kl(np.full(7, 1 / 7)) == pytest.approx(0.0, abs=1e-12)
