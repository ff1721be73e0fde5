"""Agents with rules by level: how the rows of the table are put together, and what the meta-rules are known to earn."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pytest

from aegis.agents import AGENTS, Agent, Online, make_online, run
from aegis.errors import SettingError
from aegis.mechanisms import Cells
from aegis.mechanisms.fourier import Fourier
from aegis.planning import BernoulliMix, ByLevel, DOptimal, Ids, Lcb, Rule, Thompson, TopK, Ucb
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


# ---- the paper's table of agents: reward model, commit shape, rule ------------------------------------------------------


@dataclass(frozen=True)
class PaperRow:
    """A row of the paper's table. parents: of each learned mechanism. controlled: the levels at which the agent acts."""

    parents: dict[str, tuple[str, ...]]
    controlled: tuple[str, ...]
    rule: Rule


MECHANISMS = {"Q": ("T", "M"), "Y": ("A", "Q"), "R": ("Y", "Q", "M", "T", "A")}  # f_C, f_Y and f_R, with the paper's parents
BOTH = ("meta", "inner")
PAPER = {
    "flat_ts": PaperRow({"R": ("T", "M", "Q", "A")}, ("inner",), Thompson()),
    "flat_cts": PaperRow({name: MECHANISMS[name] for name in ("Y", "R")}, ("inner",), Thompson()),  # f_C is above its scope
    "joint_cts": PaperRow(MECHANISMS, BOTH, Thompson()),
    "nested_cts": PaperRow(MECHANISMS, BOTH, Thompson()),
    "aegis_cts": PaperRow(MECHANISMS, BOTH, ByLevel(Thompson(), Lcb())),
    "aegis_handover": PaperRow(MECHANISMS, BOTH, ByLevel(Thompson(), Lcb())),
    "flat_joint": PaperRow({"R": ("M", "A")}, BOTH, Thompson()),
    # Not rows of the table: named in the comparison of grids alone, and read as nested_cts and flat_cts.
    "icts_type2": PaperRow(MECHANISMS, BOTH, Thompson()),
    "icts_type1": PaperRow({name: MECHANISMS[name] for name in ("Y", "R")}, ("inner",), Thompson()),
}


def paper_run(name: str, seed: int = 3) -> Online:
    world = make_world("unified", graph="paper")
    return make_online(world, AGENTS[name].with_particles(1), seed, world.legacy("uniform"))


@pytest.mark.parametrize("name", PAPER)
def test_the_rows_of_the_papers_table(name: str) -> None:
    """What is learned from what, at which levels the agent acts, by which rule; all on one basis but the table of cells."""
    row, online = PAPER[name], paper_run(name)
    mechanisms = online.prior().mechanisms
    assert {variable: set(own.parents) for variable, own in mechanisms.items()} == {
        variable: set(parents) for variable, parents in row.parents.items()
    }
    assert set(online.controlled) == set(row.controlled)
    assert AGENTS[name].make_rule() == row.rule
    if name == "flat_joint":
        (table,) = mechanisms.values()
        assert isinstance(table, Cells) and AGENTS[name].model.structure == "cells"
        return
    for own in mechanisms.values():
        features = own.features  # type: ignore[attr-defined]
        assert isinstance(features, Fourier) and features.count == 128 and not features.linear_terms
        spread = features.frequencies.std()  # of an RBF kernel it is one over the length-scale
        assert abs(spread - 1.0) < 4.5 / np.sqrt(2 * features.frequencies.size) and AGENTS[name].model.lengthscale == 1.0


@pytest.mark.parametrize("name", PAPER)
def test_the_commit_shapes_of_the_papers_table(name: str) -> None:
    """Flat agents leave M to the legacy; joint ones fix A with M for all inner steps; nested ones look at every inner context."""
    online = paper_run(name)
    (batch, belief), *_ = list(online.steps(online.prior(), 20, 21))
    lever, inner = batch.levels["meta"].mu_full, batch.levels["inner"]
    is_flat, is_joint = AGENTS[name].commit == "flat", AGENTS[name].commit == "joint"
    assert is_flat == name.startswith(("flat_ts", "flat_cts", "icts_type1")) and is_joint == (name in ("joint_cts", "flat_joint"))
    assert np.allclose(lever, 1 / 7) == is_flat
    policy = online.policy(belief, 21)
    log = online.plant.episodes(30, 10, policy, 8)
    by_episode = log.levels["inner"].action.reshape(10, 20)
    assert all(len(set(own)) == 1 for own in by_episode.tolist()) == is_joint
    assert inner.mu_full.shape == (20, 41)


def test_a_gate_is_all_that_aegis_handover_adds_to_aegis_cts() -> None:
    assert replace(AGENTS["aegis_handover"], name="aegis_cts", about="") == replace(AGENTS["aegis_cts"], about="")
    assert replace(AGENTS["icts_type2"], name="nested_cts", about="") == replace(AGENTS["nested_cts"], about="")
    assert replace(AGENTS["icts_type1"], name="flat_cts", about="") == replace(AGENTS["flat_cts"], about="")


def test_flat_joint_is_thompson_sampling_per_cell() -> None:
    """The pair that it commits to is the largest of one draw for each of the 7 x 41 cells; the task plays no part."""
    online = paper_run("flat_joint")
    *_, (_, belief) = online.steps(online.prior(), 0, 30)
    for episode in (30, 31, 32):
        policy = online.policy(belief, episode)
        means = policy.theta.functions["R"].means.reshape(7, 41)  # type: ignore[attr-defined]
        batch = online.plant.episodes(episode, 1, policy, 3)
        pair = (int(batch.levels["meta"].action[0]), int(batch.levels["inner"].action[0]))
        assert pair == np.unravel_index(means.argmax(), means.shape)
