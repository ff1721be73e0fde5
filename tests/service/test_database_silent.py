"""A PostgreSQL server that is cut off without a word: the gate answers in time, says so, ends when told to, and is replaced."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress

import httpx
import pytest
from postgres_server import Server
from service_cases import bearer, make_live, make_service, play, post, served

from aegis.service.auth import make_token
from aegis.service.store import database as database_module
from aegis.service.store import lease as lease_module
from aegis.service.store.database import Database
from aegis.service.store.lease import Lease


class SilentProxy:
    """Forwards connections to a server until it is silenced: then it takes everything and passes on nothing."""

    def __init__(self, host: str, port: int) -> None:
        self.silent, self._target = threading.Event(), (host, port)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        self._wires: list[socket.socket] = []
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                near, _ = self._listener.accept()
                if self.silent.is_set():
                    self._wires.append(near)
                    continue
                far = socket.create_connection(self._target)
                self._wires += [near, far]
                for one, other in ((near, far), (far, near)):
                    threading.Thread(target=self._forward, args=(one, other), daemon=True).start()

    def _forward(self, one: socket.socket, other: socket.socket) -> None:
        with suppress(OSError):
            while data := one.recv(65536):
                if not self.silent.is_set():
                    other.sendall(data)
            if not self.silent.is_set():
                other.shutdown(socket.SHUT_WR)

    def close(self) -> None:
        """End everything."""
        for wire in (self._listener, *self._wires):
            with suppress(OSError):
                wire.close()


@pytest.fixture
def cut_off(postgres: Server, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Database, Database, SilentProxy]]:
    """Yield a store, the same behind a proxy that can be silenced, and the proxy; limits are short."""
    monkeypatch.setattr(database_module, "DEADLINE", 0.5)
    monkeypatch.setattr(lease_module, "EXPIRES", 1)
    monkeypatch.setattr("aegis.service.app.TRY", 0.1)
    monkeypatch.setattr("aegis.service.gate_writer.SLOW", 0.2)
    direct = Database.at(postgres.fresh())
    direct.upgrade()
    url = direct.url
    proxy = SilentProxy(str(url.host), int(url.port or 5432))
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
    cut_off: tuple[Database, Database, SilentProxy],
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
def test_an_idle_gate_that_is_cut_off_is_not_healthy(cut_off: tuple[Database, Database, SilentProxy]) -> None:
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
    cut_off: tuple[Database, Database, SilentProxy],
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
def test_a_gate_recovers_by_itself_when_the_store_is_back(cut_off: tuple[Database, Database, SilentProxy]) -> None:
    _, behind, proxy = cut_off
    with served(make_service(make_live(behind))) as client:
        proxy.silent.set()
        assert post(client, "/v1/episodes", {"id": "first"}).status_code == 503
        away(client, {})
        proxy.silent.clear()
        eventually(lambda: client.get("/v1/health").status_code == 200)
        assert post(client, "/v1/episodes", {"id": "second"}).status_code == 200


def test_a_lease_that_is_not_wanted_any_more_is_let_go_once_the_store_answers(
    cut_off: tuple[Database, Database, SilentProxy], monkeypatch: pytest.MonkeyPatch
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
