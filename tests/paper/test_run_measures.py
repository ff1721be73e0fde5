"""Measures of runs on a plant: an agent that learns, and its belief on shifted plants."""

from __future__ import annotations

import numpy as np
import pytest
from bench_cases import SETTINGS

from aegis.agents import AGENTS, make_online
from aegis.errors import SettingError
from aegis.paper.run_measures import (
    TARGET_FROM,
    measure_online,
    measure_shift,
    rewards_per_episode,
    unit_agent,
    unit_legacy,
    unit_world,
)
from aegis.worlds import oracle_value, true_value


def test_settings_become_a_world_a_legacy_and_an_agent() -> None:
    world = unit_world({"world": {"name": "additive", "inner_steps": 3}}, f_a=2.0)
    assert (world.name, world.f_a, world.inner_steps) == ("additive", 2.0, 3)  # type: ignore[attr-defined]
    assert true_value(world, unit_legacy({}, world)) == true_value(world, world.legacy("uniform"))
    with pytest.raises(SettingError, match="names its world"):
        unit_world({"world": {"inner_steps": 3}})
    with pytest.raises(SettingError, match="unknown agent 'x'"):
        unit_agent({"agent": "x"})
    agent = unit_agent({"agent": "nested_nig", "model": {"precision": 7.0}})
    assert agent.model.precision == 7.0 and AGENTS["nested_nig"].model.precision != 7.0


def test_an_online_run_is_the_run_of_its_seed() -> None:
    settings = SETTINGS["online"]
    alone, both = measure_online(settings, [1]), measure_online(settings, [0, 1])
    assert both[1] == alone[0] and both[0] != both[1]
    world = unit_world(settings)
    run = make_online(world, unit_agent(settings), 1, unit_legacy(settings, world))
    sums = [batch.episode_sums(batch.reward)[0] for batch, _ in run.steps(run.prior(), 0, 6)]
    assert alone[0]["reward"] == pytest.approx(np.mean(sums))
    assert alone[0]["curve"] == pytest.approx(sums) and alone[0]["last"] == alone[0]["curve"][-1]
    assert alone[0]["oracle"] == pytest.approx(rewards_per_episode(world) * oracle_value(world))
    assert alone[0]["regret"] == pytest.approx(6 * (alone[0]["oracle"] - alone[0]["reward"]))


def test_shifted_plants_have_an_oracle_of_their_own() -> None:
    (run,) = measure_shift(SETTINGS["shift"], [0])
    assert set(run) == {"source", "T", "U", "oracle_T", "oracle_U"}
    assert run["oracle_T"] >= run["T"] or run["oracle_U"] >= run["U"]


SHIFTED = {**SETTINGS["shift"], "episodes": 5, "options": {"shifts": ["T", "N_Q", "U"], "target": 4}}


def test_shifted_plants_are_met_with_the_belief_of_the_source_frozen() -> None:
    """Learn, freeze, act for `target` episodes on each shift, replanned: written out. A belief that went on would differ."""
    (run,) = measure_shift(SHIFTED, [1])
    assert set(run) == {"source", "T", "N_Q", "U", "oracle_T", "oracle_N_Q", "oracle_U"}
    world = unit_world(SHIFTED)
    online = make_online(world, unit_agent(SHIFTED), 1, unit_legacy(SHIFTED, world))
    source = list(online.steps(online.prior(), 0, 5))
    assert run["source"] == pytest.approx(np.mean([batch.episode_sums(batch.reward)[0] for batch, _ in source]))
    frozen = source[-1][1]
    learned_on = []
    for name in ("T", "N_Q", "U"):
        target, sums, belief = unit_world(SHIFTED, shift=name), [], frozen
        going_on = []
        for episode in range(TARGET_FROM, TARGET_FROM + 4):
            batch = target.episodes(episode, 1, online.policy(frozen, episode), 1)
            sums.append(batch.episode_sums(batch.reward)[0])
            other = target.episodes(episode, 1, online.policy(belief, episode), 1)
            going_on.append(other.episode_sums(other.reward)[0])
            belief = belief.update(other)
        assert run[name] == pytest.approx(np.mean(sums))
        learned_on.append(abs(run[name] - np.mean(going_on)) > 1e-6)
    assert any(learned_on)


def test_each_shift_moves_one_exogenous_law() -> None:
    changed = {"T": {"task_mean": 2.0}, "N_Q": {"sigma_q": 6.0}, "U": {"confounder": 0.9}}
    source = unit_world(SHIFTED)
    for name, setting in changed.items():
        assert unit_world(SHIFTED, shift=name) == unit_world(SHIFTED, **setting) != source


def test_shifts_cannot_be_met_for_no_episode() -> None:
    with pytest.raises(SettingError, match=r"options\.target"):
        measure_shift({**SHIFTED, "options": {"shifts": ["T"], "target": 0}}, [])


def test_the_inputs_of_an_agent_are_standardised_or_not_as_asked() -> None:
    assert unit_agent({"agent": "nested_cts"}).prior_episodes > 0
    assert unit_agent({"agent": "nested_cts", "standardise": False}).prior_episodes == 0
    assert unit_agent({"agent": "nested_nig", "standardise": True}).prior_episodes > 0


def test_the_spread_of_a_mechanism_is_that_of_its_last_posterior() -> None:
    settings = {**SETTINGS["online"], "options": {"spread_of": "Q"}}
    (run,) = measure_online(settings, [1])
    world = unit_world(settings)
    online = make_online(world, unit_agent(settings), 1, unit_legacy(settings, world))
    *_, (_, belief) = online.steps(online.prior(), 0, 6)
    # Q is linear in M: the variance of its mean is phi' (P / E[noise])^-1 phi, over the levers that uniform choice takes.
    state = belief.states["Q"]
    at = state.moments()
    covariance = np.linalg.inv(state.precision) * at.rate[0] / (at.shape - 1)
    levers = np.repeat(world.episodes(0, 100, world.legacy("uniform"), 2**40).levels["meta"].action, 3)
    features = np.stack([np.ones(len(levers)), np.array(world.problem.level("meta").actions.values)[levers]], axis=1)
    assert run["spread"] == pytest.approx(np.sqrt(np.mean(np.sum(features @ covariance * features, axis=1))))
    assert {key: item for key, item in run.items() if key != "spread"} == measure_online(SETTINGS["online"], [1])[0]
    with pytest.raises(SettingError, match=r"'options.spread_of': unknown mechanism 'X'"):
        measure_online({**settings, "options": {"spread_of": "X"}}, ())
