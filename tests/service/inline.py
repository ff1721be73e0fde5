"""A live gate without processes: the workshop is called in place, and a simulated plant asks the gate directly."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from service_cases import quick_database

from aegis.handover import HOSTS, GateSettings
from aegis.policies import one_hot
from aegis.problem import Batch
from aegis.service.episode_counter import EpisodeCounter
from aegis.service.live_gate import LiveGate
from aegis.service.schemas import Ask, Legacy, Report
from aegis.service.trainer import Trainer
from aegis.worlds import World, make_world


@dataclass
class Inline:
    """What `Worker` is to the counting thread, in this process."""

    workshop: Trainer

    def call(self, method: str, *arguments: Any) -> Any:
        return getattr(self.workshop, method)(*arguments)

    def stop(self) -> None:
        pass


@dataclass
class Plant:
    """A simulated plant at a live gate. `run` closes episodes and counts them."""

    world: World
    live: LiveGate
    counting: EpisodeCounter
    legacy: str = "uniform"
    seed: int = 5
    episode: str = field(default="", init=False)
    ids: dict[str, list[str]] = field(default_factory=dict, init=False)
    answers: list[dict[str, Any]] = field(default_factory=list, init=False)
    weights: np.ndarray = field(default_factory=lambda: np.ones(1), init=False)

    def full(self, level: str, batch: Batch) -> np.ndarray:
        table, spec = batch.levels[level], self.world.problem.level(level)
        chances = self.world.legacy(self.legacy).full(level, batch)[0]
        outer = self.world.problem.names[: self.world.problem.names.index(level)]
        taken = []
        self.ids[level] = []
        for row in range(len(table)):
            context = {item.name: float(table.context[item.name][row]) for item in spec.context}
            parent = self.ids[outer[-1]][table.parent[row]] if outer else None
            ask = Ask(level=level, parent=parent, context=context, legacy=Legacy(distribution=chances[row].tolist()))
            answer = self.live.decide(f"{self.episode} {level} {row}", self.episode, ask)
            self.answers.append(answer)
            self.ids[level].append(answer["decision"])
            taken.append(answer["index"])
        return one_hot(np.array(taken), spec.actions.count)[None]

    def run(self, episodes: int, count: bool = True) -> None:
        """Run so many more episodes, and count them."""
        start = self.live.state.started
        for number in range(start, start + episodes):
            self.episode = self.live.open_episode(f"open {number}", f"episode-{number}")["episode"]
            batch = self.world.episodes(number, 1, self, self.seed)
            items = [self._report(batch, place, name) for place, name in enumerate(self.ids[self.world.problem.innermost.name])]
            self.live.report(f"results {number}", items)
            self.live.close(f"close {number}", self.episode)
            if count:
                self.count()

    def count(self) -> None:
        while self.counting.once():
            pass

    def _report(self, batch: Batch, place: int, name: str) -> Report:
        outcome = None if self.world.problem.outcome is None else float(batch.outcome[place])
        return Report(episode=self.episode, decision=name, reward=float(batch.reward[place]), outcome=outcome)


def small_world(**settings: float) -> World:
    """Return an additive world whose levers are large and whose episodes are short."""
    return make_world("additive", **{"f_a": 2.0, "inner_steps": 4, "inner_points": 5, "outer_points": 3, **settings})


def make_plant(
    store: str | Path, world: World | None = None, host: str = "greedy", name: str = "plant", **settings: Any
) -> Plant:
    """Return a plant at a live gate in a store, which is made if it is not there."""
    world = world or small_world()
    database = quick_database(store)
    live = LiveGate(database, name, world.problem, GateSettings.of({"first": 8, **settings}), 3)
    live.start()
    workshop = Trainer(live.problem, HOSTS[host](), 3)
    return Plant(world, live, EpisodeCounter(live, Inline(workshop)))
