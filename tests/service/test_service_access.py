"""Who may do what over HTTP, how much, under which name; and what nobody gets to see."""

from __future__ import annotations

import asyncio
import json
import logging
import socket
import time
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest
from service_cases import dose, key, make_live, make_service, post, recipe, records, result, said, served

from aegis.cli.gate_server import JsonLineFormatter
from aegis.service import auth as access_module
from aegis.service.app import LARGEST, Service
from aegis.service.auth import (
    COOKIE,
    FORGERY,
    MAY,
    ROLES,
    AccessControl,
    Token,
    find_token,
    list_tokens,
    make_token,
    revoke_token,
)
from aegis.service.http_errors import StoreUnavailable
from aegis.service.middleware import HEADERS
from aegis.service.status import GateStatus
from aegis.service.store.database import Database

READS = ("gate", "problem", "levels", "certificates", "ledger", "events", "metrics")
WRITES = {
    "/v1/episodes": ("control", {"id": "e"}),
    "/v1/episodes/e/decisions": ("control", recipe()),
    "/v1/episodes/e/overruled": ("control", {"ask": dose(), "used": 1.0}),
    "/v1/results": ("control", {"items": [result("e")]}),
    "/v1/episodes/e/close": ("control", {}),
    "/v1/operator": ("operate", {"action": "pause", "why": "to look"}),
}


@pytest.fixture
def service(file_database: Database) -> Service:
    """Return the service of a gate."""
    return make_service(make_live(file_database), hosts=("127.0.0.1", "Gate.Plant.example"))


@pytest.fixture
def tokens(file_database: Database) -> dict[str, str]:
    """Return a token of each role."""
    return {role: make_token(file_database, f"the {role}", role) for role in ROLES}


@pytest.fixture
def client(service: Service, tokens: dict[str, str]) -> Iterator[httpx.Client]:
    """Return a client without a token, of a service that wants one."""
    with served(service) as found:
        yield found


def bearer(token: str) -> dict[str, str]:
    """Return the headers of whoever holds a token."""
    return {"authorization": f"Bearer {token}"}


# ---- roles -------------------------------------------------------------------------------------------------------------------


def test_every_route_asks_for_its_role(service: Service, client: httpx.Client, tokens: dict[str, str]) -> None:
    assert MAY == {"read": ("controller", "viewer", "operator"), "control": ("controller",), "operate": ("operator",)}
    for where, (what, body) in WRITES.items():
        last = service.live.journal.last
        assert post(client, where, body).status_code == 401
        assert post(client, where, body, **bearer("aegis_nobody")).status_code == 401
        for role in ROLES:
            if role not in MAY[what]:
                refused = post(client, where, body, **bearer(tokens[role]))
                assert (refused.status_code, role in said(refused)) == (403, True)
        assert service.live.journal.last == last
        for role in MAY[what]:
            assert post(client, where, body, **bearer(tokens[role])).status_code == 200, (where, role)
    for name in READS:
        assert client.get(f"/v1/{name}").status_code == 401
        for role in ROLES:
            assert client.get(f"/v1/{name}", headers=bearer(tokens[role])).status_code == 200, (name, role)


def test_every_route_is_in_the_list(client: httpx.Client) -> None:
    described = client.get("/v1/openapi.json").json()["paths"]
    written = {path.replace("{episode}", "e") for path, methods in described.items() if "post" in methods}
    read = {path.removeprefix("/v1/") for path, methods in described.items() if "get" in methods}
    assert written == set(WRITES)
    assert read == {*READS, "health", "stream"}
    assert client.get("/v1/stream").status_code == 401
    assert client.get("/v1/health").status_code == 200


def test_without_tokens_everybody_on_this_machine_may(service: Service) -> None:
    with served(service) as client:
        assert post(client, "/v1/episodes", {"id": "e"}).status_code == 200
        assert client.get("/v1/gate").status_code == 200


def test_a_revoked_token_is_worthless_within_seconds(
    service: Service, client: httpx.Client, tokens: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert client.get("/v1/gate", headers=bearer(tokens["viewer"])).status_code == 200
    revoke_token(service.live.database, "the viewer")
    assert access_module.REMEMBERED <= 10.0
    monkeypatch.setattr(access_module, "REMEMBERED", -1.0)  # as if that time had passed
    assert client.get("/v1/gate", headers=bearer(tokens["viewer"])).status_code == 401
    assert client.get("/v1/gate", headers=bearer(tokens["operator"])).status_code == 200
    for role in ("controller", "operator"):
        revoke_token(service.live.database, f"the {role}")
    assert client.get("/v1/gate").status_code == 401  # there is no way back to a gate without tokens


def test_secrets_are_kept_as_hashes(database: Database) -> None:
    secret = make_token(database, "me", "viewer")
    with database.engine.connect() as connection:
        raw = str(connection.exec_driver_sql("SELECT * FROM tokens").all())
    assert "me" in raw
    assert secret not in raw
    if database.file is not None:
        files = [item.read_bytes() for item in database.file.parent.iterdir() if item.name.startswith(database.file.name)]
        assert not any(secret.removeprefix("aegis_").encode() in content for content in files)
    assert [token.name for token in list_tokens(database)] == ["me"]


# ---- browsers ----------------------------------------------------------------------------------------------------------------


def test_a_session_needs_the_header_of_its_page(client: httpx.Client, tokens: dict[str, str]) -> None:
    assert client.post("/enter", data={"token": "aegis_wrong"}).status_code == 401
    for site in ("cross-site", "same-site"):
        foreign = client.post("/enter", data={"token": tokens["operator"]}, headers={"sec-fetch-site": site})
        assert (foreign.status_code, "set-cookie" in foreign.headers) == (403, False)
        assert client.post("/leave", headers={"sec-fetch-site": site}).status_code == 403
    entered = client.post("/enter", data={"token": tokens["operator"]})
    assert entered.status_code == 303
    cookie = entered.headers["set-cookie"].lower()
    assert all(word in cookie for word in ("httponly", "samesite=strict", COOKIE))
    session = entered.cookies[COOKIE]
    assert tokens["operator"] not in session
    client.cookies.set(COOKIE, session)
    assert client.get("/v1/gate").status_code == 200
    body = {"action": "pause", "why": "to look"}
    for proof in (None, "", "wrong", "ü"):
        headers = {"idempotency-key": key()} | ({} if proof is None else {FORGERY: proof})
        raw = [(name.encode(), value.encode("latin-1")) for name, value in headers.items()]
        assert client.post("/v1/operator", json=body, headers=raw).status_code == 403, proof
    assert post(client, "/v1/operator", body, **{FORGERY: AccessControl.proof(session)}).status_code == 200
    assert post(client, "/v1/episodes", {"id": "e"}, **{FORGERY: AccessControl.proof(session)}).status_code == 403
    assert client.post("/leave").status_code == 303
    client.cookies.set(COOKIE, session)
    assert client.get("/v1/gate").status_code == 401


def test_the_store_is_never_asked_where_everybody_waits(
    service: Service, client: httpx.Client, tokens: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[bool] = []

    def asked(database: Database, secret: str) -> Token | None:
        try:
            asyncio.get_running_loop()
            seen.append(True)
        except RuntimeError:
            seen.append(False)
        return find_token(database, secret)

    monkeypatch.setattr(access_module, "REMEMBERED", -1.0)
    monkeypatch.setattr(access_module, "find_token", asked)
    monkeypatch.setattr("aegis.service.routes.monitoring.PULSE", 0.01)
    client.post("/enter", data={"token": tokens["viewer"]})
    client.get("/", headers=bearer(tokens["viewer"]))
    with client.stream("GET", "/v1/stream", headers=bearer(tokens["viewer"])) as stream:
        lines = stream.iter_lines()
        assert next(lines) == "event: gate"
        before = len(seen)
        while len(seen) < before + 3:  # a stream asks again and again whether it still may
            time.sleep(0.01)
        revoke_token(service.live.database, "the viewer")
        assert not any(line.startswith("event") for line in lines)  # and then ends
    assert seen
    assert not any(seen)


def test_a_store_that_is_away_is_a_503_everywhere(
    client: httpx.Client, tokens: dict[str, str], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def away(*_: object) -> None:
        raise StoreUnavailable("the store does not answer")

    monkeypatch.setattr(access_module, "REMEMBERED", -1.0)
    monkeypatch.setattr("aegis.service.routes.monitoring.PULSE", 0.01)
    headers = bearer(tokens["viewer"])
    with client.stream("GET", "/v1/stream", headers=headers) as stream:
        lines = stream.iter_lines()
        assert next(lines) == "event: gate"
        monkeypatch.setattr(access_module, "find_token", away)
        assert not any(line.startswith("event") for line in lines)
    for answer in (
        client.get("/", headers=headers),
        client.post("/enter", data={"token": tokens["viewer"]}),
        client.get("/v1/stream", headers=headers),
        client.get("/v1/gate", headers=headers),
    ):
        assert (answer.status_code, said(answer)) == (503, "the store does not answer")
    assert not [item for item in caplog.records if item.exc_info]


# ---- how much, under which name ----------------------------------------------------------------------------------------------


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


def test_tokens_that_are_made_up_do_not_push_out_real_ones(file_database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(access_module, "MOST", 3)
    access, token = AccessControl(file_database), make_token(file_database, "me", "viewer")
    header = f"Bearer {token}"
    assert access.verified(header) is None
    assert access.token(token) is not None
    for place in range(5):
        assert access.token(f"aegis_{place}") is None
        assert access.verified(f"Bearer aegis_{place}") is None
    assert access.verified(header) == access.verified(f"bearer  {token} ") is not None
    assert access.verified(token) is None
    assert access.verified("") is None
    assert len(access._unknown) == 3
    revoke_token(file_database, "me")
    monkeypatch.setattr(access_module, "REMEMBERED", -1.0)  # as if that time had passed
    assert access.token(token) is None
    assert access.verified(header) is None


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
        post(client, "/v1/episodes", {"id": "a b"}, **bearer(tokens["controller"])),
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

    monkeypatch.setattr(GateStatus, "levels", broken)
    answer = client.get("/v1/levels", headers=bearer(tokens["viewer"]))
    assert answer.status_code == 500
    assert "42" not in answer.text
    assert answer.headers["x-frame-options"] == "DENY"


# ---- what is written down ----------------------------------------------------------------------------------------------------


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
        wrong = post(client, "/v1/episodes", {"id": "the body is a secret"}, **bearer(tokens["controller"]))
    lines: list[dict[str, Any]] = [vars(item)["fields"] for item in caplog.records if item.name == "aegis.service.requests"]
    assert {"method", "route", "status", "seconds"} == set(lines[0])
    assert {line["route"] for line in lines} == {"/v1/gate", "/v1/episodes", "/enter"}
    for secret in (*tokens.values(), "in-the-query", "the body is a secret"):
        assert not any(secret in JsonLineFormatter().format(item) for item in caplog.records if item.name.startswith("aegis"))
    assert "the body is a secret" not in wrong.text
    text = json.dumps([item.body for item in records(service.live)])
    assert not any(secret in text for secret in tokens.values())


def test_numbers_are_told_by_route_not_by_what_was_asked(client: httpx.Client, tokens: dict[str, str]) -> None:
    for place in range(5):
        client.get(f"/nowhere-{place}")
        client.request(f"ODD{place}", "/v1/gate")
        post(client, f"/v1/episodes/e{place}/close", {}, **bearer(tokens["controller"]))
    text = client.get("/v1/metrics", headers=bearer(tokens["viewer"])).text
    assert 'route="/v1/episodes/{episode}/close",status="404"} 5.0' in text
    assert "nowhere" not in text
    assert "ODD" not in text
