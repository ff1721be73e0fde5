"""Connections: half-sent and slow requests, idle ones, answers that are not read, and too many at once."""

from __future__ import annotations

import ssl
import threading
import time
from pathlib import Path
from typing import Any

import httpx
import pytest
from raw_lines import (
    CLOSES,
    HALF,
    HEALTH,
    connect,
    connected,
    drip,
    is_open,
    read_status,
    request,
    wait_closed,
)
from service_cases import bearer, make_live, make_service, post, recipe, served
from tls_cases import Authority

from aegis.service.app import Service
from aegis.service.http import connections
from aegis.service.http.connections import BODY, HEAD, ConnectionTable, GuardedConnection, connection_limit, raise_file_limit
from aegis.service.live_gate import LiveGate
from aegis.service.status import GateStatus
from aegis.service.store.database import Database

LONG = 600.0  # seconds that no test takes


@pytest.fixture
def service(file_database: Database, tokens: dict[str, str]) -> Service:
    """Return the service of a gate with tokens."""
    return make_service(make_live(file_database), rate=1e6)


@pytest.fixture(autouse=True)
def _files() -> None:
    raise_file_limit()  # both ends of each connection are in this process


@pytest.fixture
def clocks(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Return a function that sets how long clients may take; a time that is not named never ends."""

    def set_clocks(head: float = LONG, body: float = LONG, idle: float = LONG, stalled: float = LONG) -> None:
        monkeypatch.setattr(connections, "SECONDS", {HEAD: head, BODY: body})
        monkeypatch.setattr(connections, "IDLE_SECONDS", idle)
        monkeypatch.setattr(connections, "STALLED_SECONDS", stalled)

    return set_clocks


def asked(client: httpx.Client, tokens: dict[str, str], name: str) -> list[int]:
    """Return how a controller, an operator and a reader are answered, each over a new connection."""
    return [
        post(client, "/v1/episodes", {"id": name}, connection="close", **bearer(tokens["controller"])).status_code,
        post(client, "/v1/operator", {"action": "pause", "why": name}, **bearer(tokens["operator"])).status_code,
        client.get("/v1/gate", headers=bearer(tokens["viewer"])).status_code,
        client.get("/v1/health", headers={"connection": "close"}).status_code,
    ]


# ---- requests that are never finished ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("count", [520, pytest.param(2000, marks=pytest.mark.ci)])
def test_half_sent_heads_make_no_request_fail(service: Service, tokens: dict[str, str], clocks: Any, count: int) -> None:
    clocks()
    with served(service) as client, connected(client, count, HALF) as lines:
        assert asked(client, tokens, "e") == [200] * 4
        assert all(is_open(line) for line in lines)


@pytest.mark.parametrize("count", [520, pytest.param(2000, marks=pytest.mark.ci)])
def test_half_sent_heads_are_closed_in_time(service: Service, tokens: dict[str, str], clocks: Any, count: int) -> None:
    clocks(head=0.5)
    with served(service) as client, connected(client, count, HALF) as lines:
        for line in lines:
            wait_closed(line)
        assert asked(client, tokens, "e") == [200] * 4


def test_a_connection_on_which_nothing_is_sent_is_closed(service: Service, clocks: Any) -> None:
    clocks(head=0.3)
    with served(service) as client, connect(client) as line:
        wait_closed(line)


def test_a_byte_now_and_then_does_not_give_a_head_more_time(service: Service, clocks: Any) -> None:
    clocks(head=0.5)
    with served(service) as client, connect(client, HALF) as line:
        drip(line)


def test_a_byte_now_and_then_does_not_give_a_body_more_time(service: Service, tokens: dict[str, str], clocks: Any) -> None:
    clocks(body=0.5)
    for token in (None, tokens["controller"]):
        with served(service) as client, connect(client, request("POST", "/v1/episodes", token, 100_000)) as line:
            drip(line)


def test_a_body_in_chunks_has_no_more_time(service: Service, tokens: dict[str, str], clocks: Any) -> None:
    clocks(body=0.5)
    head = request("POST", "/v1/episodes", tokens["controller"], None, "Transfer-Encoding: chunked")
    with served(service) as client, connect(client, head + b'5\r\n{"id"\r\n') as line:
        wait_closed(line)


def test_a_form_that_does_not_arrive_is_no_failure_of_the_service(
    service: Service, clocks: Any, caplog: pytest.LogCaptureFixture
) -> None:
    clocks(body=0.2)
    with served(service) as client:
        with connect(client, request("POST", "/enter", None, 1000)) as line:
            wait_closed(line)
        counts = _wait_counted(client, service, "/enter")
    assert counts == {"400": 1.0}
    assert not [item for item in caplog.records if item.levelname == "ERROR"]


def _wait_counted(client: httpx.Client, service: Service, route: str) -> dict[str, float]:
    """Return how often a route was answered, by status, once it was."""
    end = time.monotonic() + CLOSES
    while time.monotonic() < end:
        samples = [sample for metric in service.metrics.requests.collect() for sample in metric.samples]
        own = {s.labels["status"]: s.value for s in samples if s.labels.get("route") == route and s.name.endswith("_total")}
        if own:
            return own
        time.sleep(0.02)
    raise TimeoutError(route)


# ---- requests that are finished, and idle connections ------------------------------------------------------------------------


def test_a_slow_server_ends_no_request(
    service: Service, tokens: dict[str, str], clocks: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    clocks(head=0.2, body=0.2, idle=0.2)
    decide = LiveGate.decide

    def slow(*arguments: Any, **named: Any) -> Any:
        time.sleep(1.0)
        return decide(*arguments, **named)

    monkeypatch.setattr(LiveGate, "decide", slow)
    with served(service) as client:
        token = bearer(tokens["controller"])
        assert post(client, "/v1/episodes", {"id": "e"}, **token).status_code == 200
        assert post(client, "/v1/episodes/e/decisions", recipe(), **token).status_code == 200


def test_an_idle_connection_is_closed_later_than_one_with_half_a_request(service: Service, clocks: Any) -> None:
    clocks(head=0.3)
    with served(service) as client, connect(client, HEALTH) as line:
        assert read_status(line) == 200
        time.sleep(1.0)
        line.sendall(HEALTH)
        assert read_status(line) == 200
        line.sendall(HALF)
        wait_closed(line)


def test_an_idle_connection_is_closed(service: Service, clocks: Any) -> None:
    clocks(idle=0.3)
    with served(service) as client, connect(client, HEALTH) as line:
        assert read_status(line) == 200
        wait_closed(line)


def test_requests_that_are_sent_together_are_all_answered(service: Service, clocks: Any) -> None:
    clocks(head=0.5)
    with served(service) as client, connect(client, HEALTH * 3 + HALF) as line:
        answers = b""
        while answers.count(b'"writer"') < 3:
            answers += line.recv(65536)
        assert answers.count(b"HTTP/1.1 200") == 3
        wait_closed(line)  # half of a fourth one came with them


# ---- answers that are not read -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("how", ["keep-alive", "close"])
@pytest.mark.parametrize("buffer", [None, 10**9])
def test_an_answer_that_is_not_read_is_given_up(
    service: Service, tokens: dict[str, str], clocks: Any, monkeypatch: pytest.MonkeyPatch, how: str, buffer: int | None
) -> None:
    """Also if all of it is in the buffer, so that nothing waits for the client but the connection itself."""
    clocks(idle=0.2, stalled=0.3)
    gone, made, lost = threading.Event(), GuardedConnection.connection_made, GuardedConnection.connection_lost

    def connection_made(self: GuardedConnection, transport: Any) -> None:
        made(self, transport)
        transport.set_write_buffer_limits(high=buffer)

    def connection_lost(self: GuardedConnection, exc: Exception | None) -> None:
        lost(self, exc)
        gone.set()

    monkeypatch.setattr(GuardedConnection, "connection_made", connection_made)
    monkeypatch.setattr(GuardedConnection, "connection_lost", connection_lost)
    monkeypatch.setattr(GateStatus, "levels_picture", lambda _: lambda: "x" * 30_000_000)
    head = request("GET", "/v1/levels", tokens["viewer"], None, f"Connection: {how}")
    with served(service) as client, connect(client, head, small=True):
        assert gone.wait(CLOSES)


# ---- too many connections ----------------------------------------------------------------------------------------------------


def test_known_callers_win_over_strangers(
    service: Service, tokens: dict[str, str], clocks: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    clocks()
    monkeypatch.setattr(connections, "MOST", 20)
    known = request("GET", "/v1/levels", tokens["viewer"])
    with served(service) as client, connected(client, 10, known) as friends:
        assert [read_status(line) for line in friends] == [200] * 10
        with connected(client, 60, HALF) as strangers:
            for line in strangers[:50]:
                wait_closed(line)
            with connect(client, known) as late:
                assert read_status(late) == 200
            assert is_open(strangers[-1])
            assert all(is_open(line) for line in friends)
            assert asked(client, tokens, "e") == [200] * 4
        for line in friends:
            line.sendall(known)
        assert [read_status(line) for line in friends] == [200] * 10


def test_connections_that_are_busy_are_not_dropped(
    service: Service, tokens: dict[str, str], clocks: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    clocks()
    monkeypatch.setattr(connections, "MOST", 3)
    stream = request("GET", "/v1/stream", tokens["viewer"])
    with served(service) as client, connected(client, 3, stream) as busy:
        assert [read_status(line) for line in busy] == [200] * 3
        with connect(client) as refused:
            wait_closed(refused)
        assert all(is_open(line) for line in busy)
        busy.pop().close()
        end = time.monotonic() + CLOSES
        while time.monotonic() < end:
            with connect(client, HEALTH) as line:
                if read_status(line) == 200:
                    return
        raise TimeoutError("no connection was taken again")


def test_an_empty_table_drops_nothing() -> None:
    assert not ConnectionTable().drop_one()


# ---- TLS, and files ----------------------------------------------------------------------------------------------------------


@pytest.fixture
def tls(tmp_path: Path) -> tuple[dict[str, str], str]:
    """Return how a service is served over TLS, and the file of its authority."""
    authority = Authority.make(tmp_path, "plant")
    certificate, secret = authority.sign("127.0.0.1")
    return {"ssl_certfile": certificate, "ssl_keyfile": secret}, str(authority.ca)


def test_a_handshake_that_is_not_finished_is_ended(
    service: Service, tls: tuple[dict[str, str], str], clocks: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    clocks(head=0.5)
    monkeypatch.setattr(connections, "HANDSHAKE_SECONDS", 0.3)
    with served(service, **tls[0]) as client:
        with connect(client) as line:
            wait_closed(line)
        address = str(client.base_url).replace("http:", "https:")
        with httpx.Client(base_url=address, verify=ssl.create_default_context(cafile=tls[1])) as other:
            answer = other.get("/v1/health")
            assert (answer.status_code, "strict-transport-security" in answer.headers) == (200, True)


class Resource:
    """Limits of a system. refuses: it has another limit besides."""

    RLIMIT_NOFILE, RLIM_INFINITY = 7, -1

    def __init__(self, soft: int, hard: int, refuses: bool = False) -> None:
        self.limits, self.refuses = (soft, hard), refuses

    def getrlimit(self, _: int) -> tuple[int, int]:
        """Return the limits."""
        return self.limits

    def setrlimit(self, _: int, limits: tuple[int, int]) -> None:
        """Set the limits."""
        if self.refuses:
            raise ValueError("current limit exceeds maximum limit")
        self.limits = limits


@pytest.mark.parametrize(
    ("system", "raised", "most"),
    [
        (Resource(1024, 524_288), (524_288, 524_288), connections.MOST),
        (Resource(256, -1), (2 * connections.MOST + connections.RESERVED, -1), connections.MOST),
        (Resource(-1, -1), (-1, -1), connections.MOST),
        (Resource(1024, -1, refuses=True), (1024, -1), 1024 - connections.RESERVED),
        (Resource(100, 100), (100, 100), 1),
        (None, None, connections.MOST),
    ],
)
def test_the_limit_of_connections_follows_from_that_of_files(
    monkeypatch: pytest.MonkeyPatch, system: Resource | None, raised: tuple[int, int] | None, most: int
) -> None:
    monkeypatch.setattr(connections, "resource", system)
    raise_file_limit()
    assert (None if system is None else system.limits) == raised
    assert connection_limit() == most
