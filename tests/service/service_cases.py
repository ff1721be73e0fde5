"""Gates to test: a small problem, what is sent about it, and services that run in a thread."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import socket
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import sqlalchemy as sa
from postgres_server import free_port

from aegis.cli.simulated_controller import SimulatedPlant, run_episode
from aegis.handover import HOSTS, GateSettings
from aegis.problem import Problem, parse_problem
from aegis.service.app import Service, make_app
from aegis.service.client.gate_client import ActionChoice
from aegis.service.episode_counter import EpisodeCounter
from aegis.service.http.connections import GateServer, server_config
from aegis.service.live_gate import LiveGate
from aegis.service.live_state import LiveState
from aegis.service.schemas import Ask, Report
from aegis.service.store.database import Database
from aegis.service.store.journal import Journal, JournalRecord
from aegis.service.store.journal_keys import JournalKeys
from aegis.service.trainer import Trainer, TrainerSetup
from aegis.worlds import make_world

SEED, GATE = 7, "plant"
SMALL = """
episode: batch
reward: {column: margin, range: [0, 10], per: decision}
guards: [{column: scrap, range: [0, 1], max_worsening: 0.1}]
levels:
  - name: recipe
    context: [{column: task, values: [easy, hard]}]
    action: {column: setting, values: [slow, fast, boost]}
    available: [can_slow, can_fast, can_boost]
    propensity: {column: p_setting}
  - name: dose
    context: [temperature]
    action: {column: dose, grid: {low: -1, high: 1, points: 3}}
    propensity: {column: p_dose}
"""
RECIPE = {"task": "easy"}
LEGACY = {"distribution": [0.5, 0.3, 0.2]}
ALL = [True, True, True]
_keys = itertools.count()


def key() -> str:
    """Return a key that was not used before."""
    return f"key-{next(_keys)}"


def small_problem() -> Problem:
    """Return two levels: a recipe with an action mask, and doses below it."""
    return parse_problem(SMALL)


def recipe(**changed: Any) -> dict[str, Any]:
    """Return the body of a question about the recipe."""
    return {"level": "recipe", "id": "r", "context": RECIPE, "available": ALL, "legacy": LEGACY, **changed}


def dose(**changed: Any) -> dict[str, Any]:
    """Return the body of a question about a dose."""
    return {"level": "dose", "id": "d", "context": {"temperature": 20.5}, "legacy": LEGACY, **changed}


def result(episode: str, decision: str = "d", reward: float = 4.0, **changed: Any) -> dict[str, Any]:
    """Return what came of a dose."""
    return {"episode": episode, "decision": decision, "reward": reward, "guards": {"scrap": 0.5}, **changed}


def quick_database(path: str | Path) -> Database:
    """Return a store in a file with its schema. It does not wait for the disk: a power cut is not what these tests are about."""
    database = Database.at(path)
    sa.event.listen(database.engine, "connect", lambda connection, _: connection.execute("PRAGMA synchronous=OFF").close())
    database.upgrade()
    return database


def make_live(
    database: Database,
    problem: Problem | None = None,
    seed: int = SEED,
    keys: JournalKeys | None = None,
    **settings: Any,
) -> LiveGate:
    """Return a gate that is not started yet."""
    return LiveGate(database, GATE, problem or small_problem(), GateSettings(**settings), seed, keys)


@contextlib.contextmanager
def started(database: Database, problem: Problem | None = None, seed: int = SEED, **settings: Any) -> Iterator[LiveGate]:
    """Yield a gate without anybody who counts."""
    live = make_live(database, problem, seed, **settings)
    live.start()
    try:
        yield live
    finally:
        live.stop()


def play(live: LiveGate, name: str, reward: float = 4.0) -> None:
    """Take one episode of the small problem through a gate."""
    live.open_episode(key(), name)
    live.decide(key(), name, Ask(**recipe()))
    live.decide(key(), name, Ask(**dose()))
    live.report(key(), [Report(**result(name, reward=reward))])
    live.close(key(), name)


def told(live: LiveGate) -> dict[str, Any]:
    """Return everything that a gate knows, to be compared."""
    state = live.state
    plain = {name: getattr(state, name) for name in ("seed", "gate", "trees", "numbers", "started", "changed", "silent")}
    return {**plain, "order": list(state.trees), "last": live.journal.last, "head": live.journal.head}


def records(live: LiveGate, kind: str | None = None) -> list[JournalRecord]:
    """Return what is in the journal of a gate, verified."""
    return [item for item in Journal(live.database, live.name).read() if kind in (None, item.kind)]


def count_records(database: Database, gate: str = GATE) -> int:
    """Return how many records a gate has; StoreDamaged if one of them is missing or was altered."""
    return sum(1 for _ in Journal(database, gate).read())


# ---- who counts --------------------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class Here:
    """Does what a worker does, in this process."""

    workshop: Trainer

    def call(self, method: str, *arguments: Any) -> Any:
        """Call a method of the workshop."""
        return getattr(self.workshop, method)(*arguments)

    def stop(self) -> None:
        """Do nothing."""


def counting_here(live: LiveGate, host: str = "greedy", **more: Any) -> EpisodeCounter:
    """Return who counts, without a process or a thread: call `once` until it says that nothing is left."""
    workshop = Trainer(live.problem, HOSTS[host](), live.seed)
    state = LiveState(live.problem, on_counted=workshop.counted)
    for record in records(live):
        state.apply(record)
    return EpisodeCounter(live, Here(workshop), **more)  # type: ignore[arg-type]


def count_all(counting: EpisodeCounter) -> None:
    """Count what is settled."""
    while counting.once():
        pass


def order_of(live: LiveGate, store: str, host: str = "greedy") -> TrainerSetup:
    """Return what a worker in a process of its own needs."""
    return TrainerSetup(store, live.name, live.problem, HOSTS[host](), live.seed)


# ---- a simulated plant without HTTP ------------------------------------------------------------------------------------------


def small_plant(legacy: str = "uniform", **changed: Any) -> SimulatedPlant:
    """Return a simulated plant whose episodes are quick."""
    world = make_world("additive", **{"inner_steps": 2, "inner_points": 5, "outer_points": 3, "f_a": 3.0, **changed})
    return SimulatedPlant(world, world.legacy(legacy))


@dataclass(slots=True)
class Direct:
    """What a client is to a plant, without HTTP: asks a gate in this process."""

    live: LiveGate
    id: str = ""
    _count: int = field(default=0, init=False)

    def open_episode(self, name: str, time: Any = None) -> Direct:
        """Open an episode."""
        self.live.open_episode(key(), name, time)
        return Direct(self.live, name)

    def decide(
        self,
        level: str,
        context: Mapping[str, Any],
        legacy: Mapping[str, Any],
        parent: ActionChoice | None,
        available: Sequence[bool] | None,
    ) -> ActionChoice:
        """Ask for a decision."""
        self._count += 1
        above = None if parent is None else parent.id
        ask = Ask(level=level, id=f"{level}-{self._count}", parent=above, context=context, legacy=legacy, available=available)
        found = self.live.decide(key(), self.id, ask)
        return ActionChoice(found["decision"], level, found["action"], found["propensity"], found["by"])

    def report_all(self, results: Sequence[Mapping[str, Any]]) -> None:
        """Report results."""
        self.live.report(key(), [Report(episode=self.id, **item) for item in results])

    def close(self) -> None:
        """Close the episode."""
        self.live.close(key(), self.id)


def run_plant(plant: SimulatedPlant, live: LiveGate, first: int, count: int, counting: EpisodeCounter | None = None) -> None:
    """Take episodes of a plant through a gate, and count them."""
    for number in range(first, first + count):
        run_episode(plant, Direct(live), number)  # type: ignore[arg-type]
        if counting is not None:
            count_all(counting)


# ---- over HTTP ---------------------------------------------------------------------------------------------------------------


class Idle(EpisodeCounter):
    """Counts nothing, so that a test sees what it has sent."""

    __slots__ = ()

    def start(self) -> None:
        """Do nothing."""


def make_service(live: LiveGate, counts: bool = False, **more: Any) -> Service:
    """Return the service of a gate. counts: episodes are counted, in a thread of this process."""
    worker: Any = Here(Trainer(live.problem, HOSTS["greedy"](), live.seed))
    counting = EpisodeCounter(live, worker) if counts else Idle(live, worker)
    return Service(live, counting, **more)


class QuickServer(GateServer):
    """A server that notices at once that it has to end: uvicorn looks ten times a second."""

    async def main_loop(self) -> None:
        """Serve until the server has to end."""
        while not await self.on_tick(0):
            await asyncio.sleep(0.01)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Let connections and tasks end, as uvicorn does, without its pauses."""
        for server in self.servers:
            server.close()
        for connection in list(self.server_state.connections):
            connection.shutdown()
        while self.server_state.connections or self.server_state.tasks:
            await asyncio.sleep(0.01)
        await self.lifespan.shutdown()


@contextlib.contextmanager
def served(service: Service, token: str | None = None, port: int | None = None, **more: Any) -> Iterator[httpx.Client]:
    """Yield a client of a service that runs in a thread. more: arguments of `server_config`."""
    chosen = port or free_port()
    server = QuickServer(server_config(make_app(service), "127.0.0.1", chosen, **more))
    service.ending = lambda: server.should_exit
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    while not server.started:
        if not thread.is_alive():
            raise RuntimeError("the service did not start")
        time.sleep(0.01)
    headers = {} if token is None else {"authorization": f"Bearer {token}"}
    try:
        with httpx.Client(base_url=f"http://127.0.0.1:{chosen}", headers=headers, timeout=30) as client:
            yield client
    finally:
        server.should_exit = True
        thread.join(30)


def post(client: httpx.Client, path: str, body: Any, name: str | None = None, **headers: str) -> httpx.Response:
    """Send a body under a key."""
    return client.post(path, json=body, headers={"idempotency-key": name or key(), **headers})


def bearer(token: str) -> dict[str, str]:
    """Return the headers of the holder of a token."""
    return {"authorization": f"Bearer {token}"}


def said(answer: httpx.Response) -> str:
    """Return why something was refused."""
    detail = answer.json()["detail"]
    return detail if isinstance(detail, str) else " ".join(f"{item['where']}: {item['why']}" for item in detail)


def played(database: Database, episodes: int, keys: JournalKeys | None = None) -> None:
    """Take a few episodes through a gate that nobody counts: six records each, after two of the gate itself, three with a key."""
    with started(database, keys=keys) as live:
        for number in range(episodes):
            play(live, f"e{number}")


# ---- a plant whose inner level is certified ----------------------------------------------------------------------------------

QUICK: dict[str, Any] = {
    "first": 8,
    "caps": (2.0,),
    "patience": 1.0,
    "upgrades": False,
}  # settings of a gate that is soon certain


def made_waiting(path: Path) -> Path:
    """Make a store in which the inner level of the small plant waits for approval, and nothing is open."""
    database = quick_database(path)
    plant = small_plant()
    with started(database, plant.problem, mode="approve", **QUICK) as live:
        counting, number = counting_here(live), 0
        while not live.state.opened.waiting:
            run_plant(plant, live, number, 1, counting)
            number += 1
            if number > 100:
                raise RuntimeError("nothing was certified")
    database.close()
    return path


@contextlib.contextmanager
def taken_up(database: Database) -> Iterator[LiveGate]:
    """Yield the gate of a copy of that store."""
    with started(database, small_plant().problem, mode="approve", **QUICK) as live:
        yield live


def meta(name: str = "m") -> Ask:
    """Return a question about the outer level of the small plant."""
    return Ask(level="meta", id=name, context={"T": 0.1}, legacy={"distribution": [0.2, 0.5, 0.3]})


def inner(name: str, parent: str = "m", **legacy: Any) -> Ask:
    """Return a question about its inner level."""
    told = {"distribution": [0.2, 0.2, 0.2, 0.2, 0.2], **legacy}
    return Ask(level="inner", id=name, parent=parent, context={"Q": 0.3}, legacy=told)


ME = "me"


def say(live: LiveGate, action: str, level: str | None = None) -> None:
    """Say something as an operator."""
    live.say(key(), action, ME, "for a test", level)


def begin(live: LiveGate, name: str) -> None:
    """Open an episode with its outer decision."""
    live.open_episode(key(), name)
    live.decide(key(), name, meta())
