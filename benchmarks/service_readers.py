"""The live gate beside many readers: `python benchmarks/service_readers.py`. Decisions of one controller, (a) alone with few
open episodes and (b) with 100,000 open episodes, 25 open pages, 25 readers that ask every second, and 2,000 idle connections.

Two gates are asked in turn, in blocks, so that a busy machine is as busy for one as for the other. All readers are one process,
and rest while the controller of (a) is measured. In both stores open episodes hold up counting, so that neither gate counts.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import math
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import sqlalchemy as sa
from scipy.stats import t as student

from aegis.handover import GateSettings
from aegis.problem import save_problem
from aegis.service.live_gate import LiveGate, internal_key
from aegis.service.live_state import DECISION, EPISODE
from aegis.service.snapshot_writer import SnapshotWriter
from aegis.service.status import GateStatus
from aegis.service.store.database import Database
from aegis.service.store.journal import JournalEntry
from results import record, table
from service import ACTIONS, WORLD, Caller, Server, free_port, load

TITLE = "Live gate beside readers"
GATE, FEW, TOGETHER = "additive", 10, 2000
PAGES, ASKING, IDLE = 25, 25, 2000
SETTINGS = GateSettings(mode="shadow", first=100_000)


# ---- stores with open episodes -----------------------------------------------------------------------------------------------


def open_episodes(store: str, count: int) -> None:
    """Make a store in which so many episodes are open, each with its first decision, and a snapshot of them."""
    database = Database.at(store)
    sa.event.listen(database.engine, "connect", lambda connection, _: connection.execute("PRAGMA synchronous=OFF").close())
    database.upgrade()
    live = LiveGate(database, GATE, WORLD.problem, SETTINGS, 3)
    GateStatus(live)
    live.start()
    for first in range(1, count + 1, TOGETHER):
        with live.changed:
            live._write([entry for number in range(first, min(first + TOGETHER, count + 1)) for entry in opening(number)])
    SnapshotWriter(live).write()
    live.stop()
    database.close()


def opening(number: int) -> list[JournalEntry]:
    """Return what an episode that is opened and takes its first decision leads to."""
    name, level = f"open-{number}", WORLD.problem.levels[0]
    chances = [1 / ACTIONS[level.name]] * ACTIONS[level.name]
    body = {
        "episode": name,
        "id": "outer",
        "level": level.name,
        "parent": None,
        "context": {item.name: 0.1 for item in level.context},
        "available": None,
        "legacy": chances,
        "chances": chances,
        "action": 0,
        "by": "legacy",
        **{"number": number, "arm": "agent", "policies": {}, "version": "legacy"},
    }
    return [
        JournalEntry(EPISODE, {"id": name, "time": None}, key=internal_key("episode", name)),
        JournalEntry(DECISION, body, number, f"{name}-outer", "0" * 64),
    ]


# ---- readers, in a process of their own --------------------------------------------------------------------------------------

HEAD = "GET /v1/{} HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"


async def ask(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, what: str) -> int:
    """Ask once, and return how many bytes the answer has."""
    writer.write(HEAD.format(what).encode())
    head = await reader.readuntil(b"\r\n\r\n")
    if b" 200 " not in head.split(b"\r\n")[0]:
        raise SystemExit(f"a reader was refused: {head!r}")
    length = int(head.lower().split(b"content-length:")[1].split(b"\r\n")[0])
    return len(await reader.readexactly(length))


async def follow(port: int, seen: dict[str, int]) -> None:
    """Listen as an open page does."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    with contextlib.closing(writer):
        writer.write(HEAD.format("stream").encode())
        await reader.readuntil(b"\r\n\r\n")
        while data := await reader.read(1 << 16):
            seen["bytes"] += len(data)
            seen["events"] += data.count(b"event: gate")


async def poll(port: int, seen: dict[str, int], delay: float) -> None:
    """Ask every second what a page shows."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=1 << 20)
    with contextlib.closing(writer):
        await asyncio.sleep(delay)
        while True:
            seen["bytes"] += await ask(reader, writer, "gate")
            seen["answers"] += 1
            await asyncio.sleep(1.0)


async def rest(port: int) -> asyncio.StreamWriter:
    """Return a connection that was used once and stays open."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    await ask(reader, writer, "health")
    return writer


async def read_all(port: int) -> None:
    """Read between the lines 'on' and 'off' of standard input; answer the first with how many connections there are."""
    loop = asyncio.get_running_loop()
    while (await loop.run_in_executor(None, sys.stdin.readline)).strip() == "on":
        seen = {"bytes": 0, "events": 0, "answers": 0}
        idle = [writer for _ in range(IDLE // 50) for writer in await asyncio.gather(*(rest(port) for _ in range(50)))]
        pages = [asyncio.create_task(follow(port, seen)) for _ in range(PAGES)]
        asking = [asyncio.create_task(poll(port, seen, place / ASKING)) for place in range(ASKING)]
        await asyncio.sleep(1.5)
        seen.update(bytes=0, events=0, answers=0)
        print("on", flush=True)
        await loop.run_in_executor(None, sys.stdin.readline)
        open_now = sum(not writer.transport.is_closing() for writer in idle)
        print(json.dumps({**seen, "idle": open_now}), flush=True)
        for task in (*pages, *asking):
            task.cancel()
        done = await asyncio.gather(*pages, *asking, return_exceptions=True)
        failed = [item for item in done if not isinstance(item, asyncio.CancelledError)]
        if failed:
            raise SystemExit(f"a reader ended: {failed[0]!r}")
        for writer in idle:
            writer.close()


class Readers:
    """The process of all readers of a gate."""

    def __init__(self, port: int) -> None:
        words = [sys.executable, __file__, "--readers", str(port)]
        self.process = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def say(self, word: str) -> str:
        """Say something to it, and return what it says."""
        pipes: Any = self.process
        pipes.stdin.write(f"{word}\n")
        pipes.stdin.flush()
        answer: str = pipes.stdout.readline().strip()
        if not answer:
            raise SystemExit("the readers failed")
        return answer

    def stop(self) -> None:
        """End it."""
        self.process.communicate(timeout=30)


# ---- measuring ---------------------------------------------------------------------------------------------------------------


def interval(ratios: Sequence[float]) -> str:
    """Return the geometric mean of ratios of pairs of blocks, with its 95 % interval."""
    logs = [math.log(ratio) for ratio in ratios]
    mean, wide = statistics.mean(logs), 0.0
    if len(logs) > 1:
        wide = float(student.ppf(0.975, len(logs) - 1)) * statistics.stdev(logs) / math.sqrt(len(logs))
    return f"{math.exp(mean):.2f} ({math.exp(mean - wide):.2f} to {math.exp(mean + wide):.2f})"


def quantile(times: Sequence[float], share: float) -> float:
    """Return a quantile in milliseconds."""
    return sorted(times)[int(share * (len(times) - 1))] * 1e3


def serve(folder: Path, store: str, port: int) -> Server:
    """Return a gate of one of the stores."""
    asked = ["--problem", str(folder / "problem.yaml"), "--store", store, "--name", GATE, "--host", "greedy"]
    return Server([sys.executable, "-m", "aegis", "serve", *asked, "--rate", "1000000", "--listen", f"127.0.0.1:{port}"], port)


def measure(folder: Path, opened: int, blocks: int, seconds: float) -> tuple[list[list[str]], dict[str, float]]:
    """Return a row for each figure, and what the readers have read in each second."""
    stores = {"a": str(folder / "few.sqlite"), "b": str(folder / "many.sqlite")}
    for side, count in (("a", FEW), ("b", opened)):
        began = time.monotonic()
        open_episodes(stores[side], count)
        print(f"{count:,} open episodes in {time.monotonic() - began:.0f} s", file=sys.stderr)
    ports = {side: free_port() for side in stores}
    servers = [serve(folder, stores[side], ports[side]) for side in stores]
    readers, read = Readers(ports["b"]), list[dict[str, int]]()
    rates: dict[str, list[float]] = {side: [] for side in stores}
    times: dict[str, list[list[float]]] = {side: [] for side in stores}
    try:
        for block in range(-1, blocks):  # the first block of each is not counted
            for side in ("a", "b"):
                if side == "b":
                    readers.say("on")
                rate, own = load([Caller(ports[side], side)], seconds)
                if side == "b":
                    read.append(json.loads(readers.say("off")))
                if block >= 0:
                    rates[side].append(rate)
                    times[side].append(own)
                slow = ", ".join(f"{quantile(own, share):.1f}" for share in (0.5, 0.99, 1.0))
                print(f"block {block + 1} {side}: {rate:.0f}/s; median, p99 and longest {slow} ms", file=sys.stderr)
        readers.stop()
    finally:
        readers.process.kill()
        for server in servers:
            server.stop()
    ratios = [b / a for a, b in zip(*rates.values(), strict=True)]
    rows = [["decisions/s", *(f"{statistics.median(rates[side]):.0f}" for side in stores), interval(ratios), "0.8"]]
    for share in (0.5, 0.99):
        each = {side: [quantile(own, share) for own in times[side]] for side in stores}
        both = [f"{quantile([one for own in times[side] for one in own], share):.1f}" for side in stores]
        ratios = [b / a for a, b in zip(*each.values(), strict=True)]
        rows.append([f"p{share * 100:.0f}, ms", *both, interval(ratios), "1.2" if share == 0.5 else ""])
    return rows, {name: statistics.mean(item[name] for item in read) / seconds for name in ("bytes", "events", "answers")} | {
        "idle": min(item["idle"] for item in read)
    }


def main() -> None:
    """Measure and record."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--open", type=int, default=100_000, help="open episodes of (b)")
    options.add_argument("--blocks", type=int, default=10)
    options.add_argument("--seconds", type=float, default=5.0)
    options.add_argument("--show", action="store_true", help="print, do not record")
    options.add_argument("--readers", type=int, help=argparse.SUPPRESS)
    chosen = options.parse_args()
    if chosen.readers:
        asyncio.run(read_all(chosen.readers))
        return
    with tempfile.TemporaryDirectory(prefix="aegis-readers-") as place:
        save_problem(WORLD.problem, Path(place) / "problem.yaml")
        rows, read = measure(Path(place), chosen.open, chosen.blocks, chosen.seconds)
    lines = [
        f"One controller on loopback, SQLite. (a): {FEW} open episodes, no reader. (b): {chosen.open:,} open episodes, {PAGES} "
        f"open pages, {ASKING} readers that ask `/v1/gate` every second, {IDLE:,} idle connections. {chosen.blocks} blocks of "
        f"{chosen.seconds:g} s each, in turn. Ratios of (b) to (a) with 95 % intervals over pairs of blocks.",
        "",
        *table(["", "(a)", "(b)", "ratio", "asked"], rows),
        "",
        f"Readers got {read['events']:.0f} events and {read['answers']:.0f} answers a second, {read['bytes'] / 1e3:.0f} kB; "
        f"at least {read['idle']:,} idle connections stayed open.",
    ]
    print("\n".join(lines))
    if not chosen.show:
        record(TITLE, "python benchmarks/service_readers.py", lines)


if __name__ == "__main__":
    main()
