"""The transport of a client: one deadline per exchange, and values that JSON can hold."""

from __future__ import annotations

import time
from pathlib import Path

import numpy as np
import pytest
from client_cases import SLACK
from service_cases import RECIPE, served

from aegis.errors import SettingError
from aegis.service.app import Service
from aegis.service.client.gate_client import Client
from aegis.service.client.transport import GateAway, GateConnection, GateRefusal, to_json_value


def test_the_address_of_a_gate_is_checked(tmp_path: Path) -> None:
    for url in ("127.0.0.1:8741", "ftp://x", "http://"):
        with pytest.raises(SettingError, match="http"):
            Client(url, spool=tmp_path / "spool")


@pytest.mark.parametrize("fake", ["trickles", "trickles headers"], indirect=True)
def test_an_exchange_has_one_deadline(fake: str) -> None:
    line, started = GateConnection(fake, None, 0.2), time.monotonic()
    with pytest.raises(GateAway):
        line.ask("GET", "/v1/problem")
    assert time.monotonic() - started < 0.2 + SLACK


def test_numbers_of_numpy_are_numbers(service: Service, tmp_path: Path) -> None:
    with served(service) as http, Client(str(http.base_url), timeout=10, spool=tmp_path / "spool", strict=True) as gate:
        episode = gate.open_episode("e")
        legacy = {"distribution": np.array([0.5, 0.3, 0.2])}
        outer = episode.decide("recipe", RECIPE, legacy, available=np.array([True, True, True]))  # type: ignore[arg-type]
        inner = episode.decide("dose", {"temperature": np.float32(1.5)}, legacy, outer)
        episode.report(inner, np.float64(4.0), guards={"scrap": np.float32(0.5)})
        episode.close()
        assert gate.flush(30)
        assert gate.refused == []
        assert service.live.state.trees["e"].results[inner.id].reward == 4.0


def test_plain() -> None:
    assert to_json_value({"a": (np.int64(3), np.bool_(True), float("inf"), None)}) == {"a": [3, True, "inf", None]}


@pytest.mark.parametrize("fake", ["says 503", "says 500", "says 502 without JSON", "says 421", "hangs up"], indirect=True)
def test_a_gate_that_cannot_answer_now_is_away(fake: str) -> None:
    with pytest.raises(GateAway):
        GateConnection(fake, None, 5.0).ask("POST", "/v1/episodes", {"id": "e"}, "key")


def test_the_reason_of_a_gate_that_cannot_answer_is_passed_on(service: Service) -> None:
    with served(service) as http:
        service.live.stop()
        line = GateConnection(str(http.base_url), None, 10.0)
        with pytest.raises(GateAway, match="503: gate 'plant' is not served by this process"):
            line.ask("POST", "/v1/episodes", {"id": "e"}, "key")
        line.hang_up()


def test_a_refusal_has_its_status_and_reason(service: Service) -> None:
    with served(service) as http:
        line = GateConnection(str(http.base_url), None, 10.0)
        assert line.ask("POST", "/v1/episodes", {"id": "e"}, "key")["episode"] == "e"
        with pytest.raises(GateRefusal, match=r"body\.ids: Extra inputs are not permitted") as wrong:
            line.ask("POST", "/v1/episodes", {"ids": "f"}, "other")
        assert wrong.value.status == 422
        line.hang_up()
