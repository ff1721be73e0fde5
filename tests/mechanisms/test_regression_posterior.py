"""The Normal-Inverse-Gamma posterior against numerical integration, its draws, its divergence and its refusals."""

from __future__ import annotations

from dataclasses import asdict
from functools import partial

import mechanism_cases as cases
import numpy as np
import pytest
import scipy.stats as st
from hypothesis import given, settings
from hypothesis import strategies as hs

from aegis.errors import ModelError
from aegis.mechanisms import NIG
from aegis.mechanisms.regression import solve_moments
from aegis.rng import stream

PRIOR = {"precision": 0.7, "shape": 2.5, "rate": 1.3}


def some_rows(seed, count, size, outputs=1):
    rng = stream(seed, "nig rows")
    features = rng.standard_normal((count, size))
    return features, features @ rng.standard_normal((size, outputs)) + 0.8 * rng.standard_normal((count, outputs))


def posterior_on_a_grid(features, targets, temper=1.0):
    """Normalised prior times likelihood^temper on a grid of (w_1 .. w_d, log s^2), by brute force."""
    size = features.shape[1]
    points = {1: 601, 2: 121}[size]
    axes = [np.linspace(-4.0, 4.0, points)] * size + [np.linspace(-4.0, 4.0, points)]
    *weights, log_variance = np.meshgrid(*axes, indexing="ij")
    variance = np.exp(log_variance)
    log_density = cases.log_inverse_gamma(log_variance, PRIOR["shape"], PRIOR["rate"])
    for w in weights:
        log_density += cases.log_normal(w, 0.0, variance / PRIOR["precision"])
    for x, y in zip(features, targets[:, 0], strict=True):
        mean = sum(w * v for w, v in zip(weights, x, strict=True))
        log_density += temper * cases.log_normal(y, mean, variance)
    mass = np.exp(log_density - log_density.max())
    return weights, variance, mass / mass.sum()


@pytest.mark.parametrize(("size", "temper"), [(1, 1.0), (1, 0.4), (2, 1.0)])
def test_posterior_and_predictions_agree_with_numerical_integration(size, temper):
    features, targets = some_rows(1, 9, size)
    state = NIG.prior(size, **PRIOR).update(features, targets, temper)
    weights, variance, mass = posterior_on_a_grid(features, targets, temper)
    at = state.moments()
    for place, w in enumerate(weights):
        assert at.mean[place, 0] == pytest.approx((mass * w).sum(), abs=2e-4)
    assert at.rate[0] / (at.shape - 1) == pytest.approx((mass * variance).sum(), rel=2e-3)
    assert at.shape / at.rate[0] == pytest.approx((mass / variance).sum(), rel=2e-3)
    where = np.linspace(-1.5, 2.0, size)
    line = sum(w * v for w, v in zip(weights, where, strict=True))
    mean = (mass * line).sum()
    spread = (mass * np.square(line - mean)).sum()
    found = state.predict(where[None])
    assert found[0][0, 0] == pytest.approx(mean, abs=5e-4)
    assert found[1][0, 0] == pytest.approx(spread, rel=5e-3)
    assert found[2][0, 0] == pytest.approx(spread + (mass * variance).sum(), rel=3e-3)


def log_density(state, w, log_variance):
    at = state.moments()
    precision = float(state.precision[0, 0])
    gaussian = cases.log_normal(w, float(at.mean[0, 0]), np.exp(log_variance) / precision)
    return gaussian + cases.log_inverse_gamma(log_variance, at.shape, float(at.rate[0]))


def test_kl_is_the_integral_of_p_log_p_over_q():
    p = NIG.prior(1, **PRIOR).update(*some_rows(2, 7, 1))
    q = NIG.prior(1, 1, 2.0, 4.0, 0.6).update(*some_rows(3, 3, 1), 0.5)
    w, log_variance = np.meshgrid(np.linspace(-8, 8, 1201), np.linspace(-5, 6, 1201), indexing="ij")
    cell = (16 / 1200) * (11 / 1200)
    log_p, log_q = log_density(p, w, log_variance), log_density(q, w, log_variance)
    assert np.exp(log_p).sum() * cell == pytest.approx(1.0, abs=1e-4)
    assert p.kl(q) == pytest.approx((np.exp(log_p) * (log_p - log_q)).sum() * cell, rel=1e-3)
    assert q.kl(p) == pytest.approx((np.exp(log_q) * (log_q - log_p)).sum() * cell, rel=1e-3)
    assert abs(p.kl(q) - q.kl(p)) > 0.1  # the two directions differ, so a swap would show


def test_kl_of_several_outputs_is_the_sum_of_each():
    features, targets = some_rows(4, 8, 3, outputs=2)
    both = NIG.prior(3, 2, **PRIOR).update(features, targets).kl(NIG.prior(3, 2, **PRIOR))
    each = [NIG.prior(3, **PRIOR).update(features, targets[:, [q]]).kl(NIG.prior(3, **PRIOR)) for q in range(2)]
    assert both == pytest.approx(sum(each), rel=1e-10)


def test_draws_have_the_law_of_the_posterior():
    """(w - m)' P (w - m) / s^2 is chi-square with D degrees of freedom, rate / s^2 is Gamma(a), outputs are independent."""
    features, targets = some_rows(5, 12, 3, outputs=2)
    state = NIG.prior(3, 2, **PRIOR).update(features, targets)
    at, drawn = state.moments(), state.draw(stream(6, "draws"), 20_000)
    assert drawn.weights.shape == (20_000, 3, 2)
    assert drawn.sd.shape == (20_000, 2)
    centred = drawn.weights - at.mean
    distance = np.einsum("sdq,de,seq->sq", centred, state.precision, centred) / np.square(drawn.sd)
    for q in range(2):
        assert st.kstest(distance[:, q], st.chi2(3).cdf).pvalue > 1e-3
        assert st.kstest(at.rate[q] / np.square(drawn.sd[:, q]), st.gamma(at.shape).cdf).pvalue > 1e-3
    covariance = np.linalg.inv(state.precision)
    for q in range(2):
        scale = at.rate[q] / (at.shape - 1)
        z = centred[:, :, q].mean(axis=0) / np.sqrt(scale * np.diag(covariance) / 20_000)
        assert np.abs(z).max() < 4
        np.testing.assert_allclose(np.cov(centred[:, :, q].T), scale * covariance, atol=0.05 * scale * np.diag(covariance).max())
    assert abs(np.corrcoef(drawn.sd.T)[0, 1]) < 4 / np.sqrt(20_000)
    assert abs(np.corrcoef(centred[:, 0, 0], centred[:, 0, 1])[0, 1]) < 4 / np.sqrt(20_000)


def test_point_is_the_posterior_mean():
    state = NIG.prior(2, **PRIOR).update(*some_rows(7, 5, 2))
    at, point = state.moments(), state.point()
    np.testing.assert_array_equal(point.weights, at.mean[None])
    assert point.sd[0, 0] ** 2 == pytest.approx(at.rate[0] / (at.shape - 1))
    assert np.isfinite(NIG.prior(2, 1, 1.0, 0.5, 1.0).point().sd).all()  # the variance has no mean here
    assert np.isinf(NIG.prior(2, 1, 1.0, 0.5, 1.0).predict(np.ones((1, 2)))[2]).all()


@given(hs.integers(0, 2**20), hs.integers(1, 30), hs.integers(1, 4))
@settings(max_examples=40, deadline=None)
def test_the_order_and_grouping_of_updates_do_not_matter(seed, count, size):
    features, targets = some_rows(seed, count, size, 2)
    whole = NIG.prior(size, 2).update(features, targets)
    order = stream(seed, "order").permutation(count)
    cut = count // 3
    parts = NIG.prior(size, 2)
    for rows in (order[:cut], order[cut:], order[:0]):
        parts = parts.update(features[rows], targets[rows])
    for name, values in asdict(whole).items():
        np.testing.assert_allclose(asdict(parts)[name], values, rtol=1e-10, atol=1e-10)


@given(hs.integers(0, 2**20), hs.floats(0.05, 3.0))
@settings(max_examples=30, deadline=None)
def test_tempering_weighs_the_likelihood(seed, temper):
    features, targets = some_rows(seed, 6, 2)
    once = NIG.prior(2).update(features, targets, temper)
    halves = NIG.prior(2).update(features, targets, temper / 2).update(features, targets, temper / 2)
    scaled = NIG.prior(2).update(np.sqrt(temper) * features, np.sqrt(temper) * targets)
    for name, values in asdict(once).items():
        np.testing.assert_allclose(asdict(halves)[name], values, rtol=1e-10)
        if name != "shape":
            np.testing.assert_allclose(asdict(scaled)[name], values, rtol=1e-10)
    assert once.shape == 2.0 + 0.5 * temper * 6
    twice = NIG.prior(2).update(np.tile(features, (2, 1)), np.tile(targets, (2, 1)))
    np.testing.assert_allclose(NIG.prior(2).update(features, targets, 2.0).precision, twice.precision, rtol=1e-10)


@given(hs.integers(0, 2**20), hs.integers(1, 4), hs.integers(1, 3), hs.integers(0, 6), hs.integers(0, 6))
@settings(max_examples=60, deadline=None)
def test_kl_is_not_negative_and_zero_only_for_equals(seed, size, outputs, first, second):
    p = NIG.prior(size, outputs, **PRIOR).update(*some_rows(seed, first, size, outputs))
    q = NIG.prior(size, outputs, 0.3, 1.5, 2.0).update(*some_rows(seed + 1, second, size, outputs))
    assert p.kl(q) > 0
    assert p.kl(p) == pytest.approx(0.0, abs=1e-10)
    after = p.update(*some_rows(seed + 2, 1, size, outputs))
    assert after.kl(p) > 1e-9


def test_memory_does_not_grow():
    state = NIG.prior(3, 2)
    shapes = {name: np.shape(values) for name, values in asdict(state).items()}
    for seed in range(50):
        state = state.update(*some_rows(seed, 4, 3, 2))
    assert {name: np.shape(values) for name, values in asdict(state).items()} == shapes
    assert state.shape == 2.0 + 100


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf, 1e200])
@pytest.mark.parametrize("where", ["features", "targets"])
def test_values_that_are_not_finite_or_huge_are_refused(bad, where):
    features, targets = some_rows(8, 5, 2)
    (features if where == "features" else targets)[2, 0] = bad
    state = NIG.prior(2)
    with pytest.raises(ModelError, match="not finite or far too large"):
        state.update(features, targets)


@pytest.mark.parametrize(("offset", "what"), [("features", "precision"), ("targets", "noise rate")])
def test_values_that_only_differ_by_round_off_are_refused(offset, what):
    """Whether the decomposition itself notices is a matter of luck, so there are several tries."""
    prior = NIG.prior(2, 1, 1e-15, 2.0, 1e-6)  # nearly flat: a prior centred at 0 would take the offset for noise
    for seed in range(20):
        rng = stream(seed, "offset")
        inputs, targets = rng.standard_normal((50, 1)), rng.standard_normal((50, 1))
        features = np.hstack([np.ones((50, 1)), inputs + (1e8 if offset == "features" else 0.0)])
        state = prior.update(features, targets + (1e8 if offset == "targets" else 0.0))
        asks = (state.moments, state.point, lambda s=state: s.kl(prior), lambda s=state: s.draw(stream(1, "x"), 2))
        pair = (NIG.prior(2), state)
        stacked = [np.stack([getattr(own, part) for own in pair]) for part in ("precision", "shift", "square")]
        beside_another = partial(solve_moments, stacked[0], stacked[1], [own.shape for own in pair], stacked[2])
        for ask in (*asks, beside_another):
            with pytest.raises(ModelError, match=f"{what} is not positive"):
                ask()


def test_a_moderate_offset_is_still_served():
    rng = stream(10, "moderate")
    inputs = 1000.0 + rng.standard_normal((200, 1))
    targets = 1000.0 + 2.0 * (inputs - 1000.0) + 0.5 * rng.standard_normal((200, 1))
    at = NIG.prior(2, 1, 1e-6).update(np.hstack([np.ones((200, 1)), inputs]), targets).moments()
    assert at.mean[1, 0] == pytest.approx(2.0, abs=0.2)
    assert np.sqrt(at.rate[0] / at.shape) == pytest.approx(0.5, abs=0.1)


def test_no_rows_change_nothing_and_predict_nothing():
    prior = NIG.prior(2)
    after = prior.update(np.empty((0, 2)), np.empty((0, 1)))
    assert after.kl(prior) == pytest.approx(0.0, abs=1e-12)
    assert [part.shape for part in prior.predict(np.empty((0, 2)))] == [(0, 1)] * 3


def test_the_prior_has_mass_at_every_truth():
    """Around any coefficients and any noise, a posterior as narrow as one likes is at a finite divergence from the prior."""
    prior = NIG.prior(3)
    for truth, noise in ((np.zeros(3), 1.0), (np.array([40.0, -3.0, 0.5]), 0.01), (np.full(3, -8.0), 50.0)):
        log_density = sum(cases.log_normal(w, 0.0, noise / 0.1) for w in truth) + cases.log_inverse_gamma(np.log(noise), 2.0, 1.0)
        assert np.isfinite(log_density)
        for count in (10, 1000, 100_000):
            narrow = narrow_around(truth, noise, count)
            assert np.isfinite(narrow.kl(prior)) and narrow.kl(prior) > 0


def narrow_around(truth, noise, count):
    """Return the posterior of `count` rows whose best fit is `truth`, with residuals of variance `noise`."""
    features = np.tile(np.eye(len(truth)), (count, 1))
    sign = np.where(np.arange(len(features)) // len(truth) % 2, 1.0, -1.0)
    return NIG.prior(len(truth), 1, 1e-9, 2.0, noise).update(features, (features @ truth + sign * np.sqrt(noise))[:, None])


@pytest.mark.parametrize("precision", [0.1, 1.0, 100.0])
def test_the_divergence_is_the_squared_distance_to_the_truth_in_the_precision_of_the_prior(precision):
    """eq:kl-gaussian: half of (theta* - theta_0)' Sigma_0^-1 (theta* - theta_0), beside terms that do not know theta_0.

    Sigma_0^-1 is the prior's precision over the noise variance, whose inverse has the mean shape / rate. A tight prior is cheap
    at the truth and dear far from it.
    """
    truth, noise = np.array([1.0, -2.0]), 0.5
    narrow = narrow_around(truth, noise, 5000)
    at = narrow.moments()

    def prior_at(centre, own):
        rows = np.repeat(np.eye(2), 1, axis=0)
        return NIG.prior(2, 1, 1e-12, 2.0, 1.0).update(np.sqrt(own) * rows, np.sqrt(own) * centre[:, None])

    mean = at.mean[:, 0]
    near = narrow.kl(prior_at(mean, precision))
    for centre in (np.zeros(2), np.array([1.0, 1.0]), np.array([-3.0, 4.0])):
        distance = mean - centre
        priced = narrow.kl(prior_at(centre, precision))
        assert priced - near == pytest.approx(0.5 * precision * at.shape / at.rate[0] * distance @ distance, rel=1e-4)
    far = np.array([-3.0, 4.0])
    if precision > 0.1:
        assert near < narrow.kl(prior_at(mean, 0.1)) and narrow.kl(prior_at(far, precision)) > narrow.kl(prior_at(far, 0.1))


@pytest.mark.parametrize("size", [1, 4, 16])
def test_the_divergence_grows_like_the_number_of_parameters_times_log_k(size):
    """Half a log K for each coefficient, and another half for the noise variance."""
    divergences = [narrow_by_k(size, count).kl(NIG.prior(size)) for count in (1000, 10_000, 100_000)]
    for rise in np.diff(divergences):
        assert rise == pytest.approx(0.5 * (size + 1) * np.log(10), rel=0.02)


def narrow_by_k(size, count):
    return narrow_around(np.linspace(-1.0, 1.0, size), 0.3, count)
