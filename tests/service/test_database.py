"""A database that stops, and clients that do not go on: 503 and recovery, nothing lost, nobody else held up."""

from __future__ import annotations

import contextlib
import socket
import sqlite3
import time
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import pytest
from postgres_server import Server
from service_cases import GATE, count_records, dose, make_live, make_service, post, recipe, records, result, served

from aegis.service.client.gate_client import Client
from aegis.service.http_errors import StoreUnavailable
from aegis.service.store.database import Database


@contextlib.contextmanager
def without_postgres(server: Server) -> Iterator[None]:
    """Stop the server for a while."""
    server.stop()
    try:
        yield
    finally:
        server.start()


@contextlib.contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold the lock of a file for a while."""
    connection = sqlite3.connect(path, isolation_level=None)
    try:
        connection.execute("BEGIN EXCLUSIVE")
        yield
        connection.execute("ROLLBACK")
    finally:
        connection.close()


@pytest.fixture
def outage(
    store: str, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> contextlib.AbstractContextManager[None]:
    """Return what stops the database of a store."""
    monkeypatch.setattr("aegis.service.store.database.PATIENCE", 0.2)
    return without_postgres(request.getfixturevalue("postgres")) if store.startswith("postgres") else locked(Path(store))


def test_a_stopped_database_is_a_503_and_nothing_is_lost(
    outage: contextlib.AbstractContextManager[None], database: Database, tmp_path: Path
) -> None:
    service = make_service(make_live(database))
    sent = {
        "one": ("/v1/episodes", {"id": "e"}),
        "two": ("/v1/episodes/e/decisions", recipe()),
        "three": ("/v1/episodes/e/decisions", dose()),
        "four": ("/v1/results", {"items": [result("e")]}),
        "five": ("/v1/episodes/e/close", {}),
        "six": ("/v1/episodes", {"id": "f"}),
    }
    with served(service) as client:
        answers = {}
        for name in ("one", "two"):
            answers[name] = post(client, *sent[name], name)
            assert answers[name].status_code == 200
        with outage:
            for name in ("three", "six", "three"):
                refused = post(client, *sent[name], name)
                assert (refused.status_code, refused.headers["retry-after"]) == (503, "1"), refused.text
            health = client.get("/v1/health")  # it answers at once, and says that nothing can be written
            assert (health.status_code, health.json()["store"]) == (503, "the last write was not confirmed")
            assert client.get("/nowhere").status_code == 404
        for name, (where, body) in sent.items():
            found = _patiently(client, where, body, name)
            if name in answers:
                assert found.json() == answers[name].json()
        assert service.live.state.trees["e"].settled(service.live.problem)
    kinds = [item.kind for item in records(service.live)]
    assert [kind for kind in kinds if kind != "writer"][1:] == [
        *("episode", "keyed", "decision", "decision", "results", "closed"),
        *("episode", "keyed"),
    ]
    assert count_records(database, GATE) == len(kinds)


def _patiently(client: httpx.Client, where: str, body: object, name: str) -> httpx.Response:
    """Send a request until it is answered, as a client does."""
    end = time.monotonic() + 30
    while (found := post(client, where, body, name)).status_code == 503:
        assert time.monotonic() < end
        time.sleep(0.05)
    assert found.status_code == 200, found.text
    return found


def test_a_plant_goes_on_without_the_database(
    outage: contextlib.AbstractContextManager[None], database: Database, tmp_path: Path
) -> None:
    service = make_service(make_live(database))
    legacy = {"distribution": [0.5, 0.3, 0.2], "taken": "fast"}
    with served(service) as http, Client(str(http.base_url), timeout=5.0, spool=tmp_path / "spool") as gate:
        before = gate.open_episode("before")
        assert before.decide("recipe", {"task": "easy"}, legacy, available=[True] * 3).by == "legacy"
        with outage:
            gate.timeout = 0.5
            during = gate.open_episode("during")
            assert during.decide("recipe", {"task": "easy"}, legacy, available=[True] * 3).by == "fallback"
        assert gate.flush(60)
        assert service.live.state.trees["during"].decisions["recipe-1"].overruled
        assert gate.spool.refused() == []


def test_the_lease_is_taken_again_after_the_database_was_away(postgres: Server) -> None:
    address = postgres.fresh()
    database, other = Database.at(address), Database.at(address)
    try:
        database.upgrade()
        service = make_service(make_live(database))
        with served(service) as client:
            assert post(client, "/v1/episodes", {"id": "a"}).status_code == 200
            with without_postgres(postgres):
                assert post(client, "/v1/episodes", {"id": "b"}).status_code == 503
            _patiently(client, "/v1/episodes", {"id": "b"}, "b")
            assert not make_live(other).lease.take()  # it is held again
    finally:
        database.close()
        other.close()
        postgres.drop(address)


def test_slow_clients_hold_nobody_up(file_database: Database) -> None:
    service = make_service(make_live(file_database))
    with served(service) as client:
        where, lines = urlsplit(str(client.base_url)), []
        head = b"POST /v1/episodes HTTP/1.1\r\nHost: 127.0.0.1\r\nIdempotency-Key: k\r\nContent-Type: application/json\r\n"
        for _ in range(100):
            line = socket.create_connection((where.hostname, where.port))
            line.sendall(head + b'Content-Length: 500\r\n\r\n{"id"')
            lines.append(line)
        try:
            assert post(client, "/v1/episodes", {"id": "e"}).status_code == 200
            assert client.get("/v1/gate").status_code == 200
        finally:
            for line in lines:
                line.close()


def test_a_file_of_another_account_is_said(file_database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    database = Database.at(file_database.file.parent if file_database.file is not None else "")  # a folder cannot be opened
    with pytest.raises(StoreUnavailable, match=r"unable to open database file$"):
        database.version()
    monkeypatch.setattr("aegis.service.store.database.describe_denied_access", lambda path: f"{path} belongs to ann")
    with pytest.raises(StoreUnavailable, match=r"unable to open database file \(.* belongs to ann\)$"):
        database.version()
    database.close()
