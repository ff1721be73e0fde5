"""The PAC-Bayes gate: its densities, its bound, its ledger, and that it keeps its promise at a null."""

from __future__ import annotations

import json
import math
from dataclasses import replace

import numpy as np
import pytest
from host_cases import world_of
from scipy import stats

from aegis.errors import RefusedError, SettingError
from aegis.evidence import value_grid
from aegis.handover import (
    HOSTS,
    Flipped,
    Frozen,
    challenge_share,
    check_single_level,
    event_from_plain,
    event_to_plain,
    make_gate,
    particle_ratios,
    replay_events,
)
from aegis.handover.hosts.causal import lifted_particle_gains
from aegis.mechanisms import MODELS, NIG, build_belief
from aegis.paper.pac_bayes_gate import (
    PacBayesGate,
    PacBayesSettings,
    joint_log_density,
    log_ratios,
    mean_log_ratio,
    weight_log_density,
)
from aegis.paper.published_gate import prior_belief
from aegis.policies import path_full, policy_digest
from aegis.problem import Scope
from aegis.rng import stream
from aegis.worlds import true_value
from case_choice import few


def pac_bayes(world, seed=1, legacy="uniform", **settings):
    return make_gate("pac-bayes", world, world.legacy(legacy), HOSTS["ncts"](), settings, seed)


def flips(gate):
    return [event for event in gate.events if isinstance(event, Flipped)]


# ---- densities -------------------------------------------------------------------------------------------------------


def some_posterior(seed=1, rows=12):
    rng = np.random.default_rng(seed)
    features = rng.normal(size=(rows, 3))
    return NIG.prior(3, 2), NIG.prior(3, 2).update(features, rng.normal(size=(rows, 2)) + features[:, :2])


def test_densities_are_those_of_scipy_up_to_a_constant():
    prior, posterior = some_posterior()
    drawn = posterior.draw(np.random.default_rng(2), 5)
    for state in (prior, posterior):
        at = state.moments()
        precision = at.factor @ at.factor.T
        joint, alone = np.zeros(5), np.zeros(5)
        for s in range(5):
            for q in range(2):
                weights, square = drawn.weights[s, :, q], drawn.sd[s, q] ** 2
                mean, rate = at.mean[:, q], at.rate[q]
                joint[s] += stats.multivariate_normal(mean, square * np.linalg.inv(precision)).logpdf(weights)
                joint[s] += stats.invgamma(at.shape, scale=rate).logpdf(square)
                scale = rate / at.shape * np.linalg.inv(precision)
                alone[s] += stats.multivariate_t(mean, scale, df=2 * at.shape).logpdf(weights)
        assert np.ptp(joint_log_density(state, drawn) - joint) < 1e-9
        assert np.ptp(weight_log_density(state, drawn) - alone) < 1e-9
        constants = joint_log_density(state, drawn)[0] - joint[0], weight_log_density(state, drawn)[0] - alone[0]
        if state is prior:
            first = constants
    assert constants == pytest.approx(first)  # the constant cancels in a ratio


def test_the_mean_log_ratio_of_draws_is_the_divergence_and_less_without_the_noise():
    world = world_of(f_a=1.0)
    batch = world.episodes(0, 40, world.legacy("uniform"), 1)
    belief = build_belief(world.problem, scope=["inner"]).update(batch)
    theta = belief.draw(stream(1, "draws"), 4000)
    joint, alone = log_ratios(belief, theta, True), log_ratios(belief, theta, False)
    assert joint.mean() == pytest.approx(belief.kl(["inner"]), abs=4 * joint.std() / math.sqrt(4000))
    assert alone.mean() < joint.mean() - 1


def test_a_ratio_of_densities_averages_to_one_under_the_prior():
    """E_p0[q / p0] = 1: both densities leave out the same constant. With little data, so that the average settles."""
    prior, posterior = some_posterior(rows=1)
    drawn = prior.draw(np.random.default_rng(3), 100_000)
    for density in (joint_log_density, weight_log_density):
        ratios = np.exp(density(posterior, drawn) - density(prior, drawn))
        assert ratios.mean() == pytest.approx(1.0, abs=0.05)


def test_a_mean_ratio_below_zero_lowers_no_threshold():
    assert mean_log_ratio(np.array([-2.0, 1.0]), np.array([0.5, 0.5])) == 0.0
    assert mean_log_ratio(np.array([2.0, 1.0]), np.array([0.5, 0.5])) == 1.5


# ---- the bound -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("level", ["inner", "meta"])
def test_a_look_computes_the_bound_of_the_particles_that_would_be_deployed(level):
    """The line of the module's docstring, in plain loops, on gains added up from the policy's own answers."""
    world = world_of("unified", preset="stress")
    gate = pac_bayes(world, 2, stride=40, model="linear")
    gate.advance(81)
    (look,) = [look for look in gate.looks if look.level == level and look.episode == 80]
    frozen = [event for event in gate.events if isinstance(event, Frozen)][1]
    drawn = gate._drawn_at(level, 80)
    assert policy_digest(drawn) == next(item.policy for item in frozen.challenges if item.level == level)
    batch, measure = gate._episodes(0, 80), world.problem.reward
    scaled = (batch.reward - measure.range[0]) / (measure.range[1] - measure.range[0])
    rows, table = batch.ancestors("inner")[level], batch.levels[level]
    full = drawn.full(level, batch)
    chances = full[:, np.arange(len(table)), table.action] / table.mu_taken
    gains = np.array([1 + batch.episode_means((own[rows] - 1) * scaled) for own in chances])  # [N, K]
    ratios = log_ratios(gate.beliefs[level], drawn.theta, level == "meta")
    grid, risk = value_grid(-4), challenge_share(0.05, 2, 2)
    cost = max(ratios.mean(), 0.0) + math.log(1 / risk)

    def log_wealth(gain):
        terms = [
            weight + np.log1p(bet * gains).sum(axis=1).mean() - 80 * math.log1p(bet * (gain + 1))
            for bet, weight in zip(grid.bets, grid.log_weights, strict=True)
        ]
        return np.logaddexp.reduce(terms)

    assert log_wealth(look.gain) >= cost - 1e-6
    assert log_wealth(look.gain + 1e-5) < cost


def test_it_hands_nothing_over_where_no_action_is_better_than_another():
    """Nothing that A does changes anything: every gain is 0."""
    world = world_of(f_a=0.0)
    for seed in range(4):
        gate = pac_bayes(world, seed, stride=60, levels=("inner",), particles=4)
        gate.advance(181)
        assert not flips(gate)
        assert len(gate.looks) == 3


# ---- a whole run -----------------------------------------------------------------------------------------------------


SHORT = {"stride": 50, "particles": 3, "levels": ("inner",)}


@pytest.fixture(scope="module")
def run():
    """Return a run on a plant whose inner level is worth a lot, until thirty episodes after its flip."""
    world = world_of(f_a=6.0)
    gate = pac_bayes(world, 1, **SHORT)
    while not gate.deployed:
        gate.advance(gate.state.episode + 50)
        assert gate.state.episode < 1500
    gate.advance(gate.state.episode + 30)
    return world, gate


def test_it_hands_over_to_what_is_better(run):
    world, gate = run
    (flip,) = flips(gate)
    measure = world.problem.reward
    width = measure.range[1] - measure.range[0]
    gain = (true_value(world, gate.acting) - true_value(world, gate.legacy)) / width
    assert 0 < flip.gain_lower < gain
    assert flip.units == flip.episode
    assert policy_digest(gate.deployed["inner"]) == flip.policy
    assert gate.deployed["inner"].weights.size == 3


def test_its_ledger_adds_up_and_stays_within_delta(run):
    _, gate = run
    looks = [event for event in gate.events if isinstance(event, Frozen)]
    expected = sum(challenge_share(0.05, t, 1) for t in range(1, len(looks) + 1))
    assert gate.state.spent == pytest.approx(expected)
    assert gate.state.spent < 0.05
    assert [event.freeze for event in looks] == list(range(1, len(looks) + 1))


def test_events_are_all_there_is_to_know(run):
    _, gate = run
    again = [event_from_plain(json.loads(json.dumps(event_to_plain(event), allow_nan=False))) for event in gate.events]
    assert again == gate.events
    assert replay_events(again) == gate.state


@pytest.mark.parametrize("after", few([-200, -1, 0, 1, 20], [-1, 1]))
def test_it_goes_on_from_wherever_it_was_interrupted(run, after):
    world, whole = run
    cut = whole.events.index(flips(whole)[0]) + after
    resumed, told = pac_bayes(world, 1, **SHORT), []
    resumed.restore(whole.events[:cut])
    resumed.advance(whole.state.episode, told.extend)
    assert whole.events[:cut] + told == whole.events == resumed.events
    assert resumed.looks == whole.looks
    assert policy_digest(resumed.acting) == policy_digest(whole.acting)


def test_after_a_flip_only_units_of_the_new_phase_count_and_the_belief_at_the_flip_is_the_prior():
    world = world_of(f_a=6.0)
    gate = pac_bayes(world, 1, stride=50, particles=3)
    while not gate.deployed:
        gate.advance(gate.state.episode + 50)
        assert gate.state.episode < 1500
    flip, states = flips(gate)[0], gate.beliefs["meta"].prior
    assert states is not prior_belief(world, gate.legacy, MODELS["linear"], 1, Scope("meta")).prior
    assert states["Y"].shape == pytest.approx(2.0 + flip.episode * 4 / 2)  # half a unit of shape per innermost decision
    gate.advance(flip.episode + 101)
    late = [look for look in gate.looks if look.episode > flip.episode]
    assert [(look.level, look.words.split()[0]) for look in late] == [("meta", "50"), ("meta", "100")]
    batch = gate._episodes(flip.episode, flip.episode + 50)
    np.testing.assert_allclose(path_full(gate.deployed["inner"], "inner", batch), batch.levels["inner"].mu_full, atol=1e-12)


# ---- bad input -------------------------------------------------------------------------------------------------------


def test_logged_probabilities_that_cannot_be_are_refused():
    world = world_of()
    legacy = world.legacy("uniform")
    batch = world.episodes(0, 3, legacy, 1)
    table = batch.levels["inner"]
    for wrong in (0.0, 1.5, np.nan):
        taken = np.where(np.arange(len(table)) == 5, wrong, table.mu_taken)
        with pytest.raises(RefusedError, match="level 'inner', row 5"):
            particle_ratios(legacy, "inner", batch.with_level("inner", table.decided(table.action, taken)), 1)


def test_a_missing_reward_counts_as_what_hurts():
    world = world_of()
    batch = world.episodes(0, 1, world.legacy("uniform"), 1)
    batch.reward[:] = np.nan
    above = lifted_particle_gains(world.problem, "inner", batch, np.full((4, 1), 3.0))
    below = lifted_particle_gains(world.problem, "inner", batch, np.full((4, 1), 0.25))
    np.testing.assert_allclose([above[0, 0], below[0, 0]], [1.0, 0.25])


def test_it_says_where_it_does_not_apply():
    world = world_of()
    with pytest.raises(SettingError, match="carry_over: within"):
        check_single_level(replace(world.problem, carry_over="within"), "inner")
    with pytest.raises(SettingError, match="per: episode"):
        check_single_level(replace(world.problem, reward=replace(world.problem.reward, per="episode")), "inner")


@pytest.mark.parametrize(
    ("settings", "says"),
    [({"stride": 1.5}, "'stride'"), ({"particles": 0}, "'particles'"), ({"delta": 0.0}, "'delta'"), ({"modle": ""}, "'model'")],
)
def test_bad_settings_of_the_pac_bayes_gate_are_refused(settings, says):
    with pytest.raises(SettingError, match=says):
        PacBayesSettings.of(settings)


def test_it_is_a_certificate_and_says_why():
    assert PacBayesGate.certificate
