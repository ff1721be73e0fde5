"""Makes the store of release 0.1 that `test_old_store.py` upgrades; run with the code and the test helpers of that release.

    git archive cd66122^ src tests/service | tar -x -C OLD
    PYTHONPATH=OLD/src:OLD/tests/service python make_store.py FOLDER

It is not run by the tests.
"""

from __future__ import annotations

import dataclasses
import gzip
import itertools
import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import service_cases
from aegis.service.export import export
from aegis.service.live import Live
from aegis.service.tokens import make_token, revoke_token
from aegis.service.wire import Ask, Report
from service_cases import (
    GATE,
    SEED,
    count_all,
    counting_here,
    dose,
    key,
    play,
    recipe,
    result,
    run_plant,
    small_plant,
    small_problem,
    started,
)

from aegis.handover import GateSettings
from aegis.service.store import Database, Journal
from aegis.service.store.backup import backup

service_cases._keys = itertools.count(1_000_000)  # not those of the tests that go on with the store
GATES = (GATE, "small", "asked")
LIVE = {"mode": "live", "first": 8, "caps": (2.0,), "patience": 1.0}


def plain(value: Any) -> Any:
    """Return a value as plain data, dataclasses by the names of their fields."""
    if dataclasses.is_dataclass(value):
        return {item.name: plain(getattr(value, item.name)) for item in dataclasses.fields(value)}
    if isinstance(value, np.ndarray):
        return plain(value.tolist())
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, Mapping):
        return {str(name): plain(item) for name, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    if isinstance(value, (set, frozenset)):
        return sorted(plain(item) for item in value)
    if value is None or isinstance(value, (str, int, float, bool)):
        return value
    return repr(value)


def known(live: Live) -> dict[str, Any]:
    """Return all that a gate knows."""
    state = live.state
    names = ("seed", "gate", "trees", "numbers", "started", "changed", "sealed", "silent", "writer")
    return {**{name: plain(getattr(state, name)) for name in names}, "last": live.journal.last, "head": live.journal.head}


def inner(name: str, parent: str = "m") -> Ask:
    return Ask(level="inner", id=name, parent=parent, context={"Q": 0.3}, legacy={"distribution": [0.2] * 5})


def meta() -> Ask:
    return Ask(level="meta", id="m", context={"T": 0.1}, legacy={"distribution": [0.2, 0.5, 0.3]})


def make_plant(database: Database, states: dict[str, Any]) -> None:
    """A gate that hands its inner level over, tests the outer one, and has open episodes of every kind."""
    plant = small_plant()
    with started(database, plant.problem, **LIVE) as live:
        counting, number = counting_here(live), 0
        while not live.state.opened.deployed:
            run_plant(plant, live, number, 1, counting)
            number += 1
            assert number < 150
        run_plant(plant, live, number, 6, counting)
        live.report(key(), [Report(episode=next(iter(first_ids(live))), decision="inner-2", reward=0.25, outcome=0.5)])  # late
        live.open_episode("cut", "cut")  # overruled by the plant, counted as no evidence
        live.decide(key(), "cut", meta())
        live.overrule(key(), "cut", inner("i"), -1.0, explored=True)
        live.report(key(), [Report(episode="cut", decision="i", reward=0.5, outcome=0.5)])
        live.close(key(), "cut")
        count_all(counting)
        run_plant(plant, live, number + 6, 5, counting)
        live.open_episode("missing", "missing")
        live.decide(key(), "missing", meta())
        live.decide(key(), "missing", inner("i"))
        live.close(key(), "missing", abandoned=True)
        count_all(counting)
        # Open: holds up the two behind it; one has a result, one is settled, one has no decision yet.
        live.open_episode("open one", "one")
        live.decide("decide one", "one", meta())
        live.open_episode("open two", "two")
        live.decide(key(), "two", meta())
        live.decide(key(), "two", inner("i"))
        live.report("report two", [Report(episode="two", decision="i", reward=0.125, outcome=0.5)])
        live.open_episode("open three", "three")
        live.decide(key(), "three", meta())
        live.decide(key(), "three", inner("i"))
        live.report(key(), [Report(episode="three", decision="i", reward=0.75, outcome=0.5)])
        live.close(key(), "three")
        live.open_episode("open four", "four")
        states[live.name] = known(live)
        answers = states["answers"] = {}
        answers["decide one"] = live.decide("decide one", "one", meta())
        answers["open two"] = live.open_episode("open two", "two")
        answers["report two"] = live.report("report two", [Report(episode="two", decision="i", reward=0.125, outcome=0.5)])


def first_ids(live: Live) -> list[str]:
    return [item.body["id"] for item in Journal(live.database, live.name).read() if item.kind == "episode"][:1]


def make_small(database: Database, states: dict[str, Any]) -> None:
    """A gate with masks, categories and guards, which operators have paused and resumed."""
    live = Live(database, "small", small_problem(), GateSettings(mode="approve", delta=0.1), SEED)
    live.start()
    try:
        counting = counting_here(live)
        for number in range(12):
            play(live, f"e{number}", reward=float(number % 7))
            count_all(counting)
        live.say(key(), "pause", "ann", "cleaning")
        play(live, "paused")
        count_all(counting)
        live.say(key(), "resume", "ann", "clean")
        live.open_episode(key(), "broken")  # closed and then cut by a late decision
        live.decide(key(), "broken", Ask(**recipe(available=[True, True, False], legacy={"distribution": [0.6, 0.4, 0.0]})))
        live.decide(key(), "broken", Ask(**dose()))
        live.close(key(), "broken")
        try:
            live.decide(key(), "broken", Ask(**dose(id="more")))
        except Exception as error:
            print(error)
        live.report(key(), [Report(**result("broken"))])
        live.open_episode(key(), "undrawn")
        live.decide(key(), "undrawn", Ask(**recipe()))
        live.overrule(key(), "undrawn", Ask(**dose()), 0.0, explored=False)
        states[live.name] = known(live)
    finally:
        live.stop()


def make_asked(database: Database, states: dict[str, Any]) -> None:
    """A gate whose operator approved a flip, gave the level back within an open episode, and went into shadow mode."""
    plant = small_plant()
    live = Live(database, "asked", plant.problem, GateSettings(**{**LIVE, "mode": "approve", "upgrades": False}), SEED)
    live.start()
    try:
        counting, number = counting_here(live), 0
        while not live.state.opened.waiting:
            run_plant(plant, live, number, 1, counting)
            number += 1
            assert number < 150
        live.audit = None
        live.say("approve", "approve", "ann", "looks well", "inner", live.state.opened.waiting[0].challenge)
        run_plant(plant, live, number, 2, counting)
        live.open_episode(key(), "given back")
        live.decide(key(), "given back", meta())
        live.decide(key(), "given back", inner("i"))
        live.say(key(), "revert", "ann", "an inspection", "inner")
        live.say(key(), "shadow", "ann", "for a while")
        states[live.name] = known(live)
    finally:
        live.stop()


def main(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / "gate.sqlite"
    file.unlink(missing_ok=True)
    database = Database.at(file)
    database.upgrade()
    make_token(database, "reactor", "controller")
    make_token(database, "gone", "viewer")
    revoke_token(database, "gone")
    states: dict[str, Any] = {}
    make_plant(database, states)
    make_small(database, states)
    make_asked(database, states)
    states["exported"] = {gate: export(database, gate, folder / f"export-{gate}") for gate in GATES}
    for gate in GATES:
        states["exported"][gate]["log"] = pq.read_table(folder / f"export-{gate}" / "log.parquet").to_pydict()
    print(backup(database, folder / "backup.jsonl.gz"), "rows")
    with gzip.GzipFile(folder / "known.json.gz", "wb", mtime=0) as out:
        out.write(json.dumps(states, sort_keys=True, default=str).encode())
    database.close()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
