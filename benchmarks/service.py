"""The live gate under load: `python benchmarks/service.py`. Decisions per second and their slowest hundredth, beside an endpoint
with the same validation and one commit that does nothing else; and memory over many decisions.

Both are asked by the same clients in turn, in blocks, so that a busy machine is as busy for one as for the other.
"""

from __future__ import annotations

import argparse
import http.client
import json
import os
import socket
import subprocess
import sys
import tempfile
import threading
import time
import uuid
from pathlib import Path
from typing import Any

import numpy as np

from aegis.problem import save_problem
from aegis.worlds import make_world
from results import record, table

HERE = Path(__file__).parent
CLIENTS = 4
AGENTS = "agents.sqlite"
INNER = 20  # decisions of the inner level in an episode


WORLD = make_world("additive")
ACTIONS = {level.name: level.actions.count for level in WORLD.problem.levels}


def free_port() -> int:
    """Return a port that nobody uses."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


class Server:
    """A server in a process of its own."""

    def __init__(self, arguments: list[str], port: int) -> None:
        self.port = port
        self.process = subprocess.Popen(arguments, env={**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"})
        end = time.monotonic() + 60
        while time.monotonic() < end:
            try:
                connection = http.client.HTTPConnection("127.0.0.1", port, timeout=2)
                connection.request("GET", "/v1/health")
                if connection.getresponse().status == 200:
                    return
            except OSError:
                time.sleep(0.1)
        raise SystemExit("a server did not start")

    def memory(self) -> float:
        """Return the megabytes that it holds."""
        for line in Path(f"/proc/{self.process.pid}/status").read_text().splitlines():
            if line.startswith("VmRSS"):
                return int(line.split()[1]) / 1024
        return 0.0

    def stop(self) -> None:
        """End it."""
        self.process.terminate()
        self.process.wait(30)


class Caller:
    """A control system that asks for one decision after the other."""

    def __init__(self, port: int, name: str) -> None:
        self.connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
        self.connection.connect()
        self.connection.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.name, self.episode, self.parent, self.ids = name, "", "", list[str]()
        self.times: list[float] = []

    def post(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        """Return the answer to a request."""
        headers = {"Content-Type": "application/json", "Idempotency-Key": uuid.uuid4().hex}
        self.connection.request("POST", path, json.dumps(body), headers)
        response = self.connection.getresponse()
        text = response.read()
        if response.status != 200:
            raise RuntimeError(f"{path}: {response.status} {text[:300]!r}")
        found: dict[str, Any] = json.loads(text)
        return found

    def decide(self) -> None:
        """Ask for one decision, opening and closing episodes as they come."""
        if not self.episode:
            self.episode = self.post("/v1/episodes", {})["episode"]
            self.parent = self.ask("meta", None)
            self.ids = []
        self.ids.append(self.ask("inner", self.parent))
        if len(self.ids) == INNER:
            result = {"reward": 0.5} if WORLD.problem.outcome is None else {"reward": 0.5, "outcome": 0.5}
            items = [{"episode": self.episode, "decision": name, **result} for name in self.ids]
            self.post("/v1/results", {"items": items})
            self.post(f"/v1/episodes/{self.episode}/close", {})
            self.episode = ""

    def ask(self, level: str, parent: str | None) -> str:
        """Ask for a decision, note how long it takes, and return its name."""
        body: dict[str, Any] = {
            "level": level,
            "context": {item.name: 0.1 * len(self.ids) for item in WORLD.problem.level(level).context},
            "legacy": {"distribution": [1 / ACTIONS[level]] * ACTIONS[level]},
        }
        if parent is not None:
            body["parent"] = parent
        started = time.perf_counter()
        answer = self.post(f"/v1/episodes/{self.episode}/decisions", body)
        self.times.append(time.perf_counter() - started)
        return str(answer["decision"])


def load(callers: list[Caller], seconds: float) -> tuple[float, list[float]]:
    """Return decisions per second of all callers at once, and how long each took."""
    end = time.perf_counter() + seconds
    before, failed = [len(caller.times) for caller in callers], list[Exception]()

    def work(caller: Caller) -> None:
        try:
            while time.perf_counter() < end:
                caller.decide()
        except (OSError, RuntimeError) as error:
            failed.append(error)

    threads = [threading.Thread(target=work, args=(caller,)) for caller in callers]
    started = time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failed:
        raise SystemExit(f"a caller failed: {failed[0]}")
    times = [value for caller, count in zip(callers, before, strict=True) for value in caller.times[count:]]
    return len(times) / (time.perf_counter() - started), times


def gate_server(folder: Path, store: str, port: int) -> Server:
    """Return a live gate: in shadow and without freezing anything, unless levels were handed over in its store before."""
    agents = store == str(folder / AGENTS)
    problem = folder / ("agents.yaml" if agents else "problem.yaml")
    asked = ["--problem", str(problem), "--store", store, "--name", "additive", "--host", "greedy"]
    if not agents:
        asked += ["--mode", "shadow", "--first", "100000"]
    asked += ["--rate", "1000000", "--listen", f"127.0.0.1:{port}"]
    return Server([sys.executable, "-m", "aegis", "serve", *asked], port)


def handed_over(folder: Path) -> str:
    """Return a store in which agents control both levels of a simulated plant, and challengers are tested against them."""
    store = str(folder / AGENTS)
    settings = {"inner_steps": 5, "f_a": 4.0}
    save_problem(make_world("additive", **settings).problem, folder / "agents.yaml")
    asked = ["--simulate", "additive", *(word for name, value in settings.items() for word in ("--set", f"{name}={value}"))]
    asked += ["--mode", "live"]
    asked += ["--host", "greedy", "--episodes", "400", "--store", store, "--listen", f"127.0.0.1:{free_port()}", "--json"]
    done = subprocess.run([sys.executable, "-m", "aegis", "serve", *asked], capture_output=True, text=True, check=True)
    flipped = {level["level"]: level["control"] for level in json.loads(done.stdout)["levels"]}
    if set(flipped.values()) != {"agent"}:
        raise SystemExit(f"not every level was handed over: {flipped}")
    return store


def measured(folder: Path, stores: dict[str, tuple[str, str]], blocks: int, seconds: float) -> list[list[str]]:
    """Return a row for each kind of store: rates and slowest hundredths of the gate and of the empty endpoint."""
    rows = []
    for name, (own, plain) in stores.items():
        ports = free_port(), free_port()
        gate = gate_server(folder, own, ports[0])
        empty = Server([sys.executable, str(HERE / "service_empty.py"), plain, str(ports[1])], ports[1])
        try:
            both = {port: [Caller(port, f"{i}") for i in range(CLIENTS)] for port in ports}
            found: dict[int, list[tuple[float, list[float]]]] = {port: [] for port in ports}
            for _ in range(blocks):
                for port in ports:
                    found[port].append(load(both[port], seconds))
            rates = [float(np.median([rate for rate, _ in found[port]])) for port in ports]
            slow = [float(np.percentile([t for _, times in found[port] for t in times], 99)) for port in ports]
            rows.append(
                [
                    name,
                    f"{rates[0]:.0f}",
                    f"{rates[1]:.0f}",
                    f"{rates[1] / rates[0]:.2f}",
                    f"{slow[0] * 1e3:.1f}",
                    f"{slow[1] * 1e3:.1f}",
                    f"{slow[0] / slow[1]:.2f}",
                    "3",
                ]
            )
        finally:
            gate.stop()
            empty.stop()
    return rows


def memory(folder: Path, decisions: int) -> list[list[str]]:
    """Return the memory of the service after so many decisions."""
    port = free_port()
    gate = gate_server(folder, str(folder / "memory.sqlite"), port)
    rows = []
    try:
        callers = [Caller(port, f"{i}") for i in range(CLIENTS)]
        done = 0
        marks = [decisions // 20, decisions // 4, decisions // 2, decisions]
        while done < decisions:
            load(callers, 2.0)
            done = sum(len(caller.times) for caller in callers)
            while marks and done >= marks[0]:
                rows.append([str(done), f"{gate.memory():.0f}"])
                marks.pop(0)
    finally:
        gate.stop()
    return rows


def main() -> None:
    """Measure and record."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--blocks", type=int, default=5)
    options.add_argument("--seconds", type=float, default=4.0)
    options.add_argument("--decisions", type=int, default=100_000)
    options.add_argument(
        "--postgres", help="postgresql://... of an empty database for the gate, and one for the empty endpoint", nargs=2
    )
    options.add_argument("--agents", action="store_true", help="measure a gate as well that has handed over both levels")
    options.add_argument("--show", action="store_true", help="print, do not record")
    given = options.parse_args()
    with tempfile.TemporaryDirectory(prefix="aegis-load-") as place:
        folder = Path(place)
        save_problem(WORLD.problem, folder / "problem.yaml")
        stores = {"SQLite": (str(folder / "gate.sqlite"), str(folder / "empty.sqlite"))}
        if given.postgres:
            stores["PostgreSQL"] = (given.postgres[0], given.postgres[1])
        if given.agents:
            stores["SQLite, agents in control of both levels"] = (handed_over(folder), str(folder / "empty2.sqlite"))
        rows = measured(folder, stores, given.blocks, given.seconds)
        held = memory(folder, given.decisions) if given.decisions else []
    head = ["store", "decisions/s", "empty endpoint", "ratio", "p99 ms", "empty endpoint", "ratio", "asked, at most"]
    lines = [
        f"{CLIENTS} clients on loopback, {INNER} inner decisions an episode, {ACTIONS['inner']} actions, each with the legacy's "
        "distribution. "
        "*Empty endpoint*: the same server, validation and store, one insert and commit, nothing else.",
        "",
        *table(head, rows),
        "",
        *table(["decisions", "memory of the service, MB"], held),
    ]
    if given.show:
        print("\n".join(lines))
    else:
        record("Live gate under load", "python benchmarks/service.py", lines)


if __name__ == "__main__":
    main()
