"""Monitor and calibration: false alarms at most their level, drops found, wrong propensities found."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from aegis.errors import RefusedError, SettingError
from aegis.evidence import Monitor, log_mean_wealth, low_weight_logs, moment_evidence, power_sums, weight_logs
from aegis.rng import stream


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
    for _ in range(200):
        monitor = Monitor(0.5)
        good = rng.beta(5, 5, 400)
        if any((monitor := monitor.step(float(v))).alarm(0.05) for v in good):
            alarms += 1
    assert stats.binomtest(alarms, 200, 0.05, alternative="greater").pvalue > 0.001
    for _ in range(20):
        monitor = Monitor(0.5)
        for value in rng.beta(5, 4, 1000):
            monitor = monitor.step(float(value))
        for k, value in enumerate(rng.beta(3, 6, 1000), 1):
            monitor = monitor.step(float(value))
            if monitor.alarm(0.05):
                delays.append(k)
                break
    assert len(delays) == 20
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
