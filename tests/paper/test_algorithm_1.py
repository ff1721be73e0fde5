"""Algorithm 1 against plain loops: the law of theta ~ p_(k-1), one draw for each episode, Traverse, and the update to p_k."""

from __future__ import annotations

import math

import naive
import naive_posterior
import numpy as np
import pytest
import setting

from aegis.agents import Agent, Online
from aegis.mechanisms import NIG
from aegis.planning import Integration
from aegis.problem import Scope
from aegis.rng import stream

LIMIT = 4.0  # of a standard normal number; all streams are pinned


def z(values, mean, variance):
    """How far the mean of independent values is from its expectation, in standard errors."""
    return (np.mean(values, axis=0) - mean) / np.sqrt(np.asarray(variance) / len(values))


def test_draws_of_theta_have_the_law_of_the_posterior():
    """w_q | s_q^2 ~ N(m_q, s_q^2 P^-1), s_q^2 ~ InverseGamma(a, b_q): moments of weights and noise, and what is independent."""
    rng = stream(20, "law")
    features, targets = rng.standard_normal((7, 3)), 2.0 + rng.standard_normal((7, 2))
    count = 20_000
    draw = NIG.prior(3, 2).update(features, targets).draw(stream(21, "draws"), count)
    scaled = []
    for q in range(2):
        mean, precision, a, b = naive_posterior.nig_update(
            *naive_posterior.nig_prior(3), features.tolist(), targets[:, q].tolist()
        )
        inverse = np.array(naive_posterior.inverse(precision))
        own = np.diag(inverse)
        weights, t = draw.weights[:, :, q], 1.0 / np.square(draw.sd[:, q])  # t ~ Gamma(a, b)
        u = (weights - np.array(mean)) / draw.sd[:, [q]]  # u ~ N(0, P^-1), independent of t
        second, fourth = a * (a + 1) / b**2, a * (a + 1) * (a + 2) * (a + 3) / b**4
        assert np.abs(z(weights, mean, b / (a - 1) * own)).max() < LIMIT
        assert abs(z(t, a / b, a / b**2)) < LIMIT
        assert abs(z(t**2, second, fourth - second**2)) < LIMIT
        assert np.abs(z(u, 0.0, own)).max() < LIMIT
        products = u[:, :, None] * u[:, None, :]
        assert np.abs(z(products, inverse, np.outer(own, own) + inverse**2)).max() < LIMIT
        assert np.abs(z(u * (t - a / b)[:, None], 0.0, own * a / b**2)).max() < LIMIT
        assert np.abs(z(u[1:] * u[:-1], 0.0, own**2)).max() < LIMIT  # one draw and the next
        scaled.append((u, own))
    (one, own), (other, _) = scaled
    assert np.abs(z(one * other, 0.0, own**2)).max() < LIMIT  # one output and the other


@pytest.mark.parametrize("scope", [("l2", "l1"), ("l1",), ("l2",)])
def test_algorithm_1_episode_by_episode(scope):
    """Draw theta^(k) ~ p_(k-1), traverse under it, update to p_k: data and posteriors of every episode as in plain loops."""
    episodes, nodes = 12, 5
    problem = setting.make_problem(2)
    levels = setting.plain_levels(problem)
    plant = setting.make_plant(problem, episodes, [2, 3], stream(22, "plant"))
    agent = Agent("ncts", rule_settings={"particles": 1}, integration=Integration("quadrature", nodes))
    online = Online(plant, agent, Scope(scope), 23, setting.make_legacy(problem))
    steps = list(online.steps(online.prior(), 0, episodes))

    thetas = [setting.plain_model(problem, policy.theta, 0, "linear") for policy in plant.policies]
    mechanisms = naive.phi_scope(levels, "y", "r", scope)
    data, posteriors = naive.algorithm_1(
        levels, plant.counts, plant.truth, plant.noises, thetas, mechanisms, scope, setting.plain_legacy(problem),
        plant.uniforms, nodes,
    )  # fmt: skip
    assert len(plant.policies) == episodes
    assert list(online.prior().states) == mechanisms
    for (batch, belief), (tables, y, r), posterior in zip(steps, data, posteriors[1:], strict=True):
        found = setting.plain_tables(batch)
        assert [table["parent"] for table in found] == [table["parent"] for table in tables]
        assert [table["action"] for table in found] == [table["action"] for table in tables]
        for mine, theirs in zip(found, tables, strict=True):
            np.testing.assert_allclose(mine["context"], theirs["context"], rtol=1e-12)
        np.testing.assert_allclose(batch.outcome, y, rtol=1e-12)
        np.testing.assert_allclose(batch.reward, r, rtol=1e-12)
        for name, (mean, precision, a, b) in posterior.items():
            moments = belief.states[name].moments()
            np.testing.assert_allclose(moments.mean[:, 0], mean, rtol=1e-6, atol=1e-9)
            np.testing.assert_allclose(belief.states[name].precision, precision, rtol=1e-9)
            assert (moments.shape, moments.rate[0]) == pytest.approx((a, b), rel=1e-7)


def test_algorithm_1_draws_anew_for_each_episode_from_the_posterior_before_it():
    """theta^(k), standardised with the plain p_(k-1), is independent standard noise, within an episode and to the next."""
    episodes, nodes = 30, 3
    problem = setting.make_problem(2)
    levels = setting.plain_levels(problem)
    plant = setting.make_plant(problem, episodes, [2, 3], stream(24, "plant"))
    online = Online(plant, Agent("ncts", rule_settings={"particles": 1}), problem.scope(None), 25)
    list(online.steps(online.prior(), 0, episodes))
    thetas = [setting.plain_model(problem, policy.theta, 0, "linear") for policy in plant.policies]
    mechanisms = naive.phi_scope(levels, "y", "r", set(problem.names))
    _, posteriors = naive.algorithm_1(
        levels, plant.counts, plant.truth, plant.noises, thetas, mechanisms, set(problem.names), None, plant.uniforms, nodes
    )
    normal, gamma = [], []
    for policy, posterior in zip(plant.policies, posteriors, strict=False):
        row = []
        for name in mechanisms:
            function = policy.theta.functions[name]
            weights, sd = function.drawn.weights[0, :, 0].tolist(), float(function.sd[0, 0])
            u, g = naive_posterior.standardised(posterior[name], weights, sd)
            row += u
            gamma.append((g - posterior[name][2]) / math.sqrt(posterior[name][2]))
        normal.append(row)
    u = np.array(normal)  # [episodes, all weights]
    assert abs(z(u.ravel(), 0.0, 1.0)) < LIMIT
    assert abs(z(u.ravel() ** 2, 1.0, 2.0)) < LIMIT
    assert abs(z(np.array(gamma), 0.0, 1.0)) < LIMIT
    assert abs(z((u[1:] * u[:-1]).ravel(), 0.0, 1.0)) < LIMIT
