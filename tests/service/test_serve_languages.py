"""Labels of any language from `aegis serve` to a certificate: client, spool, journal, page, metrics, export, certify."""

from __future__ import annotations

import json
import logging
import random
import shlex
import signal
import time
import urllib.request
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from client_cases import doses
from prometheus_client.parser import text_string_to_metric_families
from served_gate import Helper, Served
from service_cases import SMALL, make_live, make_service, small_problem
from service_cases import served as serve_here

from aegis.cli import main
from aegis.errors import InputError, SettingError
from aegis.handover import GateSettings
from aegis.problem import load_problem, parse_problem
from aegis.service import list_gates
from aegis.service.app import Service
from aegis.service.client.gate_client import Client
from aegis.service.journal_export import _folder_name
from aegis.service.live_gate import LiveGate
from aegis.service.store.database import Database

OUTER, INNER = "Rezept der Schicht 🧪", "جرعة <b>&'\" 50%?#"
EASY, HARD = "einfach & <i>leicht</i>", "难: #2"
SLOW, FAST = "yes", "schnell/快 100% 🚀"  # the first is true to some readers of YAML
IDS = ["07.01.2025 Früh", "第3批 🧪", "دفعة ٧", "a?b=1&c#d", "100% + %2F", "<script>'\"", "हिन्दी", "2025-01-07", "~", "null"]
PROBLEM = f"""
episode: "Charge Nr."
reward: {{column: "Ertrag €", range: [0, 1], per: decision}}
levels:
  - name: {json.dumps(OUTER)}
    context: [{{column: "Aufgabe 任务", values: {json.dumps([EASY, HARD])}}}]
    action: {{column: "Einstellung", values: {json.dumps([SLOW, FAST])}}}
    propensity: {{column: p_setting}}
  - name: {json.dumps(INNER)}
    context: ["Temperatur °C"]
    action: {{column: "الجرعة", values: ["0", "eins"]}}
    propensity: {{column: p_dose}}
"""
HANDED_OVER = 120.0  # seconds in which a level is handed over, on a machine that is busy with other work
SETTINGS = ["--mode", "live", "--host", "greedy", "--gate-set", "first=8", "--gate-set", "patience=1", "--caps", "2"]


def run_episode(gate: Client, name: str, rng: random.Random) -> None:
    """Take an episode through the gate; what pays is the second action of either level."""
    episode = gate.open_episode(name)
    outer = episode.decide(OUTER, {"Aufgabe 任务": rng.choice([EASY, HARD])}, {"distribution": [0.5, 0.5]})
    inner = episode.decide(INNER, {"Temperatur °C": rng.random()}, {"distribution": [0.5, 0.5]}, outer)
    episode.report(inner, 0.5 * (outer.action == FAST) + 0.5 * (inner.action == "eins"))
    episode.close()


def handed_over(url: str) -> bool:
    with urllib.request.urlopen(f"{url}/v1/levels") as answer:
        return any(item["control"] == "agent" for item in json.load(answer))


def typed(*words: str) -> int:
    with pytest.raises(SystemExit) as stop:
        main([*words])
    return int(stop.value.code or 0)


@pytest.mark.ci
def test_labels_of_any_language_from_the_gate_to_a_certificate(
    helper: Helper, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file, store, out = tmp_path / "Früh 第1.yaml", tmp_path / "Ablage ü.sqlite", tmp_path / "Export ü 1"
    file.write_text(PROBLEM, encoding="utf-8")
    served, rng = Served(helper, ["--problem", str(file), "--store", str(store), *SETTINGS]), random.Random(3)
    spool = tmp_path / "Spule ü.sqlite"
    with Client(served.url, timeout=0.3, spool=spool, problem=file, strict=True, seed=1) as gate:
        run_episode(gate, IDS[0], rng)  # the gate is not there yet: this waits in the spool
        assert gate.counters.by_fallback == 2
        gate.close(0.0)
    served.start()
    names = [*IDS[1:], *(f"Charge {number} ß" for number in range(110))]
    with Client(served.url, timeout=10, spool=spool, problem=file, strict=True) as gate:
        assert gate.flush(30)
        for name in names:
            run_episode(gate, name, rng)
        end = time.monotonic() + HANDED_OVER
        while not handed_over(served.url) and time.monotonic() < end:  # a busy machine freezes challengers later: feed them
            names.append(f"Charge {len(names)} mehr")
            run_episode(gate, names[-1], rng)
        assert gate.flush(30) and gate.refused == [] and gate.counters.by_fallback == 0
    with urllib.request.urlopen(f"{served.url}/v1/metrics") as answer:
        families = {item.name: item for item in text_string_to_metric_families(answer.read().decode())}
    assert {sample.labels["level"] for sample in families["aegis_handed_over"].samples} == {OUTER, INNER}
    with urllib.request.urlopen(f"{served.url}/v1/levels") as answer:
        assert [item["level"] for item in json.load(answer)] == [OUTER, INNER]
    with urllib.request.urlopen(f"{served.url}/") as answer:
        assert "Früh 第1" in answer.read().decode()
    served.kill(signal.SIGTERM)
    assert typed("store", "verify", "--store", str(store)) == 0
    capsys.readouterr()
    assert typed("store", "export", "--store", str(store), "--out", str(out)) == 0
    lines = [line.split("aegis ", 1)[1] for line in capsys.readouterr().out.splitlines() if "aegis certify" in line]
    table = pq.read_table(out / "log.parquet").to_pydict()
    assert table["Charge Nr."] == [IDS[0], *names][: len(table["Charge Nr."])]
    assert set(table["Einstellung"]) == {SLOW, FAST} and set(table["Aufgabe 任务"]) == {EASY, HARD}
    assert load_problem(out / "problem.yaml").names == (OUTER, INNER)
    assert lines, "a level was handed over"
    for line in lines:  # as it is printed, so as a shell reads it
        assert typed(*shlex.split(line), "--report", str(tmp_path / "Bericht ü.html")) == 0, line
    page = (tmp_path / "Bericht ü.html").read_text(encoding="utf-8")
    assert "<b>&'" not in page and "<i>leicht" not in page and "جرعة" in page


# ---- names that no path can carry ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["a/b", "..", " a", "a\nb", "x" * 101, "\ud800"])
def test_an_id_that_no_gate_takes_is_refused_where_it_is_named(
    name: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    strict = Client("http://127.0.0.1:9", timeout=0.2, spool=tmp_path / "strict", problem=small_problem(), strict=True)
    with pytest.raises(InputError, match=r"cannot be the id of an episode.*no slash"):
        strict.open_episode(name)
    strict.close(0.0)
    gate = Client("http://127.0.0.1:9", timeout=0.2, spool=tmp_path / "spool", problem=small_problem())
    with caplog.at_level(logging.WARNING, "aegis.client"):
        assert {choice.by for choice in doses(gate, name, 1)} == {"fallback"}  # no plant stops for it
    assert "cannot be the id of an episode" in caplog.text
    gate.close(0.0)


@pytest.mark.parametrize("name", ["a/b", "../x", "a\\b", "x" * 101])
def test_a_level_that_no_gate_can_serve_is_refused_at_the_start(name: str, file_database: Database) -> None:
    problem = parse_problem(SMALL.replace("name: dose", f"name: {json.dumps(name)}"))
    with pytest.raises(SettingError, match=r"no gate can serve a level that is called .*no slash"):
        make_live(file_database, problem)


def test_a_level_whose_name_is_as_long_as_it_may_be(file_database: Database, tmp_path: Path) -> None:
    long = "量" * 100
    service: Service = make_service(make_live(file_database, parse_problem(SMALL.replace("name: dose", f"name: {long}"))))
    with serve_here(service) as http, Client(str(http.base_url), timeout=10, spool=tmp_path / "spool", strict=True) as gate:
        episode = gate.open_episode("e" * 100)
        episode.decide("recipe", {"task": "easy"}, {"distribution": [0.5, 0.3, 0.2]}, available=[True, True, True])
        inner = episode.decide(long, {"temperature": 1.0}, {"distribution": [0.5, 0.3, 0.2]})
        episode.report(inner, 4.0, guards={"scrap": 0.5})
        episode.close()
        assert gate.flush(30) and gate.refused == []
    assert service.live.state.trees["e" * 100].closed


@pytest.mark.parametrize("name", ["Früh 第1", "Fru\u0308h", "हिन्दी", "a_b.c:d-e"])
def test_a_gate_has_a_name_of_any_language(name: str, file_database: Database) -> None:
    live = LiveGate(file_database, name, small_problem(), GateSettings(), 7)
    live.start()
    live.stop()
    assert list_gates(file_database) == [name]


@pytest.mark.parametrize("name", ["", "_a", ".a", "a/b", "\u0308a", "a\nb", "x" * 65])
def test_what_cannot_be_part_of_a_file_name_is_no_gate(name: str, file_database: Database) -> None:
    with pytest.raises(SettingError, match="the name of a gate"):
        LiveGate(file_database, name, small_problem(), GateSettings(), 7)


def test_the_folder_of_a_challenge_fits_into_a_file_system(tmp_path: Path) -> None:
    names = [f"1-{'量' * 100}-{number}" for number in range(3)]
    folders = {_folder_name(name) for name in names}
    assert len(folders) == 3 and all(folder.startswith("1-量") for folder in folders)
    for folder in folders:
        (tmp_path / folder).mkdir()
    assert _folder_name("1-Rezept der Schicht-3") == "1-Rezept der Schicht-3"
