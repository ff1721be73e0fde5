"""Gates of one plant are counted before their first episode, and the sum of their risks is stated."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from visits_plant import Visits, gate

from aegis.errors import OutputError
from aegis.handover import Event, Handover, OperatorAction, count_gate, run_in_folder, summarise_run
from aegis.handover.risk_budget import plant_digest, record_gate
from aegis.report import render_handover

ABOUT = {"plant": "visits:plant", "legacy": "visits:even"}


def run(folder: Path, ledger: Path, seed: int, **settings: object) -> Handover:
    found = gate(Visits(), seed, **settings)
    run_in_folder(folder / f"run-{seed}-{len(settings)}", found, 120, ABOUT, ledger=ledger)
    return found


def test_new_seeds_until_one_gate_hands_over_are_counted_and_stated(tmp_path: Path) -> None:
    ledger = tmp_path / "ledger"
    first = run(tmp_path, ledger, 2)
    assert "Probability of any wrong handover: at most 0.05." in summarise_run(first)["sentence"]
    assert summarise_run(first)["gates"] == {"number": 1, "risk": 0.05, "asked": 0.05}
    run(tmp_path, ledger, 3, delta=0.01)
    third = run(tmp_path, ledger, 4)
    found = summarise_run(third)
    assert found["gates"] == {"number": 3, "risk": pytest.approx(0.11), "asked": 0.05}
    assert "Probability of any wrong handover by this gate: at most 0.05." in found["sentence"]
    words = (
        "This is gate 3 of this plant: the probability that any of these gates hands over wrongly is at most 0.11, more than the"
    )
    assert found["sentence"].endswith(f"{words} 0.05 asked for.")
    kept = json.loads((tmp_path / "run-4-0" / "summary.json").read_text())
    assert kept["gates"]["number"] == 3 and kept["sentence"] == found["sentence"]
    page = render_handover(third)
    assert words in page and "by all 3 gates of this plant" in page


def test_the_same_run_again_taken_up_or_told_something_is_the_same_gate(tmp_path: Path) -> None:
    ledger = tmp_path / "ledger"
    run(tmp_path, ledger, 2)
    run(tmp_path, ledger, 3)
    again = gate(Visits(), 2)
    run_in_folder(tmp_path / "run-2-0", again, 140, ABOUT, actions=[OperatorAction("pause", "ann", "lunch", 0)], ledger=ledger)
    assert again.counted is not None and again.counted.number == 1
    elsewhere = gate(Visits(), 3)
    run_in_folder(tmp_path / "elsewhere", elsewhere, 40, ABOUT, ledger=ledger)
    assert elsewhere.counted is not None and elsewhere.counted.number == 2


def test_a_gate_is_written_down_before_its_first_episode(tmp_path: Path) -> None:
    class Stopped(Exception):
        pass

    def stop(events: Sequence[Event]) -> None:
        raise Stopped

    with pytest.raises(Stopped):
        run_in_folder(tmp_path / "one", gate(Visits(), 1), 120, ABOUT, stop, ledger=tmp_path / "ledger")
    assert run(tmp_path, tmp_path / "ledger", 2).counted.number == 2  # type: ignore[union-attr]


def test_other_plants_and_other_margins(tmp_path: Path) -> None:
    problem, other = Visits().problem, {**ABOUT, "legacy": "another"}
    assert plant_digest(problem, ABOUT) != plant_digest(problem, other)
    asked = replace(problem, levels=(replace(problem.levels[0], margin=0.02),))
    assert plant_digest(problem, {**ABOUT, "margins": {"": 0.02}, "host": "ids"}) == plant_digest(asked, ABOUT)
    first, second = gate(Visits(), 1), gate(Visits(), 2)
    count_gate(first, ABOUT, tmp_path)
    count_gate(second, other, tmp_path)
    assert first.counted == second.counted


def test_a_ledger_that_cannot_be_read_stops_the_gate_before_it_starts(tmp_path: Path) -> None:
    record_gate("p" * 64, "g", 0.05, tmp_path)
    (path,) = (tmp_path / "gates").glob("*.json")
    path.write_text("{")
    with pytest.raises(OutputError, match=r"ledger of gates cannot be read.*restore it from a copy"):
        record_gate("p" * 64, "h", 0.05, tmp_path)


def test_the_user_s_own_folder_is_that_of_looks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AEGIS_LEDGER", str(tmp_path / "looks"))
    count_gate(gate(Visits()), ABOUT)
    assert len(list((tmp_path / "looks" / "gates").glob("*.json"))) == 1
