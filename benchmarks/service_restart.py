"""Restart and failover of a live gate with a long journal: `python benchmarks/service_restart.py --records 1000000`.

A simulated plant fills the journal in this process, without HTTP and without waiting for the disk; episodes are counted by the
real counter and trainer, challengers are frozen and tested, and snapshots are made as the service makes them. Then: memory of
writer and trainer on the way, time and peak memory of a restart until the first decision is answered, with snapshots and
without, and the time that a hot standby needs once the writer is killed.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import numpy as np
import sqlalchemy as sa

from aegis.handover import HOSTS, GateSettings
from aegis.problem import Batch
from aegis.service import gate_writer
from aegis.service import trainer as trainer_module
from aegis.service.app import Service
from aegis.service.episode_counter import EpisodeCounter
from aegis.service.live_gate import LiveGate, internal_key
from aegis.service.live_state import CLOSED, DECISION, EPISODE, RESULTS
from aegis.service.schemas import Ask
from aegis.service.snapshot_writer import SnapshotWriter
from aegis.service.status import GateStatus
from aegis.service.store.database import Database
from aegis.service.store.journal import JournalEntry
from aegis.service.trainer import TrainerProcess, TrainerSetup, resume_trainer
from aegis.worlds import make_world
from results import record, table

TITLE = "Live gate: restart with a long journal"
WORLD = make_world("additive")
PULSE = 0.002  # seconds between two times that the lock of the gate is asked for
GATE, SEED, TOGETHER, EVERY = "additive", 3, 64, 20_000
SETTINGS = GateSettings(mode="shadow", generations=1, caps=(2.0,), upgrades=False)  # two challengers at a time


def open_live(store: str) -> tuple[LiveGate, GateStatus]:
    """Return a gate that does not wait for the disk, not started yet, and what follows it."""
    database = Database.at(store)
    sa.event.listen(database.engine, "connect", lambda connection, _: connection.execute("PRAGMA synchronous=OFF").close())
    if database.version() is None:
        database.upgrade()
    live = LiveGate(database, GATE, WORLD.problem, SETTINGS, SEED)
    return live, GateStatus(live)


def counter_of(live: LiveGate, store: str) -> EpisodeCounter:
    """Return the counter of a gate, with a trainer in a process of its own."""
    return EpisodeCounter(live, TrainerProcess(TrainerSetup(store, GATE, live.problem, HOSTS["greedy"](), SEED)))


def entries(live: LiveGate, batch: Batch, first: int) -> list[JournalEntry]:
    """Return what a control system would have led to: episodes opened, decided by the legacy, reported and closed."""
    rows: list[JournalEntry] = []
    outer, inner = (batch.levels[name] for name in WORLD.problem.names)
    names = WORLD.problem.names
    reward, outcome = batch.reward, batch.outcome
    for place in range(len(batch)):
        number, name = first + place, f"episode-{first + place}"
        start = {"number": number, "arm": "agent", "policies": {}, "version": "legacy"}
        rows.append(JournalEntry(EPISODE, {"id": name, "time": None}, key=internal_key("episode", name)))
        results = []
        for level, table_of, parent, own in (
            (names[0], outer, None, [place]),
            (names[1], inner, "outer", range(*np.searchsorted(inner.parent, [place, place + 1]).tolist())),
        ):
            spec = WORLD.problem.level(level)
            for row in own:
                decision = "outer" if parent is None else f"inner-{row}"
                chances = table_of.mu_full[row].tolist()  # type: ignore[index]
                body = {
                    "episode": name,
                    "id": decision,
                    "level": level,
                    "parent": parent,
                    "context": {item.name: float(table_of.context[item.name][row]) for item in spec.context},
                    "available": None,
                    "legacy": chances,
                    "chances": chances,
                    "action": int(table_of.action[row]),
                    "by": "legacy",
                    **start,
                }
                rows.append(JournalEntry(DECISION, body, number, f"{name}-{decision}", "0" * 64))
                if parent is not None:
                    value = None if outcome is None else float(outcome[row])
                    results.append(
                        {"episode": name, "decision": decision, "reward": float(reward[row]), "outcome": value, "guards": {}}  # type: ignore[index]
                    )
        rows.append(JournalEntry(RESULTS, {"items": results}, key=f"{name}-results", request="0" * 64))
        closed = {"episode": name, "missing": [], "abandoned": False, "incomplete": False}
        rows.append(JournalEntry(CLOSED, closed, number, f"{name}-close", "0" * 64))
    return rows


def fill(store: str, records: int, steps: int) -> list[list[str]]:
    """Fill a journal and return the memory of writer and trainer on the way."""
    live, _ = open_live(store)
    live.start()
    counter, snapshots = counter_of(live, store), SnapshotWriter(live, EVERY)
    rows, decisions, made, began = [], 0, 0, time.monotonic()
    while live.journal.last < records:
        batch = WORLD.episodes(live.state.started, TOGETHER, WORLD.legacy("uniform"), SEED)
        with live.changed:
            live._write(entries(live, batch, live.state.started + 1))
        while counter.once():
            pass
        decisions += len(batch) + batch.reward.size  # type: ignore[union-attr]
        snapshots._try(EVERY)
        if live.journal.last >= (made + 1) * records / steps:
            made += 1
            sizes = memory(os.getpid()), memory(counter.worker._process.pid)
            rows.append([f"{decisions:,}", f"{live.journal.last:,}", *(f"{size:.0f}" for size in sizes)])
            print(*rows[-1], f"{time.monotonic() - began:.0f} s", live.state.opened.freeze, "freezes", flush=True)
    counter.stop()  # no last snapshot: as if it were killed
    live.stop()
    live.database.close()
    return rows


def open_episodes(count: int) -> list[str]:
    """Return a row about a snapshot with many open episodes: its time, and how long others wait for the lock of the gate."""
    with tempfile.TemporaryDirectory(prefix="aegis-open-") as place:
        live, _ = open_live(str(Path(place) / "gate.sqlite"))
        live.start()
        for first in range(0, count, TOGETHER * 8):
            batch = WORLD.episodes(first, min(TOGETHER * 8, count - first), WORLD.legacy("uniform"), SEED)
            chosen = [item for item in entries(live, batch, first + 1) if item.kind == EPISODE or item.body.get("id") == "outer"]
            with live.changed:
                live._write(chosen)
        waits, going = list[float](), threading.Event()

        def wait() -> None:
            began = time.monotonic()
            while not going.wait(PULSE):
                with live.changed:
                    waits.append(time.monotonic() - began - PULSE)
                began = time.monotonic()

        thread = threading.Thread(target=wait)
        thread.start()
        began = time.monotonic()
        SnapshotWriter(live).write()
        seconds = time.monotonic() - began
        going.set()
        thread.join()
        size = Path(place, "gate.sqlite").stat().st_size / 2**20
        began = time.monotonic()
        again, _ = open_live(str(Path(place) / "gate.sqlite"))
        again.follow()
        loaded = time.monotonic() - began
        live.stop()
    waits.sort()
    row = [f"{count:,}", f"{seconds:.1f}", f"{waits[int(len(waits) * 0.99)] * 1e3:.0f}", f"{waits[-1] * 1e3:.0f}"]
    return [*row, f"{loaded:.1f}", f"{size:.0f}"]


def memory(process: int, what: str = "VmRSS") -> float:
    """Return the megabytes that a process holds."""
    for line in Path(f"/proc/{process}/status").read_text().splitlines():
        if line.startswith(what):
            return int(line.split()[1]) / 1024
    return 0.0


def ask(live: LiveGate) -> None:
    """Ask for one decision of an episode that stays open: one that is cut off would end the tests."""
    name = f"asked-{time.time_ns()}"
    live.open_episode(f"open-{name}", name)
    level = WORLD.problem.levels[0]
    legacy = {"distribution": [1 / level.actions.count] * level.actions.count}
    live.decide(f"ask-{name}", name, Ask(level=level.name, context={item.name: 0.1 for item in level.context}, legacy=legacy))


def part(what: str, store: str, snapshot: bool) -> dict[str, float]:
    """Do one part in a process of its own, and return how long it took and its peak memory."""
    if not snapshot:
        gate_writer.restore_newest = trainer_module.restore_newest = lambda *_: False  # type: ignore[assignment]
    began = time.monotonic()
    if what == "trainer":
        setup = TrainerSetup(
            store, GATE, LiveGate(Database.at(store), GATE, WORLD.problem, SETTINGS, SEED).problem, HOSTS["greedy"](), SEED
        )
        trainer, gate = resume_trainer(setup)
        ready = time.monotonic() - began
        while gate is not None and not trainer.audit_some(gate):
            pass
        return {"seconds": ready, "audited": time.monotonic() - began, "peak": peak()}
    live, _ = open_live(store)
    if what == "standby":
        service = Service(live, counter_of(live, store), standby=True)
        service.start()
        while not live.started:
            print("follows", live.journal.last, flush=True)
            time.sleep(0.02)
        ask(live)
        return {"answered": time.monotonic(), "peak": peak()}
    live.start()
    ask(live)
    if what == "writer":
        print("writer", flush=True)
        time.sleep(600)
    return {"seconds": time.monotonic() - began, "peak": peak()}


def peak() -> float:
    """Return the most megabytes that this process has held."""
    return memory(os.getpid(), "VmHWM")


def child(what: str, store: str, snapshot: bool = True) -> subprocess.Popen[str]:
    """Start a part in a process of its own."""
    words = [sys.executable, __file__, "--part", what, "--store", store, *([] if snapshot else ["--whole"])]
    return subprocess.Popen(words, stdout=subprocess.PIPE, text=True)


def finish(process: subprocess.Popen[str]) -> dict[str, float]:
    """Return what a part has measured."""
    out, _ = process.communicate()
    found: dict[str, float] = json.loads(out.strip().splitlines()[-1])
    return found


def failover(store: str) -> float:
    """Return the seconds from the kill of the writer to the first decision that the standby answers."""
    writer = child("writer", store)
    while writer.stdout is not None and "writer" not in writer.stdout.readline():
        pass
    standby, known = child("standby", store), 0
    while standby.stdout is not None and not known:
        known = int((standby.stdout.readline().split() or ["", "0"])[-1])
    time.sleep(2.0)
    killed = time.monotonic()
    writer.kill()
    writer.wait()
    return finish(standby)["answered"] - killed


def main() -> None:
    """Measure and record."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--records", type=int, default=1_000_000)
    options.add_argument("--steps", type=int, default=8)
    options.add_argument("--open", type=int, default=100_000, help="open episodes while a snapshot is made")
    options.add_argument("--store", help="a store that was filled before, or that is to be kept")
    options.add_argument("--show", action="store_true", help="print, do not record")
    options.add_argument("--part", help=argparse.SUPPRESS)
    options.add_argument("--whole", action="store_true", help=argparse.SUPPRESS)
    chosen = options.parse_args()
    if chosen.part:
        print(json.dumps(part(chosen.part, chosen.store, not chosen.whole)), flush=True)
        os._exit(0)
    with tempfile.TemporaryDirectory(prefix="aegis-restart-") as place:
        store, began = chosen.store or str(Path(place) / "gate.sqlite"), time.monotonic()
        held = fill(store, chosen.records, chosen.steps)
        filled, size = time.monotonic() - began, Path(store).stat().st_size / 2**20
        seconds = failover(store)
        rows = []
        for what, word in (("restart", "writer, first decision answered"), ("trainer", "trainer, ready to judge")):
            for snapshot in (True, False):
                found = finish(child(what, store, snapshot))
                audited = f"{found['audited']:.1f}" if "audited" in found else ""
                how = "newest snapshot" if snapshot else "whole journal"
                rows.append([word, how, f"{found['seconds']:.1f}", audited, f"{found['peak']:.0f}"])
    opened = [open_episodes(count) for count in (1000, chosen.open)]
    lines = [
        f"{chosen.records:,} records ({size:.0f} MB of SQLite, filled in {filled:.0f} s), a snapshot every {EVERY:,}, "
        f"{WORLD.problem.level('inner').actions.count} actions. "
        f"Killed, the writer is replaced by a hot standby that answers its first decision after **{seconds:.1f} s**.",
        "",
        *table(["start", "from", "seconds", "audited after, s", "peak memory, MB"], rows),
        "",
        *table(["decisions", "records", "writer, MB", "trainer, MB"], held),
        "",
        "*Lock*: how long a decision waits for the gate while a snapshot is made.",
        "",
        *table(["open episodes", "snapshot, s", "lock, 99 of 100, ms", "lock, longest, ms", "taken up, s", "store, MB"], opened),
    ]
    print("\n".join(lines))
    if not chosen.show:
        record(TITLE, f"python benchmarks/service_restart.py --records {chosen.records}", lines)


if __name__ == "__main__":
    main()
