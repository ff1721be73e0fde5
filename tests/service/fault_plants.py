"""Plants of a fault campaign: raw ones that send requests under keys, and one with `aegis.Client` in a process of its own.

Each records what it saw as lines of JSON; `fault_model.py` says what a record holds.
"""

from __future__ import annotations

import argparse
import contextlib
import http.client
import itertools
import json
import logging
import random
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

PROBLEM = """
episode: batch
reward: {column: margin, range: [0, 10], per: decision}
levels:
  - name: recipe
    context: [{column: task, values: [easy, hard]}]
    action: {column: setting, values: [slow, fast, boost]}
    propensity: {column: p_setting}
  - name: dose
    context: [temperature]
    action: {column: dose, grid: {low: -1, high: 1, points: 3}}
    propensity: {column: p_dose}
"""
LOW, HIGH, INNERMOST = 0.0, 10.0, "dose"
LEGACY = {"distribution": [0.4, 0.3, 0.3]}
DOSES = 2
TIMEOUT = 0.5  # of the client's decisions, in seconds
TICK = 0.02  # seconds of the bare timer beside them
SHOWN = 0.002  # seconds by which it has to be late to be recorded
SILENCE = 120.0  # seconds without an arrival after which deliveries are given up


def earn(episode: str, place: int, recipe: int, dose: int) -> float:
    """Return the reward of a dose, always the same one: the last action of either level is by far the best."""
    noise = random.Random(f"{episode} {place}").random()
    return round(0.5 + 3.0 * (recipe == 2) + 6.0 * (dose == 2) + 0.5 * noise, 6)


@dataclass(slots=True)
class Recorder:
    """Appends records to a file; each survives a kill of the process."""

    path: Path
    _lock: threading.Lock = field(default_factory=threading.Lock, init=False)

    def __call__(self, what: str, **more: Any) -> None:
        """Append a record."""
        line = json.dumps({"what": what, "at": time.monotonic(), **more}) + "\n"
        with self._lock, self.path.open("a") as file:
            file.write(line)


def read_records(path: Path) -> list[dict[str, Any]]:
    """Return the records of a file; a line that a kill cut off is left out."""
    records = []
    for line in path.read_text().splitlines() if path.exists() else []:
        with contextlib.suppress(ValueError):
            records.append(json.loads(line))
    return records


# ---- requests under keys -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Target:
    """Where a request goes. process: the one that listens there, None if that is not known."""

    port: int
    process: str | None


@dataclass(slots=True)
class Sender:
    """Sends requests under keys, again and again until they are answered. target: says where to, None while that is unknown."""

    plant: str
    record: Recorder
    target: Callable[[], Target | None]
    going: threading.Event
    timeout: float = 8.0
    _line: http.client.HTTPConnection | None = None
    _to: Target | None = None

    def once(self, key: str, path: str, body: dict[str, Any]) -> dict[str, Any] | None:
        """Return the record of an answer; None if there was none, or the gate cannot answer now."""
        target = self.target()
        if target is None:
            time.sleep(0.02)
            return None
        sent = time.monotonic()
        about = {"plant": self.plant, "process": target.process, "key": key, "path": path, "body": body, "sent": sent}
        try:
            status, text = self._exchange(target, key, path, body)
            answer = json.loads(text)
        except (OSError, http.client.HTTPException, ValueError) as error:
            self.hang_up()
            self.record("unanswered", **about, got=time.monotonic(), status=None, why=repr(error))
            return None
        if status >= 500 or status == 429:
            self.record("unanswered", **about, got=time.monotonic(), status=status, why=str(answer)[:300])
            return None
        shown = {**about, "got": time.monotonic(), "status": status, "answer": answer}
        self.record("answer", **shown)
        return shown

    def send(self, key: str, path: str, body: dict[str, Any]) -> dict[str, Any] | None:
        """Send until there is an answer; None if the campaign ends before."""
        while self.going.is_set():
            answer = self.once(key, path, body)
            if answer is not None:
                return answer
            time.sleep(0.03)
        return None

    def hang_up(self) -> None:
        """Close the connection."""
        if self._line is not None:
            self._line.close()
        self._line = self._to = None

    def _exchange(self, target: Target, key: str, path: str, body: dict[str, Any]) -> tuple[int, bytes]:
        if self._to != target:
            self.hang_up()
        if self._line is None:
            self._line, self._to = http.client.HTTPConnection("127.0.0.1", target.port, timeout=self.timeout), target
        self._line.request("POST", path, json.dumps(body), {"Content-Type": "application/json", "Idempotency-Key": key})
        response = self._line.getresponse()
        return response.status, response.read()


@dataclass(slots=True)
class RawPlant:
    """A control system without `aegis.Client`. going: new episodes begin; sender.going: requests are still sent."""

    sender: Sender
    chance: random.Random
    going: threading.Event
    wrong: list[str] = field(default_factory=list)
    _sent: list[tuple[str, str, dict[str, Any]]] = field(default_factory=list)

    def run(self) -> None:
        """Take episodes through the gate until the campaign ends."""
        number = 0
        try:
            while self.going.is_set():
                number += 1
                self._episode(f"{self.sender.plant}-{number}")
        except Exception as error:  # judged, not lost in a thread
            self.sender.record("raised", plant=self.sender.plant, words=f"{type(error).__name__}: {error}")
        self.sender.hang_up()

    def _episode(self, name: str) -> None:
        self._ask(f"{name}.open", "/v1/episodes", {"id": name})
        context: dict[str, Any] = {"task": self.chance.choice(["easy", "hard"])}
        recipe = self._ask(f"{name}.r", f"/v1/episodes/{name}/decisions", _question("recipe", "r", context))
        for place in range(DOSES):
            context = {"temperature": round(self.chance.uniform(0, 30), 3)}
            dose = self._ask(f"{name}.d{place}", f"/v1/episodes/{name}/decisions", _question("dose", f"d{place}", context))
            if recipe is not None and dose is not None:
                reward = earn(name, place, recipe["index"], dose["index"])
                self._ask(
                    f"{name}.p{place}", "/v1/results", {"items": [{"episode": name, "decision": f"d{place}", "reward": reward}]}
                )
            time.sleep(0.03)
        self._ask(f"{name}.close", f"/v1/episodes/{name}/close", {})
        time.sleep(0.1)

    def _ask(self, key: str, path: str, body: dict[str, Any]) -> dict[str, Any] | None:
        shown = self.sender.send(key, path, body)
        self._sent.append((key, path, body))
        if self.chance.random() < 0.1:  # what was answered before is answered so again
            self.sender.once(*self.chance.choice(self._sent))
        if shown is None or shown["status"] >= 400:
            return None
        answer: dict[str, Any] = shown["answer"]
        return answer


def _question(level: str, name: str, context: dict[str, Any]) -> dict[str, Any]:
    return {"level": level, "id": name, "context": context, "legacy": LEGACY}


# ---- the client --------------------------------------------------------------------------------------------------------------


class SpoolTrouble(logging.Handler):
    """Counts what the client logs about a spool that it could not write in time. lasting: it has no file in this process."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.count, self.lasting = 0, False

    def emit(self, record: logging.LogRecord) -> None:
        """Count a line about the spool."""
        words = record.getMessage()
        self.count += any(part in words for part in ("spool", "in memory", "damaged"))
        self.lasting = self.lasting or "until this process ends" in words


@dataclass(slots=True)
class ClientPlant:
    """A control system with `aegis.Client`. It goes on after a kill where it was, as far as its own record says."""

    name: str
    folder: Path
    url: str
    problem: Path
    record: Recorder
    chance: random.Random
    trouble: SpoolTrouble = field(default_factory=SpoolTrouble)
    client: Any = None
    refused: set[str] = field(default_factory=set)  # what was recorded as refused

    def run(self) -> None:
        """Take episodes through the gate until the campaign ends; then deliver what is left."""
        from aegis.errors import OutputError
        from aegis.service.client.gate_client import Client

        logging.getLogger("aegis.client").addHandler(self.trouble)
        logging.getLogger("aegis.client").addHandler(logging.StreamHandler())
        threading.Thread(target=self._tick, daemon=True).start()
        before = read_records(self.record.path)
        rescues = [item["what"] for item in before if item["what"] in ("rescuing", "rescued")]
        rescue = rescues[-1:] == ["rescuing"]  # the spool was lost
        while True:
            try:
                gate = Client(self.url, timeout=TIMEOUT, spool=self.folder / "spool", seed=1, problem=self.problem)
                break
            except OutputError as error:  # as documented, where the disk cannot be written at the start
                self.record("unopened", plant=self.name, words=str(error))
                time.sleep(0.2)
        self.client = gate
        self._resume(gate, before, rescue)
        if rescue:
            self.record("rescued", plant=self.name)
        number = 1 + max((int(item["episode"].rpartition("-")[2]) for item in before if item["what"] == "opening"), default=0)
        while not (self.folder / "stop").exists():
            self._episode(gate, f"{self.name}-{number}", {})
            number += 1
            self._note_arrived(gate)
        self._deliver(gate)
        self._note_arrived(gate)
        self._note_refused(gate)
        gate.close(1.0)
        self.record("ended", plant=self.name)

    def _resume(self, gate: Any, before: list[dict[str, Any]], rescue: bool) -> None:
        """Go on with the episode that a kill has interrupted, or close it if its spool is lost."""
        opened = [item["episode"] for item in before if item["what"] == "opening"]
        if not opened:
            return
        flushed = max((item["at"] for item in before if item["what"] == "flushed"), default=0.0)
        last = opened[-1]
        done = {item["what"] for item in before if item.get("episode") == last}
        forgotten = [
            item["episode"] for item in before if item["what"] == "close" and not item["durable"] and item["at"] > flushed
        ]
        if forgotten and not rescue:  # what was in memory only may not have arrived, decisions by the legacy among it
            self._deliver(gate)
            for name in forgotten:
                self._close_raw(name, abandoned=True, incomplete=True)
        if rescue:
            self._deliver(gate)
            recent = [item["episode"] for item in before if item["what"] == "opening" and item["at"] > flushed]
            for name in dict.fromkeys([*recent, last]):  # one that broke off for sure is no evidence
                self._close_raw(name, abandoned=True, incomplete=name == last and "closing" not in done)
        elif "open" not in done:  # whether it was kept is not known
            self._deliver(gate)
            self._close_raw(last, abandoned=True, incomplete=True)
        elif "closing" in done and "close" not in done:
            self._deliver(gate)
            self._close_raw(last, abandoned=True)
        elif "close" not in done:
            self._episode(gate, last, {item["decision"] for item in before if item.get("episode") == last and "decision" in item})

    def _deliver(self, gate: Any) -> None:
        """Deliver what is left, for as long as some of it arrives now and then: a busy machine takes its time."""
        least, end = 0, time.monotonic() + SILENCE
        while not gate.flush(1.0) and time.monotonic() < end:
            left = gate.undelivered
            if left > 1 and (left < least or not least):  # a spool that does not answer counts as one
                least, end = left, time.monotonic() + SILENCE

    def _close_raw(self, episode: str, **how: bool) -> None:
        """Close an episode without the client, as an operator does who knows that its spool is gone."""
        going = threading.Event()
        going.set()
        port = int(self.url.rpartition(":")[2])
        sender = Sender(self.name, self.record, lambda: Target(port, None), going)
        sender.send(f"{episode}.rescue-{uuid.uuid4().hex[:8]}", f"/v1/episodes/{episode}/close", how)
        sender.hang_up()

    def _episode(self, gate: Any, name: str, reported: Any) -> None:
        """Take an episode through the gate. reported: decisions whose reward was reported, or may have been, before a kill."""
        self.record("opening", plant=self.name, episode=name)
        with self._call("open", episode=name) as shown:
            episode = gate.open_episode(name)
        if shown.get("failed"):
            return
        resumed = bool(episode.choices) or reported
        recipe = episode.last("recipe") or self._decide(episode, "recipe", {"task": self.chance.choice(["easy", "hard"])})
        if recipe is None:
            return
        doses = [choice for choice in episode.choices if choice.level == "dose"]
        for place in range(DOSES):
            if place >= len(doses):
                dose = self._decide(episode, "dose", {"temperature": round(self.chance.uniform(0, 30), 3)}, recipe)
                if dose is None:
                    return
                doses.append(dose)
                time.sleep(0.1)
            if doses[place].id not in reported:
                self._report(episode, doses[place], earn(name, place, recipe.index, doses[place].index))
        self.record("closing", plant=self.name, episode=name)
        with self._call("close", episode=name):
            episode.close(abandoned=bool(resumed))  # a reward that a kill cut off will not come
        time.sleep(0.1)

    def _decide(self, episode: Any, level: str, context: dict[str, Any], parent: Any = None) -> Any:
        choice, started = None, time.monotonic()
        with self._call("decide", episode=episode.id) as shown:
            choice = episode.decide(level, context, LEGACY, parent)
            shown |= {"seconds": time.monotonic() - started, "sent": started, "timeout": TIMEOUT, "level": level}
            shown |= {name: getattr(choice, name) for name in ("id", "index", "propensity", "by")}
        return choice

    def _report(self, episode: Any, choice: Any, reward: float) -> None:
        self.record("reporting", plant=self.name, episode=episode.id, decision=choice.id)
        with self._call("report", episode=episode.id, decision=choice.id, reward=reward):
            episode.report(choice, reward)

    @contextlib.contextmanager
    def _call(self, what: str, **more: Any) -> Iterator[dict[str, Any]]:
        """Record a call that returned, and whether the spool had it by then; or that it raised."""
        before, shown = self.trouble.count, dict[str, Any]()
        try:
            yield shown
        except Exception as error:
            shown["failed"] = True
            self.record("raised", plant=self.name, words=f"{what}: {type(error).__name__}: {error}")
            return
        lasting = bool(self.client._trouble) or self.trouble.lasting  # what goes on is logged once
        durable = self.trouble.count == before and not lasting
        self.record(what, plant=self.name, durable=durable, **more, **shown)

    def _note_arrived(self, gate: Any) -> bool:
        """Record that everything has arrived, if it has."""
        at, left = time.monotonic(), gate.undelivered
        if not left:
            self._note_refused(gate)  # first: a spool that is lost later takes them along
            self.record("flushed", plant=self.name, asked=at)
        return not left

    def _note_refused(self, gate: Any) -> None:
        """Record what the gate has refused since it was asked last."""
        for item in gate.refused:
            key = json.dumps([item.path, item.episode, item.body])
            if key not in self.refused:
                self.refused.add(key)
                self.record("refused", plant=self.name, path=item.path, episode=item.episode, body=item.body, why=item.why)

    def _tick(self) -> None:
        """Record by how much a bare timer, and one turn of another thread, is late."""
        event, other = threading.Event(), ThreadPoolExecutor(1)
        for count in itertools.count(1):
            started = time.monotonic()
            event.wait(TICK)
            other.submit(int).result()
            ended = time.monotonic()
            if ended - started - TICK > SHOWN:
                self.record("timer", plant=self.name, started=started, ended=ended, over=ended - started - TICK)
            if count % 50 == 0:
                self.record("ticks", plant=self.name, count=50)


def add_timers(history: list[dict[str, Any]]) -> None:
    """Put beside every decision of a client by how much the bare timers of its process were late within a second of it."""
    timers: dict[str, list[dict[str, Any]]] = {}
    for item in history:
        if item["what"] == "timer":
            timers.setdefault(item["plant"], []).append(item)
    for item in history:
        if item["what"] == "decide":
            end = item["sent"] + item["seconds"]
            beside = (
                one for one in timers.get(item["plant"], []) if one["started"] <= end + 1.0 and one["ended"] >= item["sent"] - 1.0
            )
            item["timer"] = max((one["over"] for one in beside), default=0.0)


def main() -> None:
    """Run a plant until its folder has a file `stop`."""
    options = argparse.ArgumentParser()
    for name in ("name", "folder", "url", "problem", "history"):
        options.add_argument(name)
    chosen = options.parse_args()
    record = Recorder(Path(chosen.history))
    chance = random.Random(f"{chosen.name} {time.time_ns()}")
    plant = ClientPlant(chosen.name, Path(chosen.folder), chosen.url, Path(chosen.problem), record, chance)
    plant.run()


if __name__ == "__main__":
    main()
