"""A simulated control system that asks a live gate for every decision, through the client, as a real one would."""

from __future__ import annotations

import itertools
import tempfile
import time
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from aegis.cli.output import console, print_json
from aegis.policies import known_incumbent, one_hot, without_exploration
from aegis.problem import Array, Batch, Policy, Problem, Scope
from aegis.service import Client, Episode, live_problem, sends_incumbent
from aegis.worlds import World, make_world

EPISODES_AHEAD = 32  # by which a simulated plant may run ahead of the gate: a real one is slower than the gate counts
EPISODES_PER_LINE = 25  # episodes after which it says where things stand


@dataclass(frozen=True)
class SimulatedPlant:
    """A simulated plant and its controller."""

    world: World
    legacy: Policy

    @cached_property
    def problem(self) -> Problem:
        """Return the world's, with the legacy without its exploration as the incumbent if the world states none."""
        return known_incumbent(self.world.problem, self.legacy)

    @cached_property
    def sends(self) -> Scope:
        """Return the levels at which the gate needs the incumbent with each decision."""
        return Scope(level.name for level in live_problem(self.problem).levels if sends_incumbent(level))


def make_simulated_plant(world: str, legacy: str, settings: dict[str, Any]) -> SimulatedPlant:
    """Return a plant by the name of its world; SettingError if there is none."""
    simulated = make_world(world, **settings)
    return SimulatedPlant(simulated, simulated.legacy(legacy))


@dataclass(slots=True)
class AskingPolicy:
    """A policy that asks the gate about every decision of one episode, and remembers what the decisions are called."""

    plant: SimulatedPlant
    episode: Episode
    choices: dict[str, list[Any]] = field(default_factory=dict)

    @property
    def weights(self) -> Array:
        """Return `[1]`."""
        return np.ones(1)

    def full(self, level: str, batch: Batch) -> Array:
        """Return the gate's actions as certain ones, `[1, n, A]`."""
        table, spec = batch.levels[level], self.plant.problem.level(level)
        chances = self.plant.legacy.full(level, batch)[0]
        own = without_exploration(self.plant.legacy).full(level, batch)[0] if level in self.plant.sends else None
        outer = self.plant.problem.names[: self.plant.problem.names.index(level)]
        choices = []
        for row in range(len(table)):
            context = {item.name: _wire_value(item, table.context[item.name][row]) for item in spec.context}
            parent = self.choices[outer[-1]][table.parent[row]] if outer else None
            available = None if table.available is None else table.available[row].tolist()
            legacy = {"distribution": chances[row].tolist()} | ({} if own is None else {"incumbent": own[row].tolist()})
            choices.append(self.episode.decide(level, context, legacy, parent, available))
        self.choices[level] = choices
        return one_hot(np.array([spec.actions.values.index(item.action) for item in choices]), spec.actions.count)[None]

    def taken(self, level: str, batch: Batch) -> Array:
        """Return `[1, n]`: what was done was certain."""
        return np.ones((1, len(batch.levels[level])))


def drive_gate(plant: SimulatedPlant, url: str, service: Any, episodes: int | None, as_json: bool) -> int:
    """Run episodes through the gate until there are enough, or an interruption; print the result."""
    with (
        tempfile.TemporaryDirectory(prefix="aegis-plant-") as folder,
        Client(url, timeout=5.0, spool=Path(folder) / "spool.sqlite") as gate,
    ):
        if not as_json:
            console(to_stderr=True).print(comparator_sentence(service))
        first = service.live.state.started
        counted = itertools.count(first) if episodes is None else range(first, first + episodes)
        for number in counted:
            run_episode(plant, gate, number)
            while service.live.state.opened.episode < number - EPISODES_AHEAD and service.counting.failure is None:
                time.sleep(0.005)
            if (number + 1) % EPISODES_PER_LINE == 0 and not as_json:
                console(to_stderr=True).print(standing_line(service))
        gate.flush(60.0)
        _wait_until_counted(service)
        with service.live.changed:
            shown = service.reading.gate()
    if as_json:
        print_json({name: shown[name] for name in ("gate", "mode", "paused", "episodes", "levels", "ledger", "earned", "events")})
    else:
        console().print(standing_line(service))
    return 0


def run_episode(plant: SimulatedPlant, gate: Client, number: int) -> None:
    """Run one episode of the plant through the gate."""
    episode = gate.open_episode(f"episode-{number + 1}", time=number if plant.problem.time is not None else None)
    asking = AskingPolicy(plant, episode)
    batch: Any = plant.world.episodes(number, 1, asking, 1)  # a simulated one has rewards and outcomes
    innermost = plant.problem.innermost.name
    results: list[dict[str, Any]] = []
    for place, choice in enumerate(asking.choices[innermost]):
        item: dict[str, Any] = {"decision": choice.id, "reward": float(batch.reward[place])}
        if plant.problem.outcome is not None:
            item["outcome"] = _wire_value(plant.problem.outcome, batch.outcome[place])
        if batch.guards:
            item["guards"] = {name: float(values[place]) for name, values in batch.guards.items()}
        results.append(item)
    episode.report_all(results)
    episode.close()


def comparator_sentence(service: Any) -> str:
    """Return in a sentence over whom gains are, by level."""
    listed = "; ".join(f"at '{level}' over {who}" for level, who in service.reading.comparators.items())
    return f"A certified gain is {listed}."


def standing_line(service: Any) -> str:
    """Return in a line who controls what."""
    with service.live.changed:
        shown = service.reading.gate()
    levels = "; ".join(f"{item['level']}: {item['control']}. {item['next']}" for item in shown["levels"])
    return f"episode {shown['episodes']['counted']}: {levels}"


def _wait_until_counted(service: Any) -> None:
    """Wait until everything that was reported has been counted."""
    end = time.monotonic() + 120.0
    while time.monotonic() < end and service.counting.failure is None:
        with service.live.changed:
            if service.live.state.opened.episode >= service.live.state.started:
                return
        time.sleep(0.02)


def _wire_value(variable: Any, value: Any) -> Any:
    """Return a value as it goes over the wire."""
    if variable.kind == "categorical":
        return variable.values[int(value)]
    return float(value) if variable.kind == "real" else [float(item) for item in value]
