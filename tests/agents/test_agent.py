"""Agents with rules by level: how the rows of the table are put together, and what the meta-rules are known to earn."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from aegis.agents import AGENTS, Agent, Online, run
from aegis.errors import SettingError
from aegis.planning import BernoulliMix, ByLevel, DOptimal, Ids, Lcb, Thompson, TopK, Ucb
from aegis.planning.value_rules import pessimism
from aegis.worlds import WORLDS, make_world

ROWS = {
    "ucb_nig": Ucb(),
    "lcb_nig": Lcb(),
    "ids_nig": Ids(),
    "d_optimal_nig": ByLevel(DOptimal(), Thompson()),
    "top_k_nig": ByLevel(TopK(3), Thompson()),
    "mix_nig": ByLevel(BernoulliMix(0.5), Thompson()),
}


@pytest.mark.parametrize("name", ROWS)
def test_rows_of_the_table(name: str) -> None:
    assert AGENTS[name].make_rule() == ROWS[name]


def test_both_rules_take_their_own_settings() -> None:
    agent = Agent("a", rule_settings={"particles": 2}, outer_rule="top_k", outer_settings={"k": 4, "particles": 5})
    assert agent.make_rule() == ByLevel(TopK(4, 5), Thompson(2))


def test_particles_go_to_whichever_rule_draws_them() -> None:
    assert AGENTS["nested_cts"].with_particles(4).make_rule() == Thompson(4)
    assert AGENTS["aegis_cts"].with_particles(4).make_rule() == ByLevel(Thompson(4), Lcb())
    assert AGENTS["top_k_nig"].with_particles(4).make_rule() == ByLevel(TopK(3, 4), Thompson(4))
    with pytest.raises(SettingError, match="agent 'lcb_nig' draws no particles: its rule 'lcb' has no such setting"):
        AGENTS["lcb_nig"].with_particles(4)


def test_wrong_rules_and_settings_are_refused() -> None:
    with pytest.raises(SettingError, match=r"unknown rule 'd_optimum' \(did you mean 'd_optimal'"):
        Agent("a", outer_rule="d_optimum")
    with pytest.raises(SettingError, match="rule 'top_k' has no setting 'K'"):
        Agent("a", outer_rule="top_k", outer_settings={"K": 4})
    with pytest.raises(SettingError, match=r"settings of an outer rule \(k\) but no outer rule"):
        Agent("a", outer_settings={"k": 4})
    with pytest.raises(SettingError, match="rule 'greedy' has no setting 'draws'; settings: none"):
        Agent("a", rule="greedy", rule_settings={"draws": 4})


@pytest.mark.parametrize("world", WORLDS)
def test_meta_rules_run_on_every_world_and_log_exact_propensities(world: str) -> None:
    plant = make_world(world)
    agent = replace(AGENTS["mix_nig"], rule_settings={"particles": 2}, outer_settings={"particles": 2})
    online = Online(plant, agent, plant.problem.scope(None), 3)
    for batch, _ in online.steps(online.prior(), 0, 2):
        for level in plant.problem.names:
            table = batch.levels[level]
            np.testing.assert_allclose(table.mu_full.sum(axis=1), 1.0, atol=1e-9)
            assert (table.mu_taken > 0).all()


def test_the_rule_is_told_the_episode() -> None:
    world = make_world("unified", inner_steps=2, inner_points=5)
    online = Online(world, replace(AGENTS["lcb_nig"], rule_settings={"draws": 2}), world.problem.scope(None), 4)
    belief = online.prior()
    for episode in (0, 5):
        assert online.policy(belief, episode).choice.kappa == pytest.approx(-pessimism(0.0, 0.05, episode))


@pytest.mark.parametrize(
    ("name", "settings", "known"), [("d_optimal_nig", {}, 2.5), ("top_k_nig", {"k": 4, "particles": 1}, 41.5)]
)
@pytest.mark.parametrize("seeds", [3, pytest.param(5, marks=pytest.mark.ci)])
def test_meta_rules_on_the_stress_preset(name: str, settings: dict[str, int], known: float, seeds: int) -> None:
    """Reward per episode over 200 episodes, against an independent prototype's mean; the spread over seeds is about 6."""
    world = make_world("unified")
    agent = replace(AGENTS[name], rule_settings={"particles": 1}, outer_settings=settings)
    totals = [run(Online(world, agent, world.problem.scope(None), seed), 200).sums.mean() for seed in range(seeds)]
    assert abs(np.mean(totals) - known) < 3 * 6.0 * np.sqrt(1 / 5 + 1 / 10)  # of 5 seeds, also where fewer are run
