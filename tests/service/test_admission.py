"""Admission: each kind of request has a share of its own, which others cannot fill, and which comes back."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Iterator
from typing import Any

import anyio
import httpx
import pytest
from anyio import CapacityLimiter
from raw_lines import CLOSES, connect, connected, read_status, request, wait_closed
from service_cases import bearer, key, make_live, make_service, post, recipe, said, served

from aegis.service import auth
from aegis.service.app import Service
from aegis.service.auth import revoke_token
from aegis.service.http import admission
from aegis.service.http.admission import CONTROL, OPERATE, READ, SHARES, STRANGER, STREAM, Admission, request_kind, run_in_share
from aegis.service.routes import monitoring
from aegis.service.store.database import Database
from aegis.service.store.journal import Journal


@pytest.fixture
def service(file_database: Database, tokens: dict[str, str]) -> Service:
    """Return the service of a gate with tokens."""
    return make_service(make_live(file_database), rate=1e6)


def allow(monkeypatch: pytest.MonkeyPatch, kind: str, most: int, threads: int = 1) -> None:
    """Set the share of a kind, of services that are made from now on."""
    monkeypatch.setitem(SHARES, kind, (most, threads))


def others(client: httpx.Client, tokens: dict[str, str]) -> list[int]:
    """Return how a controller and an operator are answered, and how a load balancer is."""
    episode = key()
    return [
        post(client, "/v1/episodes", {"id": episode}, **bearer(tokens["controller"])).status_code,
        post(client, f"/v1/episodes/{episode}/decisions", recipe(), **bearer(tokens["controller"])).status_code,
        post(client, "/v1/operator", {"action": "pause", "why": "to look"}, **bearer(tokens["operator"])).status_code,
        client.get("/v1/health").status_code,
    ]


def until(client: httpx.Client, path: str, status: int, token: str) -> None:
    """Ask until the answer has a status."""
    end = time.monotonic() + CLOSES
    while client.get(path, headers=bearer(token)).status_code != status:
        if time.monotonic() > end:
            raise TimeoutError(path)
        time.sleep(0.02)


# ---- shares ------------------------------------------------------------------------------------------------------------------


def test_a_share_is_full_and_comes_back(monkeypatch: pytest.MonkeyPatch) -> None:
    allow(monkeypatch, READ, 2)
    shares = Admission()
    first, second = shares.enter(READ), shares.enter(READ)
    assert first is not None and second is first
    assert shares.enter(READ) is None
    assert shares.enter(CONTROL) is not None
    shares.leave(first)
    assert shares.enter(READ) is first
    admission._share.set(None)


@pytest.mark.parametrize(
    ("method", "path", "kind"),
    [
        ("POST", "/v1/episodes", CONTROL),
        ("POST", "/v1/episodes/e/decisions", CONTROL),
        ("POST", "/v1/results", CONTROL),
        ("GET", "/v1/episodes", READ),
        ("POST", "/v1/operator", OPERATE),
        ("GET", "/v1/stream", STREAM),
        ("GET", "/v1/gate", READ),
        ("POST", "/enter", READ),
        ("GET", "/", READ),
    ],
)
def test_what_a_request_is_for(method: str, path: str, kind: str) -> None:
    assert request_kind(method, path) == kind


def test_work_is_done_in_the_threads_of_the_share(monkeypatch: pytest.MonkeyPatch) -> None:
    async def work() -> tuple[int, int]:
        share = Admission().enter(READ)
        assert share is not None
        share.threads = CapacityLimiter(1)
        inside = await run_in_share(lambda: share.threads.borrowed_tokens)
        return int(inside), int(share.threads.borrowed_tokens)

    assert anyio.run(work) == (1, 0)


# ---- crowds ------------------------------------------------------------------------------------------------------------------


@contextlib.contextmanager
def hanging_readers(client: httpx.Client, token: str, count: int, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[int]]:
    """Yield while readers wait for events that do not come; the list holds how they were answered, afterwards."""
    hold, answers = threading.Event(), list[int]()

    def events(*_: Any) -> list[Any]:
        hold.wait(CLOSES)
        return []

    monkeypatch.setattr(Journal, "events", events)

    def read() -> None:
        answers.append(httpx.get(f"{client.base_url}/v1/events", headers=bearer(token), timeout=CLOSES).status_code)

    threads = [threading.Thread(target=read) for _ in range(count)]
    for thread in threads:
        thread.start()
    try:
        yield answers
    finally:
        hold.set()
        for thread in threads:
            thread.join(CLOSES)


def test_readers_hold_up_neither_controllers_nor_operators(
    service: Service, tokens: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    allow(monkeypatch, READ, 4, 2)
    monkeypatch.setattr(auth, "REMEMBERED", 600.0)
    with served(service) as client:
        viewer = tokens["viewer"]
        assert client.get("/v1/levels", headers=bearer(viewer)).status_code == 200  # now no thread is needed to know this token
        with hanging_readers(client, viewer, 4, monkeypatch) as answers:
            until(client, "/v1/levels", 503, viewer)
            refused = client.get("/v1/levels", headers=bearer(viewer))
            assert said(refused) == "too many requests of this kind (read) are under way; try again"
            assert refused.headers["retry-after"] == "1"
            assert others(client, tokens) == [200] * 4
        assert answers == [200] * 4
        assert client.get("/v1/levels", headers=bearer(viewer)).status_code == 200


def test_threads_that_readers_fill_are_not_those_of_others(
    service: Service, tokens: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As many readers as there are threads of theirs, and half as many again that wait for one."""
    count = 3 * SHARES[READ][1] // 2
    with served(service) as client, hanging_readers(client, tokens["viewer"], count, monkeypatch):
        time.sleep(0.2)
        assert others(client, tokens) == [200] * 4


def test_strangers_who_send_bodies_slowly_hold_up_only_strangers(
    service: Service, tokens: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    allow(monkeypatch, STRANGER, 4)
    slow = [request("POST", path, None, 1000) for path in ("/v1/episodes", "/enter")]
    slow.append(request("POST", "/v1/operator", "aegis_made-up", 1000))
    slow.append(request("POST", "/v1/episodes", tokens["viewer"], 1000))  # who may not do that
    with served(service) as client:
        with contextlib.ExitStack() as stack:
            for head in slow:
                stack.enter_context(connect(client, head))
            until(client, "/v1/gate", 503, "aegis_made-up")
            assert others(client, tokens) == [200] * 4
            assert client.get("/v1/gate", headers=bearer(tokens["viewer"])).status_code == 200
        until(client, "/v1/gate", 401, "aegis_made-up")


def test_a_share_comes_back_when_clients_go_away_in_the_middle(
    service: Service, tokens: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    allow(monkeypatch, CONTROL, 2)
    head = request("POST", "/v1/episodes", tokens["controller"], 1000)
    with served(service) as client:
        for _ in range(3):
            with connected(client, 2, head + b"{"):
                time.sleep(0.05)
        end = time.monotonic() + CLOSES
        while post(client, "/v1/episodes", {}, **bearer(tokens["controller"])).status_code != 200:
            assert time.monotonic() < end


# ---- streams -----------------------------------------------------------------------------------------------------------------


@pytest.fixture
def quick_pulse(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let streams look often."""
    monkeypatch.setattr(monitoring, "PULSE", 0.05)


@pytest.mark.usefixtures("quick_pulse")
def test_streams_have_a_limit_and_come_back(service: Service, tokens: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    allow(monkeypatch, STREAM, 2)
    stream = request("GET", "/v1/stream", tokens["viewer"])
    with served(service) as client:
        with connected(client, 2, stream) as lines:
            assert [read_status(line) for line in lines] == [200, 200]
            refused = client.get("/v1/stream", headers=bearer(tokens["operator"]))
            assert (refused.status_code, refused.headers["retry-after"]) == (503, "1")
            assert said(refused) == "too many requests of this kind (stream) are under way; try again"
            assert client.get("/v1/gate", headers=bearer(tokens["viewer"])).status_code == 200
            assert others(client, tokens) == [200] * 4
        end, status = time.monotonic() + CLOSES, 0
        while status != 200 and time.monotonic() < end:
            with connect(client, stream) as line:
                status = read_status(line)
        assert status == 200


@pytest.mark.usefixtures("quick_pulse")
def test_a_revoked_token_ends_its_stream_and_no_other(
    service: Service, tokens: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(auth, "REMEMBERED", 0.1)
    heads = [request("GET", "/v1/stream", tokens[role]) for role in ("viewer", "operator")]
    with served(service) as client, connect(client, heads[0]) as ended, connect(client, heads[1]) as goes_on:
        assert (read_status(ended), read_status(goes_on)) == (200, 200)
        revoke_token(service.live.database, "the viewer")
        _read_end(ended)
        post(client, "/v1/operator", {"action": "pause", "why": "a mark"}, **bearer(tokens["operator"]))
        text = b""
        while b"a mark" not in text:
            text += goes_on.recv(65536)


def _read_end(line: Any) -> None:
    """Read a stream up to its end, after which the connection stays."""
    text = b""
    while not text.endswith(b"0\r\n\r\n"):
        more = line.recv(65536)
        assert more
        text += more


@pytest.mark.usefixtures("quick_pulse")
def test_a_stream_ends_with_the_service(service: Service, tokens: dict[str, str]) -> None:
    with served(service) as client:
        line = connect(client, request("GET", "/v1/stream", tokens["viewer"]))
        assert read_status(line) == 200
    with line:
        wait_closed(line)


def test_health_is_answered_when_every_share_is_full(
    service: Service, tokens: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for kind in SHARES:
        allow(monkeypatch, kind, 0)
    with served(service) as client:
        assert others(client, tokens) == [503, 503, 503, 200]
        assert client.get("/v1/stream", headers=bearer(tokens["viewer"])).status_code == 503
