"""Classic bounds against their formulas, what each may be called, and who keeps a promise when looked at again and again."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from aegis.errors import ModelError, RefusedError, SettingError
from aegis.evidence import (
    anytime_bernstein,
    bca_bootstrap,
    central_limit,
    empirical_bernstein,
    hoeffding,
    logarithmic_smoothing,
    lower_path,
    percentile_bootstrap,
    sharp_bound,
    student_t,
    value_grid,
)
from aegis.evidence.bounds.mean_bounds import resampled_means
from aegis.rng import stream

VALUES = st.lists(st.floats(0, 1), min_size=2, max_size=30)


@settings(max_examples=60, deadline=None)
@given(VALUES, st.floats(0.01, 0.4))
def test_fixed_time_bounds_are_their_formulas(rows, delta):
    x, n = np.array(rows), len(rows)
    mean = sum(rows) / n
    variance = sum((v - mean) ** 2 for v in rows) / (n - 1)
    assert hoeffding(2 * x - 1, delta, (-1, 1)).value == pytest.approx(
        2 * mean - 1 - 2 * math.sqrt(math.log(1 / delta) / (2 * n))
    )
    log = math.log(2 / delta)
    assert empirical_bernstein(3 * x, delta, (0, 3)).value == pytest.approx(
        3 * (mean - math.sqrt(2 * variance * log / n) - 7 * log / (3 * (n - 1)))
    )
    error = math.sqrt(variance / n)
    assert central_limit(x, delta).value == pytest.approx(mean - stats.norm.ppf(1 - delta) * error)
    assert student_t(x, delta).value == pytest.approx(mean - stats.t.ppf(1 - delta, n - 1) * error)


def plain_bernstein(rows, delta):
    """Predictable plug-in: lambda_t = min(1/2, sqrt(2 log(1/delta) / (v_(t-1) t log(1 + t)))), psi(l) = (-log(1 - l) - l) / 4."""
    mean, variance = 0.5, 0.25
    total = top = bottom = squares = 0.0
    path = []
    for t, x in enumerate(rows, 1):
        stake = min(0.5, math.sqrt(2 * math.log(1 / delta) / (variance * t * math.log(1 + t))))
        top += stake * x - 4 * (x - mean) ** 2 * (-math.log(1 - stake) - stake) / 4
        bottom += stake
        path.append((top - math.log(1 / delta)) / bottom)
        total += x
        mean = (0.5 + total) / (t + 1)
        squares += (x - mean) ** 2
        variance = (0.25 + squares) / (t + 1)
    return path


@settings(max_examples=40, deadline=None)
@given(VALUES, st.floats(0.01, 0.4))
def test_anytime_bernstein_is_its_formula_step_by_step(rows, delta):
    assert anytime_bernstein(np.array(rows), delta, (0, 1)).path == pytest.approx(plain_bernstein(rows, delta))


def test_anytime_bernstein_of_many_units_in_another_range():
    """After many units the bets are no longer cut at 1/2 and depend on the variance so far."""
    values = stream(1, "bernstein").beta(2, 3, 500)
    found = anytime_bernstein(10 * values - 5, 0.05, (-5, 5)).value
    assert found == pytest.approx(10 * plain_bernstein(values.tolist(), 0.05)[-1] - 5)


@settings(max_examples=40, deadline=None)
@given(st.lists(st.floats(0, 40), min_size=1, max_size=30), st.floats(0.01, 2))
def test_logarithmic_smoothing_is_its_formula_and_the_sharp_bound(rows, lam):
    s = sum(math.log(1 + lam * v) for v in rows) / (lam * len(rows)) - math.log(20) / (lam * len(rows))
    full = logarithmic_smoothing(np.array(rows), 0.05, lam)
    assert full.value == pytest.approx((math.exp(lam * s) - 1) / lam, rel=1e-9, abs=1e-9)
    assert full.value == sharp_bound(np.array(rows), lam, 0.05).value
    assert full.value >= s - 1e-9
    assert full.label == "certificate"
    assert logarithmic_smoothing(np.array(rows), 0.05).validity == "fixed time"


def test_bootstraps_agree_with_an_independent_implementation():
    x = stream(1, "bootstrap").gamma(0.7, 1.0, 60)
    rng = np.random.default_rng(3)
    for method, bound in (("percentile", percentile_bootstrap), ("BCa", bca_bootstrap)):
        other = stats.bootstrap((x,), np.mean, n_resamples=20_000, confidence_level=0.9, method=method, rng=rng)
        found = bound(x, 0.05, stream(2, method), 20_000)
        assert found.value == pytest.approx(other.confidence_interval.low, abs=0.012)
        assert found.label == "not a certificate: right only as the number of units grows"


def test_bootstrap_resamples_in_parts_and_says_what_it_cannot_do(monkeypatch):
    x = stream(1, "parts").random(30)
    assert resampled_means(x, stream(1, "a"), 500).shape == (500,)
    monkeypatch.setattr("aegis.evidence.bounds.mean_bounds.DRAWS_AT_ONCE", 100)
    means = resampled_means(x, stream(1, "a"), 500)
    assert means.shape == (500,)
    assert means.std() == pytest.approx(x.std() / math.sqrt(30), rel=0.2)
    assert bca_bootstrap(np.full(5, 0.3), 0.05, stream(1, "c")).value == 0.3
    for scale in (2.0**-1000, 2.0**-500, 1e-300, 2.0**500):  # where cubes and squares of values are no numbers any more
        found = bca_bootstrap(x * scale, 0.05, stream(1, "e")).value / scale
        assert found == pytest.approx(bca_bootstrap(x, 0.05, stream(1, "e")).value, rel=1e-12)
    with pytest.raises(SettingError, match="two resamples"):
        percentile_bootstrap(x, 0.05, stream(1, "b"), 1)
    monkeypatch.setattr("aegis.evidence.bounds.mean_bounds.resampled_means", lambda *_: np.full(10, 9.0))
    with pytest.raises(ModelError, match="one side"):
        bca_bootstrap(x, 0.05, stream(1, "d"))


def test_labels_say_when_a_bound_holds():
    x = np.array([0.1, 0.9, 0.5])
    once = "certificate at one number of units, fixed beforehand"
    assert hoeffding(x, 0.05, (0, 1)).label == empirical_bernstein(x, 0.05, (0, 1)).label == once
    assert anytime_bernstein(x, 0.05, (0, 1)).label == "certificate"
    for bound in (student_t(x, 0.05), central_limit(x, 0.05)):
        assert not bound.certificate
    outside = hoeffding(x, 0.05, (0, 0.8))
    assert not outside.certificate
    assert "values lie in [0.1, 0.9], not in the declared range [0, 0.8]" in outside.label


def test_refusals():
    with pytest.raises(SettingError, match="low < high"):
        hoeffding(np.ones(3), 0.05, (1, 1))
    with pytest.raises(SettingError, match="two units"):
        student_t(np.ones(1), 0.05)
    with pytest.raises(SettingError, match="one unit or more"):
        central_limit(np.zeros(0), 0.05)
    with pytest.raises(RefusedError, match="unit 0"):
        logarithmic_smoothing(np.array([-1.0]), 0.05)


def importance_weighted(rng, runs, units):
    """Values `w r` of a candidate with value 0.6: weights 4.5 or 0.125 with mean one, rewards of 0 or 1."""
    return np.where(rng.random((runs, units)) < 0.2, 4.5, 0.125) * (rng.random((runs, units)) < 0.6)


def test_anytime_bounds_keep_their_promise_on_the_whole_path():
    runs, truth = 200, 0.6
    values = importance_weighted(stream(5, "coverage"), runs, 1000)
    for name, path in {
        "bernstein": lambda x: anytime_bernstein(x, 0.05, (0, 4.5)).path,
        "smoothing": lambda x: np.expm1((np.cumsum(np.log1p(0.1 * x)) - math.log(20)) / np.arange(1, x.size + 1)) / 0.1,
        "mixture": lambda x: lower_path(x, value_grid(0), 0.05),
    }.items():
        paths = np.stack([path(row) for row in values])
        violations = int((paths > truth).any(axis=1).sum())
        assert stats.binomtest(violations, runs, 0.05, alternative="greater").pvalue > 0.001, name
        assert np.median(paths[:, -1]) > 0.2, name
    assert logarithmic_smoothing(values[0], 0.05, 0.1).value == pytest.approx(
        np.expm1((np.log1p(0.1 * values[0]).sum() - math.log(20)) / 1000) / 0.1
    )


def test_fixed_time_bounds_keep_their_promise_once():
    runs = 300
    values = importance_weighted(stream(6, "once"), runs, 300)
    for bound in (hoeffding, empirical_bernstein):
        violations = sum(bound(row, 0.05, (0, 4.5)).value > 0.6 for row in values)
        assert stats.binomtest(violations, runs, 0.05, alternative="greater").pvalue > 0.001


def test_a_t_interval_looked_at_fifty_times_excludes_the_truth_far_too_often():
    """Normal values with mean 0, where one look is exact: 50 looks, every 20 units, exclude the truth in a quarter to a third of
    the runs at a promised 5 %."""
    runs, looks = 400, range(20, 1020, 20)
    values = stream(7, "looks").standard_normal((runs, 1000))
    once = sum(student_t(row, 0.05).value > 0 for row in values)
    ever = sum(any(student_t(row[:k], 0.05).value > 0 for k in looks) for row in values)
    assert stats.binomtest(once, runs, 0.05).pvalue > 0.001
    assert 0.2 < ever / runs < 0.4
