"""What a gate refuses: an episode of another machine is set aside, a token that was revoked keeps everything."""

from __future__ import annotations

import logging
import time
from pathlib import Path

import pytest
from client_cases import asked, doses
from service_cases import ALL, LEGACY, RECIPE, served

from aegis.errors import InputError
from aegis.service import auth
from aegis.service.app import Service
from aegis.service.auth import make_token, revoke_token
from aegis.service.client.gate_client import Client
from aegis.service.store.database import Database


def test_an_episode_of_another_machine_is_set_aside_and_holds_up_nothing(
    service: Service, file_database: Database, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    first, second = (make_token(file_database, name, "controller") for name in ("reactor-7", "reactor-8"))
    with served(service) as http:
        url = str(http.base_url)
        with Client(url, first, timeout=10, spool=tmp_path / "first") as gate:
            asked(gate, name="e")
            assert gate.flush(30)
        before = dict(service.live.state.trees["e"].decisions)
        with caplog.at_level(logging.WARNING, "aegis.client"), Client(url, second, timeout=10, spool=tmp_path / "second") as gate:
            assert {choice.by for choice in doses(gate, "e", 2)} == {"fallback"}
            assert {choice.by for choice in doses(gate, "f", 2)} == {"legacy"}
            assert gate.flush(30)
            refused, counters = gate.refused, gate.counters
        assert {item.episode for item in refused} == {"e"}
        assert {item.why[:3] for item in refused} == {"409", "403"}  # the name is taken, the rest is another machine's
        assert (counters.undelivered, counters.refused, counters.outages) == (0, len(refused), 0)
        assert counters.reasons == {"refused": 3}
        assert "of episode 'e' (Client.refused): 403: episode 'e' was opened by another controller" in caplog.text
        strict, owned = (
            Client(url, second, timeout=10, spool=tmp_path / "strict", strict=True),
            "was opened by another controller",
        )
        with strict, pytest.raises(InputError, match=rf"\(403\): episode 'e' {owned}"):
            strict.open_episode("e").decide("recipe", RECIPE, {**LEGACY, "taken": "fast"}, available=ALL)
    assert service.live.state.trees["e"].decisions == before and not service.live.state.trees["e"].closed
    assert service.live.state.trees["f"].closed


def test_a_token_that_was_revoked_keeps_everything_and_warns(
    service: Service,
    file_database: Database,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(auth, "REMEMBERED", 0.0)
    secret = make_token(file_database, "reactor-7", "controller")
    with served(service) as http, caplog.at_level(logging.WARNING, "aegis.client"):
        url = str(http.base_url)
        with Client(url, secret, timeout=10, spool=tmp_path / "spool") as gate:
            episode = gate.open_episode("e")
            outer = episode.decide("recipe", RECIPE, {**LEGACY, "taken": "fast"}, available=ALL)
            inner = episode.decide("dose", {"temperature": 1.0}, {**LEGACY, "taken": 0.0}, outer)
            assert gate.flush(30)
            revoke_token(file_database, "reactor-7")
            episode.report(inner, 4.0, guards={"scrap": 0.5})
            end = time.monotonic() + 30
            while "unauthorised" not in caplog.text and time.monotonic() < end:  # although no decision is asked for
                time.sleep(0.01)
            episode.close()
            assert not gate.flush(0.3)
            assert (gate.undelivered, gate.refused) == (2, [])
            assert caplog.text.count("give the client a token") == 1
            gate.close(0.0)
        with Client(url, make_token(file_database, "reactor-7/2", "controller"), timeout=10, spool=tmp_path / "spool") as gate:
            assert gate.flush(30) and gate.refused == []
    assert service.live.state.trees["e"].settled(service.live.problem)


def test_a_role_that_does_not_fit_keeps_everything(service: Service, file_database: Database, tmp_path: Path) -> None:
    viewer = make_token(file_database, "wall", "viewer")
    with served(service) as http, Client(str(http.base_url), viewer, timeout=10, spool=tmp_path / "spool") as gate:
        gate.open_episode("e").close()
        assert not gate.flush(0.5)
        assert (gate.undelivered, gate.refused) == (2, [])
        gate.close(0.0)
