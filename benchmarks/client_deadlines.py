"""How long `decide` takes: under each fault of gate and spool, beside a bare timer in the same run, and while all is well.

`python benchmarks/client_deadlines.py faults --calls 10000` and `... healthy --calls 1000000 --real 200000` are the sizes of the
record. The promise is that the slowest thousandth of decisions takes at most the timeout and 20 ms. After a fallback a client
does not ask again for a moment; every fault is measured with that pause and without it, so that every call meets the fault.
Faults are measured by processes of their own, a few at a time, since most of their time is spent waiting.
"""

from __future__ import annotations

import argparse
import json
import logging
import socket
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from aegis.handover import HOSTS, GateSettings
from aegis.problem import parse_problem
from aegis.service import Client, Database, EpisodeCounter, LiveGate, Service, TrainerProcess, TrainerSetup, make_app
from aegis.service.client import gate_client
from results import record, table

TIMES = ("p50 ms", "p99 ms", "p99.9 ms", "max ms", "timer p99.9 ms", "timer max ms", "kept")
TIMEOUT, PROMISE = 0.05, 0.02
TOGETHER, EVERY = 4, 5  # rows that are measured at once; decisions for each wait of the bare timer
PROBLEM = parse_problem(
    """
episode: batch
reward: {column: margin, range: [0, 10], per: decision}
levels:
  - name: dose
    context: [temperature]
    action: {column: dose, grid: {low: -1, high: 1, points: 3}}
    propensity: {column: p_dose}
"""
)
LEGACY = {"distribution": [0.5, 0.3, 0.2], "taken": 0.0}
ANSWER = {"level": "dose", "action": 0.0, "propensity": 0.3, "by": "legacy", "index": 1}
FACTS = {
    "levels": [{"level": "dose", "actions": [-1.0, 0.0, 1.0]}],
    "legacy": "sent",
    "reward": {"per": "decision"},
}


# ---- gates -------------------------------------------------------------------------------------------------------------------


def read_request(stream: Any) -> tuple[bytes, bytes] | None:
    """Return the first line and the body of a request; None at the end."""
    first, length = stream.readline(), 0
    if not first:
        return None
    while (line := stream.readline()) not in (b"\r\n", b""):
        if line.lower().startswith(b"content-length:"):
            length = int(line.split(b":")[1])
    return first, stream.read(length)


def reply(status: int, body: Any) -> bytes:
    """Return an answer as it is sent."""
    content = json.dumps(body).encode()
    return b"HTTP/1.1 %d x\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n" % (status, len(content)) + content


def work(connection: socket.socket, first: bytes, body: bytes) -> None:
    """Answer as a gate does."""
    if b"/decisions" in first:
        connection.sendall(reply(200, {"decision": json.loads(body)["id"], **ANSWER}))
    else:
        connection.sendall(reply(200, FACTS))


def trickle(connection: socket.socket, *_: bytes) -> None:
    """Answer one byte every 10 ms."""
    for byte in reply(200, {"decision": "d", **ANSWER}):
        connection.sendall(bytes([byte]))
        time.sleep(0.01)


def half(connection: socket.socket, *_: bytes) -> None:
    """Send half an answer, and wait."""
    content = reply(200, {"decision": "d", **ANSWER})
    connection.sendall(content[: len(content) // 2])
    time.sleep(30.0)


HOW: dict[str, Callable[..., None]] = {
    "works": work,
    "never answers": lambda *_: time.sleep(30.0),
    "one byte every 10 ms": trickle,
    "half an answer": half,
    "503": lambda connection, *_: connection.sendall(reply(503, {"detail": "not now"})),
}


def serve_stub(how: str) -> None:
    """Be a gate that does one thing, until the process ends."""
    server = socket.create_server(("127.0.0.1", 0), backlog=512)

    def serve(connection: socket.socket) -> None:
        with connection, connection.makefile("rb") as stream:
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            try:
                while (request := read_request(stream)) is not None:
                    HOW[how](connection, *request)
            except OSError:
                return

    print(server.getsockname()[1], flush=True)
    while True:
        connection, _ = server.accept()
        threading.Thread(target=serve, args=(connection,), daemon=True).start()


@contextmanager
def stub(how: str) -> Iterator[str]:
    """Yield the address of a gate in a process of its own."""
    with subprocess.Popen([sys.executable, __file__, "--serve", how], stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            yield f"http://127.0.0.1:{int(process.stdout.readline())}"
        finally:
            process.kill()


@contextmanager
def nothing() -> Iterator[str]:
    """Yield an address where nothing listens."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    yield f"http://127.0.0.1:{port}"


def serve_real() -> None:
    """Be a gate on SQLite, until the process ends."""
    import uvicorn

    with tempfile.TemporaryDirectory() as folder:
        store = str(Path(folder) / "gate.sqlite")
        database = Database.at(store)
        database.upgrade()
        live = LiveGate(database, "plant", PROBLEM, GateSettings(mode="shadow"), 7)
        worker = TrainerProcess(TrainerSetup(store, "plant", live.problem, HOSTS["greedy"](), 7))
        service = Service(live, EpisodeCounter(live, worker), rate=1e9)
        service.start()
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
        server = uvicorn.Server(uvicorn.Config(make_app(service), "127.0.0.1", port, log_config=None, access_log=False))
        threading.Thread(target=_announce, args=(server, port), daemon=True).start()
        server.run()


def _announce(server: Any, port: int) -> None:
    while not server.started:
        time.sleep(0.01)
    print(port, flush=True)


# ---- spools ------------------------------------------------------------------------------------------------------------------


def lock(client: Client, stack: ExitStack) -> None:
    """Let another process hold the lock of the spool."""
    other = sqlite3.connect(client.spool.path, check_same_thread=False, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    stack.callback(other.close)


def damage(client: Client, stack: ExitStack) -> None:
    """Overwrite the spool, again and again."""
    going = threading.Event()

    def spoil() -> None:
        while not going.wait(0.02):
            with client.spool.path.open("r+b") as file:
                file.write(b"x" * 4096)

    threading.Thread(target=spoil, daemon=True).start()
    stack.callback(going.set)


def fill(client: Client, _: ExitStack) -> None:
    """Let the disk be full."""
    for connection in (client.spool._safe, client.spool._quick):
        connection.execute("PRAGMA max_page_count = 1")


def slow(client: Client, _: ExitStack) -> None:
    """Let every write take 30 ms."""
    put, choose = client.spool.put, client.spool.choose
    client.spool.put = lambda *a: (time.sleep(0.03), put(*a))[1]  # type: ignore[method-assign]
    client.spool.choose = lambda *a: (time.sleep(0.03), choose(*a))[1]  # type: ignore[method-assign]


FAULTS: dict[str, tuple[str, Callable[[Client, ExitStack], None] | None]] = {
    "gate: connection refused": ("", None),
    "gate: never answers": ("never answers", None),
    "gate: one byte every 10 ms": ("one byte every 10 ms", None),
    "gate: half an answer": ("half an answer", None),
    "gate: 503": ("503", None),
    "spool: locked": ("works", lock),
    "spool: damaged": ("works", damage),
    "spool: disk full": ("works", fill),
    "spool: slow": ("works", slow),
}


# ---- measuring ---------------------------------------------------------------------------------------------------------------


def quantiles(seconds: list[float]) -> list[str]:
    """Return p50, p99, p99.9 and the largest, in milliseconds."""
    values = np.sort(np.array(seconds))
    at = [values[min(len(values) - 1, int(np.ceil(share * len(values))) - 1)] for share in (0.5, 0.99, 0.999)]
    return [f"{1000 * value:.2f}" for value in (*at, values[-1])]


def kept(seconds: list[float]) -> bool:
    """Say whether the slowest thousandth kept the promise."""
    return float(quantiles(seconds)[2]) <= 1000 * (TIMEOUT + PROMISE)


def measure_fault(name: str, calls: int, retry: float, known: bool) -> list[str]:
    """Return a row: decisions under a fault, in turn with a bare timer.

    known: the episode is known to the gate, so that the question itself is asked; otherwise its opening waits before it.
    """
    how, harm = FAULTS[name]
    gate_client.RETRY = retry
    seconds, timers, fallbacks = [], [], 0
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        url = stack.enter_context(stub(how) if how else nothing())
        client = Client(url, timeout=TIMEOUT, spool=Path(folder) / "spool", problem=PROBLEM)
        if known:
            client.spool.waits = lambda _: False  # type: ignore[method-assign]
        episode = client.open_episode("e")
        if harm is not None:
            episode.decide("dose", {"temperature": 1.0}, LEGACY)
            harm(client, stack)
        for number in range(calls):
            started = time.perf_counter()
            choice = episode.decide("dose", {"temperature": float(number)}, LEGACY)
            seconds.append(time.perf_counter() - started)
            fallbacks += choice.by == "fallback"
            episode.choices.clear()
            if number % EVERY == 0:
                started = time.perf_counter()
                threading.Event().wait(TIMEOUT)
                timers.append(time.perf_counter() - started)
        stack.close()
        client.close(0.0)
    asked = "after a pause" if retry else "each time, at once" if known else "each time"
    row = [name, asked, str(calls), str(fallbacks), *quantiles(seconds), *quantiles(timers)[2:], "yes" if kept(seconds) else "NO"]
    print(" | ".join(row), flush=True)
    return row


def measure_healthy(name: str, calls: int) -> list[str]:
    """Return a row: decisions while all is well, beside a bare timer now and then."""
    gate_client.RETRY = 1.0
    seconds, timers = [], []
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        url = stack.enter_context(stub("works" if name == "stub gate" else "real"))
        client = Client(url, timeout=TIMEOUT, spool=Path(folder) / "spool", problem=PROBLEM)
        episode, total = client.open_episode("e-0"), 0.0
        client.flush()
        for number in range(calls):
            if number and number % 500 == 0:
                episode.close(abandoned=True)
                client.flush()
                episode = client.open_episode(f"e-{number}")
                client.flush()
                threading.Event().wait(TIMEOUT)
                started = time.perf_counter()
                threading.Event().wait(TIMEOUT)
                timers.append(time.perf_counter() - started)
            started = time.perf_counter()
            episode.decide("dose", {"temperature": float(number)}, LEGACY)
            seconds.append(time.perf_counter() - started)
            total += seconds[-1]
        fallbacks = client.fallbacks
        client.close(0.0)
    limit = quantiles(timers or [TIMEOUT])
    row = [
        name,
        str(calls),
        str(fallbacks),
        f"{calls / total:.0f}",
        *quantiles(seconds),
        *limit[2:],
        "yes" if kept(seconds) else "NO",
    ]
    print(" | ".join(row), flush=True)
    return row


def measure_elsewhere(job: list[Any]) -> list[str]:
    """Return the row of a job, which a process of its own measures."""
    words = [sys.executable, __file__, "--job", json.dumps(job)]
    row = subprocess.run(words, stdout=subprocess.PIPE, check=True, text=True).stdout.splitlines()[-1].split(" | ")
    print(" | ".join(row), flush=True)
    return row


def measure_faults(calls: int, only: str) -> list[str]:
    """Return the lines of the record of all faults whose names contain a word."""
    ways = ((1.0, False), (0.0, False), (0.0, True))
    jobs: list[list[Any]] = [
        [name, calls, retry, known]
        for name in FAULTS
        if only in name
        for retry, known in (ways if name.startswith("gate") else ways[:2])
    ]
    with ThreadPoolExecutor(TOGETHER) as pool:
        rows = list(pool.map(measure_elsewhere, jobs))
    return [
        f"`decide` at a timeout of {1000 * TIMEOUT:g} ms, in turn with `threading.Event().wait` of the same time. Kept: p99.9 is "
        f"at most {1000 * (TIMEOUT + PROMISE):g} ms. The gate is asked after the pause of a second, or each time. {TOGETHER} of "
        "the faults are measured at once.",
        "",
        *table(["fault", "asked", "calls", "fallbacks", *TIMES], rows),
    ]


def measure_gates(calls: int, real: int, only: str) -> list[str]:
    """Return the lines of the record of healthy gates whose names contain a word."""
    healthy = {"stub gate": calls, "gate on SQLite": real}
    rows = [measure_elsewhere([name, count]) for name, count in healthy.items() if only in name]
    return [
        f"`decide` at a timeout of {1000 * TIMEOUT:g} ms while all is well, with a bare timer now and then. Kept: p99.9 is at "
        f"most {1000 * (TIMEOUT + PROMISE):g} ms.",
        "",
        *table(["healthy", "calls", "fallbacks", "a second", *TIMES], rows),
    ]


def main() -> None:
    """Measure, and record."""
    parser = argparse.ArgumentParser()
    parser.add_argument("part", nargs="?", choices=("faults", "healthy"), default="faults")
    parser.add_argument("--calls", type=int, default=200, help="decisions under each fault, or of a gate that does nothing else")
    parser.add_argument("--real", type=int, default=2000, help="decisions of a gate on SQLite, while all is well")
    parser.add_argument("--only", default="", help="measure what contains this word, and record nothing")
    parser.add_argument("--serve", help=argparse.SUPPRESS)
    parser.add_argument("--job", help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    logging.getLogger("aegis").setLevel(logging.CRITICAL)
    if chosen.serve:
        serve_real() if chosen.serve == "real" else serve_stub(chosen.serve)
        return
    if chosen.job:
        job = json.loads(chosen.job)
        measure_healthy(*job) if len(job) == 2 else measure_fault(*job)
        return
    if chosen.part == "faults":
        title, command = "Client deadlines", f"faults --calls {chosen.calls}"
        lines = measure_faults(chosen.calls, chosen.only)
    else:
        title, command = "Client deadlines, healthy", f"healthy --calls {chosen.calls} --real {chosen.real}"
        lines = measure_gates(chosen.calls, chosen.real, chosen.only)
    if not chosen.only:
        record(title, f"python benchmarks/client_deadlines.py {command}", lines)


if __name__ == "__main__":
    main()
