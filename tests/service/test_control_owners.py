"""Whose request it was: the caller is in the journal, and a controller writes to its own episodes only."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from service_cases import (
    GATE,
    bearer,
    count_all,
    counting_here,
    dose,
    key,
    make_live,
    make_service,
    play,
    post,
    recipe,
    records,
    result,
    said,
    served,
    started,
)

from aegis.errors import SettingError
from aegis.service import auth as access_module
from aegis.service.app import Service
from aegis.service.auth import is_same_machine, make_token, revoke_token
from aegis.service.http_errors import NotAllowed
from aegis.service.journal_export import export_gate
from aegis.service.schemas import Ask, Report
from aegis.service.store.database import Database

ONE, TWO, NEXT = "reactor-7", "reactor-8", "reactor-7/2"
WRITES: list[tuple[str, Any]] = [
    ("/v1/episodes/e/decisions", dose()),
    ("/v1/episodes/e/overruled", {"ask": dose(id="d2"), "used": 1.0}),
    ("/v1/results", {"items": [result("e")]}),
    ("/v1/episodes/e/close", {}),
]


@pytest.fixture
def headers(file_database: Database) -> dict[str, dict[str, str]]:
    """Return the headers of two controllers, one of which has two tokens, and of an operator."""
    tokens = {name: make_token(file_database, name, "controller") for name in (ONE, TWO, NEXT)}
    return {name: bearer(token) for name, token in {**tokens, "ann": make_token(file_database, "ann", "operator")}.items()}


@pytest.fixture
def service(file_database: Database) -> Service:
    return make_service(make_live(file_database))


@pytest.fixture
def client(service: Service, headers: dict[str, dict[str, str]]) -> Iterator[httpx.Client]:
    with served(service) as found:
        assert post(found, "/v1/episodes", {"id": "e"}, **headers[ONE]).status_code == 200
        assert post(found, "/v1/episodes/e/decisions", recipe(), **headers[ONE]).status_code == 200
        yield found


# ---- whose request -----------------------------------------------------------------------------------------------------------


def test_every_record_of_a_request_has_its_caller(service: Service, client: httpx.Client, headers: Any) -> None:
    for where, body in WRITES:
        assert post(client, where, body, **headers[ONE]).status_code == 200, where
    assert post(client, "/v1/episodes/e/decisions", dose(id="d9"), **headers[ONE]).status_code == 409  # it is cut off
    assert post(client, "/v1/operator", {"action": "pause", "why": "to look"}, **headers["ann"]).status_code == 200
    callers = {(item.kind, item.caller) for item in records(service.live)}
    own = ("episode", "keyed", "decision", "overruled", "results", "closed", "cut")
    assert callers == {("opened", None), ("writer", None), ("event", "ann"), *((kind, ONE) for kind in own)}
    events = client.get("/v1/events", headers=headers["ann"]).json()
    assert {event["caller"] for event in events} == {"ann"}


def test_what_the_gate_does_by_itself_has_no_caller(file_database: Database) -> None:
    with started(file_database) as live:
        live.open_episode(key(), "e", caller=ONE)
        live.pause("for a test")
        play(live, "f")
        callers = {(item.kind, item.caller) for item in records(live)}
    assert callers >= {("episode", ONE), ("event", None), ("episode", None), ("closed", None)}


def test_what_a_late_request_leads_to_has_its_caller(file_database: Database) -> None:
    with started(file_database) as live:
        play(live, "e")
        count_all(counting_here(live))
        with pytest.raises(Exception, match="counted already"):
            live.decide(key(), "e", Ask(**dose(id="d9")), caller=ONE)
        (late,) = [item for item in records(live, "event") if item.body["event"]["kind"] == "late"]
        assert late.caller == ONE


def test_an_export_counts_the_records_of_each_caller(file_database: Database, tmp_path: Path) -> None:
    with started(file_database) as live:
        live.open_episode(key(), "e", caller=ONE)
        live.decide(key(), "e", Ask(**recipe()), caller=ONE)
        live.decide(key(), "e", Ask(**dose()), caller=NEXT)
        live.report(key(), [Report(**result("e"))], caller=NEXT)
        live.close(key(), "e", caller=NEXT)
        count_all(counting_here(live))
    export_gate(file_database, GATE, tmp_path / "out")
    assert json.loads((tmp_path / "out" / "gate.json").read_text())["callers"] == {ONE: 3, NEXT: 3}


# ---- whose episode -----------------------------------------------------------------------------------------------------------


def test_another_controller_may_not_write(service: Service, client: httpx.Client, headers: Any) -> None:
    last = service.live.journal.last
    for where, body in WRITES:
        refused = post(client, where, body, **headers[TWO])
        assert refused.status_code == 403, where
        assert "only the controller that opened an episode may write" in said(refused) and ONE not in said(refused)
    assert post(client, "/v1/episodes", {"id": "mine"}, **headers[TWO]).status_code == 200
    assert post(client, "/v1/episodes/mine/decisions", recipe(), **headers[TWO]).status_code == 200
    assert post(client, "/v1/episodes/mine/decisions", dose(), **headers[TWO]).status_code == 200
    mixed = {"items": [result("mine"), result("e")]}
    assert post(client, "/v1/results", mixed, **headers[TWO]).status_code == 403  # all of them, or none
    assert [item.kind for item in records(service.live)][last:] == ["episode", "keyed", "decision", "decision"]
    assert post(client, "/v1/episodes/none/close", {}, **headers[TWO]).status_code == 404
    for where, body in WRITES:
        assert post(client, where, body, **headers[ONE]).status_code == 200, where


def test_another_controller_cannot_spoil_what_is_closed_or_counted(file_database: Database) -> None:
    with started(file_database) as live:
        for name in ("counted", "closed"):
            live.open_episode(key(), name, caller=ONE)
            live.decide(key(), name, Ask(**recipe()), caller=ONE)
            live.decide(key(), name, Ask(**dose()), caller=ONE)
            live.close(key(), name, caller=ONE)
        live.report(key(), [Report(**result("counted"))], caller=ONE)
        count_all(counting_here(live))
        assert list(live.state.trees) == ["closed"]
        last = live.journal.last
        for name in ("counted", "closed"):
            for refused in (
                lambda name=name: live.decide(key(), name, Ask(**dose(id="d9")), caller=TWO),
                lambda name=name: live.report(key(), [Report(**result(name, reward=9.0))], caller=TWO),
                lambda name=name: live.close(key(), name, incomplete=True, caller=TWO),
            ):
                with pytest.raises(NotAllowed):
                    refused()
        assert live.journal.last == last and live.state.opened.paused is None
        assert live.report(key(), [Report(**result("counted"))], caller=NEXT)["late"]


def test_a_new_token_of_the_same_machine_goes_on(
    service: Service, client: httpx.Client, headers: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    revoke_token(service.live.database, ONE)
    monkeypatch.setattr(access_module, "REMEMBERED", -1.0)  # as if that time had passed
    assert post(client, *WRITES[0], **headers[ONE]).status_code == 401
    for where, body in WRITES:
        assert post(client, where, body, **headers[NEXT]).status_code == 200, where


def test_a_key_belongs_to_its_caller(service: Service, client: httpx.Client, headers: Any) -> None:
    for place, (where, body) in enumerate([*WRITES, ("/v1/episodes", {"id": "f"})]):
        first = post(client, where, body, f"k{place}", **headers[ONE])
        last = service.live.journal.last
        for name in (ONE, NEXT):
            again = post(client, where, body, f"k{place}", **headers[name])
            assert (again.status_code, again.json()) == (200, first.json()), where
        other = post(client, where, body, f"k{place}", **headers[TWO])
        assert (other.status_code, ONE in said(other)) == (409, False), where
        assert "by another caller" in said(other)
        assert service.live.journal.last == last


def test_episodes_that_nobody_owns_may_be_written_by_all(file_database: Database) -> None:
    with started(file_database) as live:
        live.open_episode("first", "e")
        live.decide(key(), "e", Ask(**recipe()), caller=ONE)
        live.decide(key(), "e", Ask(**dose()), caller=TWO)
        assert live.open_episode("first", "e", caller=TWO)["episode"] == "e"  # before there were tokens
        live.open_episode(key(), "f", caller=ONE)
        live.close(key(), "f", abandoned=True)  # as the gate itself does


def test_the_owner_is_known_after_a_restart(file_database: Database) -> None:
    with started(file_database) as live:
        live.open_episode(key(), "e", caller=ONE)
    with started(file_database) as live:
        assert live.state.trees["e"].owner == ONE
        with pytest.raises(NotAllowed):
            live.decide(key(), "e", Ask(**recipe()), caller=TWO)
        live.decide(key(), "e", Ask(**recipe()), caller=NEXT)


@pytest.mark.parametrize(
    ("owner", "caller", "same"),
    [
        *((ONE, ONE, True), (ONE, NEXT, True), (NEXT, ONE, True), (NEXT, "reactor-7/3/b", True), (ONE, TWO, False)),
        *((ONE, "reactor-70", False), (None, ONE, True), (ONE, None, True), (ONE, "x/reactor-7", False)),
    ],
)
def test_the_machine_is_the_name_up_to_a_slash(owner: str | None, caller: str | None, same: bool) -> None:
    assert is_same_machine(owner, caller) is same


@pytest.mark.parametrize("name", ["/2", " /2", "", " "])
def test_a_token_names_a_machine(file_database: Database, name: str) -> None:
    with pytest.raises(SettingError, match="cannot be the name of a token"):
        make_token(file_database, name, "controller")
