"""`aegis handover` on a plant that is not as declared: paused, exit code 4, resumed by an operator; several gates are counted."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from typed import run as aegis

pytestmark = pytest.mark.usefixtures("coarse_oracle")

PLANT = Path(__file__).parents[1] / "handover" / "visits_plant.py"
RUN: tuple[object, ...] = ("handover", "--host", "greedy", "--gate-set", "upgrades=false", "--legacy", "mine:legacy")
WHO = ("--who", "ann", "--why", "the plant was mended")


@pytest.fixture
def mine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a folder with two plants of one's own: one whose offers cost something later, and one that is as declared."""
    shutil.copy(PLANT, tmp_path / "visits_plant.py")
    lines = ["from visits_plant import Visits", "bad = Visits(later=0.3)", "good = Visits()", "legacy = good.legacy"]
    (tmp_path / "mine.py").write_text("\n".join(lines) + "\n")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_a_plant_with_carry_over_pauses_and_an_operator_resumes(mine: Path, capsys: pytest.CaptureFixture[str]) -> None:
    given = (*RUN, "--plant", "mine:bad", "--seed", 2, "--out", "run")
    code, out, err = aegis(*given, "--episodes", 160, capsys=capsys)
    words = " ".join(out.split())
    assert code == 4, err
    assert "The gate is paused: the audit refuses what it counts: level 'visit'" in words and "carry_over: within" in words
    assert "Probability of any wrong handover" not in words and "Outside the promise: episodes that were aborted" in words
    code, out, _ = aegis(*given, "--episodes", 160, "--json", capsys=capsys)
    found = json.loads(out)
    assert code == 4 and found["audit"]["refused"][0]["code"] == "carry-over" and found["paused"]
    assert [event["code"] for event in found["events"] if event["kind"] == "paused"] == ["carry-over"]
    assert "Paused" in (mine / "run" / "report.html").read_text()
    code, out, err = aegis(*given, "--episodes", 170, "--operator", "resume", *WHO, "--json", capsys=capsys)
    found = json.loads(out)
    assert code == 0 and found["paused"] is None, err
    assert [event["kind"] for event in found["events"][-2:]] == ["operator", "restarted"]
    assert "The audit stopped it after episode" in found["sentence"] and "resumed by ann" in found["sentence"]


def test_gates_of_one_plant_are_counted(mine: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for seed in (1, 2, 3):
        code, out, err = aegis(*RUN, "--plant", "mine:good", "--seed", seed, "--episodes", 20, "--ledger", "here", capsys=capsys)
        assert code == 0, err
        assert ("This is gate" in out) == (seed > 1)
    assert "This is gate 3 of this plant" in out and "at most 0.15, more than the 0.05 asked for" in " ".join(out.split())
    out = aegis(*RUN, "--plant", "mine:good", "--seed", 2, "--episodes", 20, "--ledger", "here", capsys=capsys)[1]
    assert "This is gate 2 of this plant" in out
    assert len(list((mine / "here" / "gates").iterdir())) >= 1
