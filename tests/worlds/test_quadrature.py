from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import integrate, stats

from aegis.worlds.quadrature import clipped_mean, gaussian_nodes, latent_chance, latent_nodes

spreads = st.floats(0.05, 3)
shares = st.floats(0, 1)


@given(st.integers(10, 100), st.floats(-8, 8))
@settings(max_examples=50, deadline=None)
def test_nodes_have_the_moments_of_a_standard_normal(half: int, edge: float) -> None:
    nodes, weights = gaussian_nodes(2 * half, edge)
    assert len(nodes) == 2 * half
    for power, moment in ((0, 1.0), (1, 0.0), (2, 1.0), (4, 3.0)):
        assert weights @ nodes**power == pytest.approx(moment, abs=2e-3)
    width = nodes[1] - nodes[0]
    assert math.remainder(edge - nodes[0] - width / 2, width) == pytest.approx(0, abs=1e-9)


def test_a_jump_at_an_edge_is_integrated_to_the_square_of_the_spacing() -> None:
    for edge in (-0.731, 0.0, 1.234):
        nodes, weights = gaussian_nodes(100, edge)
        assert weights[nodes > edge].sum() == pytest.approx(stats.norm.sf(edge), abs=1.5e-4)


@given(st.floats(-2, 2), st.floats(-1, 1), st.one_of(st.just(0.0), spreads), shares)
@settings(max_examples=60, deadline=None)
def test_latent_nodes_and_chances_satisfy_the_law_of_total_probability(
    centre: float, lift: float, spread: float, chance: float
) -> None:
    values, weights = latent_nodes(np.array([centre, centre + 1]), lift, spread, chance, 100)
    assert values.shape == weights.shape == (2, 200)
    assert weights.sum(axis=1) == pytest.approx(1)
    assert (weights * values).sum(axis=1) == pytest.approx([centre + lift * chance, centre + 1 + lift * chance], abs=1e-6)
    given_value = latent_chance(values[0], np.full(200, centre), lift, spread, chance)
    assert np.all((given_value >= 0) & (given_value <= 1))
    # A latent that lifts nothing visible, or by less than rounding, cannot be told apart at spread 0.
    if spread > 0 or abs(lift) > 1e-9 or chance in (0, 1):
        assert weights[0] @ given_value == pytest.approx(chance, abs=1e-6)


def test_latent_chance_is_bayes_rule() -> None:
    value = np.array([-1.0, 0.2, 0.9])
    ones, zeros = 0.3 * stats.norm.pdf(value, 0.4 + 0.5, 0.7), 0.7 * stats.norm.pdf(value, 0.4, 0.7)
    assert latent_chance(value, np.full(3, 0.4), 0.5, 0.7, 0.3) == pytest.approx(ones / (ones + zeros))


@given(st.floats(-3, 4), spreads)
@settings(max_examples=40, deadline=None)
def test_clipped_mean_agrees_with_integration(mean: float, spread: float) -> None:
    law = stats.norm(mean, spread)
    inside, _ = integrate.quad(lambda x: x * law.pdf(x), 0.0, 1.0)
    assert clipped_mean(np.array([mean]), spread, 0.0, 1.0) == pytest.approx([inside + law.sf(1.0)], abs=1e-7)


def test_clipped_mean_without_noise_is_clipping() -> None:
    assert clipped_mean(np.array([-1.0, 0.3, 2.0]), 0.0, 0.0, 1.0).tolist() == [0.0, 0.3, 1.0]
