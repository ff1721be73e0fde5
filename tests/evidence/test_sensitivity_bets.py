"""Bets on logs whose probabilities may be wrong: the equation of the level, the promises of a factor, false claims at a null."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from aegis.errors import RefusedError, SettingError
from aegis.evidence import (
    FLOOR,
    Sketch,
    gain_grid,
    gain_stakes,
    least_weights,
    sensitivity_factors,
    value_grid,
    water_filled_factors,
)
from aegis.evidence.sensitivity_bets import sensitivity_levels
from aegis.rng import stream

GAMMAS = st.sampled_from([1.0, 1.02, 1.2, 1.5, 3.0, 10.0])


def case(seed, rows=5, actions=4, zeros=True):
    """Return candidate, logged distribution, predictions, actions and rewards of a few decisions."""
    rng = np.random.default_rng(seed)
    pi, nu = (rng.dirichlet(np.full(actions, 0.7), rows) for _ in range(2))
    nu = 0.97 * nu + 0.03 / actions
    if zeros:
        nu[:, 0] = 0.0
        nu /= nu.sum(axis=1, keepdims=True)
    action = np.array([rng.choice(actions, p=row) for row in nu])
    return pi, nu, rng.random((rows, actions)), action, rng.random(rows)


def naive_stake(pi, nu, guess, bet, gamma):
    """The definition in plain loops: b of every action, the level found by bisection; None if no level will do."""
    weights = [p / min(1.0, gamma * n) if n > 0 else 0.0 for p, n in zip(pi, nu, strict=True)]
    kappa = [max(w - 1, 0) * g + max(1 - w, 0) * (1 - g) for w, g in zip(weights, guess, strict=True)]
    most = (1 - FLOOR) / bet

    def stakes(t):
        return [max(1 - w, 0) + max(t - k, 0) for w, k in zip(weights, kappa, strict=True)]

    def spent(t):
        b = stakes(t)
        return sum(n * (x + (gamma**2 - 1) * max(x - most, 0)) for n, x in zip(nu, b, strict=True))

    if spent(-math.inf) > most:
        return weights, None
    low, high = -1.0, max(kappa) + most / min(n for n in nu if n > 0) + 1
    for _ in range(70):
        t = (low + high) / 2
        low, high = (t, high) if spent(t) <= most else (low, t)
    return weights, stakes(low)


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 10**6), st.booleans(), GAMMAS, st.sampled_from([1.0, 0.4]))
def test_factors_against_the_definition(seed, zeros, gamma, largest):
    pi, nu, guess, action, reward = case(seed, rows=2, zeros=zeros)
    bets = gain_grid(largest).bets[::3]
    found = sensitivity_factors(least_weights(pi, nu, gamma), nu, guess, action, reward, bets, gamma)
    for i, a in enumerate(action):
        for j, bet in enumerate(bets):
            weights, b = naive_stake(pi[i].tolist(), nu[i].tolist(), guess[i].tolist(), bet, gamma)
            wanted = math.nan if b is None else FLOOR + bet * (b[a] + (weights[a] - 1) * reward[i])
            np.testing.assert_allclose(found[i, j], wanted, rtol=1e-8, atol=1e-9)


def test_some_bets_cannot_be_afforded():
    pi, nu = np.array([[1.0, 0.0]]), np.array([[0.4, 0.6]])
    arguments = (nu, np.full((1, 2), 0.5), np.array([0]), np.array([0.5]), np.array([0.95 / 0.6, 0.95]))
    ordinary = sensitivity_factors(least_weights(pi, nu, 1.0), *arguments, 1.0)
    doubtful = sensitivity_factors(least_weights(pi, nu, 1.2), *arguments, 1.2)
    assert np.isnan(doubtful).tolist() == [[True, False]] and not np.isnan(ordinary[0, 1])


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 10**6), st.booleans())
def test_at_a_factor_of_one_it_is_the_ordinary_bet(seed, zeros):
    pi, nu, guess, action, reward = case(seed, zeros=zeros)
    bets = gain_grid(1.0).bets
    ordinary = water_filled_factors(gain_stakes(pi, nu, nu), nu, guess, action, reward, bets)
    np.testing.assert_allclose(
        sensitivity_factors(least_weights(pi, nu, 1.0), nu, guess, action, reward, bets, 1.0), ordinary, rtol=1e-10
    )


def worst_truth(nu, gamma, score):
    """Return the distribution within the factor with the largest mean score: low everywhere, then as much as fits, best first."""
    truth = nu / gamma
    left = 1.0 - truth.sum()
    for a in np.argsort(-score):
        more = min(left, min(1.0, gamma * nu[a]) - truth[a])
        truth[a] += more
        left -= more
    return truth


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 10**6), st.booleans(), GAMMAS, st.integers(2, 6))
def test_a_factor_keeps_its_promises_whatever_the_truth(seed, zeros, gamma, actions):
    """F >= floor for every reward; under every truth within gamma, also the worst, its mean is at most 1 + bet * true gain."""
    rng = np.random.default_rng(seed)
    pi, nu, guess, _, _ = case(seed, 1, actions, zeros)
    pi = pi if rng.random() < 0.5 else np.eye(actions)[rng.integers(actions, size=1)]
    logged = np.flatnonzero(nu[0])
    means = rng.random(actions) if rng.random() < 0.7 else rng.integers(0, 2, actions).astype(float)
    bets = gain_grid(1.0).bets
    least = least_weights(pi, nu, gamma)
    every = (np.repeat(least, logged.size, 0), np.repeat(nu, logged.size, 0), np.repeat(guess, logged.size, 0), logged)
    for reward in (0.0, 1.0):
        assert (sensitivity_factors(*every, np.full(logged.size, reward), bets, gamma) >= FLOOR - 1e-12).all()
    factors = sensitivity_factors(*every, means[logged], bets, gamma)
    for j, bet in enumerate(bets):
        score = np.full(actions, -np.inf)
        score[logged] = factors[:, j] + bet * means[logged]  # what a truth adds to the mean of F and takes from the gain
        truths = [worst_truth(nu[0], gamma, score), worst_truth(nu[0], gamma, rng.random(actions)), nu[0]]
        for truth in truths:
            assert truth.sum() == pytest.approx(1.0) and (truth <= gamma * nu[0] + 1e-12).all()
            gain = (pi[0] - truth) @ means
            assert truth[logged] @ factors[:, j] <= 1.0 + bet * gain + 1e-10


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 10**6))
def test_the_level_falls_with_the_factor(seed):
    rng = np.random.default_rng(seed)
    nu, kappa = rng.dirichlet(np.ones(5), 7), rng.random((7, 5)) * 3
    least, room = rng.random((7, 5)), np.array([0.95, 1.5, 8.0])
    levels = [sensitivity_levels(kappa, least, nu, room, gamma) for gamma in (1.0, 1.1, 2.0, 7.0)]
    for before, after in itertools.pairwise(levels):
        assert ((after <= before + 1e-9) | np.isnan(after)).all()
        assert np.isnan(after)[np.isnan(before)].all()


def test_extreme_weights_end_in_the_least_stake_not_in_too_large_a_one():
    nu = np.array([[0.5, 0.5], [1e-9, 1.0 - 1e-9]])
    least = np.array([[1e15, 3e14], [1e9, 0.0]])  # as of earlier decisions that carry over
    bets = np.array([0.9, 1e-6])
    for action in ([0, 0], [1, 1]):
        found = sensitivity_factors(least, nu, np.full((2, 2), 0.7), np.array(action), np.zeros(2), bets, 1.5)
        assert np.isfinite(found).all() and (found >= FLOOR).all()


def test_weights_count_actions_that_were_never_logged_as_worth_nothing():
    found = least_weights(np.array([[0.5, 0.25, 0.25]]), np.array([[0.0, 0.8, 0.2]]), 2.0)
    np.testing.assert_allclose(found, [[0.0, 0.25, 0.625]])


@pytest.mark.parametrize("factor", [0.99, math.nan, math.inf, -1.0])
def test_factors_below_one_are_errors(factor):
    with pytest.raises(SettingError, match="factor of 1"):
        least_weights(np.eye(2), np.full((2, 2), 0.5), factor)


def test_what_is_no_decision_is_refused():
    good = (np.ones((1, 2)), np.full((1, 2), 0.5), np.full((1, 2), 0.5))
    with pytest.raises(RefusedError, match="outside its declared range"):
        sensitivity_factors(*good, np.array([0]), np.array([1.5]), np.array([0.5]), 1.2)


def test_false_claims_are_rare_where_the_truth_is_as_bad_as_claimed_survived():
    """The logged chance of what the candidate does is 1.3 times too small and the true gain 0: exact weights certify a gain."""
    runs, units, delta, gamma = 150, 800, 0.1, 1.3
    rng = stream(5, "doubted replication")
    truth, nu, pi = np.array([0.52, 0.48]), np.array([0.4, 0.6]), np.array([0.95, 0.05])
    action = (rng.random((runs, units)) > truth[0]).astype(np.int64)
    reward = rng.integers(0, 2, (runs, units)).astype(float)  # one half, whatever is done
    rows = (runs * units, 1)
    grid, wide = gain_grid(1.0, 5), value_grid(-1)
    certified = {}
    for factor in (1.0, 1.2, gamma):
        least = least_weights(pi[None], nu[None], factor)
        data = (np.tile(nu, rows), np.tile([0.1, 0.1], rows), action.ravel(), reward.ravel(), grid.bets)
        factors = sensitivity_factors(np.tile(least, rows), *data, factor).reshape(runs, units, -1)
        plain = 1.0 + (least[0][action] - 1.0) * reward
        certified[factor] = (
            sum(Sketch.empty(grid).add_factors(run).certifies(0.0, delta) for run in factors),
            sum(Sketch.empty(wide).add_values(run).certifies(1.0, delta) for run in plain),
        )
    assert min(certified[1.0]) > 0.9 * runs  # the danger is real
    assert max(certified[1.2]) > max(certified[gamma])
    for count in certified[gamma]:
        assert stats.binomtest(count, runs, delta, alternative="greater").pvalue > 1e-3
