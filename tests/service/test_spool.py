"""The spool: what could not be delivered is kept, in order, through restarts and full disks."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest
from client_cases import TIMEOUT, asked, doses
from postgres_server import free_port
from service_cases import ALL, LEGACY, RECIPE, records, served

from aegis.service.app import Service
from aegis.service.auth import make_token
from aegis.service.client.gate_client import Client
from aegis.service.client.spool import KeptChoice, Spool
from aegis.service.store.database import Database


def test_what_was_kept_is_delivered_once_and_in_order(service: Service, tmp_path: Path) -> None:
    port = free_port()
    gate = Client(f"http://127.0.0.1:{port}", timeout=TIMEOUT, spool=tmp_path / "spool")
    made = {name: doses(gate, name) for name in ("a", "b")}
    assert all(choice.by == "fallback" for choices in made.values() for choice in choices)
    assert gate.undelivered == 2 * (1 + 4 + 3 + 1)
    with served(service, port=port):
        assert gate.flush(30)
        gate.close()
    kinds = [item.kind for item in records(service.live)][2:]
    assert kinds == ["episode", "keyed", "overruled", *["overruled", "results"] * 3, "closed"] * 2
    for name, choices in made.items():
        tree = service.live.state.trees[name]
        assert list(tree.decisions) == [choice.id for choice in choices]
        assert tree.settled(service.live.problem)
        assert all(item.overruled for item in tree.decisions.values())
        assert tree.arm == "agent"  # drawn by the legacy, with its own probabilities


KILLED = """
import sys
from aegis.service.client.gate_client import Client
gate = Client(sys.argv[1], timeout=0.1, spool=sys.argv[2])
episode = gate.open_episode("killed")
choice = episode.decide("recipe", {"task": "easy"}, {"distribution": [0.5, 0.3, 0.2], "taken": "fast"}, available=[True] * 3)
print(choice.by, flush=True)
import time
time.sleep(600)
"""


def test_what_a_killed_client_left_is_delivered_by_the_next(service: Service, tmp_path: Path) -> None:
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    command = [sys.executable, "-c", KILLED, url, str(tmp_path / "spool")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline().strip() == "fallback"
        os.kill(process.pid, signal.SIGKILL)
    with served(service, port=port), Client(url, spool=tmp_path / "spool") as gate:
        assert gate.flush(30)
        assert list(service.live.state.trees["killed"].decisions) == ["recipe-1"]
    assert [item.kind for item in records(service.live)][2:] == ["episode", "keyed", "overruled"]


def test_refused_parcels_are_kept_and_listed(service: Service, tmp_path: Path) -> None:
    with served(service) as http, Client(str(http.base_url), timeout=10, spool=tmp_path / "spool") as gate:
        episode = gate.open_episode("e")
        outer = episode.decide("recipe", RECIPE, LEGACY, available=ALL)
        inner = episode.decide("dose", {"temperature": 1.0}, LEGACY, outer)
        episode.report(inner, 99.0, guards={"scrap": 0.5})
        episode.report(inner, 4.0, guards={"scrap": 0.5})
        episode.close()
        assert gate.flush(30)
        (refusal,) = gate.refused
        assert (refusal.path, refusal.episode, refusal.body["items"][0]["reward"]) == ("/v1/results", "e", 99.0)
        assert refusal.why.startswith("422: item 0: reward")
    assert service.live.state.trees["e"].results[inner.id].reward == 4.0
    again = Spool(tmp_path / "spool")
    assert (len(again), len(again.refused())) == (0, 1)
    again.close()


def test_a_wrong_token_keeps_everything(service: Service, file_database: Database, tmp_path: Path) -> None:
    secret = make_token(file_database, "controller", "controller")
    with served(service) as http:
        url = str(http.base_url)
        with Client(url, "aegis_wrong", timeout=TIMEOUT, spool=tmp_path / "spool") as gate:
            assert asked(gate, name="e").by == "fallback"
            assert not gate.flush(0.5)
            gate._away_until = 0.0
            gate.spool.waits = lambda _: False  # type: ignore[method-assign]
            assert gate._decide("e", {"level": "recipe", "id": "r", "legacy": {"taken": "fast"}}).by == "fallback"
            parcel = gate.spool.first()
            assert parcel is not None
            assert gate.spool.refused() == []
            gate.close(0.0)
        with Client(url, secret, timeout=10, spool=tmp_path / "spool") as gate:
            assert gate.flush(30)
            assert len(gate.spool.refused()) == 1  # the question above lacks its context
    assert list(service.live.state.trees["e"].decisions) == ["recipe-1"]


def test_a_spool_that_cannot_be_written(tmp_path: Path) -> None:
    from aegis.errors import OutputError

    (tmp_path / "file").write_text("x")
    with pytest.raises(OutputError, match="spool"):
        Spool(tmp_path / "file" / "spool")


def test_a_full_disk_stops_no_plant(
    service: Service, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    port, full, real = free_port(), threading.Event(), Spool._writing

    def writing(spool: Spool, connection: Any = None) -> Any:
        if full.is_set():
            raise sqlite3.OperationalError("database or disk is full")
        return real(spool, connection)

    monkeypatch.setattr(Spool, "_writing", writing)
    gate = Client(f"http://127.0.0.1:{port}", timeout=TIMEOUT, spool=tmp_path / "spool")
    full.set()
    made = doses(gate, "e")
    assert [choice.by for choice in made] == ["fallback"] * 4
    assert gate.undelivered == 9
    assert "in memory only" in caplog.text
    full.clear()
    with served(service, port=port):
        assert gate.flush(30)
        gate.close()
    assert list(service.live.state.trees["e"].decisions) == [choice.id for choice in made]


def test_what_somebody_waits_for_is_delivered_first(tmp_path: Path) -> None:
    spool = Spool(tmp_path / "spool")
    for name in "abc":
        spool.put("/v1/results", name, {}, name)
    found = [spool.first("c"), spool.first("d"), spool.first()]
    assert [None if item is None else item.key for item in found] == ["c", "a", "a"]
    spool.close()


def test_parcels_leave_in_order_and_refused_ones_stay(tmp_path: Path) -> None:
    spool = Spool(tmp_path / "spool")
    for place in range(3):
        spool.put(f"/{place}", f"key-{place}", {"n": place}, "e")
    first = spool.first()
    assert first is not None and (first.path, first.key, first.body, len(spool)) == ("/0", "key-0", {"n": 0}, 3)
    spool.arrived(first, [("/after", "key-3", {}, "e")])
    second = spool.first()
    assert second is not None
    spool.refuse(second, "422: no")
    assert [(item.path, item.why) for item in spool.refused("e")] == [("/1", "422: no")]
    assert spool.refused("f") == []
    spool.close()
    again = Spool(tmp_path / "spool")
    paths = []
    while (parcel := again.first()) is not None:
        paths.append(parcel.path)
        again.arrived(parcel)
    assert paths == ["/2", "/after"]
    assert not again.waits("e")
    again.close()


def test_choices_of_open_episodes_survive_a_restart(tmp_path: Path) -> None:
    spool = Spool(tmp_path / "spool")
    assert spool.open("e") == 0
    spool.choose("e", "d1", None)
    spool.choose("e", "d2", None)
    spool.choose("e", "d1", {"action": 1.0})
    spool.learn("problem", {"actions": {}})
    spool.close()
    again = Spool(tmp_path / "spool")
    assert (again.open("e"), again.going("e"), again.going("f")) == (1, True, False)
    assert again.choices("e") == [KeptChoice("e", "d1", {"action": 1.0}, False), KeptChoice("e", "d2", None, False)]
    assert (again.fact("problem"), again.fact("other")) == ({"actions": {}}, None)
    again.forget("e")
    assert (again.choices("e"), again.open("e")) == ([], 0)
    again.close()
