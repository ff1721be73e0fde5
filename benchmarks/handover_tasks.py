"""What is measured of the gates: worlds, legacies, hosts, settings, and after what a run may stop."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from aegis.handover import HOSTS, History, Host, Proposal
from aegis.paper import CounterExample
from aegis.policies import Function, Legacy
from aegis.problem import Array, Batch, Level, Plant, Policy, Problem, Rows
from aegis.worlds import World, make_world

LEGACIES = {"uniform": "uniform", "sign": "sign:epsilon=0.3"}
EFFECTS = (2.0, 1.0, 0.5)
NULL: Mapping[str, Any] = {"f_a": 0.0, "gamma": 0.0}
NATURAL, LEVER = "natural:epsilon=0.3", "lever:epsilon=0.3"


@dataclass(frozen=True)
class Task:
    """A gate to run. until: levels after whose handover it may stop, 'any' for the first flip of all.

    world: name and parameters. limits: of single rewards, declared instead of the world's own. means: of means below a lever.
    """

    world: tuple[str, Mapping[str, Any]]
    legacy: str = "uniform"
    until: tuple[str, ...] = ("inner", "meta")
    episodes: int = 1000
    host: str = "greedy"
    gate: str = "challenger"
    settings: Mapping[str, Any] = field(default_factory=dict)
    limits: tuple[float, float] | None = None
    means: tuple[float, float] | None = None
    runs: int = 100

    def plant(self) -> tuple[Plant, Policy]:
        """Return plant and legacy."""
        name, parameters = self.world
        if name == CounterExample.name:
            example = CounterExample(**parameters)
            return example, example.legacy
        world = make_world(name, **parameters)
        legacy = world.legacy(self.legacy)
        problem = world.problem
        if self.limits is not None:
            problem = replace(problem, reward=replace(problem.reward, range=self.limits))
        if self.means is not None:
            problem = replace(problem, levels=(replace(problem.levels[0], mean_range=self.means), *problem.levels[1:]))
        if problem is world.problem or not isinstance(legacy, Legacy):
            return world, legacy
        return Declared(world, problem), replace(legacy, problem=problem)

    def make_host(self, problem: Problem) -> Host:
        """Return the host."""
        if self.host == "worse":
            return HOSTS["external"](Function(problem, worse_agent))
        if self.host == "no prediction":
            return NoPrediction()
        return HOSTS[self.host]()


def worse_agent(level: Level, rows: Rows) -> Array:
    """Return an agent for the additive world that leans to A = -2 where T < 0 and to A = 1.9 elsewhere: T does not matter there.

    Under a uniform legacy it loses a little as it is, and capped steps towards it gain nothing; its weights vary a lot.
    """
    ends = (-2.0, 1.9) if level.name == "inner" else (-1.6, 1.6)
    found = np.exp(-3.0 * np.abs(level.actions.numbers - np.where(rows["T"] < 0, *ends)[:, None]))
    return np.asarray(found / found.sum(axis=1, keepdims=True))


@dataclass(frozen=True)
class Declared:
    """A world with other limits declared."""

    plant: World
    problem: Problem

    def episodes(self, first: int, count: int, policy: Policy, seed: int) -> Batch:
        """Run episodes as the world does."""
        return self.plant.episodes(first, count, policy, seed)


class NoPrediction:
    """The usual host, whose bets are placed by a constant."""

    name = "no prediction"

    def propose(self, history: History, levels: Sequence[str], seed: int) -> Mapping[str, Proposal]:
        """Return the usual scores without a prediction."""
        found = HOSTS["greedy"]().propose(history, levels, seed)
        return {level: Proposal(item.scores, None) for level, item in found.items()}


def tasks() -> dict[str, Task]:
    """Return all tasks by name."""
    found = {
        f"inner, {name}, f_a = {effect:g}": Task(
            ("additive", {"f_a": effect}), legacy, ("inner",), settings={"levels": ["inner"]}
        )
        for name, legacy in LEGACIES.items()
        for effect in EFFECTS
    }
    found["both"] = Task(("additive", {}))
    found["both, range of means"] = Task(("additive", {"mean_range": True}))
    found |= _rewards() | _wrong() | _unified() | _others() | _ablations()
    return found


def _wrong() -> dict[str, Task]:
    """Return runs in which whoever is put in control is no better, or worse."""
    return {
        "null": Task(("additive", NULL), until=("any",), episodes=300, runs=1000),
        "slightly worse": Task(("additive", {}), until=("any",), episodes=300, host="worse", runs=1000),
        "null, pac-bayes": Task(("additive", NULL), until=("any",), episodes=400, gate="pac-bayes", runs=300),
        "counter-example": Task((CounterExample.name, {}), until=("any",), episodes=2000),
        "counter-example, published": Task(
            (CounterExample.name, {}), until=("any",), episodes=2000, gate="published", settings={"refresh": 50}
        ),
    }


def _rewards() -> dict[str, Task]:
    return {
        "5000 episodes": Task(("additive", {}), until=(), episodes=5000, runs=30),
        "5000 episodes, published": Task(
            ("additive", {}), until=(), episodes=5000, gate="published", settings={"refresh": 50}, runs=30
        ),
    }


def _unified() -> dict[str, Task]:
    world = ("unified", {"preset": "stress"})
    wide = ("unified", {"preset": "stress", "mean_range": True})
    return {
        "unified, natural, range of means": Task(wide, NATURAL, episodes=2000, runs=20),
        "unified, lever, range of rewards": Task(world, LEVER, episodes=2000, runs=20),
        "unified, lever, range of means": Task(wide, LEVER, episodes=2000),
    }


def _others() -> dict[str, Task]:
    """Return the other gates, on the inner level alone, and three levels."""
    found = {
        f"{gate}, {name}, f_a = {effect:g}": Task(
            ("additive", {"f_a": effect}), legacy, ("inner",), 4000, gate=gate, settings={"levels": ["inner"], **more}
        )
        for gate, more in (("pac-bayes", {}), ("published", {"refresh": 50}))
        for name, legacy in LEGACIES.items()
        for effect in EFFECTS
    }
    found["three levels"] = Task(("plant", {}), NATURAL, ("batch", "recipe", "dose"), 3000, runs=20)
    return found


def _ablations() -> dict[str, Task]:
    """Return one change at a time; the outer level needs everything to work."""
    changed: dict[str, Task] = {
        "range 15 instead of 10": Task(("additive", {}), limits=(-15.0, 15.0)),
        "range 20 instead of 10": Task(("additive", {}), limits=(-20.0, 20.0)),
        "2 levers per episode": Task(("additive", {"outer_steps": 2})),
        "4 levers per episode": Task(("additive", {"outer_steps": 4})),
        "no prediction": Task(("additive", {}), host="no prediction"),
    }
    settings: dict[str, dict[str, Any]] = {
        "cap 1.5 alone": {"caps": [1.5]},
        "cap 2 alone": {"caps": [2.0]},
        "cap 3 alone": {"caps": [3.0]},
        "no cap": {"caps": [None]},
        "patience 1": {"patience": 1.0},
        "patience 1.5": {"patience": 1.5},
        "patience 2": {"patience": 2.0},
        "first freeze at 7": {"first": 7},
        "first freeze at 28": {"first": 28},
        "no upgrades": {"upgrades": False},
    }
    changed |= {name: Task(("additive", {}), settings=given) for name, given in settings.items()}
    return {f"both, {name}": task for name, task in changed.items()}
