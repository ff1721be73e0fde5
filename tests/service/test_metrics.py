"""Metrics for Prometheus: by route, and what the gate says of itself."""

from __future__ import annotations

from collections.abc import Iterator

import httpx
import pytest
from service_cases import bearer, count_all, counting_here, key, make_live, make_service, play, post, recipe, served

from aegis.service.app import Service
from aegis.service.schemas import Ask
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


def test_numbers_are_told_by_route_not_by_what_was_asked(client: httpx.Client, tokens: dict[str, str]) -> None:
    for place in range(5):
        client.get(f"/nowhere-{place}")
        client.request(f"ODD{place}", "/v1/gate")
        post(client, f"/v1/episodes/e{place}/close", {}, **bearer(tokens["controller"]))
    text = client.get("/v1/metrics", headers=bearer(tokens["viewer"])).text
    assert 'route="/v1/episodes/{episode}/close",status="404"} 5.0' in text
    assert "nowhere" not in text
    assert "ODD" not in text


def test_gauges_say_what_the_gate_is_doing(file_database: Database) -> None:
    live = make_live(file_database)
    with served(make_service(live)) as client:
        counting = counting_here(live)
        for name in ("a", "b"):
            play(live, name)
            count_all(counting)
        live.open_episode(key(), "held")
        live.decide(key(), "held", Ask(**recipe()))
        play(live, "behind")
        text = client.get("/v1/metrics").text
    values = dict(line.rsplit(" ", 1) for line in text.splitlines() if not line.startswith("#"))
    expected = {
        "episodes_started": 4,
        "episodes_counted": 2,
        "episodes_going": 2,
        "episodes_waiting": 1,
        "paused": 0,
        "writer": 1,
    }
    assert {name: float(values[f"aegis_{name}"]) for name in expected} == expected
    assert float(values["aegis_holding_seconds"]) > 0.0
    assert {values[f'aegis_{name}{{level="dose"}}'] for name in ("handed_over", "gain_lower")} == {"0.0"}
