"""Water-filled bets: the equation of the level, the two promises of a factor, and false certification at nulls."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from aegis.errors import RefusedError
from aegis.evidence import FLOOR, Sketch, gain_grid, gain_stakes, value_grid, value_stakes, water_filled_factors
from aegis.rng import stream


def naive_factor(z, nu, guess, worst, action, reward, bet):
    """The definition, with the level found by bisection in plain loops."""
    kappa = [max(a, 0) * g + max(-a, 0) * (1 - g) for a, g in zip(z, guess, strict=True)]
    target = (1 - FLOOR) / bet - worst
    if target < 0:
        return math.nan
    low, high = -1.0, max(kappa) + target / min(p for p in nu if p > 0) + 1
    for _ in range(200):
        t = (low + high) / 2
        total = sum(p * max(t - k, 0) for p, k in zip(nu, kappa, strict=True) if p > 0)
        low, high = (t, high) if total <= target else (low, t)
    return FLOOR + bet * (max(low - kappa[action], 0) + max(z[action], 0) * reward + max(-z[action], 0) * (1 - reward))


def random_case(seed, rows=6, actions=4, zeros=True):
    rng = np.random.default_rng(seed)
    pi, mu, nu = (rng.dirichlet(np.full(actions, 0.7), rows) for _ in range(3))
    if zeros:
        nu[:, 0] = 0
        nu /= nu.sum(axis=1, keepdims=True)
    action = np.array([rng.choice(actions, p=row) for row in nu])
    return pi, mu, nu, rng.random((rows, actions)), action, rng.random(rows)


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 10**6), st.booleans(), st.booleans())
def test_factors_against_the_definition(seed, zeros, value):
    pi, mu, nu, guess, action, reward = random_case(seed, zeros=zeros)
    stakes = value_stakes(pi, nu) if value else gain_stakes(pi, mu, nu)
    bets = gain_grid(1.0).bets
    found = water_filled_factors(stakes, nu, guess, action, reward, bets)
    for i in range(len(nu)):
        for j, bet in enumerate(bets):
            wanted = naive_factor(
                stakes.weights[i].tolist(), nu[i].tolist(), guess[i].tolist(), stakes.worst[i], action[i], reward[i], bet
            )
            np.testing.assert_allclose(found[i, j], wanted, rtol=1e-8, atol=1e-9)


@settings(max_examples=80, deadline=None)
@given(st.integers(0, 10**6), st.booleans(), st.floats(0.1, 1 - 1e-9))
def test_a_factor_keeps_its_two_promises(seed, zeros, bet_share):
    """E >= floor for every reward, and sum_a nu_a E_a <= 1 + bet * gain for every reward function (unlogged: worst)."""
    pi, mu, nu, guess, _, _ = random_case(seed, rows=1, zeros=zeros)
    stakes = gain_stakes(pi, mu, nu)
    bets = np.array([(1 - FLOOR) * bet_share / max(float(stakes.worst[0]), 1e-3)])
    rng = np.random.default_rng(seed + 1)
    for _ in range(4):
        rewards = rng.integers(0, 2, nu.shape[1]).astype(float)
        total = 0.0
        for a in range(nu.shape[1]):
            if nu[0, a] == 0:
                continue
            factor = water_filled_factors(stakes, nu, guess, np.array([a]), rewards[a : a + 1], bets)[0, 0]
            assert factor >= FLOOR
            total += nu[0, a] * factor
        unlogged = nu[0] == 0
        worst = np.where(pi[0] > mu[0], 0.0, 1.0)
        rewards = np.where(unlogged, worst, rewards)
        gain = float(((pi - mu)[0] * rewards).sum())
        assert total <= 1 + bets[0] * gain + 1e-12


def test_an_unaffordable_bet_dies_and_is_never_left_out():
    pi, mu = np.array([[1.0, 0.0]]), np.array([[0.1, 0.9]])
    bets = gain_grid(0.5).bets  # the cap says T <= 0.5, the candidate has T = 0.9
    found = water_filled_factors(gain_stakes(pi, mu, mu), mu, np.full((1, 2), 0.5), np.array([1]), np.array([0.4]), bets)
    assert np.isnan(found[0, 0])
    assert Sketch.empty(gain_grid(0.5)).add_factors(found).sums[0] is None


def test_bad_logging_is_refused():
    pi = np.array([[0.5, 0.5]])
    for nu, action, reward, what in (
        ([[1.0, 0.0]], 1, 0.5, "probability 0"),
        ([[0.7, 0.7]], 1, 0.5, "not a distribution"),
        ([[0.5, 0.5]], 1, 1.5, "outside its declared range"),
        ([[0.5, 0.5]], 1, math.nan, "outside its declared range"),
    ):
        logging = np.array(nu)
        with pytest.raises(RefusedError, match=what):
            water_filled_factors(
                gain_stakes(pi, pi, logging), logging, pi, np.array([action]), np.array([reward]), np.array([0.5])
            )


@pytest.mark.parametrize("guess", ["right", "constant", "reversed"])
def test_false_certification_at_a_null_that_varies_with_context(guess):
    """Zero gain on average, +g in half the contexts and -g in the others: certified in at most delta of the runs, ever."""
    rng = stream(5, "null", guess)
    runs, units, delta, actions = 400, 150, 0.05, 3
    nu = np.array([0.5, 0.3, 0.2])
    context = rng.integers(0, 2, (runs, units))
    pi = np.array([[0.05, 0.05, 0.9], [0.05, 0.05, 0.9]])[context]
    means = np.array([[0.2, 0.5, 0.8], [0.8, 0.5, 0.2]])[context]  # symmetric: the two gains cancel
    logging = np.broadcast_to(nu, pi.shape)
    action = (rng.random((runs, units, 1)) > nu.cumsum()).sum(axis=-1)
    reward = (rng.random((runs, units)) < np.take_along_axis(means, action[..., None], axis=2)[..., 0]).astype(float)
    prediction = {"right": means, "constant": np.full_like(means, 0.5), "reversed": 1 - means}[guess]
    grid = gain_grid(1.0)
    flat = [x.reshape(-1, actions) for x in (pi, logging, prediction)]
    stakes = gain_stakes(flat[0], flat[1], flat[1])
    factors = water_filled_factors(stakes, flat[1], flat[2], action.ravel(), reward.ravel(), grid.bets).reshape(runs, units, -1)
    wealth = np.logaddexp.reduce(grid.log_weights + np.log(factors).cumsum(axis=1), axis=2)
    false = int((wealth >= math.log(1 / delta)).any(axis=1).sum())
    assert stats.binomtest(false, runs, delta, alternative="greater").pvalue > 0.001


def test_a_real_gain_is_certified_faster_than_by_plain_weights():
    rng = stream(6, "power")
    units, actions = 400, 5
    nu = np.full((units, actions), 1 / actions)
    means = np.broadcast_to(np.linspace(0.3, 0.7, actions), (units, actions))
    pi = np.broadcast_to(np.array([0.0, 0.0, 0.2, 0.4, 0.4]), (units, actions))
    action = rng.integers(0, actions, units)
    reward = np.clip(means[np.arange(units), action] + 0.05 * rng.standard_normal(units), 0, 1)
    grid = gain_grid(0.5, 4)
    filled = water_filled_factors(gain_stakes(pi, nu, nu), nu, means, action, reward, grid.bets)
    weight = pi[np.arange(units), action] * actions
    plain = (weight - 1) * reward + 1
    first = {}
    for k in range(1, units):
        if "filled" not in first and Sketch.empty(grid).add_factors(filled[:k]).certifies(0.0, 0.05):
            first["filled"] = k
        if "plain" not in first and Sketch.empty(value_grid(0)).add_values(plain[:k]).certifies(1.0, 0.05):
            first["plain"] = k
    assert first["filled"] < 0.6 * first.get("plain", units)
