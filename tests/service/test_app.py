"""The service as a whole: it becomes the writer once, stands by if it is asked to, and lets go."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from service_cases import make_live, make_service, play, played, quick_database, started, told

from aegis.errors import SettingError
from aegis.service import app
from aegis.service.episode_counter import EpisodeCounter
from aegis.service.http_errors import NotWriter, StoreUnavailable
from aegis.service.live_gate import LiveGate
from aegis.service.snapshot_writer import SnapshotWriter
from aegis.service.status import GateStatus
from aegis.service.store.database import Database
from aegis.service.store.journal import Journal


def test_a_second_start_does_nothing(file_database: Database) -> None:
    service = make_service(make_live(file_database))
    service.start()
    writer, last = service.live.state.writer, service.live.journal.last
    service.start()
    assert (service.live.state.writer, service.live.journal.last) == (writer, last)
    service.stop()
    assert not service.live.started


def test_without_standby_a_second_process_is_refused(file_database: Database) -> None:
    with started(file_database), pytest.raises(NotWriter, match="--standby"):
        make_service(make_live(file_database)).start()


def test_a_service_that_stands_by_takes_over(file_database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(app, "TRY", 0.01)
    second = make_service(make_live(file_database), standby=True)
    with started(file_database) as first:
        second.start()
        time.sleep(0.1)
        assert first.started and not second.live.started
    _wait(lambda: second.live.started)
    second.stop()


@pytest.mark.parametrize("error", [OSError(24, "Too many open files"), RuntimeError("can't start new thread")])
def test_a_failure_does_not_end_the_watch(
    file_database: Database, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, error: Exception
) -> None:
    monkeypatch.setattr(app, "TRY", 0.01)
    real, failures = LiveGate.start, list[float]()

    def start(live: LiveGate) -> None:
        if len(failures) < 3:
            failures.append(time.monotonic())
            raise error
        real(live)

    second = make_service(make_live(file_database), standby=True)
    with started(file_database):
        second.start()
        monkeypatch.setattr(LiveGate, "start", start)
        _wait(lambda: len(failures) == 3)
    _wait(lambda: second.live.started)
    second.stop()
    logged = [item for item in caplog.records if item.name == "aegis.service" and item.levelname == "ERROR"]
    assert len(logged) == 1 and logged[0].exc_info is not None and logged[0].exc_info[1] is error


def test_an_outage_of_the_store_is_logged_when_it_begins_and_when_it_ends(
    file_database: Database, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(app, "TRY", 0.01)
    real, away = LiveGate.check_store, threading.Event()

    def check_store(live: LiveGate) -> None:
        if away.is_set():
            raise StoreUnavailable("database or disk is full")
        real(live)

    monkeypatch.setattr(LiveGate, "check_store", check_store)
    service = make_service(make_live(file_database))
    service.start()
    away.set()
    _wait(lambda: bool(warnings(caplog)))
    time.sleep(0.1)
    away.clear()
    _wait(lambda: len(warnings(caplog)) == 2)
    service.stop()
    assert "database or disk is full" in warnings(caplog)[0] and "works again, after" in warnings(caplog)[1]
    assert not service.demoted


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [item.message for item in caplog.records if item.name == "aegis.service" and item.levelname == "WARNING"]


def test_a_gate_whose_episodes_cannot_be_counted_is_not_taken_over(
    file_database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(app, "TRY", 0.01)
    second = make_service(make_live(file_database), standby=True)
    attempts = list[bool]()

    def start(_: EpisodeCounter) -> None:
        attempts.append(second.live.started)
        if len(attempts) < 3:
            raise RuntimeError("can't start new thread")

    with started(file_database):
        second.start()
        monkeypatch.setattr(type(second.counting), "start", start)
    _wait(lambda: len(attempts) == 3)
    assert attempts == [True] * 3 and second.live.started
    second.stop()


def _wait(until: Callable[[], bool]) -> None:
    end = time.monotonic() + 20.0
    while not until() and time.monotonic() < end:
        time.sleep(0.01)
    assert until()


def test_a_service_that_stands_by_knows_what_the_writer_writes(
    file_database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(app, "TRY", 0.01)
    again = quick_database(tmp_path / "gate.sqlite")
    second = make_service(make_live(again), standby=True)

    with started(file_database) as first:
        GateStatus(first)
        for number in range(20):
            play(first, f"e{number}")
        at = SnapshotWriter(first).write()
        read = list[int]()
        real = Journal.walk
        monkeypatch.setattr(Journal, "walk", lambda journal, after=0: read.append(after) or real(journal, after))
        second.start()
        _wait(lambda: second.live.journal.last == first.journal.last)
        assert read[0] == at  # from the snapshot on
        for number in range(20, 30):
            play(first, f"e{number}")
        _wait(lambda: second.live.journal.last == first.journal.last)
        assert told(second.live) == told(first)
        assert second.live.state.blocks == first.state.blocks
        last, read[:] = first.journal.last, []
    _wait(lambda: second.live.started)
    assert set(read) == {last}  # taking over takes the last records only, here none
    second.stop()


def test_a_gate_of_another_problem_does_not_start(file_database: Database) -> None:
    played(file_database, 1)
    service = make_service(make_live(file_database, delta=0.01))
    with pytest.raises(SettingError, match="was opened with another settings"):
        service.start()
    with started(file_database):  # the lease was given back
        pass
