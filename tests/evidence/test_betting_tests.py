"""Tests by betting that a mean is zero or one, and the monitor of a value: formulas, level and power."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from scipy.special import logsumexp

from aegis.errors import RefusedError, SettingError
from aegis.evidence import (
    SHORT_STAKES,
    WEIGHT_STAKES,
    Monitor,
    log_mean_wealth,
    low_weight_logs,
    moment_evidence,
    power_sums,
    weight_logs,
)
from aegis.evidence.betting_tests import BOUNDED_STAKES
from aegis.rng import stream

surprises = st.lists(st.floats(-1, 1), min_size=1, max_size=40).map(np.array)


def product_evidence(surprise: np.ndarray) -> float:
    logs = [np.log1p(sign * stake * surprise).sum() for stake in BOUNDED_STAKES for sign in (1, -1)]
    return float(logsumexp(logs) - math.log(len(logs)))


@settings(max_examples=60, deadline=None)
@given(surprises)
def test_evidence_from_sums_is_never_more_than_the_product(surprise: np.ndarray) -> None:
    assert float(moment_evidence(power_sums(surprise))) <= product_evidence(surprise) + 1e-9


def test_evidence_from_sums_is_close_to_the_product() -> None:
    surprise = (stream(1, "close").random(3000) < 0.15) - 0.1
    exact = product_evidence(surprise)
    assert exact > 20
    assert float(moment_evidence(power_sums(surprise))) > 0.8 * exact


@settings(max_examples=50, deadline=None)
@given(surprises, surprises)
def test_sums_add_up(one: np.ndarray, other: np.ndarray) -> None:
    both = power_sums(np.concatenate([one, other]))
    np.testing.assert_allclose(power_sums(one) + power_sums(other), both, atol=1e-12)


@settings(max_examples=50, deadline=None)
@given(st.lists(st.floats(0, 20), min_size=1, max_size=20).map(np.array))
def test_weight_factors_are_what_they_say(weights: np.ndarray) -> None:
    np.testing.assert_allclose(weight_logs(weights), np.log1p(WEIGHT_STAKES[:, None] * (weights - 1)), atol=1e-12)
    np.testing.assert_allclose(low_weight_logs(weights, 21.0), np.log1p(-SHORT_STAKES[:, None] * (weights - 1) / 20), atol=1e-12)
    assert np.isfinite(weight_logs(weights)).all() and np.isfinite(low_weight_logs(weights, 21.0)).all()


def test_blended_is_the_logarithm_of_the_mean() -> None:
    logs = np.log(np.array([[1.0, 4.0], [3.0, 2.0]]))
    np.testing.assert_allclose(log_mean_wealth(logs), np.log([2.0, 3.0]))


def test_false_evidence_and_power() -> None:
    rng = stream(3, "sums")
    action = rng.random((600, 400)) < 0.3
    limit = math.log(20.0)
    right = moment_evidence(power_sums(action - 0.3)) >= limit
    above = log_mean_wealth(weight_logs(action / 0.3).sum(axis=1)) >= limit
    below = log_mean_wealth(low_weight_logs(action / 0.3, 1 / 0.3).sum(axis=1)) >= limit
    for found in (right, above, below):
        assert stats.binomtest(int(found.sum()), 400, 0.05, alternative="greater").pvalue > 0.001
    assert (moment_evidence(power_sums(action - 0.4)) >= limit).mean() > 0.9
    assert (log_mean_wealth(weight_logs(action / 0.2).sum(axis=1)) >= limit).mean() > 0.9
    assert (log_mean_wealth(low_weight_logs(action / 0.4, 1 / 0.4).sum(axis=1)) >= limit).mean() > 0.9


def test_a_bound_is_above_one() -> None:
    with pytest.raises(SettingError, match="above 1"):
        low_weight_logs(np.ones(2), 1.0)


def test_monitor_equals_its_recursion_in_plain_loops():
    values, v0 = [0.4, 0.7, 0.1, 0.0], 0.3
    monitor = Monitor(v0)
    wealth = dict.fromkeys([0.9, *[2.0 ** (-i) for i in range(1, 8)]], 0.0)
    for k, value in enumerate(values, 1):
        monitor = monitor.step(value)
        wealth = {g: (a + 1 / (k * (k + 1))) * (1 - g * (value - v0) / (1 - v0)) for g, a in wealth.items()}
        assert monitor.evidence == pytest.approx(sum(wealth.values()) / len(wealth) + 1 / (k + 1))


def test_false_alarms_are_at_most_their_level_and_a_late_drop_is_found():
    rng = stream(1, "monitor")
    alarms, delays = 0, []
    for _ in range(100):
        monitor = Monitor(0.5)
        good = rng.beta(5, 5, 400)
        if any((monitor := monitor.step(float(v))).alarm(0.05) for v in good):
            alarms += 1
    assert stats.binomtest(alarms, 100, 0.05, alternative="greater").pvalue > 0.001
    for _ in range(8):
        monitor = Monitor(0.5)
        for value in rng.beta(5, 4, 1000):
            monitor = monitor.step(float(value))
        for k, value in enumerate(rng.beta(3, 6, 1000), 1):
            monitor = monitor.step(float(value))
            if monitor.alarm(0.05):
                delays.append(k)
                break
    assert len(delays) == 8
    assert np.median(delays) < 200


def test_monitor_refuses_what_it_cannot_watch():
    with pytest.raises(SettingError, match="value in"):
        Monitor(1.0)
    with pytest.raises(RefusedError, match="value lies in"):
        Monitor(0.5).step(1.2)


def weight_evidence(weights, least=None):
    """Return log evidence that weights average above one, or below one if they are at most 1 / least."""
    logs = weight_logs(weights) if least is None else low_weight_logs(weights, 1 / least)
    return float(log_mean_wealth(logs.sum(axis=1)))


def test_betting_accepts_right_and_refuses_wrong_propensities():
    rng = stream(2, "calibration")
    false, noticed = 0, 0
    for run in range(200):
        action = rng.random(600) < 0.4
        weights = np.where(action, 1 / 0.4, 0.0)
        false += float(moment_evidence(power_sums(action - 0.4))) >= math.log(20)
        false += max(weight_evidence(weights), weight_evidence(weights, 0.4)) >= math.log(20)
        if run < 30:
            noticed += float(moment_evidence(power_sums(action - 0.5))) >= math.log(20)
            noticed += weight_evidence(np.where(action, 1 / 0.3, 0.0)) >= math.log(20)
            noticed += weight_evidence(np.where(action, 1 / 0.5, 0.0), 0.5) >= math.log(20)
    assert stats.binomtest(false, 400, 0.05, alternative="greater").pvalue > 0.001
    assert noticed >= 80


def test_bets_on_weights_below_one_need_a_largest_weight_above_one():
    with pytest.raises(SettingError, match="largest weight"):
        low_weight_logs(np.array([0.5]), 1.0)
