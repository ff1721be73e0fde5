"""Runs in lockstep are the runs alone, bit for bit, whoever runs beside them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aegis.agents import AGENTS, Agent, Online, RunResult, make_online, run, run_in_lockstep
from aegis.agents import execution as module
from aegis.errors import ModelError, SettingError
from aegis.mechanisms import StackedBelief
from aegis.problem import Batch, Policy, Problem
from aegis.worlds import World, make_world

PARTICLES = ("thompson", "top_k", "mix")


def small(name: str, particles: int = 2) -> Agent:
    """Return an agent with few draws, as far as its rules have a number of them."""
    agent = AGENTS[name]
    inner = {"particles": particles} if agent.rule in PARTICLES else {} if agent.rule == "greedy" else {"draws": 5}
    outer = {"particles": particles} if agent.outer_rule in PARTICLES else {}
    model = replace(agent.model, count=24) if agent.model.features == "fourier" else agent.model
    return replace(agent, model=model, rule_settings=inner, outer_settings=outer)


@dataclass(frozen=True)
class OneSeed:
    """A plant that runs one seed at a time."""

    world: World

    @property
    def problem(self) -> Problem:
        return self.world.problem

    def episodes(self, first: int, count: int, policy: Policy, seed: int) -> Batch:
        return self.world.episodes(first, count, policy, seed)


def onlines(agent: Agent, seeds: tuple[int, ...], world: str = "unified", **given: Any) -> list[Online]:
    plant = make_world(world, **given)
    return [make_online(plant, agent, seed, plant.legacy("uniform")) for seed in seeds]


def same(found: RunResult, wanted: RunResult) -> None:
    np.testing.assert_array_equal(found.means, wanted.means)
    np.testing.assert_array_equal(found.sums, wanted.sums)
    assert found.belief.arrays().keys() == wanted.belief.arrays().keys()
    for name, values in wanted.belief.arrays().items():
        np.testing.assert_array_equal(found.belief.arrays()[name], values)


@pytest.mark.parametrize("agent", AGENTS)
def test_every_agent_in_lockstep_does_what_it_does_alone(agent: str) -> None:
    runs = onlines(small(agent), (0, 5), inner_steps=4, inner_points=7)
    for found, online in zip(run_in_lockstep(runs, 3), runs, strict=True):
        same(found, run(online, 3))


@pytest.mark.parametrize("world", ["additive", "linear", "plant", "clinic"])
@pytest.mark.parametrize("agent", ["nested_nig", "flat_cts"])
def test_every_world_in_lockstep_gives_what_it_gives_alone(world: str, agent: str) -> None:
    """Among them categories, masks, three levels, and episodes of different lengths."""
    runs = onlines(small(agent, 3), (1, 2), world)
    for found, online in zip(run_in_lockstep(runs, 3), runs, strict=True):
        same(found, run(online, 3))


@settings(max_examples=5, deadline=None)
@given(st.lists(st.integers(0, 2**40), min_size=2, max_size=5, unique=True), st.integers(0, 4))
def test_a_run_does_not_depend_on_who_runs_beside_it(seeds: list[int], place: int) -> None:
    runs = onlines(small("nested_cts", 1), tuple(seeds), inner_steps=5, inner_points=7, outer_points=3)
    own = place % len(seeds)
    same(run_in_lockstep(runs, 3)[own], run_in_lockstep([runs[own]], 3)[0])


def test_large_plans_are_cut_into_parts_of_the_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    runs = onlines(small("nested_cts", 2), (1, 2, 3), inner_steps=4, inner_points=7, outer_points=3, graph="paper")
    wanted = run_in_lockstep(runs, 3)
    monkeypatch.setattr("aegis.planning.planned_runs.AT_ONCE", 2 * 2 * 3 * 32 * 7)  # two runs of two particles each
    monkeypatch.setattr("aegis.mechanisms.run_stacks.ANGLES", 24)
    for found, whole in zip(run_in_lockstep(runs, 3), wanted, strict=True):
        same(found, whole)


def test_lockstep_is_used_where_it_can_be_and_only_there(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []

    def counted(*arguments: Any) -> Any:
        asked.append(len(arguments[0]))
        return original(*arguments)

    original = module.lockstep_episodes
    monkeypatch.setattr(module, "lockstep_episodes", counted)
    run_in_lockstep(onlines(small("nested_nig"), (0, 1), "additive", inner_steps=3), 2)
    assert asked == [2]
    run_in_lockstep(onlines(small("flat_joint"), (0, 1), "additive", inner_steps=3), 2)  # a table has nothing to stack
    assert asked == [2]
    world = make_world("additive", inner_steps=3)
    plain = OneSeed(world)
    alone = [Online(plain, small("nested_nig"), plain.problem.scope(None), seed, world.legacy("uniform")) for seed in (0, 1)]
    for found, online in zip(run_in_lockstep(alone, 2), alone, strict=True):
        same(found, run(online, 2))
    with pytest.raises(SettingError, match="cannot run several seeds at once"):
        next(original(alone, StackedBelief.of([online.prior() for online in alone]), 0, 1))


def test_lockstep_goes_on_from_any_episode() -> None:
    runs = onlines(small("nested_cts", 1), (4, 8), inner_steps=5, inner_points=7)
    stack = StackedBelief.of([run(online, 3).belief for online in runs])
    for _, after in module.lockstep_episodes(runs, stack, 3, 6):
        stack = after
    for own, online in zip(stack.beliefs(), runs, strict=True):
        for name, values in run(online, 6).belief.arrays().items():
            np.testing.assert_array_equal(own.arrays()[name], values)


def test_runs_that_differ_in_more_than_their_seed_are_refused() -> None:
    agent = small("nested_nig")
    first, second = onlines(agent, (0, 1), "additive")
    for other, what in (
        (onlines(small("greedy_nig"), (1,), "additive")[0], "agent"),
        (onlines(agent, (1,), "additive", reward_sd=0.7)[0], "plant"),
        (replace(second, scope=first.plant.problem.scope(["inner"])), "scope"),
        (replace(second, legacy=first.plant.legacy("sign:epsilon=0.3")), "legacy"),
    ):
        with pytest.raises(SettingError, match=f"differ in their {what}"):
            run_in_lockstep([first, other], 2)
    with pytest.raises(SettingError, match="a seed of its own"):
        run_in_lockstep([first, first], 2)
    with pytest.raises(SettingError, match="there are no runs"):
        run_in_lockstep([], 2)
    with pytest.raises(SettingError, match="'episodes' is a whole number from 1"):
        run_in_lockstep([first, second], 0)


def test_beliefs_of_different_models_are_not_stacked() -> None:
    first, second = onlines(small("nested_cts", 1), (0, 1))
    wider = replace(second, agent=replace(second.agent, model=replace(second.agent.model, count=12)))
    with pytest.raises(ModelError, match="cannot be stacked"):
        StackedBelief.of([first.prior(), wider.prior()])
