"""Water-filled bets on one level and on two: definitions, promises and refusals."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from scipy import stats

from aegis.errors import RefusedError
from aegis.evidence import (
    FLOOR,
    InnerLimits,
    LoggedChoice,
    Sketch,
    gain_grid,
    gain_stakes,
    inner_factors,
    outer_stakes,
    value_grid,
    value_stakes,
    water_filled_factors,
)
from aegis.policies import capped_probabilities
from aegis.rng import stream


def naive_factor(z, nu, guess, worst, action, reward, bet):
    """The definition, with the level found by bisection in plain loops."""
    kappa = [max(a, 0) * g + max(-a, 0) * (1 - g) for a, g in zip(z, guess, strict=True)]
    target = (1 - FLOOR) / bet - worst
    if target < 0:
        return math.nan
    low, high = -1.0, max(kappa) + target / min(p for p in nu if p > 0) + 1
    for _ in range(80):
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
    pi, mu, nu, guess, action, reward = random_case(seed, rows=2, zeros=zeros)
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


def _level(kappa: np.ndarray, nu: np.ndarray, target: float) -> float:
    """Return t with sum nu (t - kappa)^+ = target, by bisection."""
    low, high = kappa.min(), kappa.max() + target / nu.min() + 1.0
    for _ in range(200):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if (nu * np.maximum(middle - kappa, 0)).sum() < target else (low, middle)
    return low


def _instance(seed: int, caps: tuple[float, float], logged_as_comparator: bool = True):
    rng = stream(seed, "joint")
    mu2, mu1 = rng.dirichlet(np.ones(3)), rng.dirichlet(np.ones(4), size=3)
    pi2 = capped_probabilities(rng.random((1, 3)), mu2[None], caps[0])[0]
    pi1 = capped_probabilities(rng.random((3, 4)), mu1, caps[1])
    nu2, nu1 = (mu2, mu1) if logged_as_comparator else (rng.dirichlet(np.ones(3)), rng.dirichlet(np.ones(4), size=3))
    return rng, mu2, mu1, pi2, pi1, nu2, nu1


@example(680, (1.5, 1.5), True)  # an outer action that the candidate never takes: nothing is left over at the inner level
@settings(max_examples=60, deadline=None)
@given(
    st.integers(0, 10**6),
    st.sampled_from([(1.5, 1.5), (2.0, 3.0), (np.inf, 2.0), (2.0, np.inf), (np.inf, np.inf)]),
    st.booleans(),
)
def test_the_mean_factor_is_at_most_one_plus_the_bet_times_the_gain(seed: int, caps: tuple[float, float], same: bool) -> None:
    rng, mu2, mu1, pi2, pi1, nu2, nu1 = _instance(seed, caps, same)
    reward = (rng.random((3, 4)) < 0.5).astype(float) if seed % 2 else rng.random((3, 4))
    guess, below_pi, below_mu = rng.random((3, 4)), rng.random((1, 3)), rng.random((1, 3))
    bets = gain_grid(1.0 if np.isinf(caps).any() else 1 - 1 / (caps[0] * caps[1])).bets
    mean = np.zeros(bets.size)
    dead = np.zeros(bets.size, dtype=bool)
    for a in range(3):
        outer = LoggedChoice(pi2[None], mu2[None], nu2[None], np.array([a]))
        stakes = outer_stakes(outer, below_pi, below_mu, InnerLimits(caps[1]), bets)
        for b in range(4):
            inner = LoggedChoice(pi1[a][None], mu1[a][None], nu1[a][None], np.array([b]))
            factor = inner_factors(
                inner, outer.taken(pi2[None]), outer.taken(mu2[None]), stakes, guess[a][None], reward[a, b][None], bets
            )[0]
            dead |= np.isnan(factor)
            assert (factor[~np.isnan(factor)] >= FLOOR - 1e-12).all()
            mean += nu2[a] * nu1[a, b] * np.nan_to_num(factor)
    gain = ((pi2[:, None] * pi1 - mu2[:, None] * mu1) * reward).sum()
    assert (mean[~dead] <= 1 + bets[~dead] * gain + 1e-9).all()
    if same:
        assert not dead[1:].any()  # within the caps every bet is affordable


@pytest.mark.parametrize("seed", range(5))
def test_factors_are_those_of_a_naive_transcription(seed: int) -> None:
    caps = (2.0, 1.5)
    rng, mu2, mu1, pi2, pi1, nu2, nu1 = _instance(seed, caps)
    guess, below_pi, below_mu, r = rng.random((3, 4)), rng.random(3), rng.random(3), 0.3
    bet = float(gain_grid(1 - 1 / 3).bets[2])
    a, b = 1, 2
    w2, u2 = pi2 / nu2, mu2 / nu2
    tau = np.maximum(u2 * (1 - 1 / caps[1]), u2 - w2)
    kappa = tau + w2 * below_pi - u2 * below_mu
    t2 = _level(kappa, nu2, (1 - FLOOR) / bet - np.maximum(mu2 * (1 - 1 / caps[1]), mu2 - pi2).sum())
    stake = FLOOR + bet * (tau[a] + max(t2 - kappa[a], 0))
    z = w2[a] * pi1[a] / nu1[a] - u2[a] * mu1[a] / nu1[a]
    inner_kappa = np.maximum(z, 0) * guess[a] + np.maximum(-z, 0) * (1 - guess[a])
    t1 = _level(inner_kappa, nu1[a], (stake - FLOOR) / bet - np.maximum(u2[a] * mu1[a] - w2[a] * pi1[a], 0).sum())
    naive = FLOOR + bet * (max(t1 - inner_kappa[b], 0) + max(z[b], 0) * r + max(-z[b], 0) * (1 - r))
    outer = LoggedChoice(pi2[None], mu2[None], nu2[None], np.array([a]))
    stakes = outer_stakes(outer, below_pi[None], below_mu[None], InnerLimits(caps[1]), np.array([bet]))
    inner = LoggedChoice(pi1[a][None], mu1[a][None], nu1[a][None], np.array([b]))
    found = inner_factors(
        inner, outer.taken(pi2[None]), outer.taken(mu2[None]), stakes, guess[a][None], np.array([r]), np.array([bet])
    )
    assert found[0, 0] == pytest.approx(naive, rel=1e-7)


def test_a_broken_inner_cap_kills_the_bet() -> None:
    mu2, mu1 = np.array([[0.5, 0.5]]), np.array([[0.5, 0.5]])
    pi1 = np.array([[1.0, 0.0]])  # twice mu, promised 1.2
    outer = LoggedChoice(mu2, mu2, mu2, np.array([0]))
    bets = gain_grid(1 - 1 / 1.2).bets[:1]
    stakes = outer_stakes(outer, np.full((1, 2), 0.5), np.full((1, 2), 0.5), InnerLimits(1.2), bets)
    found = inner_factors(
        LoggedChoice(pi1, mu1, mu1, np.array([0])), np.ones(1), np.ones(1), stakes, np.full((1, 2), 0.5), np.array([0.5]), bets
    )
    assert np.isnan(found).all()
