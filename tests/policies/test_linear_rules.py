"""Linear rules: exact masses of the noisy controller, and what a controller without noise takes."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import norm

from aegis.errors import PolicyError
from aegis.policies import Gaussian, Natural, Nearest
from aegis.problem import Actions, Level, Variable

GRID = Level("dose", Actions.grid("amount", -2.0, 2.0, 5))
MIXED = Level("speed", Actions.of("rpm", (3.0, -1.0, 0.5, 10.0)))  # unsorted, uneven


def rows(count, seed=0):
    rng = np.random.default_rng(seed)
    return {"x": rng.normal(size=count), "z": rng.normal(size=count)}


@settings(max_examples=30, deadline=None)
@given(st.floats(-4, 12), st.floats(0.2, 3), st.integers(1, 15))
def test_natural_mass_is_the_normal_mass_nearest_to_each_available_action(mean, sd, bits):
    mask = np.array([[bool(bits >> i & 1) for i in range(4)]])
    found = Natural({"x": 1.0}, sd).probabilities(MIXED, {"x": np.array([mean])}, 1, mask)[0]
    points = mean + sd * np.linspace(-9, 9, 60001)
    density = norm.pdf(points, mean, sd) * (points[1] - points[0])
    values = np.where(mask[0], MIXED.actions.numbers, 1e9)
    owner = np.abs(points[:, None] - values).argmin(axis=1)
    np.testing.assert_allclose(found, np.bincount(owner, weights=density, minlength=4), atol=2e-4)


def test_natural_on_a_grid_by_hand():
    found = Natural({"x": 2.0}, 0.5, 1.0).probabilities(GRID, {"x": np.array([-0.25])}, 1)[0]
    mean = 0.5
    expected = [
        norm.cdf((b - mean) / 0.5) - norm.cdf((a - mean) / 0.5)
        for a, b in [(-np.inf, -1.5), (-1.5, -0.5), (-0.5, 0.5), (0.5, 1.5), (1.5, np.inf)]
    ]
    np.testing.assert_allclose(found, expected, rtol=1e-12)


def test_natural_keeps_its_digits_in_both_tails():
    far = Natural({"x": 1.0}, 0.1)
    left, right = far.probabilities(GRID, {"x": np.array([-2.0, 2.0])}, 2)
    assert left[-1] == pytest.approx(norm.sf(35.0), rel=1e-9)
    np.testing.assert_allclose(left, right[::-1], rtol=1e-9)
    assert left[-1] > 0


def test_natural_without_noise_is_nearest():
    given_rows = rows(50)
    exact = Nearest({"x": 1.3}, 0.2).probabilities(MIXED, given_rows, 50)
    np.testing.assert_array_equal(Natural({"x": 1.3}, 0.0, 0.2).probabilities(MIXED, given_rows, 50), exact)
    np.testing.assert_allclose(Natural({"x": 1.3}, 1e-310, 0.2).probabilities(MIXED, given_rows, 50), exact)


def test_values_beyond_the_ends_go_to_the_end_points_however_far():
    found = Nearest({"x": 1.0}).probabilities(MIXED, {"x": np.array([1e300, -1e300])}, 2)
    assert found.argmax(axis=1).tolist() == [3, 1]


def test_a_linear_rule_needs_numbers_it_can_see():
    labels = Level("recipe", Actions.of("setting", ("low", "high")))
    with pytest.raises(PolicyError, match="'nearest' needs numeric actions, but 'setting' has labels"):
        Nearest({"x": 1.0}).check(labels, {"x": Variable("x")})
    with pytest.raises(PolicyError, match="there is no variable 'y'"):
        Natural({"y": 1.0}, 1.0).check(GRID, {"x": Variable("x")})


@pytest.mark.parametrize("ends", ["cut", "clip"])
def test_a_gaussian_draws_by_its_density(ends):
    atoms = (-2.0, 2.0) if ends == "clip" else ()
    level = Level("dose", Actions.interval("amount", -2.0, 2.0, 0.5, atoms=atoms))
    rule = Gaussian({"x": 1.0}, 0.9, 0.2, ends)
    context = {"x": np.full(2001, 0.7)}
    drawn = rule.quantile(level, context, 2001, np.linspace(0.0, 1.0, 2003)[1:-1])
    inside = np.abs(drawn) < 2.0
    points = np.linspace(-1.5, 1.5, 31)
    for low, high in itertools.pairwise(points):
        share = ((drawn > low) & (drawn <= high)).mean()
        middle = rule.density(level, {"x": np.array([0.7])}, 1, np.array([(low + high) / 2]))[0]
        assert share == pytest.approx(middle * (high - low), abs=2e-3)
    assert inside.all() == (ends == "cut")
