"""Random Fourier features: kernel, Gaussian expectation, and the fast evaluations against plain products of features."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aegis.errors import SettingError
from aegis.mechanisms import Fourier, ModelSettings, build_belief
from aegis.mechanisms import fourier as module
from aegis.problem import Actions, Level, Problem, Reward, Variable
from aegis.rng import stream


def draw(inputs: int = 2, count: int = 128, **more) -> Fourier:
    return Fourier.draw(inputs, count, rng=stream(1, "test", inputs, count), **more)


def test_the_kernel_is_an_rbf_with_one_length_scale_per_input() -> None:
    features = draw(2, 60_000, lengthscale=(0.5, 2.0), linear_terms=False)
    points = np.array([[0.0, 0.0], [0.3, 0.0], [0.0, 1.5], [0.4, -1.0]])
    cosines = features(points)[:, : features.count]
    distance = ((points[:, None] - points[None]) / np.array([0.5, 2.0])) ** 2
    np.testing.assert_allclose(cosines @ cosines.T, np.exp(-0.5 * distance.sum(axis=-1)), atol=0.02)


@pytest.mark.parametrize("linear", [True, False])
def test_expected_features_against_quadrature(linear: bool) -> None:
    features = draw(2, 16, linear_terms=linear)
    inputs, sd = np.array([0.3, -1.1]), np.array([0.7, 0.2])
    nodes, weights = np.polynomial.hermite_e.hermegauss(60)
    weights = weights / weights.sum()
    total = sum(
        a * b * features(inputs + sd * np.array([x, y]))
        for x, a in zip(nodes, weights, strict=True)
        for y, b in zip(nodes, weights, strict=True)
    )
    np.testing.assert_allclose(features.expected(inputs, sd), total, atol=1e-10)


@settings(max_examples=40, deadline=None)
@given(
    st.integers(1, 3), st.sampled_from([1, 4]), st.sampled_from([1, 4]), st.integers(1, 2), st.booleans(), st.booleans(),
    st.sampled_from([3, 40, 5000]), st.integers(0, 10**6),
)  # fmt: skip
def test_fast_evaluation_equals_features_times_weights(inputs, particles, shared, outputs, linear, noisy, count, seed) -> None:
    rng = np.random.default_rng(seed)
    features = draw(inputs, 32, linear_terms=linear)
    leading = 1 if shared == 1 else particles
    points = 2.0 * rng.standard_normal((leading, count, inputs))
    weights = rng.standard_normal((particles, features.size, outputs))
    sd = np.abs(rng.standard_normal((particles, 1, inputs))) if noisy else None
    wide = np.broadcast_to(points, (particles, count, inputs))
    plain = (features(wide) if sd is None else features.expected(wide, sd)) @ weights
    np.testing.assert_allclose(features.evaluate(points, weights, sd), plain, atol=2e-5)


@pytest.mark.parametrize("linear", [True, False])
@pytest.mark.parametrize("leading", [1, 3])
def test_every_action_at_once_equals_one_at_a_time(linear: bool, leading: int) -> None:
    rng = stream(2, "each")
    features = draw(4, 64, linear_terms=linear)
    points, weights = rng.standard_normal((leading, 9, 4)), rng.standard_normal((3, features.size, 2))
    grid = rng.standard_normal((5, 2))
    found = features.evaluate_each(points, slice(1, 3), grid, weights)
    assert found.shape == (3, 9, 5, 2)
    for a in range(5):
        changed = np.broadcast_to(points, (3, 9, 4)).copy()
        changed[..., 1:3] = grid[a]
        np.testing.assert_allclose(found[:, :, a], features(changed) @ weights, atol=2e-5)


def test_the_table_is_used_and_accurate(monkeypatch: pytest.MonkeyPatch) -> None:
    features = draw(1, 128, lengthscale=0.7)
    rng = stream(3, "table")
    points, weights = 3.0 * rng.standard_normal((1, 6000, 1)), rng.standard_normal((2, features.size, 1))
    called = []
    direct = Fourier._direct
    monkeypatch.setattr(Fourier, "_direct", lambda self, *rest: called.append(1) or direct(self, *rest))
    found = features.evaluate(points, weights)
    assert not called
    np.testing.assert_allclose(found, features(np.broadcast_to(points, (2, 6000, 1))) @ weights, atol=5e-6)
    monkeypatch.setattr(module, "TABLE_MOST", 10)
    np.testing.assert_allclose(features.evaluate(points, weights), found, atol=1e-5)
    assert called


def test_constant_and_far_inputs_do_not_break_the_table() -> None:
    features = draw(1, 32)
    weights = stream(4, "far").standard_normal((1, features.size, 1))
    for points in (np.full((1, 3000, 1), 0.4), np.linspace(-1e6, 1e6, 3000).reshape(1, -1, 1)):
        assert np.isfinite(features.evaluate(points, weights)).all()
    assert np.isnan(features.evaluate(np.full((1, 3000, 1), np.nan), weights)).all()


def test_bad_settings() -> None:
    with pytest.raises(SettingError, match="length-scales"):
        Fourier.draw(2, lengthscale=(1.0, 0.0))
    with pytest.raises(SettingError, match="whole number from 1"):
        Fourier.draw(2, 0)


def test_features_are_drawn_per_seed_or_shared() -> None:
    problem = Problem((Level("l", Actions.of("a", (0.0, 1.0)), (Variable("c"),)),), Reward("r"))
    phases = []
    for seed, shared in ((1, None), (2, None), (1, 9), (2, 9)):
        belief = build_belief(problem, ModelSettings(features="fourier", feature_seed=shared), seed=seed)
        phases.append(belief.mechanisms["r"].features.phases)
    assert not np.array_equal(phases[0], phases[1])
    np.testing.assert_array_equal(phases[2], phases[3])
