"""A PostgreSQL server that is cut off without a word: the gate answers in time, says so, ends when told to, and is replaced."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterator

import httpx
import psycopg
import pytest
import sqlalchemy as sa
from fault_proxy import FaultProxy
from postgres_server import Server
from service_cases import bearer, key, make_live, make_service, play, post, served

from aegis.service.auth import make_token
from aegis.service.http_errors import StoreUnavailable
from aegis.service.live_gate import LiveGate
from aegis.service.store import database as database_module
from aegis.service.store import lease as lease_module
from aegis.service.store.database import ENDLESS, Database, snapshots_table
from aegis.service.store.lease import Lease
from aegis.service.store.snapshots import store_snapshot


@pytest.fixture
def cut_off(postgres: Server, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Database, Database, FaultProxy]]:
    """Yield a store, the same behind a proxy that can be silenced, and the proxy; limits are short."""
    monkeypatch.setattr(database_module, "DEADLINE", 0.5)
    monkeypatch.setattr(lease_module, "EXPIRES", 1)
    monkeypatch.setattr("aegis.service.app.TRY", 0.1)
    monkeypatch.setattr("aegis.service.gate_writer.SLOW", 0.2)
    direct = Database.at(postgres.fresh())
    direct.upgrade()
    url = direct.url
    proxy = FaultProxy((str(url.host), int(url.port or 5432)))
    behind = Database.at(url.set(host="127.0.0.1", port=proxy.port).render_as_string(hide_password=False))
    yield direct, behind, proxy
    proxy.close()
    behind.close()
    direct.close()


def eventually(happens: Callable[[], bool], seconds: float = 20.0) -> None:
    end = time.monotonic() + seconds
    while not happens():
        assert time.monotonic() < end
        time.sleep(0.02)


def test_a_gate_that_is_cut_off_answers_in_time_and_another_takes_over(
    cut_off: tuple[Database, Database, FaultProxy],
) -> None:
    direct, behind, proxy = cut_off
    one, two = make_service(make_live(behind)), make_service(make_live(direct), standby=True)
    with served(one) as client:
        two.start()
        play(one.live, "before")
        assert not two.live.started
        proxy.silent.set()
        started = time.monotonic()
        assert post(client, "/v1/episodes", {"id": "e"}).status_code == 503
        assert time.monotonic() - started < 5.0  # it took minutes before
        eventually(lambda: client.get("/v1/health").status_code == 503, 3.0)
        eventually(lambda: two.live.started)  # its lock has expired
        play(two.live, "after")
        started = time.monotonic()
    assert time.monotonic() - started < 15.0  # it ends, although the store does not answer
    two.stop()


@pytest.mark.ci
def test_an_idle_gate_that_is_cut_off_is_not_healthy(cut_off: tuple[Database, Database, FaultProxy]) -> None:
    _, behind, proxy = cut_off
    with served(make_service(make_live(behind))) as client:
        assert client.get("/v1/health").status_code == 200
        proxy.silent.set()
        eventually(lambda: client.get("/v1/health").status_code == 503, 3.0)


def away(client: httpx.Client, headers: dict[str, str]) -> list[float]:
    """Return how long requests take that come while the store is looked for again: all of them are refused."""
    taken = []
    for number in range(8):
        started = time.monotonic()
        assert post(client, "/v1/episodes", {"id": f"e{number}"}, **headers).status_code == 503
        taken.append(time.monotonic() - started)
        time.sleep(0.3)
    return taken


def test_while_the_store_is_away_no_request_waits_for_it_and_the_gate_ends_in_time(
    cut_off: tuple[Database, Database, FaultProxy],
) -> None:
    direct, behind, proxy = cut_off
    headers = bearer(make_token(direct, "plant", "controller"))
    with served(make_service(make_live(behind))) as client:
        assert post(client, "/v1/episodes", {"id": "before"}, **headers).status_code == 200
        proxy.silent.set()
        assert post(client, "/v1/episodes", {"id": "first"}, **headers).status_code == 503
        assert max(away(client, headers)) < 2.5  # a new connection is given up after five seconds, in another thread
        started = time.monotonic()
    assert time.monotonic() - started < 4.0


@pytest.mark.ci
def test_a_gate_recovers_by_itself_when_the_store_is_back(cut_off: tuple[Database, Database, FaultProxy]) -> None:
    _, behind, proxy = cut_off
    with served(make_service(make_live(behind))) as client:
        proxy.silent.set()
        assert post(client, "/v1/episodes", {"id": "first"}).status_code == 503
        away(client, {})
        proxy.silent.clear()
        eventually(lambda: client.get("/v1/health").status_code == 200)
        assert post(client, "/v1/episodes", {"id": "second"}).status_code == 200


def test_a_lease_that_is_not_wanted_any_more_is_let_go_once_the_store_answers(
    cut_off: tuple[Database, Database, FaultProxy], monkeypatch: pytest.MonkeyPatch
) -> None:
    direct, behind, _ = cut_off
    monkeypatch.setattr(lease_module, "WAIT", 0.05)
    lease, other, hangs, goes_on = Lease(behind, "g"), Lease(direct, "g"), threading.Event(), threading.Event()
    take = Lease._take_connection

    def slow(self: Lease) -> bool:
        hangs.set()
        goes_on.wait(20)
        return take(self)

    monkeypatch.setattr(Lease, "_take_connection", lambda self: slow(self) if self is lease else take(self))
    answers: list[bool] = []
    thread = threading.Thread(target=lambda: answers.append(lease.take()))
    thread.start()
    assert hangs.wait(20)
    lease.let_go()  # does not wait
    goes_on.set()
    thread.join(20)
    assert answers == [False]
    eventually(other.take)
    other.let_go()


def test_health_does_not_wait_until_the_store_is_given_up(
    cut_off: tuple[Database, Database, FaultProxy], monkeypatch: pytest.MonkeyPatch
) -> None:
    _, behind, proxy = cut_off
    with served(make_service(make_live(behind))) as client:
        assert client.get("/v1/health").status_code == 200
        monkeypatch.setattr(database_module, "DEADLINE", 10.0)  # the real one is longer than health may be wrong
        proxy.silent.set()
        eventually(lambda: client.get("/v1/health").status_code == 503, 5.0)
        proxy.silent.clear()
        eventually(lambda: client.get("/v1/health").status_code == 200)


# ---- the end of a transaction ------------------------------------------------------------------------------------------------


def silent_from_commit(database: Database, proxy: FaultProxy) -> None:
    """Silence the way to a server once, when a transaction is about to be committed."""

    sa.event.listen(database.engine, "commit", lambda _: proxy.silent.set(), once=True)


def _write(database: Database, proxy: FaultProxy) -> None:
    silent_from_commit(database, proxy)
    with database.transaction() as connection:
        connection.execute(snapshots_table.delete())


def _store_large(database: Database, proxy: FaultProxy) -> None:
    silent_from_commit(database, proxy)
    store_snapshot(database, "g", 1, "digest", b"content")


def _read(database: Database, proxy: FaultProxy) -> None:
    with database.reading() as connection:
        connection.execute(snapshots_table.select()).all()
        proxy.silent.set()  # the end of a read asks the server as well


@pytest.mark.parametrize("use", [_write, _store_large, _read])
def test_a_transaction_whose_end_is_not_answered_is_given_up(
    cut_off: tuple[Database, Database, FaultProxy], monkeypatch: pytest.MonkeyPatch, use: Callable[[Database, FaultProxy], None]
) -> None:
    _, behind, proxy = cut_off
    monkeypatch.setattr("aegis.service.store.snapshots.LARGE", 0.5)
    assert behind.version() is not None  # it is connected
    given_up = threading.Event()

    def ask() -> None:
        with pytest.raises(StoreUnavailable):
            use(behind, proxy)
        given_up.set()

    threading.Thread(target=ask, daemon=True).start()
    assert given_up.wait(20)


def test_a_gate_whose_commit_is_not_answered_is_replaced_and_ends(cut_off: tuple[Database, Database, FaultProxy]) -> None:
    direct, behind, proxy = cut_off
    one, two = make_service(make_live(behind)), make_service(make_live(direct), standby=True)
    with served(one) as client:
        two.start()
        play(one.live, "before")
        silent_from_commit(behind, proxy)
        assert post(client, "/v1/episodes", {"id": "e"}).status_code == 503
        eventually(lambda: two.live.started)
        play(two.live, "after")
        started = time.monotonic()
    assert time.monotonic() - started < 20.0
    two.stop()


def test_a_gate_ends_while_its_commit_is_not_answered(
    cut_off: tuple[Database, Database, FaultProxy], monkeypatch: pytest.MonkeyPatch
) -> None:
    _, behind, proxy = cut_off
    monkeypatch.setattr(database_module, "DEADLINE", 60.0)
    service = make_service(make_live(behind), snapshot_every=1)  # the last snapshot is due
    service.start()
    silent_from_commit(behind, proxy)
    threading.Thread(target=lambda: _refused(service.live), daemon=True).start()
    eventually(lambda: service.live.failure is not None)
    ended = threading.Event()
    threading.Thread(target=lambda: (service.stop(), ended.set()), daemon=True).start()
    assert ended.wait(30)


def _refused(live: LiveGate) -> None:
    with contextlib.suppress(StoreUnavailable):
        live.open_episode(key(), "e")


# ---- a process that is stopped -----------------------------------------------------------------------------------------------


def test_a_process_that_is_stopped_within_a_transaction_does_not_keep_others_from_writing(postgres: Server) -> None:
    database = Database.at(postgres.fresh())
    database.upgrade()
    rows = [{"gate": "g", "seq": seq, "digest": "digest", "content": b"content"} for seq in (1, 2)]
    address = database.url.set(drivername="postgresql").render_as_string(hide_password=False)
    with database.engine.connect() as stopped, psycopg.connect(address) as other:  # no thread of a stopped process cuts it
        stopped.execute(snapshots_table.insert(), rows)
        other.execute("SET statement_timeout = '30s'")
        other.execute("INSERT INTO snapshots VALUES ('g', 1, 'mine', 'content')")
        with pytest.raises(sa.exc.DBAPIError):
            stopped.commit()
    database.close()


def test_commands_may_be_busy_between_two_statements(postgres: Server) -> None:
    database = Database.at(postgres.fresh())
    for use in (database.transaction, database.reading):
        for seconds, expected in ((None, "5s"), (ENDLESS, "10min")):
            with use(seconds) as connection:
                assert connection.execute(sa.text("SHOW idle_in_transaction_session_timeout")).scalar() == expected
        with use() as connection:
            assert connection.execute(sa.text("SHOW transaction_isolation")).scalar() == "read committed"
    with database.reading(ENDLESS) as connection:
        assert connection.execute(sa.text("SHOW transaction_isolation")).scalar() == "repeatable read"
    database.close()
