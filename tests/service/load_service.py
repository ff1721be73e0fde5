"""Drives a gate with several clients while it is killed and started again, and checks that nothing was lost or done twice.

Challengers are frozen and levels handed over meanwhile.
"""

from __future__ import annotations

import contextlib
import random
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from served_gate import Helper, Served
from service_cases import GATE, SMALL, count_records, dose, make_live, recipe, told

from aegis.problem import parse_problem
from aegis.service.client.transport import GateAway, GateConnection, GateRefusal
from aegis.service.store.database import Database
from aegis.service.store.journal import Journal

CLIENTS = 3
PROBLEM = "".join(line for line in SMALL.splitlines(keepends=True) if not line.startswith("guards"))
SETTINGS: dict[str, Any] = {"mode": "live", "first": 8, "caps": (2.0,), "patience": 1.0}  # a gate that is soon certain
WINDOW = 8  # kills from one time that episodes are closed and counted to the next


@dataclass(slots=True)
class Controller:
    """A client that sends every request under its key until it is answered, and remembers the answers."""

    url: str
    name: str
    chance: random.Random
    going: threading.Event
    closes: threading.Event
    answers: dict[str, tuple[str, dict[str, Any], Any]] = field(default_factory=dict)  # by key: where to, what, what was answered
    wrong: list[str] = field(default_factory=list)
    open: list[str] = field(default_factory=list)
    _line: GateConnection = field(init=False)

    def __post_init__(self) -> None:
        self._line = GateConnection(self.url, None, 10.0)

    def run(self) -> None:
        """Take episodes through the gate until there are enough."""
        number = 0
        try:
            while self.going.is_set():
                number += 1
                self._episode(f"{self.name}-{number}")
        except Exception as error:  # told by the test, not lost in a thread
            self.wrong.append(f"{type(error).__name__}: {error}")
        finally:
            self.hang_up()

    def hang_up(self) -> None:
        """Close the connection."""
        self._line.hang_up()

    def _episode(self, name: str) -> None:
        self._send(f"{name}.open", "/v1/episodes", {"id": name})
        outer = self._send(f"{name}.r", f"/v1/episodes/{name}/decisions", recipe())
        for place in range(2):
            inner = self._send(f"{name}.d{place}", f"/v1/episodes/{name}/decisions", dose(id=f"d{place}"))
            reward = 3 * (outer["index"] == 2) + 6 * (inner["index"] == 2) + self.chance.random()  # the last actions are best
            self._send(
                f"{name}.p{place}", "/v1/results", {"items": [{"episode": name, "decision": f"d{place}", "reward": reward}]}
            )
        self.open.append(name)
        while self.closes.is_set() and self.open:
            left = self.open.pop(0)
            self._send(f"{left}.close", f"/v1/episodes/{left}/close", {})
        time.sleep(0.2)  # a plant is not that quick, and a machine has other tests to run

    def _send(self, key: str, path: str, body: dict[str, Any]) -> Any:
        answer = self._asked(key, path, body)
        self.answers[key] = path, body, answer
        again = self.chance.choice(list(self.answers)) if self.chance.random() < 0.1 else None
        if again is not None:
            self.compare(again)
        return answer

    def compare(self, key: str) -> None:
        """Send a request again that was answered before."""
        path, body, answer = self.answers[key]
        found = self._asked(key, path, body)
        if found != answer:
            self.wrong.append(f"{key}: {answer} and then {found}")

    def _asked(self, key: str, path: str, body: dict[str, Any]) -> Any:
        while True:
            try:
                return self._line.ask("POST", path, body, key)
            except GateAway:
                time.sleep(0.01)


def load(helper: Helper, store: str, folder: Path, cycles: int, seed: int) -> dict[str, int]:
    """Kill a gate again and again under load; return what was counted, or raise AssertionError."""
    chance = random.Random(seed)
    problem = folder / "problem.yaml"
    problem.write_text(PROBLEM)
    arguments = [*("--problem", str(problem), "--store", store, "--name", GATE, "--mode", SETTINGS["mode"], "--host", "greedy")]
    arguments += ["--caps", "2", "--gate-set", f"first={SETTINGS['first']}", "--gate-set", f"patience={SETTINGS['patience']}"]
    served = Served(helper, [*arguments, "--seed", "7"])
    going, closes = threading.Event(), threading.Event()
    going.set()
    clients = [Controller(served.url, f"c{place}", random.Random(seed + place), going, closes) for place in range(CLIENTS)]
    threads = [threading.Thread(target=client.run) for client in clients]
    try:
        served.start()
        for thread in threads:
            thread.start()
        for cycle in range(cycles):
            if cycle % WINDOW == 2:  # what is closed is counted, by a process of its own, which takes its time to start
                closes.set()
                _give_back(served.url, cycle)
                _wait_until_counted(served.url, handed_over=cycle == 2)
                time.sleep(chance.uniform(0.0, 1.5))  # it is killed while it counts, freezes and hands over
            time.sleep(chance.uniform(0.02, 0.5))
            closes.clear()
            served.kill()
            served.start()
        time.sleep(0.1)
        going.clear()
        for thread in threads:
            thread.join(120)
            assert not thread.is_alive()
        for client in clients:
            for key in chance.sample(sorted(client.answers), min(30, len(client.answers))):
                client.compare(key)
            client.hang_up()
        shown = GateConnection(served.url, None, 10.0)
        last = shown.ask("GET", "/v1/gate")
        shown.hang_up()
    finally:
        going.clear()
        served.kill()
    assert [wrong for client in clients for wrong in client.wrong] == []
    return _checked(store, clients, last)


def _give_back(url: str, cycle: int) -> None:
    """Give a level back to the legacy, if one was handed over: it will be again."""
    line = GateConnection(url, None, 10.0)
    for level in [item["level"] for item in line.ask("GET", "/v1/levels") if item["control"] == "agent"][:1]:
        with contextlib.suppress(GateRefusal):  # it was given back before
            line.ask("POST", "/v1/operator", {"action": "revert", "level": level, "why": "once more"}, f"operator-{cycle}")
    line.hang_up()


def _wait_until_counted(url: str, handed_over: bool) -> None:
    """Wait until one more episode is counted. handed_over: and a level was handed over."""
    line, end = GateConnection(url, None, 10.0), time.monotonic() + 120.0
    before = line.ask("GET", "/v1/gate")["episodes"]["counted"]
    while time.monotonic() < end:
        shown = line.ask("GET", "/v1/gate")
        if shown["episodes"]["counted"] > before and (shown["changes"] or not handed_over):
            break
        time.sleep(0.05)
    line.hang_up()


def _checked(store: str, clients: list[Controller], last: dict[str, Any]) -> dict[str, int]:
    """Compare what was acknowledged with what is in the store."""
    database = Database.at(store)
    try:
        written = list(Journal(database, GATE).read())
        assert count_records(database, GATE) == len(written)
        keys = [item.key for item in written if item.key is not None]
        assert len(set(keys)) == len(keys)
        by_key = {item.key: item for item in written}
        acknowledged = 0
        for client in clients:
            for key, (_, body, answer) in client.answers.items():
                name = key.rpartition(".")[0]
                found = by_key[f"episode {name}" if key.endswith(".open") else key]
                if ".r" in key or ".d" in key:
                    assert answer["index"] == found.body["action"]
                    assert answer["propensity"] == found.body["chances"][found.body["action"]]
                if ".p" in key:
                    (item,) = body["items"]
                    assert [(one["decision"], one["reward"]) for one in found.body["items"]] == [
                        (item["decision"], item["reward"])
                    ]
                acknowledged += 1
        rewards = [(one["episode"], one["decision"]) for item in written if item.kind == "results" for one in item.body["items"]]
        decisions = [(item.body["episode"], item.body["id"]) for item in written if item.kind == "decision"]
        assert len(set(rewards)) == len(rewards)
        assert len(set(decisions)) == len(decisions)
        states = []
        for _ in range(2):
            live = make_live(database, parse_problem(PROBLEM), seed=7, **SETTINGS)
            for record in Journal(database, GATE).read():
                live.state.apply(record)
            states.append(told(live))
        assert states[0] == states[1]
        state = live.state
        assert state.started == last["episodes"]["started"]
        assert state.opened.episode >= last["episodes"]["counted"]
        events = [item.body["event"]["kind"] for item in written if item.kind == "event"]
        return {
            "freezes": events.count("frozen"),
            "flips": events.count("flip"),
            "by agents": sum(item.kind == "decision" and item.body["by"] == "agent" for item in written),
            "acknowledged": acknowledged,
            "counted": state.opened.episode,
            "writers": sum(r.kind == "writer" for r in written),
        }
    finally:
        database.close()
