"""Measures of runs on a plant: an agent that learns, its belief on shifted plants, and a gate."""

from __future__ import annotations

import numpy as np
import pytest
from bench_cases import SETTINGS

from aegis.agents import AGENTS, make_online
from aegis.errors import SettingError
from aegis.paper.run_measures import (
    measure_gate,
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


def test_a_gate_that_never_flips_earns_what_the_legacy_earns() -> None:
    (run,) = measure_gate(SETTINGS["gate"], [0])
    assert run["flip_inner"] is None and run["flipped_inner"] == run["wrong"] == run["inner_first"] == 0
    assert run["before"] is None and run["after"] is None and run["bound"] == []
    assert run["reward"] == pytest.approx(np.mean(run["curve"]))
    world = unit_world(SETTINGS["gate"])
    assert run["legacy"] == pytest.approx(rewards_per_episode(world) * true_value(world, world.legacy("uniform")))
