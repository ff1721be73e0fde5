"""Particle PAC-Bayes: exact sums, the equation of its bound, the best posterior against brute force, and coverage."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from aegis.errors import RefusedError, SettingError
from aegis.evidence import Grid, Particles, Sketch, best_posterior, value_grid
from aegis.evidence.bounds.pac_bayes import particle_kl, posterior_objective, posterior_step
from aegis.rng import stream

ROWS = st.lists(st.lists(st.floats(0, 20), min_size=3, max_size=3), min_size=1, max_size=20)


def same(a, b):
    return a.count == b.count and np.array_equal(a.total, b.total)


@settings(max_examples=40, deadline=None)
@given(ROWS, st.integers(0, 20))
def test_adding_is_exact_and_order_free(rows, cut):
    values, empty = np.array(rows), Particles.empty(value_grid(0), 3)
    whole = empty.add(values)
    added = empty
    for part in (values[cut:], values[:cut]):
        added = added.add(part) if len(part) else added
    assert same(added, whole)
    assert same(empty.add(values[::-1]), whole)


@settings(max_examples=20, deadline=None)
@given(ROWS)
def test_sums_are_rounded_down_and_are_those_of_a_sketch(rows):
    values, grid = np.array(rows), value_grid(0)
    particles = Particles.empty(grid, 3).add(values)
    for n in range(3):
        sketch = Sketch.empty(grid).add_values(values[:, n])
        found = particles.total[:, n].tolist()
        assert found == list(sketch.sums)
        exact = sum(Fraction(float(np.log1p(grid.bets[7] * x))) for x in values[:, n])
        assert 0 <= exact - Fraction(found[7], 2**32) <= Fraction(len(rows), 2**32)


def test_units_are_added_in_parts_alike(monkeypatch):
    values = stream(1, "parts").random((500, 4))
    whole = Particles.empty(value_grid(0), 4).add(values)
    monkeypatch.setattr("aegis.evidence.bounds.pac_bayes.LOGS_AT_ONCE", 2000)
    assert same(Particles.empty(value_grid(0), 4).add(values), whole)


def test_bound_solves_its_equation():
    """lse_j(log p_j + sum_n q_n S_jn - K log1p(g_j v)) = log(1/delta) + log N - H(q), in plain loops."""
    values, grid = stream(2, "equation").beta(2, 3, (300, 5)), value_grid(1)
    q = np.array([0.1, 0.4, 0.2, 0.3, 0.0])
    bound = Particles.empty(grid, 5).add(values).lower(q, 0.05)
    terms = []
    for bet, weight in zip(grid.bets, grid.log_weights, strict=True):
        total = sum(q[n] * sum(math.log1p(bet * x) for x in values[:, n]) for n in range(5))
        terms.append(weight + total - 300 * math.log1p(bet * bound.value))
    left = max(terms) + math.log(sum(math.exp(t - max(terms)) for t in terms))
    entropy = -sum(x * math.log(x) for x in q if x > 0)
    assert left == pytest.approx(math.log(20) + math.log(5) - entropy, abs=1e-6)
    assert bound.kl == pytest.approx(math.log(5) - entropy)
    assert bound.certificate
    assert 0.25 < bound.value < (values @ q).mean()


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 10_000), st.floats(0.01, 0.8))
def test_every_step_raises_the_objective(seed, mean):
    rng = stream(seed, "steps")
    particles = Particles.empty(value_grid(0), 4, rng.dirichlet(np.ones(4))).add(rng.gamma(0.5, 1.0, (60, 4)))
    weights = rng.dirichlet(np.ones(4), 5)
    before = posterior_objective(particles, weights, mean)
    for _ in range(5):
        weights = posterior_step(particles, weights, mean)
        after = posterior_objective(particles, weights, mean)
        assert (after >= before - 1e-9).all()
        before = after


@pytest.mark.parametrize("seed", range(5))
def test_best_posterior_against_brute_force(seed):
    """All weights of 3 particles on a fine grid of the simplex: none has a larger bound."""
    rng = stream(seed, "brute")
    values = rng.gamma(0.4, 1.0, (80, 3)) * rng.uniform(0.3, 1.5, 3) * (rng.random((80, 3)) < 0.8)
    particles = Particles.empty(value_grid(0), 3, None if seed % 2 else np.array([0.6, 0.3, 0.1])).add(values)
    found = best_posterior(particles, 0.05, high=50.0)
    points = [np.array([a, b, 20 - a - b]) / 20 for a, b in itertools.product(range(21), repeat=2) if a + b <= 20]
    brute = max(particles.lower(q, 0.05, 50.0).value for q in points)
    assert found.value >= brute - 1e-9
    assert found.value == pytest.approx(brute, abs=0.01)
    assert found.value == pytest.approx(particles.lower(found.weights, 0.05, 50.0).value, rel=1e-12)


def test_best_posterior_beats_every_start_and_finds_the_good_particle():
    rng = stream(3, "good")
    values = (rng.random((600, 8)) < np.array([0.2] * 7 + [0.8])).astype(float)
    particles = Particles.empty(value_grid(0), 8).add(values)
    found = best_posterior(particles, 0.05)
    assert found.value >= max(particles.lower(q, 0.05).value for q in [np.full(8, 1 / 8), *np.eye(8)])
    assert found.weights[7] > 0.99
    assert found.kl <= math.log(8) + 1e-12


def test_coverage_of_the_best_posterior_at_every_look():
    """Five particles with the same mean: choosing the luckiest is what KL pays for."""
    rng, runs, violations, bounds = stream(4, "coverage"), 60, 0, []
    grid = value_grid(1)
    for _ in range(runs):
        particles, ever = Particles.empty(grid, 5), False
        for _ in range(2):
            particles = particles.add((rng.random((200, 5)) < 0.5) / 1.0)
            bound = best_posterior(particles, 0.05, high=2.0).value
            ever |= bound > 0.5
        violations += ever
        bounds.append(bound)
    assert stats.binomtest(violations, runs, 0.05, alternative="greater").pvalue > 0.001
    assert np.median(bounds) > 0.38


def test_a_particle_without_prior_weight_can_have_no_posterior_weight():
    particles = Particles.empty(value_grid(0), 2, np.array([1.0, 0.0])).add(np.tile([0.2, 0.9], (400, 1)))
    assert particles.lower(np.array([0.0, 1.0]), 0.05).value == 0.0
    found = best_posterior(particles, 0.05)
    assert found.weights == pytest.approx([1.0, 0.0])
    assert found.kl == particle_kl(found.weights, particles.prior) == 0.0


def test_refusals():
    empty = Particles.empty(value_grid(0), 2)
    assert not empty.lower(np.array([0.5, 0.5]), 0.05).certificate
    with pytest.raises(SettingError, match="one column per particle: expected 2, found 3"):
        empty.add(np.ones((4, 3)))
    with pytest.raises(RefusedError, match="unit 1"):
        empty.add(np.array([[0.1, 0.2], [0.1, -0.2]]))
    with pytest.raises(RefusedError, match="too extreme"):
        Particles.empty(Grid(np.array([1e300]), np.zeros(1), 0), 1, None).add(np.full((2_000_000, 1), 1e-3 + 1e3))
    with pytest.raises(RefusedError, match="largest possible"):
        empty.add(np.full((200, 2), 3.0)).lower(np.array([0.5, 0.5]), 0.05)
