"""What counting waits for: which episode holds up the others, since when, and how many of them."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import httpx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from service_cases import (
    count_all,
    counting_here,
    dose,
    key,
    make_live,
    make_service,
    play,
    post,
    recipe,
    result,
    served,
    started,
)

from aegis.service.schemas import Ask, Report
from aegis.service.store.database import Database


def gauge(client: httpx.Client, name: str) -> float:
    """Return a number for Prometheus."""
    lines = client.get("/v1/metrics").text.splitlines()
    return float(next(line.split()[1] for line in lines if line.startswith(f"aegis_{name} ")))


def episodes(client: httpx.Client) -> dict[str, Any]:
    """Return what is said about episodes."""
    found: dict[str, Any] = client.get("/v1/gate").json()["episodes"]
    return found


def test_the_episode_that_holds_up_others_is_named(file_database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("aegis.service.read_models.PULSE", 0.0)  # otherwise an answer may be a second old
    service = make_service(make_live(file_database))
    with served(service) as client:
        live, counting = service.live, counting_here(service.live)
        assert (episodes(client)["holding"], gauge(client, "holding_seconds")) == (None, 0.0)
        play(live, "first")
        assert (episodes(client)["open"], episodes(client)["waiting"], episodes(client)["holding"]) == (0, 1, None)
        count_all(counting)
        for where, body in (("/v1/episodes", {"id": "slow"}), ("/v1/episodes/slow/decisions", recipe())):
            assert post(client, where, body).status_code == 200
        for place in range(3):
            assert post(client, "/v1/episodes/slow/decisions", dose(id=f"d{place}")).status_code == 200
        alone = episodes(client)["holding"]
        assert (alone["episode"], alone["behind"], gauge(client, "holding_seconds")) == ("slow", 0, 0.0)
        play(live, "a")
        play(live, "b")
        live.open_episode(key(), "nothing decided")
        count_all(counting)
        found = episodes(client)
        since = live.state.trees["slow"].at
        assert found["holding"] == {"episode": "slow", "since": since, "closed": False, "missing": 3, "behind": 2}
        assert (found["counted"], found["open"], found["waiting"]) == (1, 2, 2)
        assert (gauge(client, "episodes_waiting"), gauge(client, "episodes_going")) == (2, 4)
        age = (datetime.now(UTC) - datetime.fromisoformat(since)).total_seconds()
        assert 0.0 < gauge(client, "holding_seconds") <= age + 60.0
        assert post(client, "/v1/results", {"items": [result("slow", "d1")]}).status_code == 200
        assert post(client, "/v1/episodes/slow/close", {}).status_code == 200
        later = episodes(client)["holding"]
        assert (later["closed"], later["missing"], later["behind"]) == (True, 2, 2)
        assert post(client, "/v1/episodes/slow/close", {"abandoned": True}).status_code == 200
        assert (episodes(client)["holding"], episodes(client)["waiting"]) == (None, 3)
        count_all(counting)
        assert (episodes(client)["counted"], episodes(client)["waiting"], gauge(client, "episodes_waiting")) == (4, 0, 0)


def test_its_age_is_told_if_something_waits_behind_it(file_database: Database) -> None:
    with started(file_database) as live:
        live.open_episode(key(), "slow")
        live.decide(key(), "slow", Ask(**recipe()))
        tree = live.state.trees["slow"]
        tree.known -= 7200.0
        tree.at = "2001-01-01T00:00:00.000000+00:00"  # a clock that was set does not make it older
        assert live.state.holding_seconds() == 0.0
        play(live, "next")
        assert live.state.holding_seconds() == pytest.approx(7200.0, abs=600.0)


@settings(max_examples=12, deadline=None)
@given(done=st.lists(st.sampled_from(["nothing", "reported", "closed", "settled"]), min_size=1, max_size=6))
def test_the_first_that_is_not_settled_holds_up_the_settled_ones_behind_it(
    tmp_path_factory: pytest.TempPathFactory, done: list[str]
) -> None:
    database = Database.at(tmp_path_factory.mktemp("holding") / "gate.sqlite")
    database.upgrade()
    try:
        with started(database) as live:
            for place, how in enumerate(done):
                name = f"e{place}"
                live.open_episode(key(), name)
                live.decide(key(), name, Ask(**recipe()))
                live.decide(key(), name, Ask(**dose()))
                if how in ("reported", "settled"):
                    live.report(key(), [Report(**result(name))])
                if how in ("closed", "settled"):
                    live.close(key(), name)
            count_all(counting_here(live))
            found = live.state.holding()
            first = next((place for place, how in enumerate(done) if how != "settled"), None)
            if first is None:
                assert found is None
                assert live.state.opened.episode == len(done)
                return
            assert found is not None
            assert (found.episode, found.closed) == (f"e{first}", done[first] == "closed")
            assert found.missing == (0 if done[first] == "reported" else 1)
            assert found.behind == done[first:].count("settled")
    finally:
        database.close()
