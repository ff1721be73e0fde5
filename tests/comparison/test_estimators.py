"""Means, self-normalised means and their standard errors."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aegis.comparison.estimators import MEAN_METHODS, mean_estimate, scaled_estimates, self_normalised
from aegis.comparison.unit_series import UnitSeries
from aegis.rng import stream

PAIRS = st.lists(st.tuples(st.floats(0.1, 5), st.floats(0, 1), st.floats(0, 1)), min_size=2, max_size=12)


@settings(max_examples=60, deadline=None)
@given(PAIRS)
def test_self_normalised_is_the_ratio_with_its_linearised_error(rows):
    weights, rewards, legacy = (np.array(column) for column in zip(*rows, strict=True))
    found = self_normalised(weights * rewards, weights)
    total_value, total_weight = 0.0, 0.0
    for w, r, _ in rows:
        total_value += w * r
        total_weight += w
    ratio = total_value / total_weight
    square = sum(((w * r - ratio * w) / (total_weight / len(rows))) ** 2 for w, r, _ in rows)
    assert found.value == pytest.approx(ratio)
    assert found.error == pytest.approx(math.sqrt(square / (len(rows) - 1) / len(rows)), abs=1e-12)
    gain = self_normalised(weights * rewards, weights, legacy)
    mean = sum(row[2] for row in rows) / len(rows)
    square = sum(((w * r - ratio * w) / (total_weight / len(rows)) - (own - mean)) ** 2 for w, r, own in rows)
    assert gain.value == pytest.approx(ratio - mean, abs=1e-12)
    assert gain.error == pytest.approx(math.sqrt(square / (len(rows) - 1) / len(rows)), abs=1e-12)


@settings(max_examples=30, deadline=None)
@given(PAIRS, st.floats(0.01, 100), st.floats(-3, 3))
def test_self_normalised_ignores_the_scale_of_weights_and_moves_with_rewards(rows, scale, shift):
    weights, rewards, _ = (np.array(column) for column in zip(*rows, strict=True))
    found = self_normalised(weights * rewards, weights)
    scaled = self_normalised(scale * weights * rewards, scale * weights)
    moved = self_normalised(weights * (rewards + shift), weights)
    assert scaled.value == pytest.approx(found.value) and scaled.error == pytest.approx(found.error, abs=1e-12)
    assert moved.value == pytest.approx(found.value + shift, abs=1e-9) and moved.error == pytest.approx(found.error, abs=1e-9)


def test_weights_of_one_give_the_plain_mean():
    rewards = stream(1, "plain").random(40)
    found, plain = self_normalised(rewards, np.ones(40)), mean_estimate(rewards)
    assert (found.value, found.error) == (pytest.approx(plain.value), pytest.approx(plain.error))


def test_standard_errors_cover_as_they_should():
    inside = {"mean": 0, "ratio": 0}
    for run in range(400):
        rng = stream(run, "coverage of estimates")
        weights = rng.choice([0.2, 1.8], 200)
        rewards = rng.random(200) * 0.5 + 0.25 * (weights > 1)
        found = {"mean": mean_estimate(weights * rewards), "ratio": self_normalised(weights * rewards, weights)}
        truth = 0.5 * (0.2 * 0.25 + 1.8 * 0.5)
        for name, estimate in found.items():
            inside[name] += abs(estimate.value - truth) < 1.96 * estimate.error
    for name, count in inside.items():
        assert 360 <= count <= 396, name  # 95 % of 400, four standard deviations or so


def test_one_unit_has_no_error_and_zero_weights_no_ratio():
    assert math.isnan(mean_estimate(np.array([0.3])).error)
    assert math.isnan(self_normalised(np.array([0.3]), np.array([1.0])).error)
    assert self_normalised(np.zeros(3), np.zeros(3)) is None


def _units(**more):
    base = {name: np.array([0.1, 0.4, 0.2]) for name in ("value", "gain", "legacy", "compared best", "clipped", "clipped gain")}
    return UnitSeries({**base, "weight": np.ones(3), **more}, {})


def test_what_cannot_be_estimated_is_named():
    found, missing = scaled_estimates(_units(), totals=False)
    assert list(found) == ["IPS", "SNIPS", "clipped IPS"] and not missing
    found, missing = scaled_estimates(_units(), totals=True)
    assert "SNIPS" not in found and "totals" in missing["SNIPS"]
    found, missing = scaled_estimates(_units(weight=np.zeros(3)), totals=False)
    assert "all weights are 0" in missing["SNIPS"]
    every = {name: np.zeros(3) for name in ("direct", "robust", "switch")}
    found, _ = scaled_estimates(_units(**every), totals=False)
    assert set(found) == {*MEAN_METHODS, "SNIPS"}


def test_a_missing_reward_of_the_legacy_hurts_the_candidate():
    worse = _units(**{"compared best": np.ones(3), "direct": np.full(3, 0.5)})
    found, _ = scaled_estimates(worse, totals=False)
    assert found["direct method"]["gain"].value == pytest.approx(-0.5)
    assert found["SNIPS"]["gain"].value == pytest.approx(np.mean([0.1, 0.4, 0.2]) - 1)
