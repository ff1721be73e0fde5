"""Who may do what over HTTP, how much, under which name; and what nobody gets to see."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator

import httpx
import pytest
from fastapi import Request
from service_cases import bearer, dose, key, make_live, make_service, post, recipe, result, said, served

from aegis.errors import SettingError
from aegis.service import auth as access_module
from aegis.service.app import Service
from aegis.service.auth import (
    ANONYMOUS,
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
from aegis.service.store.database import Database

READS = ("gate", "problem", "levels", "certificates", "ledger", "events", "head", "metrics")
WRITES = {
    "/v1/episodes": ("control", {"id": "e"}),
    "/v1/episodes/e/decisions": ("control", recipe()),
    "/v1/episodes/e/replaced": ("control", {"decision": "r", "used": "off", "why": "interlock"}),
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
def client(service: Service, tokens: dict[str, str]) -> Iterator[httpx.Client]:
    """Return a client without a token, of a service that wants one."""
    with served(service) as found:
        yield found


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


@pytest.mark.parametrize(
    "name",
    ["", " ", " ann", "ann ", "ann\nbob", "ann\u202e", "\x1b[2Jann", "/2", "reactor-7/", "reactor-7 /2", "a" * 65, "\ud800"],
)
def test_a_name_that_cannot_be_shown_as_it_is_makes_no_token(file_database: Database, name: str) -> None:
    with pytest.raises(SettingError, match=r"cannot be the name of a token: .*up to 64 characters.*no line break"):
        make_token(file_database, name, "viewer")
    assert list_tokens(file_database) == []


def test_tokens_of_people_and_machines_of_any_language(file_database: Database) -> None:
    names = ["ann@plant.example", "Anlage 3 (Früh)", "reactor-7/2", "می\u200cخواهم", "a" * 64]
    for name in names:
        make_token(file_database, name, "viewer")
    assert sorted(token.name for token in list_tokens(file_database)) == sorted(names)


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


def test_tokens_that_are_made_up_do_not_push_out_real_ones(file_database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(access_module, "MOST", 3)
    access, token = AccessControl(file_database), make_token(file_database, "me", "viewer")
    header = f"Bearer {token}"
    assert recognised(access, "") == ANONYMOUS  # a store without tokens has no strangers, as long as it is not asked again
    assert access.protected()
    assert recognised(access, header) is not None
    for place in range(5):
        assert access.token(f"aegis_{place}") is None
        assert recognised(access, f"Bearer aegis_{place}") is None
    assert recognised(access, header) == recognised(access, f"bearer  {token} ") == access.token(token)
    assert recognised(access, token) is None
    assert recognised(access, "") is None
    assert len(access._unknown) == 3
    revoke_token(file_database, "me")
    monkeypatch.setattr(access_module, "REMEMBERED", -1.0)  # as if that time had passed
    assert access.token(token) is None
    assert recognised(access, header) is None


def recognised(access: AccessControl, header: str) -> Token | None:
    """Return whose request it is that has an 'Authorization' header, from memory alone."""
    scope = {"type": "http", "method": "GET", "scheme": "http", "path": "/", "headers": [(b"authorization", header.encode())]}
    return access.recognise(Request(scope))


# ---- what is written down ----------------------------------------------------------------------------------------------------
