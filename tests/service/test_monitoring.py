"""Routes that only read: health, events by number, the problem, and nothing before the gate was opened."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Sequence

import httpx
import pytest
from service_cases import count_all, counting_here, make_live, make_service, play, served

from aegis.service.app import Service
from aegis.service.http_errors import StoreUnavailable
from aegis.service.integrity import check_store
from aegis.service.store.chain import parse_heads
from aegis.service.store.database import Database
from aegis.service.store.journal import Journal, JournalEntry, JournalRecord, list_heads
from aegis.service.store.journal_keys import JournalKeys


def test_events_are_read_by_number(file_database: Database) -> None:
    live = make_live(file_database)
    with served(make_service(live)) as client:
        counting = counting_here(live)
        for number in range(5):
            play(live, f"e{number}")
            count_all(counting)
        everything = client.get("/v1/events").json()
        assert [item["kind"] for item in everything].count("unit") == 5
        assert [item["seq"] for item in everything] == sorted(item["seq"] for item in everything)
        first = client.get("/v1/events?limit=2").json()
        assert first == everything[:2]
        assert client.get(f"/v1/events?limit=1000&after={first[-1]['seq']}").json() == everything[2:]
        assert client.get("/v1/events?limit=0").status_code == 422


def test_the_problem_says_what_to_send(service: Service) -> None:
    with served(service) as client:
        problem = client.get("/v1/problem").json()
    assert [level["level"] for level in problem["levels"]] == ["recipe", "dose"]
    assert [level["masked"] for level in problem["levels"]] == [True, False]
    assert problem["levels"][1]["actions"] == [-1.0, 0.0, 1.0]
    assert problem["reward"] == {"per": "decision", "range": [0, 10], "unit": "", "goal": "maximise"}
    assert (problem["guards"], problem["outcome"]) == (["scrap"], None)


def test_the_head_can_be_kept_elsewhere(file_database: Database) -> None:
    live = make_live(file_database, keys=JournalKeys((b"k" * 32,)))
    with served(make_service(live)) as client:
        play(live, "e")
        head = client.get("/v1/head").json()
    assert head == {**list_heads(file_database)[0].plain(), "keyed": True}
    check_store(file_database, live.keys, parse_heads(json.dumps(head)))


def test_a_write_that_hangs_ends_a_stream(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("aegis.service.routes.monitoring.PULSE", 0.05)
    monkeypatch.setattr("aegis.service.read_models.PULSE", 0.0)
    live, hangs, goes_on = service.live, threading.Event(), threading.Event()

    def hang(entries: Sequence[JournalEntry], *_: object) -> list[JournalRecord]:
        live.journal._writing_since = time.monotonic()
        live.journal.last += 1  # there is something to show
        hangs.set()
        goes_on.wait(60)
        live.journal._writing_since = None
        live.journal.last -= 1
        raise StoreUnavailable("the store does not answer")

    def refused() -> None:
        with pytest.raises(StoreUnavailable):
            play(live, "e")

    with served(service) as client:
        with client.stream("GET", "/v1/stream") as answer:
            lines = answer.iter_lines()
            assert next(lines) == "event: gate"
            with monkeypatch.context() as patched:
                patched.setattr(Journal, "append", lambda _, *arguments: hang(*arguments))
                thread = threading.Thread(target=refused)
                thread.start()
                assert hangs.wait(30)
                for _ in lines:  # to its end: a connection that breaks off raises
                    pass
                goes_on.set()
                thread.join(30)
        with client.stream("GET", "/v1/stream") as answer:
            assert next(answer.iter_lines()) == "event: gate"


def _read(client: httpx.Client) -> dict[str, int]:
    return {name: client.get(f"/v1/{name}").status_code for name in ("health", "gate", "levels", "certificates", "ledger")}


def test_before_the_gate_is_opened_there_is_nothing_to_read(file_database: Database) -> None:
    other = make_live(file_database)
    assert other.lease.take()  # another process holds it, and has opened nothing
    with served(make_service(make_live(file_database), standby=True)) as client:
        assert set(_read(client).values()) == {503}
    other.lease.let_go()


def test_health_and_status_of_a_writer(service: Service) -> None:
    with served(service) as client:
        assert set(_read(client).values()) == {200}
        assert client.get("/v1/health").json() == {"writer": True, "store": None, "counting": None}
        ledger = client.get("/v1/ledger").json()
        assert (ledger["spent"], ledger["entries"]) == (0.0, [])
