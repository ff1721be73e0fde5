"""Middleware: limits of size and rate, names of the service, browser headers, and no secrets in log lines."""

from __future__ import annotations

import json
import logging
import socket
import time
from collections import Counter
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest
from service_cases import bearer, key, make_live, make_service, post, records, said, served

from aegis.cli.gate_server import JsonLineFormatter
from aegis.service.app import LARGEST, Service
from aegis.service.auth import (
    ROLES,
    make_token,
)
from aegis.service.http.middleware import HEADERS, RateLimit
from aegis.service.status import GateStatus
from aegis.service.store.database import Database


@pytest.fixture
def service(file_database: Database) -> Service:
    """Return the service of a gate."""
    return make_service(make_live(file_database), hosts=("127.0.0.1", "Gate.Plant.example"))


@pytest.fixture
def client(service: Service, tokens: dict[str, str]) -> Iterator[httpx.Client]:
    """Return a client without a token, of a service that wants one."""
    with served(service) as found:
        yield found


def raw_answer(client: httpx.Client, request: bytes) -> bytes:
    """Send bytes as they are, and return the first line of the answer."""
    where = urlsplit(str(client.base_url))
    with socket.create_connection((where.hostname, where.port), timeout=10) as line:
        line.sendall(request)
        found = b""
        while b"\r\n" not in found:
            more = line.recv(4096)
            if not more:
                break
            found += more
    return found.split(b"\r\n")[0]


def test_a_body_has_a_limit(service: Service, client: httpx.Client, tokens: dict[str, str]) -> None:
    headers = {**bearer(tokens["controller"]), "content-type": "application/json", "idempotency-key": key()}
    large = b'{"id": "' + b"x" * LARGEST + b'"}'
    assert client.post("/v1/episodes", content=large, headers=headers).status_code == 413
    pieces = client.post("/v1/episodes", content=iter([large[:1000], large[1000:]]), headers=headers)
    assert (pieces.status_code, "bytes" in said(pieces)) == (413, True)
    assert client.post("/v1/episodes", content=b'{"id": "e"}', headers=headers).status_code == 200


@pytest.mark.parametrize("host", ["evil.example", "127.0.0.1.evil.example", "[", "[::1", "", "a b", "127.0.0.1@evil.example:1:2"])
def test_another_name_is_refused(client: httpx.Client, host: str) -> None:
    answer = raw_answer(client, f"GET /v1/health HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n".encode())
    assert answer.split()[1] in (b"421", b"400"), answer


def test_its_own_names_are_allowed_whatever_their_case(client: httpx.Client) -> None:
    for host in ("127.0.0.1:1234", "gate.plant.example", "GATE.plant.example:8741"):
        assert client.get("/v1/health", headers={"host": host}).status_code == 200


def test_too_many_requests(file_database: Database) -> None:
    service = make_service(make_live(file_database), rate=5.0)
    with served(service) as client:
        found = [client.get("/v1/health").status_code for _ in range(40)]
        assert found[:10] == [200] * 10
        assert 429 in found
        refused = next(answer for answer in (client.get("/v1/health") for _ in range(100)) if answer.status_code == 429)
        assert (refused.headers["retry-after"], "too many" in said(refused)) == ("1", True)


def test_tokens_that_are_made_up_share_the_rate_of_their_address(file_database: Database) -> None:
    token, other = make_token(file_database, "me", "viewer"), make_token(file_database, "you", "viewer")
    service = make_service(make_live(file_database), rate=5.0)
    with served(service) as client:
        for name in (token, other):
            assert client.get("/v1/gate", headers=bearer(name)).status_code == 200
        found = [client.get("/v1/gate", headers=bearer(f"aegis_{place}")).status_code for place in range(40)]
        assert found[0] == 401
        assert 429 in found
        drained = [client.get("/v1/gate", headers=bearer(token)).status_code for _ in range(40)]
        assert drained[0] == 200  # a token that was verified has a rate of its own
        assert 429 in drained
        assert client.get("/v1/gate", headers=bearer(other)).status_code == 200


def test_headers_that_browsers_obey_are_on_every_answer(client: httpx.Client, tokens: dict[str, str]) -> None:
    large = client.post("/v1/episodes", content=b"x" * (LARGEST + 1), headers=bearer(tokens["controller"]))
    answers = [
        *(
            client.get("/v1/health"),
            client.get("/v1/gate"),
            client.get("/nowhere"),
            client.put("/v1/gate"),
            client.get("/"),
            large,
        ),
        *(client.get("/v1/health", headers={"host": "evil.example"}), client.get("/v1/gate", headers=bearer(tokens["viewer"]))),
        post(client, "/v1/episodes", {"id": "a/b"}, **bearer(tokens["controller"])),
    ]
    assert [answer.status_code for answer in answers] == [200, 401, 404, 405, 401, 413, 421, 200, 422]
    for answer in answers:
        for name, value in HEADERS:
            assert answer.headers[name.decode()] == value.decode()
        assert answer.headers["cache-control"] == "no-store"
        assert "server" not in answer.headers or answer.headers["server"] == "uvicorn"


def test_a_failure_inside_says_nothing_and_has_the_headers(
    client: httpx.Client, tokens: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(_: GateStatus) -> None:
        raise RuntimeError("the secret is 42")

    monkeypatch.setattr(GateStatus, "levels_picture", broken)
    answer = client.get("/v1/levels", headers=bearer(tokens["viewer"]))
    assert answer.status_code == 500
    assert "42" not in answer.text
    assert answer.headers["x-frame-options"] == "DENY"


def test_nothing_secret_is_logged_or_sent_back(
    service: Service,
    client: httpx.Client,
    tokens: dict[str, str],
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(logging.getLogger("aegis"), "propagate", True)  # 'aegis serve' writes lines of its own
    with caplog.at_level(logging.DEBUG), caplog.at_level(logging.DEBUG, "aegis"):
        for role in ROLES:
            client.get("/v1/gate?token=in-the-query", headers=bearer(tokens[role]))
            post(client, "/v1/episodes", {"id": f"e-{role}"}, **bearer(tokens[role]))
        client.post("/enter", data={"token": tokens["operator"]})
        wrong = post(client, "/v1/episodes", {"id": "the body/is a secret"}, **bearer(tokens["controller"]))
        end = time.monotonic() + 60.0
        while sum(item.name == "aegis.service.requests" for item in caplog.records) < 2 * len(ROLES) + 2:
            assert time.monotonic() < end
            time.sleep(0.02)  # a line is written after its answer was sent
    lines: list[dict[str, Any]] = [vars(item)["fields"] for item in caplog.records if item.name == "aegis.service.requests"]
    assert {"method", "route", "status", "seconds", "caller", "address"} == set(lines[0])
    callers = [*(f"the {role}" for role in ROLES for _ in range(2)), None, "the controller"]
    assert Counter(line["caller"] for line in lines) == Counter(callers)  # in any order: a line is written after its answer
    assert {line["route"] for line in lines} == {"/v1/gate", "/v1/episodes", "/enter"}
    for secret in (*tokens.values(), "in-the-query", "the body/is a secret"):
        assert not any(secret in JsonLineFormatter().format(item) for item in caplog.records if item.name.startswith("aegis"))
    assert "the body/is a secret" not in wrong.text
    text = json.dumps([item.body for item in records(service.live)])
    assert not any(secret in text for secret in tokens.values())


def test_a_rate_comes_back_with_time(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    monkeypatch.setattr("aegis.service.http.middleware.time.monotonic", lambda: now[0])
    rates = RateLimit(2.0)
    assert [rates.allow("a") for _ in range(5)] == [True] * 4 + [False]
    assert rates.allow("b")  # every caller has its own
    now[0] = 0.5
    assert [rates.allow("a") for _ in range(2)] == [True, False]
    now[0] = 100.0
    assert [rates.allow("a") for _ in range(5)] == [True] * 4 + [False]
