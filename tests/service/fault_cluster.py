"""Two services of one gate, one standing by, with a balancer, plants, an operator and probes: what a fault campaign breaks."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import random
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psycopg
from fault_plants import PROBLEM, RawPlant, Recorder, Sender, Target, add_timers, read_records
from fault_proxy import FaultProxy
from fault_shim import Control
from postgres_server import Server
from served_gate import Helper, Served

from aegis.service.read_models import PULSE

GATE = "plant"
POLL = 0.05  # seconds between two looks at the health of a service
PROBE = 0.2  # seconds between two writes to a service that says it is healthy
ENDS = 30.0  # seconds that a service has to end
ENDS = 900.0  # seconds within which a plant delivers what is left; it gives up earlier if nothing arrives
SETTLES = 120.0  # seconds in which everything that was reported is counted
RAW, CLIENTS = 2, 2
SETTINGS = [
    "--mode",
    "live",
    "--host",
    "greedy",
    "--seed",
    "7",
    "--caps",
    "2",
    "--gate-set",
    "first=8",
    "--gate-set",
    "patience=1.0",
]
STABLE = ("gate", "mode", "paused", "alarms", "alarm", "episodes", "levels", "ledger", "earned", "changes", "events", "promise")


def ask(port: int, path: str, timeout: float) -> tuple[int, Any]:
    """Return status and answer of a service; OSError if there is none."""
    line = http.client.HTTPConnection("127.0.0.1", port, timeout=timeout)
    try:
        line.request("GET", path)
        response = line.getresponse()
        return response.status, json.loads(response.read())
    except (http.client.HTTPException, ValueError) as error:
        raise OSError(str(error)) from error
    finally:
        line.close()


@dataclass(slots=True)
class GateProcess:
    """A service that can be killed, stopped, cut off from its store and from its callers. control: of its disk and clock."""

    name: str
    served: Served
    control: Control
    front: FaultProxy
    store_proxy: FaultProxy | None
    number: int = 0
    health: list[tuple[float, float, int | None]] = field(default_factory=list)  # asked, answered, status
    stopped: bool = False
    _lock: threading.RLock = field(default_factory=threading.RLock)

    @property
    def process(self) -> str:
        """Return which process of this service runs now."""
        return f"{self.name}.{self.number}"

    @property
    def healthy(self) -> bool:
        """Whether it said so when it was asked last."""
        return bool(self.health) and self.health[-1][2] == 200

    def start(self) -> None:
        """Start it if it does not run."""
        with self._lock:
            if self.served.pid is None:
                self.number += 1
                self.served.start(wait=False)

    def revive(self) -> None:
        """Start it again if it has ended by itself, as a supervisor does: on a disk that fails it cannot start."""
        with self._lock:
            pid = self.served.pid
            if pid is not None and _state(pid) in ("Z", None):
                self.served.kill()
                self.start()

    def end(self, how: int = signal.SIGKILL) -> bool:
        """End it; say whether it did so in time."""
        with self._lock:
            pid = self.served.pid
            if pid is None:
                return True
            self.wake()
            os.kill(pid, how)
            end, in_time = time.monotonic() + ENDS, True
            while _state(pid) not in ("Z", None) and in_time:
                time.sleep(0.01)
                in_time = time.monotonic() < end
            self.served.kill()
            return in_time

    def stop(self) -> None:
        """Let it sleep."""
        with self._lock:
            if self.served.pid is not None:
                os.kill(self.served.pid, signal.SIGSTOP)
                self.stopped = True

    def wake(self) -> None:
        """Let it go on."""
        with self._lock:
            if self.served.pid is not None and self.stopped:
                os.kill(self.served.pid, signal.SIGCONT)
            self.stopped = False

    def kill_trainer(self) -> bool:
        """Kill the process that learns; say whether there is one."""
        pid, killed = self.served.pid, False
        for folder in Path("/proc").iterdir() if pid is not None else ():
            with contextlib.suppress(OSError, ValueError, IndexError):
                parent = int((folder / "stat").read_text().rpartition(")")[2].split()[1]) if folder.name.isdigit() else 0
                if parent == pid and b"spawn_main" in (folder / "cmdline").read_bytes():
                    os.kill(int(folder.name), signal.SIGKILL)
                    killed = True
        return killed


def _state(pid: int) -> str | None:
    """Return the state of a process, None if it is gone."""
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    return None


@dataclass(slots=True)
class PlantProcess:
    """A plant with a client in a process of its own. control: of the disk of its spool."""

    name: str
    folder: Path
    control: Control
    command: list[str]
    record: Recorder
    process: subprocess.Popen[bytes] | None = None
    troubled: bool = False  # its spool failed since everything had arrived
    _lock: threading.Lock = field(default_factory=threading.Lock, init=False)

    def start(self, rescue: bool = False) -> None:
        """Start it. rescue: what its spool held may be lost."""
        if rescue:
            self.record("rescuing", plant=self.name)  # which the plant reads, however often it is killed before it is done
        with (self.folder.parent / f"{self.name}.log").open("ab") as log:
            environment = {**os.environ, **self.control.environment}
            self.process = subprocess.Popen(self.command, stdout=log, stderr=log, env=environment)

    def kill(self, lost: bool = False) -> None:
        """Kill it and start it again on the same spool, whose disk is in order. lost: the spool was deleted or damaged."""
        with self._lock:  # two faults at once may kill it, and only one process may use its spool
            if self.process is not None:
                self.process.kill()
                self.process.wait(ENDS)
            self.control.fail(0)
            self.record("lost" if lost else "killed", plant=self.name)
            self.start(lost or self.troubled)
            self.troubled = False


@dataclass(slots=True)
class Cluster:
    """Everything of one round. wrong: what the campaign itself saw go wrong."""

    store: str  # without any proxy
    folder: Path
    helpers: list[tuple[Helper, Control]]
    chance: random.Random
    server: Server | None = None
    server_control: Control | None = None
    gates: list[GateProcess] = field(default_factory=list)
    plants: list[PlantProcess] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)
    pauses: Counter[str] = field(default_factory=Counter)
    record: Recorder = field(init=False)
    balancer: FaultProxy = field(init=False)
    _chosen: GateProcess | None = None
    _going: threading.Event = field(default_factory=threading.Event)
    _sending: threading.Event = field(default_factory=threading.Event)
    _watching: threading.Event = field(default_factory=threading.Event)
    _threads: list[threading.Thread] = field(default_factory=list)
    _raw: list[threading.Thread] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.record = Recorder(self.folder / "history.jsonl")
        (self.folder / "problem.yaml").write_text(PROBLEM)
        for name, (helper, control) in zip("AB", self.helpers, strict=True):
            store, proxy = self.store, None
            if self.server is not None:
                proxy = FaultProxy(("127.0.0.1", self.server.port))
                store = self.store.replace(f":{self.server.port}/", f":{proxy.port}/")
            arguments = [*("--problem", str(self.folder / "problem.yaml"), "--store", store, "--name", GATE), *SETTINGS]
            served = Served(helper, [*arguments, "--standby"])
            control.fail(0)
            control.step_clock(0)
            self.gates.append(GateProcess(name, served, control, FaultProxy(("127.0.0.1", served.port)), proxy))
        self.balancer = FaultProxy(lambda: ("127.0.0.1", (self.writer() or self.gates[0]).front.port))

    # ---- who is the writer -------------------------------------------------------------------------------------------------

    def writer(self) -> GateProcess | None:
        """Return the service to ask: the last one that was healthy as long as it is, otherwise the other one if that is."""
        healthy = [gate for gate in self.gates if gate.healthy]
        if healthy and self._chosen not in healthy:
            self._chosen = healthy[0]
            self.balancer.reset()
        return self._chosen

    def standby(self) -> GateProcess:
        """Return the other one."""
        return next(gate for gate in self.gates if gate is not self.writer())

    def _poll(self, gate: GateProcess) -> None:
        while self._watching.is_set():
            asked, status = time.monotonic(), None
            with contextlib.suppress(OSError):
                status = ask(gate.served.port, "/v1/health", 1.0)[0]
            gate.health.append((asked, time.monotonic(), status))
            self.writer()
            time.sleep(POLL)

    def _probe(self, gate: GateProcess) -> None:
        """Write to a service that says it is healthy, whoever else does."""
        number = 0
        sender = Sender(f"probe-{gate.name}", self.record, lambda: Target(gate.served.port, gate.process), self._sending, 10.0)
        while self._watching.is_set() and self._sending.is_set():
            if gate.healthy:
                number += 1
                name = f"probe-{gate.name}-{number}"
                if sender.once(f"{name}.open", "/v1/episodes", {"id": name}) is not None:
                    sender.once(f"{name}.close", f"/v1/episodes/{name}/close", {})
            time.sleep(PROBE)
        sender.hang_up()

    def _operate(self) -> None:
        """Resume a gate that was paused, and give a level back now and then, so that it is handed over again."""
        number, chance = 0, random.Random(1)
        sender = Sender("operator", self.record, self._front, self._sending)
        while self._sending.is_set():
            time.sleep(0.5)
            with contextlib.suppress(OSError):
                writer = self.writer()
                status, shown = (0, {}) if writer is None else ask(writer.served.port, "/v1/gate", 3.0)
                if status != 200:
                    continue
                number += 1
                agents = [item["level"] for item in shown["levels"] if item["control"] == "agent"]
                if shown["paused"] is not None:
                    self.pauses[str(shown["paused"])] += 1
                    sender.once(f"operator-{number}", "/v1/operator", {"action": "resume", "why": "the campaign goes on"})
                elif agents and chance.random() < 0.05:
                    body = {"action": "revert", "why": "once more", "level": chance.choice(agents)}
                    sender.once(f"operator-{number}", "/v1/operator", body)
        sender.hang_up()

    def _front(self) -> Target | None:
        writer = self.writer()
        return None if writer is None else Target(writer.front.port, writer.process)

    # ---- a round -----------------------------------------------------------------------------------------------------------

    def start(self, shim: Path) -> None:
        """Start everything."""
        self._going.set()
        self._sending.set()
        self._watching.set()
        self.gates[0].start()
        for gate in self.gates:
            self._thread(self._poll, gate)
        self.wait_for_writer()
        self.gates[1].start()
        for gate in self.gates:
            self._thread(self._probe, gate)
        self._thread(self._operate)
        for place in range(RAW):
            sender = Sender(f"raw{place}", self.record, self._front, self._sending)
            plant = RawPlant(sender, random.Random(f"{place} {self.chance.random()}"), self._going)
            self._raw.append(self._thread(plant.run))
        for place in range(CLIENTS):
            self._start_client(f"client{place}", shim)

    def _thread(self, work: Callable[..., None], *args: Any) -> threading.Thread:
        thread = threading.Thread(target=work, args=args, daemon=True)
        thread.start()
        self._threads.append(thread)
        return thread

    def _start_client(self, name: str, shim: Path) -> None:
        folder = self.folder / name
        folder.mkdir()
        record = Recorder(self.folder / f"{name}.jsonl")
        url = f"http://127.0.0.1:{self.balancer.port}"
        program = str(Path(__file__).with_name("fault_plants.py"))
        command = [sys.executable, program, name, str(folder), url, str(self.folder / "problem.yaml"), str(record.path)]
        control = Control(shim, self.folder / f"{name}.control", [f"{folder}/"])
        plant = PlantProcess(name, folder, control, command, record)
        plant.start()
        self.plants.append(plant)

    def wait_for_writer(self, limit: float = 90.0) -> None:
        """Wait until a service says that it is healthy."""
        end = time.monotonic() + limit
        while True:
            for gate in self.gates:
                gate.revive()
            if any(gate.healthy for gate in self.gates):
                return
            if time.monotonic() > end:
                self.wrong.append(f"no service was healthy within {limit:g} s")
                return
            time.sleep(0.02)

    def counted(self) -> int | None:
        """Return how many episodes were counted; None if that is not known now."""
        writer = self.writer()
        with contextlib.suppress(OSError):
            status, shown = (0, {}) if writer is None else ask(writer.served.port, "/v1/gate", 3.0)
            return int(shown["episodes"]["counted"]) if status == 200 else None
        return None

    def wait_for_counting(self, limit: float) -> None:
        """Wait until one more episode was counted, for a while."""
        before, end = self.counted(), time.monotonic() + limit
        while time.monotonic() < end and (now := self.counted()) is not None and now == before:
            time.sleep(0.1)

    def finish(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """Let everything end in peace; return the state before the last stop, and after a clean start."""
        for gate in self.gates:
            gate.start()
        self.wait_for_writer()
        self._going.clear()
        for thread in self._raw:
            thread.join(90)
            if thread.is_alive():
                self.wrong.append("a plant still waits for an answer")
        for plant in self.plants:
            (plant.folder / "stop").touch()
        for plant in self.plants:
            with contextlib.suppress(subprocess.TimeoutExpired):
                if plant.process is not None and plant.process.wait(ENDS) == 0:
                    continue
            self.wrong.append(f"{plant.name} did not end, or failed")
        self._settle()
        self._sending.clear()
        time.sleep(PULSE + 2.0 * PROBE)  # an answer may be as old as that
        before, after = self._state(), {}
        for _ in range(3):  # something that was due may still be written while it stops
            self._restart_clean()
            after = self._state()
            if after == before:
                break
            if before["last"] == after["last"]:
                break
            before = after
        self._watching.clear()
        return before, after

    def _settle(self) -> None:
        """Wait until everything that was reported is counted."""
        end, shown = time.monotonic() + SETTLES, dict[str, Any]()
        while time.monotonic() < end:
            with contextlib.suppress(OSError):
                writer = self.writer() or self.gates[0]
                status, shown = ask(writer.served.port, "/v1/gate", 5.0)
                if status == 200 and shown["episodes"]["counted"] == shown["episodes"]["started"]:
                    return
            time.sleep(0.1)
        self.wrong.append(f"not everything was counted: {shown.get('episodes')}, {shown.get('counting')}")

    def _state(self) -> dict[str, Any]:
        writer, end = self.writer() or self.gates[0], time.monotonic() + 30.0
        while True:
            try:
                answers = {path: ask(writer.served.port, f"/v1/{path}", 10.0) for path in ("gate", "certificates")}
                if all(status == 200 for status, _ in answers.values()):
                    break
            except OSError:
                pass
            if time.monotonic() > end:
                raise RuntimeError("the gate does not show its state")
            time.sleep(0.1)
        shown = answers["gate"][1]
        last = max((item["seq"] for item in shown["events"]), default=0)
        return {"last": last, "certificates": answers["certificates"][1], **{name: shown.get(name) for name in STABLE}}

    def _restart_clean(self) -> None:
        for gate in sorted(self.gates, key=lambda gate: gate is self.writer()):
            if not gate.end(signal.SIGTERM):
                self.wrong.append(f"{gate.process} did not end on SIGTERM")
            gate.health.append((time.monotonic(), time.monotonic(), None))
        self.gates[0].start()
        self.wait_for_writer()

    def end(self) -> None:
        """End everything that still runs."""
        for event in (self._going, self._sending, self._watching):
            event.clear()
        for plant in self.plants:
            if plant.process is not None:
                plant.process.kill()
                plant.process.wait(ENDS)
        for gate in self.gates:
            gate.end()
            gate.front.close()
            if gate.store_proxy is not None:
                gate.store_proxy.close()
        self.balancer.close()
        for thread in self._threads:
            thread.join(15)

    # ---- what is left ------------------------------------------------------------------------------------------------------

    def history(self) -> list[dict[str, Any]]:
        """Return what all plants recorded."""
        items = [item for path in sorted(self.folder.glob("*.jsonl")) for item in read_records(path)]
        add_timers(items)
        return items

    def rows(self) -> list[dict[str, Any]]:
        """Return the rows of the journal, by SQL alone."""
        query = f"SELECT seq, at, kind, episode, key, request, body, hash FROM journal WHERE gate = '{GATE}' ORDER BY seq"
        if self.server is None:
            with contextlib.closing(sqlite3.connect(self.store)) as connection:
                table = connection.execute(query).fetchall()
        else:
            with psycopg.connect(self.store) as server_connection:
                table = server_connection.execute(query.encode()).fetchall()
        names = ("seq", "at", "kind", "episode", "key", "request", "body", "hash")
        return [{**dict(zip(names, row, strict=True)), "body": json.loads(row[6])} for row in table]

    def verify(self) -> int:
        """Return what `aegis store verify` exits with."""
        command = [sys.executable, "-m", "aegis", "store", "verify", "--store", self.store]
        return subprocess.run(command, capture_output=True).returncode

    def longest_wrong_health(self, history: list[dict[str, Any]]) -> tuple[float, str]:
        """Return for how long at most a service said that it is healthy while writes to it failed, and which."""
        longest, which = 0.0, ""
        for gate in self.gates:
            probes = [item for item in history if str(item.get("plant")) == f"probe-{gate.name}"]
            good = [item["got"] for item in probes if item["what"] == "answer"]
            bad = [answered for _, answered, status in gate.health if status != 200]
            well = [asked for asked, _, status in gate.health if status == 200]
            for item in probes:
                if item["what"] != "unanswered":
                    continue
                sent = item["sent"]
                until = min([moment for moment in (*good, *bad) if moment > sent], default=float("inf"))
                last = max((moment for moment in well if sent < moment < until), default=sent)
                if last - sent > longest:
                    longest, which = last - sent, f"{item['process']}: {item['why']}"
        return longest, which
