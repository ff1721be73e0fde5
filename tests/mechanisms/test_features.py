"""Feature maps: sizes, what they span, and their Gaussian expectations against quadrature."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as hs

from aegis.errors import SettingError
from aegis.mechanisms import FEATURES, FeatureMap, Linear, Polynomial
from aegis.mechanisms.features import CHUNK
from aegis.rng import stream

NODES, MASS = np.polynomial.hermite_e.hermegauss(6)  # exact up to degree 11


def by_quadrature(features, inputs, sd):
    """E[features(inputs + sd * N(0, I))] by a tensor rule over the coordinates."""
    total = 0.0
    for chosen in itertools.product(range(len(NODES)), repeat=inputs.shape[-1]):
        weight = math.prod(MASS[i] for i in chosen) / MASS.sum() ** len(chosen)
        total = total + weight * features(inputs + sd * NODES[list(chosen)])
    return total


@given(hs.integers(0, 2**20), hs.integers(1, 4), hs.integers(0, 3))
@settings(max_examples=40, deadline=None)
def test_expected_features_agree_with_quadrature(seed, degree, size):
    rng = stream(seed, "features")
    inputs = rng.normal(size=(2, 5, size))
    sd = np.abs(rng.normal(size=(2, 1, size))) * (rng.random(size) < 0.7)  # some coordinates without noise
    for features in (Linear(size), Polynomial(size, degree)):
        np.testing.assert_allclose(features.expected(inputs, sd), by_quadrature(features, inputs, sd), rtol=1e-9, atol=1e-9)


def test_expectation_of_the_fourth_power_by_sampling():
    features = Polynomial(1, 4)
    draws = 0.5 + 1.2 * stream(1, "sampling").standard_normal((200_000, 1))
    sampled = features(draws)
    z = (sampled.mean(axis=0) - features.expected(np.array([0.5]), np.array([1.2])))[1:]
    assert np.abs(z / (sampled.std(axis=0)[1:] / np.sqrt(200_000))).max() < 4


@pytest.mark.parametrize("size", [0, 1, 2, 5])
def test_sizes(size):
    inputs = stream(2, "sizes").standard_normal((3, 4, size))
    assert Linear(size)(inputs).shape == (3, 4, size + 1) == (3, 4, Linear(size).size)
    for degree in (1, 2, 3):
        features = Polynomial(size, degree)
        assert features.size == math.comb(size + degree, degree)
        assert features(inputs).shape == (3, 4, features.size)
        assert len({tuple(sorted(places)) for places in features.factors}) == features.size  # no monomial twice


def test_polynomials_contain_the_linear_features():
    inputs = stream(3, "span").standard_normal((40, 3))
    linear = Linear(3)(inputs)
    np.testing.assert_array_equal(Polynomial(3, 1)(inputs), linear)
    for degree in (2, 3):
        np.testing.assert_array_equal(Polynomial(3, degree)(inputs)[:, :4], linear)


def test_a_polynomial_is_what_its_name_says():
    x, y = 1.5, -2.0
    found = sorted(Polynomial(2)(np.array([x, y])))
    np.testing.assert_allclose(found, sorted([1.0, x, y, x * x, x * y, y * y]))


def test_only_linear_features_are_affine():
    assert Linear(2).affine
    assert not Polynomial(2).affine


@pytest.mark.parametrize("degree", [0, -1, 1.5])
def test_degrees_are_whole_numbers_from_one(degree):
    with pytest.raises(SettingError, match="whole number from 1"):
        Polynomial(2, degree)


@pytest.mark.parametrize("name", sorted(FEATURES))
def test_every_map_in_the_table_conforms(name):
    features = FEATURES[name](2)
    inputs = stream(4, "conformance").standard_normal((2, 3, 2))
    assert features(inputs).shape == (2, 3, features.size)
    np.testing.assert_allclose(features.expected(inputs, np.zeros(2)), features(inputs))
    sd = np.array([0.3, 0.8])
    assert features.expected(inputs, sd).shape == (2, 3, features.size)
    if features.affine:
        middle = features(0.5 * (inputs[0] + inputs[1]))
        np.testing.assert_allclose(middle, 0.5 * (features(inputs[0]) + features(inputs[1])))


@pytest.mark.parametrize("name", FEATURES)
@pytest.mark.parametrize("size", [0, 1, 3])
def test_the_intercept_is_the_feature_that_is_always_one(name, size):
    features = FEATURES[name](size)
    found = features(stream(5, "intercept").normal(size=(20, size)))
    assert (found[:, features.intercept] == 1.0).all()
    assert [place for place in range(features.size) if np.ptp(found[:, place]) == 0.0 and found[0, place] == 1.0] == [
        features.intercept
    ]


@given(hs.integers(0, 2**20), hs.integers(1, 4), hs.integers(1, 3), hs.integers(0, 2), hs.booleans())
@settings(max_examples=60, deadline=None)
def test_fast_evaluation_of_polynomials_equals_features_times_weights(seed, degree, width, others, shared):
    rng = stream(seed, "polynomials")
    features = Polynomial(width + others, degree)
    weights = rng.normal(size=(3, features.size, 2))
    inputs = rng.normal(size=(1 if shared else 3, 5, width + others))
    sd = np.abs(rng.normal(size=(3, 1, width + others)))
    plain = FeatureMap.evaluate(features, inputs, weights)
    np.testing.assert_allclose(features.evaluate(inputs, weights), plain, rtol=1e-9, atol=1e-9)
    noisy = FeatureMap.evaluate(features, inputs, weights, sd)
    np.testing.assert_allclose(features.evaluate(inputs, weights, sd), noisy, rtol=1e-9, atol=1e-9)
    start = int(rng.integers(0, others + 1))
    block, grid = slice(start, start + width), rng.normal(size=(4, width))
    each = FeatureMap.evaluate_each(features, inputs, block, grid, weights)
    np.testing.assert_allclose(features.evaluate_each(inputs, block, grid, weights), each, rtol=1e-9, atol=1e-9)


def test_polynomials_of_indicators_and_of_more_points_than_a_chunk():
    rng = stream(6, "chunks")
    features, weights = Polynomial(5), rng.normal(size=(2, 21, 1))
    inputs = rng.normal(size=(1, CHUNK + 7, 5))
    np.testing.assert_allclose(features.evaluate(inputs, weights), features(inputs) @ weights, rtol=1e-9, atol=1e-9)
    few, block = inputs[:, :6], slice(1, 4)
    found = features.evaluate_each(few, block, np.eye(3), weights)
    np.testing.assert_allclose(found, FeatureMap.evaluate_each(features, few, block, np.eye(3), weights), rtol=1e-9, atol=1e-9)
