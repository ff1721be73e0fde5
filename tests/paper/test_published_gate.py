"""Algorithm 2 on a plant: the published numbers, the switches, and the counter-example that it hands over to a worse agent."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
from host_cases import world_of

from aegis.errors import InputError, PolicyError, SettingError
from aegis.handover import HOSTS, Flipped, Frozen, UnitCounted, event_from_plain, event_to_plain, make_gate, replay_events
from aegis.ope import reward_measure
from aegis.paper import CounterExample, PublishedGate, PublishedSettings
from aegis.paper.counter_example import LEVEL
from aegis.planning import ThompsonChoice
from aegis.planning.value_rules import SpreadChoice, pessimism
from aegis.policies import Constant, Legacy, path_full, policy_digest


def published(plant, legacy, seed=1, host="ncts", **settings):
    return make_gate("published", plant, legacy, HOSTS[host](), settings, seed)


def until_it_flips(gate):
    """Return the gate one episode after its first flip: what acts is still what was planned at the flip."""
    gate.advance(1)
    while not gate.deployed:
        gate.advance(gate.state.episode + gate.settings.stride)
        assert gate.state.episode < 2500
    return gate


def flips(gate):
    return [event for event in gate.events if isinstance(event, Flipped)]


# ---- the counter-example ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", [1, 2, 3])
@pytest.mark.parametrize("host", ["greedy", "ncts"])
def test_the_published_gate_hands_over_to_the_worse_agent(seed, host):
    plant = CounterExample()
    gate = until_it_flips(published(plant, plant.legacy, seed, host))
    (flip,) = flips(gate)
    assert flip.gain_lower > 0  # what it calls a gain
    (earlier,) = [event for event in gate.events if isinstance(event, Frozen)]
    assert earlier.challenges[0].policy == flip.policy
    assert plant.true_value(plant.legacy) == pytest.approx(0.75)
    assert plant.true_value(gate.deployed[LEVEL]) <= 0.0


def test_on_rewards_scaled_as_the_theorem_asks_it_never_hands_over():
    plant = CounterExample()
    gate = published(plant, plant.legacy, rewards="scaled")
    gate.advance(2000)
    assert not flips(gate)
    assert len(gate.looks) == 39
    assert all(look.gain < 0 for look in gate.looks)


def test_the_challenger_gate_does_not_hand_over_on_the_same_plant():
    plant = CounterExample()
    gate = make_gate("challenger", plant, plant.legacy, HOSTS["ncts"](), None, 1)
    gate.advance(300)
    assert not gate.state.deployed
    assert gate.state.freeze > 3


def test_the_plant_meets_every_policy_with_the_same_noise_and_cuts_its_runs_anywhere():
    plant = CounterExample()
    whole = plant.episodes(0, 150, plant.legacy, 4)
    parts = [plant.episodes(first, count, plant.legacy, 4) for first, count in ((0, 63), (63, 2), (65, 85))]
    np.testing.assert_array_equal(np.concatenate([part.reward for part in parts]), whole.reward)
    assert whole.reward.mean() == pytest.approx(0.75, abs=0.15)
    np.testing.assert_array_equal(whole.levels[LEVEL].mu_taken, 1.0)


# ---- the published numbers -------------------------------------------------------------------------------------------


def naive_look(gate, level, rewards, highest, episodes):
    """Return the estimate minus the legacy's mean as the paper writes it, with loops, in units of the rewards given `[n]`."""
    batch = gate._episodes(0, episodes)
    plan = gate._plans.plan(gate.belief, gate.host.rule, [level], episodes)
    table, full = batch.levels[level], plan.full(level, batch)
    rows = batch.ancestors("inner")[level]
    owner = batch.episode_of("inner")
    weight_cut = gate.settings.largest_weight
    values = np.zeros((episodes, len(full)))
    for episode in range(episodes):
        for particle in range(len(full)):
            products = []
            for row in np.flatnonzero(owner == episode):
                place = rows[row]
                weight = full[particle, place, table.action[place]] / table.mu_taken[place]
                products.append(min(weight, weight_cut) * rewards[row])
            values[episode, particle] = np.mean(products)
    largest = weight_cut * highest
    square = np.mean((largest - values) ** 2)
    cost = gate.belief.kl([level]) + np.log(1 / gate.settings.delta)
    lam = min(0.95 / largest, np.sqrt(2 * cost / (episodes * square)))
    estimate = largest + np.mean(np.log(1 - lam * (largest - values))) / lam
    return estimate - np.mean([rewards[owner == episode].mean() for episode in range(episodes)])


@pytest.mark.parametrize(("level", "cut", "kind"), [("inner", 1.0, "raw"), ("meta", 2.0, "scaled"), ("inner", 3.0, "scaled")])
def test_a_look_computes_what_the_paper_writes(level, cut, kind):
    world = world_of(f_a=2.0)
    gate = published(world, world.legacy("uniform"), largest_weight=cut, rewards=kind, stride=30)
    gate.advance(61)
    assert not gate.deployed
    batch, measure = gate._episodes(0, 60), reward_measure(world.problem)
    rewards = measure.scaled(batch.reward) if kind == "scaled" else batch.reward
    expected = naive_look(gate, level, rewards, 1.0 if kind == "scaled" else measure.high, 60)
    (look,) = [look for look in gate.looks if look.level == level and look.episode == 60]
    assert look.gain == pytest.approx(expected / (1.0 if kind == "scaled" else measure.width), rel=1e-9)
    assert "not a certificate" in look.words


def test_where_values_are_too_far_below_zero_the_estimate_does_not_exist_and_nothing_is_handed_over():
    world = world_of(f_a=0.5)
    gate = published(world, world.legacy("uniform"), stride=60, levels=("inner",))
    gate.advance(61)
    (look,) = gate.looks
    assert look.gain is None
    assert "does not exist" in look.words


def test_weights_that_are_not_cut_take_the_largest_seen_for_b():
    world = world_of(f_a=0.5)
    gate = published(world, world.legacy("uniform"), largest_weight=None, rewards="scaled", stride=30)
    gate.advance(31)
    assert "B is the largest weight observed" in gate.looks[0].words


def test_one_over_root_k_instead_of_lambda_star_waits_until_it_is_defined():
    world, shared = world_of(f_a=0.5), {"rewards": "scaled", "largest_weight": 8.0, "levels": ("inner",)}
    gains = {}
    for optimal in (True, False):
        gate = published(world, world.legacy("uniform"), optimal_lambda=optimal, **shared)
        gate.advance(101)
        gains[optimal] = [look.gain for look in gate.looks]
    assert gains[False][0] is None  # K has to be above B^2 = 64
    assert None not in gains[True]
    assert gains[False][1] != gains[True][1]


# ---- the schedule and its switches -----------------------------------------------------------------------------------


def test_after_a_flip_the_agent_is_pessimistic_by_kappa_of_every_episode():
    plant = CounterExample()
    gate = until_it_flips(published(plant, plant.legacy))
    episode = flips(gate)[0].episode
    seen = []
    for more in (1, 2, 3):
        gate.advance(episode + more)
        choice = gate.acting.choice
        assert isinstance(choice, SpreadChoice)
        assert gate.learned == episode + more
        assert choice.kappa == pytest.approx(-pessimism(gate.belief.kl([LEVEL]), 0.05, episode + more))
        seen.append(policy_digest(gate.acting))
    assert len(set(seen)) == 3


def test_without_risk_adjustment_the_host_s_rule_acts_after_a_flip():
    plant = CounterExample()
    gate = until_it_flips(published(plant, plant.legacy, risk_adjust_inner=False, refresh=10))
    assert isinstance(gate.acting.choice, ThompsonChoice)
    now = gate.state.episode
    gate.advance(now - now % 10 + 17)
    assert gate.learned == now - now % 10 + 10  # updated every ten episodes


def test_without_a_gate_the_agent_acts_at_all_levels_from_the_start():
    world = world_of(f_a=2.0)
    gate = published(world, world.legacy("uniform"), progressive_handover=False)
    gate.advance(60)
    assert {flip.level: flip.episode for flip in flips(gate)} == {"inner": 0, "meta": 0}
    assert not gate.looks
    legacy = world.episodes(0, 60, world.legacy("uniform"), 1)
    assert np.mean(gate.rewards[20:]) > reward_measure(world.problem).scaled(legacy.reward).mean() + 0.05


def test_outer_levels_keep_a_share_of_uniform_choices():
    world = world_of(f_a=0.5)
    always = Legacy(world.problem, {"meta": Constant(0.0), "inner": Constant(1.0)})
    gate = published(world, always, positivity=0.3)
    gate.advance(20)
    batch = gate._episodes(0, 20)
    np.testing.assert_allclose(np.unique(batch.levels["meta"].mu_full), [0.1, 0.8])
    np.testing.assert_array_equal(np.unique(batch.levels["inner"].mu_full), [0.0, 1.0])
    none = published(world, always, positivity=0.0)
    assert none.acting is none.legacy


def test_flips_are_sticky_and_events_add_up_to_the_state():
    plant = CounterExample()
    gate = published(plant, plant.legacy, refresh=50)
    gate.advance(1700)
    assert [flip.challenge for flip in flips(gate)] == ["published"]
    assert gate.state.at(LEVEL).since == flips(gate)[0].since
    again = [event_from_plain(json.loads(json.dumps(event_to_plain(event), allow_nan=False))) for event in gate.events]
    assert again == gate.events
    assert replay_events(again) == gate.state
    assert [event.episode for event in again if isinstance(event, UnitCounted)] == list(range(1, 1701))
    assert gate.state.spent == 0.0  # it promises nothing


@pytest.mark.parametrize("after", [-1000, -30, -1, 0, 1, 2, 3, 7])
def test_a_run_that_was_interrupted_anywhere_goes_on_to_the_same_end(after, whole_run):
    """after: how many events after the last unit before the flip. The flip itself is two events."""
    plant, whole, flip = whole_run
    cut = (
        next(place for place, event in enumerate(whole.events) if isinstance(event, UnitCounted) and event.episode == flip)
        + after
    )
    resumed, told = published(plant, plant.legacy, 1), []
    resumed.restore(whole.events[:cut])
    resumed.advance(flip + 20, told.extend)
    assert whole.events[:cut] + told == whole.events == resumed.events
    assert resumed.looks == whole.looks
    assert resumed.rewards == whole.rewards
    assert policy_digest(resumed.acting) == policy_digest(whole.acting)


@pytest.fixture(scope="module")
def whole_run():
    """Return the counter-example's plant, a run on it until twenty episodes after its flip, and the episode of the flip."""
    plant = CounterExample()
    gate = until_it_flips(published(plant, plant.legacy, 1))
    flip = flips(gate)[0].episode
    gate.advance(flip + 20)
    return plant, gate, flip


def test_events_of_another_run_are_refused():
    plant = CounterExample()
    whole = published(plant, plant.legacy)
    whole.advance(60)
    with pytest.raises(InputError, match="other settings"):
        published(plant, plant.legacy, stride=25).restore(whole.events)
    with pytest.raises(PolicyError, match="comes out differently"):
        published(plant, plant.legacy, seed=2).restore(whole.events)


# ---- what it is and what it needs ------------------------------------------------------------------------------------


def test_it_says_that_it_is_not_a_certificate():
    assert not PublishedGate.certificate


@pytest.mark.parametrize("host", ["pb", "external"])
def test_it_needs_a_host_with_a_rule(host):
    plant = CounterExample()
    made = HOSTS[host](plant.legacy) if host == "external" else HOSTS[host]()
    with pytest.raises(SettingError, match=f"found '{host}'"):
        make_gate("published", plant, plant.legacy, made, None, 1)


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"stride": 0}, "'stride' should be greater than or equal to 1"),
        ({"stride": 50, "refresh": 7}, "'refresh' divides 'stride'"),
        ({"largest_weight": 0.0}, "'largest_weight' should be greater than 0"),
        ({"positivity": 1.0}, "'positivity'"),
        ({"delta": 1.5}, "'delta'"),
        ({"rewards": "rew"}, "'rewards' should be 'raw' or 'scaled'"),
        ({"model": "liner"}, "did you mean 'linear'"),
        ({"strides": 3}, "did you mean 'stride'"),
    ],
)
def test_bad_settings_are_refused(settings, says):
    with pytest.raises(SettingError, match=says):
        PublishedSettings.of(settings)


def test_settings_survive_as_plain_data():
    settings = PublishedSettings(stride=20, refresh=5, levels=("inner",))
    assert PublishedSettings.of(json.loads(json.dumps(settings.plain()))) == settings


def test_a_reward_that_is_never_above_zero_has_no_b():
    plant = CounterExample()
    gate = published(plant, plant.legacy, stride=10)
    gate.advance(10)
    algorithm = replace(gate.algorithm, measure=type(gate.algorithm.measure)("earned", -9.0, -1.0, "maximise"))
    plan = gate._plans.plan(gate.belief, gate.host.rule, [LEVEL], 10)
    look, hands_over = algorithm.judge([LEVEL], 10, plan, 1.0, gate._episodes(0, 10))
    assert look.gain is None
    assert "B is not defined" in look.words
    assert not hands_over


def test_chances_are_those_of_the_plan_at_every_level():
    world = world_of(f_a=2.0)
    gate = published(world, world.legacy("uniform"), progressive_handover=False, refresh=50)
    gate.advance(10)
    batch = gate._episodes(0, 10)
    for level in ("inner", "meta"):
        np.testing.assert_allclose(path_full(gate.acting, level, batch), batch.levels[level].mu_full)
