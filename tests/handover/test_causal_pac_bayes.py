"""The host 'pb' finds particle weights with a larger certificate than the posterior has; its particles do not know the units."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from host_cases import history_of, world_of

from aegis.errors import SettingError
from aegis.evidence import value_grid
from aegis.handover import HOSTS, particle_gains
from aegis.handover.hosts.causal import PacBayesHost
from aegis.policies import Mixture, path_taken, policy_digest

HELD_OUT = range(900, 910)  # seeds that no setting was chosen by
SMALL = 60


def naive_bound(gains, weights, delta):
    """Return the bound of the mean lifted gain of a q-mixture of equally likely particles, by bisection of the plain formula."""
    grid, units = value_grid(-4), len(gains)
    sums = np.array([np.log1p(bet * gains).sum(axis=0) @ weights for bet in grid.bets])
    kept = weights[weights > 0]
    cost = np.log(1 / delta) + np.log(weights.size) + (kept * np.log(kept)).sum()

    def wealth(mean):
        logs = grid.log_weights + sums - units * np.log1p(grid.bets * mean)
        return logs.max() + np.log(np.exp(logs - logs.max()).sum())

    low, high = 0.0, 2.0
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if wealth(middle) >= cost else (low, middle)
    return low


def test_maximising_the_certificate_raises_it_over_the_posterior_on_held_out_seeds():
    rises = []
    for seed in HELD_OUT:
        history = history_of(world_of(f_a=1.0), 100, seed=seed)
        rises += [
            found.best.value - found.posterior.value for found in HOSTS["pb"]().weigh(history, ["inner", "meta"], seed).values()
        ]
    assert np.mean(np.array(rises) > 0) >= 0.8
    assert np.median(rises) > 0.02


def test_both_bounds_are_those_of_the_formula_on_gains_of_the_particles_themselves():
    """Each particle asked as a policy, its gain added up by hand: no code of the host's."""
    world = world_of("unified", preset="stress")
    history = history_of(world, SMALL, "natural:epsilon=0.3")
    host = PacBayesHost(HOSTS["pb"]().models, draws=3, caps=(1.5, 3.0))
    units, measure = history.everything().take_episodes(np.arange(SMALL // 2, SMALL)), world.problem.reward
    table = units.levels["inner"]
    scaled = (units.reward - measure.range[0]) / (measure.range[1] - measure.range[0])
    found = host.weigh(history, ["inner"], 1)["inner"]
    gains = []
    for place in range(9):
        ratio = path_taken(found.particle(place), "inner", units) / table.mu_taken
        gains.append(1 + units.episode_means((ratio - 1) * scaled))
    gains = np.array(gains).T
    assert found.best.value == pytest.approx(naive_bound(gains, found.best.weights, host.delta), abs=1e-6)
    assert found.posterior.value == pytest.approx(naive_bound(gains[:, :3], np.full(3, 1 / 3), host.delta), abs=1e-6)
    assert found.best.weights.size == 9


def test_particles_do_not_know_the_units_they_are_weighed_on():
    history = history_of(world_of(f_a=1.0), SMALL)
    batch = history.everything()
    later = batch.episode_of("inner") >= SMALL // 2
    changed = replace(batch, reward=np.where(later, -batch.reward, batch.reward))
    before = HOSTS["pb"]().weigh(history, ["inner"], 1)["inner"]
    after = HOSTS["pb"]().weigh(replace(history, batches=(changed,)), ["inner"], 1)["inner"]
    assert policy_digest(before.plan) == policy_digest(after.plan)
    assert not np.allclose(before.best.weights, after.best.weights)


def test_only_units_of_the_present_phase_in_which_the_policies_of_now_acted_are_weighed():
    history = history_of(world_of(f_a=1.0), SMALL)
    arms = ("agent",) * 40 + ("legacy", "agent") * 10
    found = HOSTS["pb"]().weigh(replace(history, start=20, arms=arms), ["inner"], 1)["inner"]
    assert found.best.units == 15  # the later half of 20 + 10


def test_the_policy_is_the_heaviest_part_of_the_mixture():
    history = history_of(world_of("unified", preset="stress"), SMALL, "natural:epsilon=0.3")
    found = HOSTS["pb"]().weigh(history, ["inner"], 1)["inner"]
    assert np.ptp(found.best.weights) > 0.01
    policy, batch = found.policy, history.everything()
    assert isinstance(policy, Mixture)
    heaviest = np.sort(found.best.weights)[-4:]
    np.testing.assert_allclose(np.sort(policy.weights), heaviest / heaviest.sum())
    kept = np.sort(np.argsort(-found.best.weights, kind="stable")[:4])
    np.testing.assert_array_equal(policy.full("inner", batch)[2], found.particle(int(kept[2])).full("inner", batch)[0])


def test_an_episode_without_a_decision_at_the_level_says_nothing():
    history = history_of(world_of(f_a=1.0), 6)
    batch = history.everything()
    table = batch.levels["inner"]
    rows = np.flatnonzero(table.parent != 2)
    thinned = replace(batch, reward=batch.reward[rows], observed=None, outcome=batch.outcome[rows]).with_level(
        "inner", table.take(rows, table.parent[rows])
    )
    plan = HOSTS["pb"]().weigh(history, ["inner"], 1)["inner"].plan
    gains = particle_gains(history.problem, plan, "inner", thinned, 8)
    np.testing.assert_array_equal(gains[2], 1.0)
    assert (gains[1] != 1.0).any()


def test_it_says_that_it_needs_earlier_episodes():
    with pytest.raises(SettingError, match=r"host 'pb'.*found 1"):
        HOSTS["pb"]().propose(history_of(world_of(), 1), ["inner"], 1)
