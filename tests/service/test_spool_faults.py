"""A spool that is locked, damaged or on a full disk: the plant gets its action in time, and nothing that can be read is lost."""

from __future__ import annotations

import json
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from client_cases import SLACK, asked, damage
from postgres_server import free_port
from service_cases import served

from aegis.service.app import Service
from aegis.service.client import spool as spool_module
from aegis.service.client.gate_client import Client
from aegis.service.client.spool import Spool

pytestmark = pytest.mark.usefixtures("quick_retries")


@pytest.fixture
def away() -> str:
    """Return the address of a gate that is not there."""
    return f"http://127.0.0.1:{free_port()}"


@pytest.fixture
def lock(tmp_path: Path) -> Iterator[sqlite3.Connection]:
    """Yield a connection of another process to the spool."""
    connection = sqlite3.connect(tmp_path / "spool", isolation_level=None, check_same_thread=False)
    yield connection
    connection.close()


def test_a_locked_spool_delays_no_decision(away: str, tmp_path: Path, lock: sqlite3.Connection) -> None:
    gate = Client(away, timeout=0.05, spool=tmp_path / "spool")
    asked(gate)
    lock.execute("BEGIN EXCLUSIVE")
    started = time.monotonic()
    assert [asked(gate).by for _ in range(5)] == ["fallback"] * 5
    assert time.monotonic() - started < 10 * gate.timeout + SLACK  # a lock is waited for during 5 s, each time
    lock.execute("COMMIT")
    for _ in range(200):
        if gate.undelivered == 12:  # six episodes, each with its decision: all are written now
            break
        time.sleep(0.05)
    assert gate.undelivered == 12
    gate.close(0.0)
    assert len(Spool(tmp_path / "spool")) == 12


def test_a_locked_spool_does_not_delay_reports_and_ends(away: str, tmp_path: Path, lock: sqlite3.Connection) -> None:
    gate = Client(away, timeout=0.05, spool=tmp_path / "spool")
    lock.execute("BEGIN EXCLUSIVE")
    started = time.monotonic()
    episode = gate.open_episode("e")
    episode.report("dose-1", 1.0)
    episode.close()
    assert gate.undelivered >= 1 and gate.refused == []
    assert time.monotonic() - started < 6 * gate.timeout + SLACK
    lock.execute("COMMIT")
    gate.close(0.0)


def test_a_locked_spool_does_not_delay_the_end_of_a_client(away: str, tmp_path: Path, lock: sqlite3.Connection) -> None:
    gate = Client(away, timeout=0.05, spool=tmp_path / "spool")
    lock.execute("BEGIN EXCLUSIVE")
    asked(gate)
    started = time.monotonic()
    gate.close(0.1)
    assert time.monotonic() - started < 0.1 + 3 * gate.timeout + SLACK  # a lock is waited for during 5 s, and a delivery 10 s
    lock.execute("COMMIT")
    for _ in range(200):
        if lock.execute("SELECT count(*) FROM parcels").fetchone()[0] == 2:  # the episode and its decision
            break
        time.sleep(0.05)
    assert lock.execute("SELECT count(*) FROM parcels").fetchone()[0] == 2


CLOSES = """
import atexit, logging, sys, time
from aegis.service.client import spool
from aegis.service.client.gate_client import Client

url, path, lock_seconds, reports = sys.argv[1:]
logging.disable()
spool.LOCK_SECONDS = float(lock_seconds)
waits, save = [], spool.Spool._save

def timed(self):
    began = time.monotonic()
    try:
        return save(self)
    finally:
        waits.append(time.monotonic() - began)

spool.Spool._save = timed
atexit.register(lambda: print(sum(wait > spool.LOCK_SECONDS / 2 for wait in waits), flush=True))
gate = Client(url, timeout=0.05, spool=path)
print("open", flush=True)
sys.stdin.readline()
episode = gate.open_episode("e")
for place in range(int(reports)):
    episode.report(f"dose-{place}", 1.0)
gate.close(0.0)
waits.clear()
print("closed", flush=True)
"""
REPORTS = 12


@pytest.mark.parametrize(("released", "lock_seconds"), [(False, 1.0), (True, 30.0)])
def test_a_process_ends_after_few_waits_for_a_lock(
    away: str, tmp_path: Path, lock: sqlite3.Connection, released: bool, lock_seconds: float
) -> None:
    """One wait may be under way when the client is closed; without a limit for all there is one for each report."""
    command = [sys.executable, "-c", CLOSES, away, str(tmp_path / "spool"), str(lock_seconds), str(REPORTS)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None and process.stdout is not None
        assert process.stdout.readline() == "open\n"
        lock.execute("BEGIN EXCLUSIVE")
        process.stdin.write("\n")
        process.stdin.flush()
        assert process.stdout.readline() == "closed\n"
        if released:
            lock.execute("COMMIT")
        assert int(process.stdout.readline()) <= 3
        assert process.wait(60) == 0
    if not released:
        lock.execute("COMMIT")
    kept = [json.loads(body) for (body,) in lock.execute("SELECT body FROM parcels ORDER BY number")]
    decisions = [item["decision"] for body in kept for item in body.get("items", ())]
    assert decisions == ([f"dose-{place}" for place in range(REPORTS)] if released else [])


def test_a_file_that_is_no_spool_is_set_aside(away: str, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "spool").write_bytes(b"something else" * 500)
    gate = Client(away, timeout=0.1, spool=tmp_path / "spool")
    assert asked(gate).by == "fallback"
    assert gate.undelivered == 2
    gate.close(0.0)
    (aside,) = [path for path in tmp_path.iterdir() if ".damaged-" in path.name]
    assert aside.read_bytes().startswith(b"something else") and "is damaged" in caplog.text


def test_a_spool_that_is_damaged_while_it_is_used(service: Service, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    port = free_port()
    gate = Client(f"http://127.0.0.1:{port}", timeout=0.1, spool=tmp_path / "spool", seed=1)
    first = asked(gate, name="first")
    damage(gate.spool)
    second = asked(gate, name="second")
    assert {first.by, second.by} == {"fallback"}
    gate.timeout = 10.0
    with served(service, port=port):
        assert gate.flush(30)
        assert asked(gate, name="third").by == "legacy"
        gate.close()
    assert "is damaged" in caplog.text and "third" in service.live.state.trees


def test_what_can_be_read_of_a_damaged_spool_is_delivered(tmp_path: Path) -> None:
    spool = Spool(tmp_path / "spool")
    for name in "abc":
        spool.put("/v1/results", name, {"items": []}, name)
    spool.choose("a", "dose-1", None)
    error = sqlite3.DatabaseError("database disk image is malformed")
    error.sqlite_errorcode = sqlite3.SQLITE_CORRUPT
    spool._set_aside(error)
    assert len(spool) == 3 and [item.id for item in spool.choices()] == []  # no open episode has one
    assert [item.key for item in (spool.first(), spool.first("c")) if item] == ["a", "c"]
    spool.close()


def test_episodes_that_were_open_when_a_spool_was_damaged_stay_incomplete(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    spool = Spool(tmp_path / "spool")
    for name in ("open", "closed", "done"):
        spool.open(name)
    for name in ("closed", "done"):
        spool.put(f"/v1/episodes/{name}/close", name, {}, name)
        spool.forget(name)
    for parcel in (spool.first("done"),):
        assert parcel is not None
        spool.arrived(parcel)
    spool.put("/v1/results", "lost", {}, "open")
    damage(spool)
    with pytest.raises(sqlite3.Error):
        len(spool)
    assert "closed as incomplete: 'closed', 'open'" in caplog.text
    for _ in range(2):
        assert [spool.is_incomplete(name) for name in ("open", "closed", "done", "new")] == [True, True, False, False]
        (close,) = [spool.first()]  # of the rest nothing can be read
        assert close is not None and (close.key, len(spool)) == ("closed", 1)
        spool.close()
        spool = Spool(tmp_path / "spool")
    assert (spool.open("open"), spool.open("new"), spool.is_incomplete("new")) == (1, 0, False)
    damage(spool)
    with pytest.raises(sqlite3.Error):
        len(spool)
    assert all(spool.is_incomplete(name) for name in ("open", "closed", "new"))
    spool.close()


def test_what_the_gate_refused_survives_a_damaged_spool(tmp_path: Path) -> None:
    spool = Spool(tmp_path / "spool")
    spool.open("e")
    spool.choose("e", "dose-1", {"action": 1.0})
    spool.put("/v1/results", "no", {"items": []}, "e")
    spool.put("/v1/results", "yes", {"items": []}, "e")
    parcel = spool.first()
    assert parcel is not None
    spool.refuse(parcel, "422: no")
    spool._set_aside(sqlite3.DatabaseError("malformed"))
    assert ([item.why for item in spool.refused()], len(spool)) == (["422: no"], 1)
    assert [item.id for item in spool.choices("e")] == ["dose-1"]
    spool.close()


def test_a_request_under_way_when_a_spool_is_damaged_takes_no_other_along(tmp_path: Path) -> None:
    spool = Spool(tmp_path / "spool")
    for name in "abc":
        spool.put("/v1/results", name, {}, "e")
    parcel = spool.first()
    assert parcel is not None
    spool.arrived(parcel)
    parcel = spool.first()
    assert parcel is not None and (parcel.number, parcel.key) == (2, "b")
    spool._set_aside(sqlite3.DatabaseError("malformed"))  # 'c' has this number now
    spool.arrived(parcel)
    keys = [row[0] for row in spool._safe.execute("SELECT key FROM parcels ORDER BY number")]
    assert keys == ["b", "c"]  # one that was delivered is delivered again, under its own key
    spool.close()


def test_a_spool_that_is_found_damaged_does_not_know_what_was_open(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "spool").write_bytes(b"something else" * 500)
    spool = Spool(tmp_path / "spool")
    assert "it is not known which were open" in caplog.text
    spool.open("first")
    spool.close()
    spool = Spool(tmp_path / "spool")
    spool.open("second")
    spool.put("/v1/episodes/first/close", "key", {}, "first")
    spool.forget("first")
    spool.open("third")
    spool.close()
    spool = Spool(tmp_path / "spool")
    assert [spool.is_incomplete(name) for name in ("first", "second", "third")] == [True, True, False]
    spool.open("fourth")
    assert not spool.is_incomplete("fourth")
    spool.close()


def test_a_damaged_spool_is_taken_over_once_also_by_the_next_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    spool = Spool(tmp_path / "spool")
    spool.open("e")
    spool.put("/v1/episodes/e/overruled", "key", {}, "e")
    with monkeypatch.context() as context:
        context.setattr(spool_module, "_connection", _full_disk)
        spool._set_aside(sqlite3.DatabaseError("malformed"))  # no new file can be made
        assert (len(spool), spool.is_incomplete("e")) == (1, True)
    spool._hang_up()  # it ends, and what was in memory is lost
    for _ in range(2):
        spool = Spool(tmp_path / "spool")
        assert (len(spool), spool.is_incomplete("e"), spool._opened) == (1, True, {"e": 1})
        spool.close()


def test_writes_that_are_missing_at_the_end_make_open_episodes_incomplete(tmp_path: Path) -> None:
    spool = Spool(tmp_path / "spool")
    spool.open("e")
    kept = {name: (tmp_path / name).read_bytes() for name in ("spool", "spool-wal")}
    spool.close()
    for name, content in kept.items():  # as after a kill
        (tmp_path / name).write_bytes(content)
    again = Spool(tmp_path / "spool")
    assert not again.is_incomplete("e")
    again.open("f")
    kept = {name: (tmp_path / name).read_bytes() for name in kept}
    again.close()
    for name, content in kept.items():
        (tmp_path / name).write_bytes(content)
    with (tmp_path / "spool-wal").open("r+b") as file:
        file.seek(-100, 2)
        file.write(b"\xff" * 100)
    last = Spool(tmp_path / "spool")
    last.open("f")
    assert last.is_incomplete("e") and last.is_incomplete("f")
    last.close()


def _full_disk(*_: Any) -> Any:
    error = sqlite3.OperationalError("database or disk is full")
    error.sqlite_errorcode = sqlite3.SQLITE_FULL
    raise error


def test_a_disk_that_is_full_at_the_start(
    away: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    real = spool_module._connection
    monkeypatch.setattr(spool_module, "_connection", _full_disk)
    gate = Client(away, timeout=0.1, spool=tmp_path / "spool")
    monkeypatch.setattr(spool_module, "_connection", real)
    assert asked(gate).by == "fallback" and gate.undelivered == 2
    gate.close(0.0)
    assert "kept in memory until this process ends" in caplog.text


def test_an_outage_is_a_warning_once(away: str, service: Service, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    gate = Client(away, timeout=0.2, spool=tmp_path / "spool")
    caplog.set_level("INFO", "aegis.client")
    for _ in range(3):
        asked(gate)
    levels = [record.levelname for record in caplog.records if "the legacy decides" in record.message]
    assert levels == ["WARNING", "INFO", "INFO"]
    gate.timeout = 10.0
    with served(service, port=int(away.rsplit(":", 1)[1])):
        assert gate.flush(30)
        time.sleep(0.2)
        assert asked(gate).by == "legacy"
        gate.close()
    assert [record.levelname for record in caplog.records if "answers again" in record.message] == ["WARNING"]
