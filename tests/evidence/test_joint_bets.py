"""Bets on two levels at once: valid by enumeration, and no stronger than what they transcribe."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from aegis.evidence import FLOOR, InnerLimits, LoggedChoice, gain_grid, inner_factors, outer_stakes
from aegis.policies import capped_probabilities
from aegis.rng import stream


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
