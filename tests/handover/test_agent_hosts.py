"""Agents of the table as hosts: which of them, with which model and rule, and why others are none."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from host_cases import LEVELS, history_of, world_of

from aegis.agents import AGENTS
from aegis.errors import SettingError
from aegis.handover import HOSTS, GateSettings, agent_host, learn_belief, make_gate
from aegis.handover.hosts.agent_hosts import AGENT_HOSTS
from aegis.mechanisms import ModelSettings
from aegis.planning import LikelihoodRanks, PessimisticValues, PlannedValues, plan_policy
from aegis.rng import stream


def test_every_row_that_plans_nested_is_a_host_and_no_other() -> None:
    assert set(AGENT_HOSTS) == {name for name, agent in AGENTS.items() if agent.commit == "nested"} <= set(HOSTS)
    assert {"aegis_handover", "nested_cts"} <= set(AGENT_HOSTS)
    for name, make in AGENT_HOSTS.items():
        host = make()
        assert host.name == name and host.models == {name: AGENTS[name].model} and host.rule == AGENTS[name].make_rule()


@pytest.mark.parametrize(
    ("agent", "says"),
    [
        (AGENTS["flat_ts"], "'flat_ts' is no host: .*its commit shape is 'flat'; hosts plan 'nested'"),
        (replace(AGENTS["nested_cts"], name="own", model=ModelSettings(structure="cells")), "structure 'cells'"),
    ],
)
def test_other_agents_are_none_for_a_reason(agent, says) -> None:
    with pytest.raises(SettingError, match=says):
        agent_host(agent)


def test_an_agent_of_your_own_is_a_host_too() -> None:
    own = replace(AGENTS["nested_cts"], name="mine", rule="ucb", model=ModelSettings(structure="joint"))
    history = history_of(world_of())
    assert set(agent_host(own).propose(history, LEVELS, 1)) == set(LEVELS)


def test_each_level_is_read_as_the_rule_of_that_level_acts() -> None:
    history = history_of(world_of())
    proposals = HOSTS["aegis_handover"]().propose(history, LEVELS, 1)
    assert type(proposals["inner"].scores) is PessimisticValues  # lcb innermost
    assert type(proposals["meta"].scores) is PlannedValues  # Thompson outside
    information = HOSTS["d_optimal_nig"]().propose(history, LEVELS, 1)
    assert type(information["inner"].scores) is PlannedValues and type(information["meta"].scores) is LikelihoodRanks


def test_what_an_agent_proposes_is_its_plan_by_hand() -> None:
    """Inputs and rewards are standardised by all that was seen, and one set of draws is averaged over."""
    history = history_of(world_of())
    agent, batch = AGENTS["nested_cts"], history.everything()
    belief = learn_belief(history.problem, batch, {"any name": agent.model})
    mechanism = belief.mechanisms[history.problem.reward.column]
    rewards = batch.reward[np.isfinite(batch.reward)]
    np.testing.assert_allclose(mechanism.scaling.centre, rewards.mean())  # type: ignore[attr-defined]
    host = HOSTS["nested_cts"]()
    rng = stream(1, "host", "nested_cts", "inner", history.episodes)
    plan = plan_policy(
        belief, agent.make_rule(), rng, ["inner"], history.acting, integration=host.integration, episode=history.episodes
    )
    found = host.propose(history, ["inner"], 1)["inner"].scores.predict("inner", batch)
    np.testing.assert_allclose(found, plan.values("inner", batch).mean(axis=0))


def test_upper_bounds_are_optimistic_and_lower_ones_pessimistic() -> None:
    history = history_of(world_of())
    for name, sign in (("ucb_nig", 1.0), ("lcb_nig", -1.0)):
        scores = HOSTS[name]().propose(history, ["inner"], 1)["inner"].scores
        mean = scores.plan.values("inner", history.everything()).mean(axis=0)
        assert (sign * (scores.predict("inner", history.everything()) - mean) >= 0).all()
        assert (scores.predict("inner", history.everything()) != mean).any()


@pytest.mark.parametrize("gate", ["challenger", "published"])
def test_an_agent_stands_behind_a_gate(gate) -> None:
    world = world_of(f_a=2.0, inner_steps=2)
    settings = GateSettings(first=6, upgrades=False, caps=(2.0,)) if gate == "challenger" else {"stride": 10, "model": "linear"}
    made = make_gate(gate, world, world.legacy("uniform"), HOSTS["greedy_nig"](), settings, 1)
    made.advance(20)
    assert made.host.name == "greedy_nig" and made.state.episode == 20
