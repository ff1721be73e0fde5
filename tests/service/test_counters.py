"""The counters of a client, and its outages, which are announced once at each end."""

from __future__ import annotations

from pathlib import Path

import pytest
from client_cases import TIMEOUT, asked
from postgres_server import free_port
from service_cases import ALL, LEGACY, served

from aegis.service.app import Service
from aegis.service.client import counters, gate_client
from aegis.service.client.gate_client import Client

pytestmark = pytest.mark.usefixtures("quick_retries")


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    """Return the warnings about outages so far."""
    return [item.message for item in caplog.records if item.levelname == "WARNING" and "spool" not in item.message]


def test_an_outage_is_announced_when_it_begins_and_when_it_ends(
    service: Service, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    port = free_port()
    gate = Client(f"http://127.0.0.1:{port}", timeout=1.0, spool=tmp_path / "spool")
    assert [asked(gate).by for _ in range(3)] == ["fallback"] * 3
    assert gate.counters.reasons == {"not connected": 3} and gate.counters.last_answer is None
    assert len(warnings(caplog)) == 1 and "not connected" in warnings(caplog)[0]
    with served(service, port=port):
        assert gate.flush()
        assert asked(gate).by == "legacy"
        shown = gate.counters
        assert (shown.decisions, shown.by_gate, shown.by_fallback, shown.outages, shown.undelivered) == (4, 1, 3, 1, 0)
        assert shown.last_answer is not None and 0.0 < shown.longest < 60.0
        assert (
            len(warnings(caplog)) == 2 and "answers again, after" in warnings(caplog)[1] and " 3 decisions" in warnings(caplog)[1]
        )
        gate.close()


def test_a_refused_token_is_an_outage(
    service: Service, tokens: dict[str, str], tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gate_client, "RETRY", 0.0)
    with served(service) as http:
        gate = Client(str(http.base_url), token="aegis_wrong", timeout=1.0, spool=tmp_path / "spool")
        assert [asked(gate).by for _ in range(3)] == ["fallback"] * 3
        assert gate.counters.reasons == {"unauthorised": 3}
        assert len(warnings(caplog)) == 1 and "token of the role 'controller'" in warnings(caplog)[0]
        gate.close(0.0)


def test_a_refused_decision_is_no_outage(service: Service, tmp_path: Path) -> None:
    with served(service) as http, Client(str(http.base_url), timeout=10.0, spool=tmp_path / "spool") as gate:
        legacy = {**LEGACY, "taken": "fast"}
        assert gate.open_episode("e").decide("recipe", {"wrong": 1}, legacy, available=ALL).by == "fallback"
        assert (gate.counters.reasons, gate.counters.outages) == ({"refused": 1}, 0)


@pytest.mark.parametrize("fake", ["sleeps"], indirect=True)
def test_a_gate_that_is_late(fake: str, tmp_path: Path) -> None:
    gate = Client(fake, timeout=TIMEOUT, spool=tmp_path / "spool")
    asked(gate)
    assert gate.counters.reasons == {"no answer in time": 1} and gate.counters.longest > TIMEOUT / 2
    gate.close(0.0)


def test_every_reason_that_is_an_outage_has_a_remedy() -> None:
    assert set(counters.REMEDIES) == set(counters.REASONS) - {counters.REFUSED, counters.CERTIFICATE}  # these say it themselves
