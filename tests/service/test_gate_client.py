"""The client: in time whatever happens to the gate, and nothing lost of what it could not deliver."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from client_cases import HOW, SLACK, TIMEOUT, asked, doses
from postgres_server import free_port
from service_cases import ALL, GATE, LEGACY, RECIPE, SMALL, make_live, make_service, post, served, small_problem

from aegis.errors import InputError
from aegis.logs import Source
from aegis.problem import load_problem, parse_problem
from aegis.service.app import Service
from aegis.service.client import gate_client
from aegis.service.client.gate_client import Client
from aegis.service.journal_export import export_gate
from aegis.service.live_gate import LiveGate
from aegis.service.store.database import Database

pytestmark = pytest.mark.usefixtures("quick_retries")


# ---- while the gate answers --------------------------------------------------------------------------------------------------


def test_an_episode_through_the_client(service: Service, tmp_path: Path) -> None:
    with served(service) as http, Client(str(http.base_url), timeout=10, spool=tmp_path / "spool", seed=1) as gate:
        choices = doses(gate, "e")
        assert [choice.by for choice in choices] == ["legacy"] * 4
        assert [choice.action for choice in choices] == ["fast", 0.0, 0.0, 0.0]
        assert [choice.propensity for choice in choices] == [pytest.approx(0.3)] * 4
        assert gate.flush()
        assert service.live.state.trees["e"].settled(service.live.problem)


WORDS = {"recipe": "Rezept der Schicht", "dose": "投与 量", "slow": "sehr langsam", "fast": "schnell (Ωß)", "boost": "с бустом"}


def test_names_ids_and_labels_of_any_language(file_database: Database, tmp_path: Path) -> None:
    text = SMALL
    for word, own in WORDS.items():
        text = text.replace(f"name: {word}", f'name: "{own}"').replace(f"{word},", f'"{own}",').replace(f"{word}]", f'"{own}"]')
    service = make_service(make_live(file_database, parse_problem(text)), counts=True)
    with served(service) as http, Client(str(http.base_url), timeout=10, spool=tmp_path / "spool", strict=True) as gate:
        episode = gate.open_episode("07.01.2025 Früh")
        outer = episode.decide(WORDS["recipe"], RECIPE, {**LEGACY, "taken": WORDS["fast"]}, available=ALL)
        inner = episode.decide(WORDS["dose"], {"temperature": 1.0}, LEGACY, outer)
        episode.report(inner, 4.0, guards={"scrap": 0.5})
        episode.close()
        assert gate.flush() and gate.refused == []
        assert (outer.action, outer.level, inner.level) == (WORDS["fast"], WORDS["recipe"], WORDS["dose"])
        assert {item["level"] for item in http.get("/v1/levels").json()} == {WORDS["recipe"], WORDS["dose"]}
        assert post(http, "/v1/operator", {"action": "revert", "why": "to look", "level": WORDS["dose"]}).status_code == 409
        end = time.monotonic() + 20
        while service.live.state.opened.episode < 1 and time.monotonic() < end:
            time.sleep(0.02)
    export_gate(file_database, GATE, tmp_path / "out")
    assert pq.read_table(tmp_path / "out" / "log.parquet")["batch"].to_pylist() == ["07.01.2025 Früh"]
    batch = Source(tmp_path / "out" / "log.parquet", load_problem(tmp_path / "out" / "problem.yaml")).read()
    assert list(batch.levels) == [WORDS["recipe"], WORDS["dose"]]


def test_a_strict_client_raises_what_the_gate_refuses(service: Service, tmp_path: Path) -> None:
    with served(service) as http, Client(str(http.base_url), timeout=10, spool=tmp_path / "spool", strict=True) as gate:
        episode = gate.open_episode("e")
        with pytest.raises(InputError, match="temperature"):
            episode.decide("recipe", {"temperature": 1.0}, LEGACY, available=ALL)
        for wrong in (float("nan"), float("inf"), object()):
            with pytest.raises(InputError, match="cannot be sent"):
                episode.decide("recipe", {"task": wrong}, LEGACY, available=ALL)
            with pytest.raises(InputError, match="cannot be sent"):
                episode.report("r", wrong)  # type: ignore[arg-type]
        assert episode.decide("recipe", RECIPE, LEGACY, available=ALL).by == "legacy"  # deliveries still go on


# ---- while it does not -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("fake", HOW, indirect=True)
def test_the_deadline_is_kept(fake: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gate_client, "RETRY", 0.02)
    gate = Client(fake, timeout=0.15, spool=tmp_path / "spool")
    try:
        for _ in range(2):
            choice = asked(gate)
            assert (choice.action, choice.by) == ("fast", "fallback")
            time.sleep(0.03)  # so that the gate is asked again
        assert gate.spool.refused() == []
        assert gate.undelivered == 4  # two episodes, two decisions: all are kept
    finally:
        started = time.monotonic()
        gate.close(0.0)
        assert time.monotonic() - started < SLACK + 1.0


def test_a_gate_that_is_not_there(tmp_path: Path) -> None:
    with Client(f"http://127.0.0.1:{free_port()}", timeout=TIMEOUT, spool=tmp_path / "spool", seed=3) as gate:
        assert asked(gate).by == "fallback"
        own = asked(gate, {"action": "slow", "epsilon": 0.1})
        assert (own.action, own.propensity) == ("slow", None)
        with pytest.raises(InputError, match="does not follow"):
            gate.open_episode().decide("recipe", RECIPE, {}, available=ALL)
        assert gate.fallbacks == 3
        gate.close(0.0)


def test_actions_are_known_from_the_problem_or_from_before(service: Service, tmp_path: Path) -> None:
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    with Client(url, timeout=TIMEOUT, spool=tmp_path / "told", seed=3, problem=small_problem()) as gate:
        own = asked(gate, dict(LEGACY))
        assert own.action == ("slow", "fast", "boost")[own.index or 0]
        gate.close(0.0)
    (tmp_path / "problem.yaml").write_text(SMALL)
    with Client(url, timeout=TIMEOUT, spool=tmp_path / "file", seed=3, problem=tmp_path / "problem.yaml") as gate:
        assert asked(gate, dict(LEGACY)).action == own.action
        gate.close(0.0)
    spool = tmp_path / "spool"
    with Client(url, timeout=TIMEOUT, spool=spool, seed=3) as gate:
        first = asked(gate, dict(LEGACY), "e")
        assert (first.action, first.index, first.propensity) == (None, own.index, own.propensity)
        with served(service, port=port):
            assert gate.flush(30)
        assert gate.refused == []
    (decision,) = service.live.state.trees["e"].decisions.values()
    assert (decision.action, decision.overruled) == (own.index, True)
    with Client(url, timeout=TIMEOUT, spool=spool, seed=3) as gate:  # a control system that was restarted
        assert asked(gate, dict(LEGACY)).action == own.action
        gate.close(0.0)


def test_the_legacy_is_drawn_as_it_says(tmp_path: Path) -> None:
    url = f"http://127.0.0.1:{free_port()}"
    gate = Client(url, timeout=0.01, spool=tmp_path / "spool", seed=5, problem=small_problem())
    drawn = [asked(gate, dict(LEGACY)) for _ in range(60)]
    assert {choice.by for choice in drawn} == {"fallback"}
    counts = [sum(choice.action == value for choice in drawn) for value in ("slow", "fast", "boost")]
    assert all(count > 0 for count in counts)
    assert {choice.propensity for choice in drawn} == {0.5, 0.3, 0.2}
    means = [asked(gate, {"action": "fast", "epsilon": 0.3}) for _ in range(30)]
    assert {round(choice.propensity or 0.0, 9) for choice in means if choice.action == "fast"} == {0.8}
    masked = gate.open_episode().decide("recipe", RECIPE, {"action": "fast", "epsilon": 1.0}, available=[False, True, False])
    assert (masked.action, masked.propensity) == ("fast", 1.0)
    gate.close(0.0)


# ---- delivering --------------------------------------------------------------------------------------------------------------


def test_a_decision_that_arrived_too_late_is_overruled(service: Service, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    slow, real = threading.Event(), LiveGate.decide

    def slowly(live: LiveGate, *given: Any) -> Any:
        answer = real(live, *given)
        if not slow.is_set():
            time.sleep(0.5)
        return answer

    monkeypatch.setattr(LiveGate, "decide", slowly)
    with served(service) as http, Client(str(http.base_url), timeout=TIMEOUT, spool=tmp_path / "spool") as gate:
        choice = asked(gate, name="e")
        assert choice.by == "fallback"
        slow.set()
        assert gate.flush(30)
        (decision,) = service.live.state.trees["e"].decisions.values()
        assert (decision.id, decision.action, decision.overruled) == (choice.id, 1, True)
        assert gate.spool.refused() == []


EXITS = """
import sys
from aegis.service.client.gate_client import Client
gate = Client(sys.argv[1], timeout=0.2, spool=sys.argv[2])
episode = gate.open_episode("e")
gate.spool.arrived(gate.spool.first())
episode.decide("recipe", {"task": "easy"}, {"taken": "fast"})
print("done", flush=True)
"""


@pytest.mark.parametrize("fake", ["trickles"], indirect=True)
def test_a_client_without_a_gate_lets_its_process_end(fake: str, tmp_path: Path) -> None:
    command = [sys.executable, "-c", EXITS, fake, str(tmp_path / "spool")]
    found = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    assert found.stdout.strip() == "done"
