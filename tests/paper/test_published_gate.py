"""Algorithm 2 on a plant: the schedule, the switches, and the counter-example that it hands over to a worse agent."""

from __future__ import annotations

import json

import numpy as np
import pytest
from host_cases import world_of
from published_cases import flips, published

from aegis.agents import AGENTS, make_online, run
from aegis.errors import InputError, PolicyError, SettingError
from aegis.handover import HOSTS, CausalHost, Frozen, UnitCounted, event_from_plain, event_to_plain, make_gate, replay_events
from aegis.mechanisms import MODELS
from aegis.ope import reward_measure
from aegis.paper import CounterExample, PublishedGate
from aegis.paper.counter_example import LEVEL
from aegis.planning import Integration, Thompson, ThompsonChoice
from aegis.planning.value_rules import SpreadChoice, pessimism
from aegis.policies import Constant, Legacy, path_full, policy_digest


def until_it_flips(gate):
    """Return the gate one episode after its first flip: what acts is still what was planned at the flip."""
    gate.advance(1)
    while not gate.deployed:
        gate.advance(gate.state.episode + gate.settings.stride)
        assert gate.state.episode < 2500
    return gate


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


# ---- Algorithm 1 -----------------------------------------------------------------------------------------------------

SWITCHES = ("risk_adjust_inner", "optimal_lambda", "progressive_handover")


def host_like(name):
    """Return an agent of the table as a host."""
    agent = AGENTS[name]
    return CausalHost(name, agent.make_rule(), {name: agent.model})


def assert_same_episodes(gate, online, episodes):
    """Every decision, its probability and every reward are those of Algorithm 1."""
    belief = online.prior()
    for episode, (batch, after) in enumerate(online.steps(belief, 0, episodes)):
        mine = gate._episodes(episode, episode + 1)
        np.testing.assert_array_equal(mine.reward, batch.reward)
        for level, table in batch.levels.items():
            np.testing.assert_array_equal(mine.levels[level].action, table.action)
            np.testing.assert_array_equal(mine.levels[level].mu_taken, table.mu_taken)
        belief = after


@pytest.mark.parametrize("name", ["nested_cts", "nested_nig", "aegis_handover", "d_optimal_nig"])
def test_with_all_switches_off_a_run_is_algorithm_1_bit_for_bit(name):
    world = world_of("unified")
    legacy, off = world.legacy("uniform"), dict.fromkeys(SWITCHES, False)
    gate = published(world, legacy, seed=7, host=host_like(name), **off)
    gate.advance(30)
    online = make_online(world, AGENTS[name], 7, legacy)
    assert_same_episodes(gate, online, 30)
    result = run(online, 30)
    np.testing.assert_array_equal(
        [gate._episodes(k, k + 1).episode_means(gate._episodes(k, k + 1).reward)[0] for k in range(30)], result.means
    )
    gate._learn(30)
    for mechanism, state in result.belief.states.items():
        np.testing.assert_array_equal(gate.belief.states[mechanism].moments().mean, state.moments().mean)
    assert not gate.looks


def test_without_a_gate_levels_that_are_not_handed_over_stay_the_legacy_s():
    world = world_of("unified")
    legacy, off = world.legacy("uniform"), dict.fromkeys(SWITCHES, False)
    gate = published(world, legacy, seed=7, host=host_like("nested_nig"), levels=("inner",), **off)
    gate.advance(10)
    assert_same_episodes(gate, make_online(world, AGENTS["nested_nig"], 7, legacy, ["inner"]), 10)


def test_without_a_gate_the_other_switches_are_kept():
    world = world_of()
    pessimistic = published(world, world.legacy("uniform"), progressive_handover=False, n_mc=4)
    assert isinstance(pessimistic.acting.choice, SpreadChoice)
    assert pessimistic.acting.choice.theta.count == 4
    assert pessimistic.acting.integration == Integration(nodes=32, samples=4)


def test_without_a_gate_a_rule_needs_a_name():
    class Own(Thompson):
        """A rule of a user's own."""

    world = world_of()
    host = CausalHost("own", Own(2), {"linear": MODELS["linear"]})
    settings = dict.fromkeys(SWITCHES, False)
    with pytest.raises(SettingError, match="found a Own"):
        published(world, world.legacy("uniform"), host=host, **settings)


def test_the_agent_of_the_paper_behind_the_gate_of_the_paper():
    world = world_of(f_a=2.0)
    gate = published(world, world.legacy("sign:epsilon=0.0"), host=host_like("aegis_handover"), stride=10, rewards="scaled")
    gate.advance(21)
    assert gate._plans.model is AGENTS["aegis_handover"].model
    assert len(gate.looks) == 4
    assert all(look.gain is not None for look in gate.looks)


# ---- what it is and what it needs ------------------------------------------------------------------------------------


def test_it_says_that_it_is_not_a_certificate():
    assert not PublishedGate.certificate


@pytest.mark.parametrize("host", ["pb", "external"])
def test_it_needs_a_host_with_a_rule(host):
    plant = CounterExample()
    made = HOSTS[host](plant.legacy) if host == "external" else HOSTS[host]()
    with pytest.raises(SettingError, match=f"found '{host}'"):
        make_gate("published", plant, plant.legacy, made, None, 1)


def test_it_names_the_hosts_that_work_and_takes_no_earlier_log():
    world = world_of()
    legacy = world.legacy("uniform")
    with pytest.raises(
        SettingError, match=r"\(greedy, ncts, ucb, ids, d-optimal, pessimistic, or an agent by name\), found 'pb'"
    ):
        published(world, legacy, host="pb")
    assert published(world, legacy, host="pessimistic").host.name == "pessimistic"
    warm = HOSTS["pessimistic"](world.episodes(0, 5, legacy, 2))
    with pytest.raises(SettingError, match="starts from a data-free p0"):
        published(world, legacy, host=warm)


def test_chances_are_those_of_the_plan_at_every_level():
    world = world_of(f_a=2.0)
    gate = published(world, world.legacy("uniform"), progressive_handover=False, refresh=50)
    gate.advance(10)
    batch = gate._episodes(0, 10)
    for level in ("inner", "meta"):
        np.testing.assert_allclose(path_full(gate.acting, level, batch), batch.levels[level].mu_full)
