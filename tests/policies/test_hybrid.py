"""Hybrids: who acts where, and pairs of particles."""

from __future__ import annotations

import numpy as np
import policy_examples as ex
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aegis.errors import ProblemError
from aegis.policies import Hybrid, path_taken


@settings(max_examples=30, deadline=None)
@given(st.integers(1, 3), st.integers(1, 3), st.integers(0, 10**6), st.sets(st.sampled_from(["plant", "recipe", "dose"])))
def test_particles_are_all_pairs(new_count, legacy_count, seed, scope):
    problem = ex.problem(3)
    batch = ex.batch(problem, seed, childless=False)
    new, legacy = ex.scripted(problem, batch, new_count, seed), ex.scripted(problem, batch, legacy_count, seed + 1)
    hybrid = Hybrid(problem, scope, new, legacy)
    assert hybrid.weights.sum() == pytest.approx(1.0)
    pairs = [(i, j) for i in range(new_count) for j in range(legacy_count)]
    for particle, (i, j) in enumerate(pairs):
        assert hybrid.weights[particle] == pytest.approx(new.weights[i] * legacy.weights[j])
        for level in problem.names:
            source, at = (new, i) if level in scope else (legacy, j)
            np.testing.assert_array_equal(hybrid.full(level, batch)[particle], source.full(level, batch)[at])
            np.testing.assert_array_equal(hybrid.taken(level, batch)[particle], source.taken(level, batch)[at])


def test_the_path_product_separates_into_two_independent_draws():
    problem = ex.problem(2)
    batch = ex.batch(problem, 5, childless=False)
    new, legacy = ex.scripted(problem, batch, 3, 1), ex.scripted(problem, batch, 2, 2)
    hybrid = Hybrid(problem, {"dose"}, new, legacy)
    above = batch.levels["dose"].parent
    product = path_taken(hybrid, "recipe", batch)[above] * path_taken(hybrid, "dose", batch)
    expected = (legacy.weights @ legacy.taken("recipe", batch))[above] * (new.weights @ new.taken("dose", batch))
    np.testing.assert_allclose(product, expected, rtol=1e-12)


def test_an_unknown_level_in_the_scope_is_an_error():
    problem = ex.problem(2)
    batch = ex.batch(problem, 5)
    policy = ex.scripted(problem, batch, 1, 0)
    with pytest.raises(ProblemError, match="no level 'dos'"):
        Hybrid(problem, {"dos"}, policy, policy)
