"""One writer for each gate: the lease, who takes over, and that a writer who lost it cannot write."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import sqlalchemy as sa
from postgres_server import Server
from served_gate import Helper, Served
from service_cases import (
    GATE,
    SEED,
    SMALL,
    count_records,
    dose,
    key,
    make_live,
    make_service,
    play,
    post,
    recipe,
    served,
    small_problem,
    started,
)

from aegis.errors import SettingError
from aegis.handover import GateSettings
from aegis.problem import parse_problem
from aegis.service.app import Service
from aegis.service.client.transport import GateConnection
from aegis.service.gate_writer import GateWriter
from aegis.service.http_errors import Conflict, NotWriter, ServiceError, StoreUnavailable
from aegis.service.integrity import rekey_gate
from aegis.service.live_gate import LiveGate
from aegis.service.schemas import Ask
from aegis.service.store import lease as lease_module
from aegis.service.store.database import Database
from aegis.service.store.journal import Journal, JournalRecord
from aegis.service.store.journal_keys import make_journal_key
from aegis.service.store.lease import Lease

HOLDER = """
import sys, time
from aegis.service.store.database import Database
from aegis.service.store.lease import Lease
lease = Lease(Database.at(sys.argv[1]), sys.argv[2])
print(lease.take(), flush=True)
time.sleep(600)
"""


@contextlib.contextmanager
def second(database: Database) -> Iterator[Database]:
    """Yield the same store as another process would open it."""
    found = Database(database.url, Database.at(database.url.render_as_string(hide_password=False)).engine)
    try:
        yield found
    finally:
        found.close()


def lose(live: LiveGate) -> None:
    """Take the lease away from a gate without its noticing, as a broken connection does."""
    lease = live.lease
    if live.database.file is not None:
        assert lease._file is not None
        os.close(lease._file)
        lease._file = None
        return
    assert lease._connection is not None
    number = lease._connection.execute(sa.text("SELECT pg_backend_pid()")).scalar()
    with live.database.engine.begin() as connection:
        connection.execute(sa.text("SELECT pg_terminate_backend(:number)"), {"number": number})


# ---- the lease ---------------------------------------------------------------------------------------------------------------


def test_one_holds_the_lease(database: Database) -> None:
    with second(database) as again:
        one, two, other = Lease(database, GATE), Lease(again, GATE), Lease(again, "other")
        assert [one.take(), one.take(), two.take(), two.take(), other.take()] == [True, True, False, False, True]
        one.let_go()
        one.let_go()
        assert [two.take(), one.take()] == [True, False]
        two.let_go()
        other.let_go()
        assert one.take()
        one.let_go()


def test_the_lease_of_a_killed_process_is_free(store: str, database: Database) -> None:
    lease = Lease(database, GATE)
    command = [sys.executable, "-c", HOLDER, store, GATE]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline().strip() == "True"
        assert not lease.take()
        holder.send_signal(signal.SIGKILL)
        holder.wait()
    end = time.monotonic() + 30
    while not lease.take():  # PostgreSQL notices a moment later
        assert time.monotonic() < end
        time.sleep(0.05)
    lease.let_go()


@pytest.mark.parametrize(("call", "error"), [("os.open", 24), ("os.open", 13), ("fcntl.flock", 5)])
def test_a_lock_that_cannot_be_asked_for_is_no_lock_of_another_process(
    file_database: Database, monkeypatch: pytest.MonkeyPatch, call: str, error: int
) -> None:
    lease = Lease(file_database, GATE)

    def refuse(*_: object) -> int:
        raise OSError(error, os.strerror(error))

    with monkeypatch.context() as patched:
        patched.setattr(f"aegis.service.store.lease.{call}", refuse)
        with pytest.raises(StoreUnavailable, match=f"{GATE}.lock: {os.strerror(error)}"):
            lease.take()
    assert lease.take()
    lease.let_go()


def _start(database: Database, _: Path) -> None:
    live = make_live(database)
    live.start()
    live.stop()


def _rekey(database: Database, folder: Path) -> None:
    rekey_gate(database, GATE, make_journal_key(folder / "journal.key"))


def _work(database: Database, _: Path) -> None:
    with started(database):
        time.sleep(7.0)


@pytest.mark.ci
@pytest.mark.parametrize("command", [_start, _rekey, _work])
def test_a_command_that_is_busy_for_long_keeps_its_lease(
    postgres: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: Callable[[Database, Path], None]
) -> None:
    monkeypatch.setattr(lease_module, "EXPIRES", 4)
    database = Database.at(postgres.fresh())
    database.upgrade()
    play_one(database)
    news, busy = Journal.news, threading.Event()

    def slow(journal: Journal) -> Iterator[JournalRecord]:
        busy.set()
        time.sleep(0.0 if command is _work else 7.0)
        return news(journal)

    monkeypatch.setattr(Journal, "news", slow)
    thread = threading.Thread(target=command, args=(database, tmp_path))
    thread.start()
    assert busy.wait(30)
    with second(database) as again:
        other, taken, end = Lease(again, GATE), False, time.monotonic() + 5.5
        while thread.is_alive() and time.monotonic() < end:
            taken = taken or other.take()
            time.sleep(0.2)
        thread.join()
        assert not taken
        _eventually(other.take)  # it was let go
        other.let_go()
    database.close()


def play_one(database: Database) -> None:
    with started(database) as live:
        play(live, "e")


def test_a_service_that_does_not_look_after_its_lease_loses_it(postgres: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lease_module, "EXPIRES", 1)
    monkeypatch.setattr("aegis.service.app.TRY", 0.05)
    database, goes_on = Database.at(postgres.fresh()), threading.Event()
    database.upgrade()
    monkeypatch.setattr(GateWriter, "check_store", lambda _: goes_on.wait(60))
    service = make_service(make_live(database))
    service.start()
    with second(database) as again:
        other = Lease(again, GATE)
        _eventually(other.take)
        other.let_go()
    goes_on.set()
    service.stop()


# ---- writers -----------------------------------------------------------------------------------------------------------------


def test_a_second_writer_stands_by_until_the_first_ends(database: Database) -> None:
    with second(database) as again:
        one, two = make_live(database), make_live(again)
        one.start()
        with pytest.raises(NotWriter):
            two.start()
        with pytest.raises(NotWriter):
            two.open_episode(key(), "e")
        play(one, "e0")
        one.stop()
        with pytest.raises(NotWriter):
            play(one, "e1")
        two.start()
        assert two.state.trees["e0"].settled(two.problem)
        play(two, "e1")
        two.stop()
    assert count_records(database, GATE) == 2 + 6 + 1 + 6


def test_a_writer_that_lost_its_lease_cannot_write(database: Database) -> None:
    with second(database) as again:
        one, two = make_live(database), make_live(again)
        one.start()
        play(one, "e0")
        lose(one)
        two.start()
        before = count_records(database, GATE)
        with pytest.raises(StoreUnavailable):
            one.open_episode(key(), "mine")
        for _ in range(3):
            with pytest.raises(NotWriter):
                one.open_episode(key(), "mine")
        assert count_records(database, GATE) == before
        play(two, "e1")
        assert "mine" not in two.state.trees
        one.stop()
        two.stop()


def test_a_writer_that_lost_its_lease_to_nobody_goes_on(database: Database) -> None:
    with started(database) as live:
        play(live, "e0")
        lose(live)
        play(live, "e1")
        live.journal.doubtful = True  # as after a write that was not confirmed: the lease is taken again
        play(live, "e2")
        with second(database) as again, pytest.raises(NotWriter):
            make_live(again).start()
    assert count_records(database, GATE) == 2 + 18


def test_a_gate_that_cannot_start_lets_go(database: Database) -> None:
    with started(database):
        pass
    changed = make_live(database, parse_problem(str(_other_problem())))
    with pytest.raises(SettingError, match="another problem file"):
        changed.start()
    with second(database) as again, started(again) as live:
        assert live.started
    with pytest.raises(SettingError, match="another settings"):
        make_live(database, delta=0.2).start()
    with second(database) as again, started(again) as live:
        assert live.started


def _other_problem() -> str:
    return SMALL.replace("range: [0, 10]", "range: [0, 20]")


@pytest.mark.parametrize("name", ["", "a/b", "x" * 65, "..", "a\x00b"])
def test_a_gate_has_a_name_that_can_be_a_file(file_database: Database, name: str) -> None:
    with pytest.raises(SettingError, match="name"):
        LiveGate(file_database, name, small_problem(), GateSettings(), SEED)


# ---- writes in doubt ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("happened", [True, False])
def test_a_request_in_doubt_gets_one_answer(database: Database, happened: bool) -> None:
    with started(database) as live:
        live.open_episode(key(), "e")
        live.decide(key(), "e", Ask(**recipe()))

        def lost(connection: sa.Connection) -> None:
            if happened:
                connection.connection.dbapi_connection.commit()  # type: ignore[union-attr]
            raise sa.exc.OperationalError("COMMIT", {}, Exception("the connection broke"))

        sa.event.listen(database.engine, "commit", lost)
        with pytest.raises(ServiceError, match="broke"):
            live.decide("mine", "e", Ask(**dose()))
        sa.event.remove(database.engine, "commit", lost)
        other = live.decide("other", "e", Ask(**dose(id="d2")))
        answer = live.decide("mine", "e", Ask(**dose()))
        assert live.decide("mine", "e", Ask(**dose())) == answer
        assert live.decide("other", "e", Ask(**dose(id="d2"))) == other
        decisions = live.state.trees["e"].decisions
        assert list(decisions) == (["r", "d", "d2"] if happened else ["r", "d2", "d"])
        assert decisions["d"].action == answer["index"]
    assert count_records(database, GATE) == 2 + 5


# ---- services ----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("happened", [True, False])
def test_an_opening_in_doubt_is_done_once(database: Database, happened: bool) -> None:
    with started(database) as live:

        def lost(connection: sa.Connection) -> None:
            if happened:
                connection.connection.dbapi_connection.commit()  # type: ignore[union-attr]
            raise sa.exc.OperationalError("COMMIT", {}, Exception("the connection broke"))

        sa.event.listen(database.engine, "commit", lost)
        with pytest.raises(ServiceError, match="broke"):
            live.open_episode("mine", "e")
        sa.event.remove(database.engine, "commit", lost)
        opened = live.open_episode("mine", "e")
        assert live.open_episode("mine", "e") == opened
        assert opened["opened"] == live.state.trees["e"].at
        with pytest.raises(Conflict, match="was opened before"):
            live.open_episode("yours", "e")
    assert count_records(database, GATE) == 2 + 2


def test_a_standby_takes_over(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("aegis.service.app.TRY", 0.05)
    with second(database) as again:
        one: Service = make_service(make_live(database))
        two = make_service(make_live(again), standby=True)
        one.start()
        with served(two) as client:
            assert client.get("/v1/health").status_code == 503
            assert client.get("/v1/gate").status_code == 503
            refused = post(client, "/v1/episodes", {"id": "e"})
            assert (refused.status_code, refused.headers["retry-after"]) == (503, "1")
            play(one.live, "e0")
            one.stop()
            end = time.monotonic() + 30
            while client.get("/v1/health").status_code != 200:
                assert time.monotonic() < end
                time.sleep(0.05)
            assert client.get("/v1/gate").json()["episodes"]["started"] == 1
            assert post(client, "/v1/episodes", {"id": "e"}).status_code == 200


@pytest.mark.parametrize("times", [3, pytest.param(100, marks=pytest.mark.ci)])
def test_two_services_change_places_as_often_as_need_be(database: Database, monkeypatch: pytest.MonkeyPatch, times: int) -> None:
    monkeypatch.setattr("aegis.service.app.TRY", 0.02)
    take, barred = Lease.take, set[int]()
    monkeypatch.setattr(Lease, "take", lambda lease: id(lease) not in barred and take(lease))
    with second(database) as again:
        writer, other = (make_service(make_live(place), standby=True) for place in (database, again))
        writer.start()
        other.start()
        try:
            for number in range(times):
                play(writer.live, f"e{number}")
                barred.add(id(writer.live.lease))
                lose(writer.live)
                _eventually(lambda new=other, old=writer: new.live.started and not old.live.started)  # type: ignore[misc]
                barred.clear()
                with pytest.raises(NotWriter):
                    play(writer.live, "refused")
                writer, other = other, writer
            assert writer.live.state.started == times and not other.live.started
        finally:
            other.stop()
            writer.stop()


def test_an_idle_writer_notices_that_its_lease_is_lost(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("aegis.service.app.TRY", 0.02)
    with second(database) as again:
        one, two, ended = make_service(make_live(database)), make_live(again), threading.Event()
        one.end = ended.set
        with served(one) as client:
            assert client.get("/v1/health").status_code == 200
            monkeypatch.setattr(Lease, "take", lambda lease, take=Lease.take: lease is two.lease and take(lease))
            lose(one.live)
            _eventually(lambda: client.get("/v1/health").status_code == 503)
            assert ended.wait(30) and one.demoted  # it does not stand by, and ends
            two.start()
            two.stop()


def _eventually(happens: Callable[[], bool]) -> None:
    end = time.monotonic() + 30
    while not happens():
        assert time.monotonic() < end
        time.sleep(0.01)


def test_a_standby_takes_over_when_the_writer_is_killed(helper: Helper, store: str, tmp_path: Path) -> None:
    problem = tmp_path / "problem.yaml"
    problem.write_text(SMALL)
    arguments = ["--problem", str(problem), "--store", store, "--name", GATE, "--host", "greedy", "--standby"]
    one, two = Served(helper, arguments), Served(helper, arguments)
    try:
        one.start()
        two.start(wait=False)
        line, other = GateConnection(one.url, None, 10.0), GateConnection(two.url, None, 10.0)
        line.ask("POST", "/v1/episodes", {"id": "e"}, key())
        answer = line.ask("POST", "/v1/episodes/e/decisions", recipe(), "mine")
        line.hang_up()
        one.kill()
        two.ready()
        assert other.ask("POST", "/v1/episodes/e/decisions", recipe(), "mine") == answer
        assert other.ask("POST", "/v1/episodes/e/decisions", dose(), key())["decision"] == "d"
        other.hang_up()
    finally:
        two.kill()
        one.kill()


def test_a_standby_that_cannot_take_over_says_so(
    file_database: Database, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("aegis.service.app.TRY", 0.02)
    with second(file_database) as again:
        one, two = make_service(make_live(file_database)), make_service(make_live(again, delta=0.2), standby=True)
        one.start()
        two.start()
        one.stop()
        end = time.monotonic() + 30
        while "another settings" not in caplog.text:
            assert time.monotonic() < end
            time.sleep(0.02)
        two.stop()
        assert sum("another settings" in item.getMessage() for item in caplog.records) == 1


def test_a_second_service_without_standby_does_not_start(file_database: Database) -> None:
    with second(file_database) as again:
        one, two = make_service(make_live(file_database)), make_service(make_live(again))
        one.start()
        with pytest.raises(NotWriter):
            two.start()
        one.stop()
