"""Stores of the live gate's tests: SQLite and a real PostgreSQL, a fresh one for each test."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Iterator
from http.server import ThreadingHTTPServer
from pathlib import Path

import pytest
from client_cases import HOW, Fake
from postgres_server import Server, server_folder
from served_gate import Helper
from service_cases import made_waiting, make_live, make_service, quick_database

from aegis.service.app import Service
from aegis.service.auth import ROLES, make_token
from aegis.service.client import gate_client
from aegis.service.store.database import Database

KINDS = ("sqlite", "postgres")


@pytest.fixture(scope="session")
def postgres() -> Iterator[Server]:
    """Return a PostgreSQL server."""
    binaries = server_folder()
    if binaries is None:
        pytest.skip("there is no PostgreSQL server on this machine: install one, or the package pgserver")
    server = Server(binaries)
    try:
        server.create()
        yield server
    finally:
        server.remove()


@pytest.fixture(scope="session")
def helper(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Helper]:
    """Return the process that gates which can be killed are forked from."""
    found = Helper(tmp_path_factory.mktemp("served"))
    yield found
    found.end()


@pytest.fixture(params=KINDS)
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """Return the address of an empty store, once for each kind of database."""
    yield from _address(request, request.param, tmp_path / "gate.sqlite")


@pytest.fixture(params=KINDS)
def other_store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """Return the address of another empty store."""
    yield from _address(request, request.param, tmp_path / "other.sqlite")


def _address(request: pytest.FixtureRequest, kind: str, file: Path) -> Iterator[str]:
    if kind == "sqlite":
        yield str(file)
        return
    server: Server = request.getfixturevalue("postgres")
    address = server.fresh()
    yield address
    server.drop(address)


@pytest.fixture
def database(store: str) -> Iterator[Database]:
    """Return an empty store with its schema."""
    found = Database.at(store)
    found.upgrade()
    yield found
    found.close()


@pytest.fixture
def file_database(tmp_path: Path) -> Iterator[Database]:
    """Return an empty SQLite store with its schema, where one kind is enough."""
    found = quick_database(tmp_path / "gate.sqlite")
    yield found
    found.close()


@pytest.fixture(scope="session")
def waiting_store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a store in which the inner level of a simulated plant is certified and waits for an operator; copy it to use it."""
    return made_waiting(tmp_path_factory.mktemp("waiting") / "gate.sqlite")


@pytest.fixture
def waiting(waiting_store: Path, tmp_path: Path) -> Iterator[Database]:
    """Return a copy of that store."""
    shutil.copy(waiting_store, tmp_path / "waiting.sqlite")
    found = quick_database(tmp_path / "waiting.sqlite")
    yield found
    found.close()


@pytest.fixture
def service(file_database: Database) -> Service:
    """Return the service of a gate that counts nothing."""
    return make_service(make_live(file_database))


@pytest.fixture
def quick_retries(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ask a gate that was away again after a moment."""
    monkeypatch.setattr(gate_client, "RETRY", 0.1)


@pytest.fixture
def tokens(file_database: Database) -> dict[str, str]:
    """Return a token of each role."""
    return {role: make_token(file_database, f"the {role}", role) for role in ROLES}


@pytest.fixture
def fake(request: pytest.FixtureRequest) -> Iterator[str]:
    """Return the address of a gate that does not do its work."""
    handler = type("Chosen", (Fake,), {"how": staticmethod(HOW[request.param])})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    server.daemon_threads, server.block_on_close = True, False
    thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_address[1]}"
    server.shutdown()
    server.server_close()
    thread.join()
