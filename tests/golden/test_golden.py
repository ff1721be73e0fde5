"""What the commands answer on small logs, against golden files."""

from __future__ import annotations

import json
import sys
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import yaml

sys.path.insert(0, str(Path(__file__).parent))

from golden_files import check
from golden_logs import PROBLEMS, rows, write

from aegis.cli import main

CANDIDATE = "full-columns:new_1,new_2,new_3"


def answer(capsys: pytest.CaptureFixture[str], *arguments: object) -> Any:
    """Return the exit code and the JSON document of a command."""
    with pytest.raises(SystemExit) as stop:
        main([*map(str, arguments), "--json"])
    text = capsys.readouterr().out
    return {"exit": stop.value.code or 0, "answer": json.loads(text)}


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


CERTIFIED: dict[str, dict[str, Any]] = {
    "one-level": {},
    "two-levels": {"scope": ["dose"]},
    "three-levels": {"scope": ["dose"]},
    "clusters": {"scope": ["dose"]},
    "carry-over": {"scope": ["dose"]},
    "guards": {"scope": ["dose"]},
    "incumbent": {},
    "time": {"scope": ["dose"]},
}


@pytest.mark.parametrize("name", CERTIFIED)
@pytest.mark.parametrize("method", ["auto", "robust", "plain"])
def test_certificates(name: str, method: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log, problem = write(tmp_path, name, rows(150))
    scope = [part for level in CERTIFIED[name].get("scope", []) for part in ("--scope", level)]
    request = [
        "certify",
        log,
        "--problem",
        problem,
        "--policy",
        CANDIDATE,
        *scope,
        "--method",
        method,
        "--out",
        "certificate.json",
    ]
    document = answer(capsys, *request)
    document["certificate"] = json.loads(Path("certificate.json").read_text())
    check(f"certify-{name}-{method}", document)


def test_missing_rewards(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log, problem = write(tmp_path, "one-level", rows(150, missing=0.05))
    check("certify-missing", answer(capsys, "certify", log, "--problem", problem, "--policy", CANDIDATE))


@pytest.mark.parametrize("name", PROBLEMS)
def test_findings(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log, problem = write(tmp_path, name, rows(120, seed=2))
    check(f"audit-{name}", answer(capsys, "audit", log, "--problem", problem))


def test_findings_of_wrong_propensities(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    table = [{**row, "p_dose_1": row["p_dose_3"], "p_dose_3": row["p_dose_1"]} for row in rows(200, seed=3)]
    log, problem = write(tmp_path, "two-levels", table)
    check("audit-swapped", answer(capsys, "audit", log, "--problem", problem))


def test_findings_of_carry_over(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    table = rows(300, seed=4)
    for before, row in pairwise(table):
        if before["batch"] == row["batch"] and before["dose"] == 1:
            row["margin"] = round(0.5 * row["margin"], 6)
    log, problem = write(tmp_path, "two-levels", table)
    check("audit-carried-over", answer(capsys, "audit", log, "--problem", problem))


@pytest.mark.parametrize("kind", ["capped", "greedy"])
def test_a_learned_policy(kind: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log, problem = write(tmp_path, "two-levels", rows(160, seed=5))
    learned = answer(capsys, "learn", log, "--problem", problem, "--kind", kind, "--scope", "dose", "--out", "policy")
    certified = answer(capsys, "certify", log, "--problem", problem, "--policy", "policy", "--out", "certificate.json")
    verified = answer(capsys, "verify", "certificate.json", log, "--policy", "policy")
    check(f"learn-{kind}", {"learn": learned, "certify": certified, "verify": verified})


def test_a_continuous_action(capsys: pytest.CaptureFixture[str]) -> None:
    answer(capsys, "simulate", "--world", "dosing", "--episodes", 120, "--out", "plant")
    learned = answer(capsys, "learn", "plant/log.parquet", "--problem", "plant/problem.yaml", "--out", "policy")
    asked = ["certify", "plant/log.parquet", "--problem", "plant/problem.yaml", "--policy", "policy"]
    check("continuous", {"learn": learned, "certify": answer(capsys, *asked)})


def test_other_estimators(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log, problem = write(tmp_path, "one-level", rows(150))
    check("compare", answer(capsys, "compare", log, "--problem", problem, "--policy", CANDIDATE))


def test_a_plan(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log, problem = write(tmp_path, "one-level", rows(80))
    guess = answer(capsys, "plan", "--problem", problem, "--gain", 0.05, "--spread", 0.1, "--explore", "0.2", "--caps", "2")
    pilot = answer(capsys, "plan", log, "--problem", problem, "--explore", "0.2", "--caps", "2")
    check("plan", {"guess": guess, "pilot": pilot})


def test_coverage(capsys: pytest.CaptureFixture[str]) -> None:
    check("validate", answer(capsys, "validate", "--world", "linear", "--runs", 4, "--episodes", 60, "--seed", 2))


@pytest.mark.parametrize("host", ["greedy", "ncts"])
def test_handover_events(host: str, capsys: pytest.CaptureFixture[str]) -> None:
    command = ["handover", "--world", "additive", "--legacy", "uniform", "--host", host, "--episodes", 120, "--seed", 3]
    check(f"handover-{host}", answer(capsys, *command))


DRAFTS = {
    "plain": lambda table: table,
    "bandit": lambda table: [{k: row[k] for k in ("heat", "line", "dose", "p_dose_1", "margin")} for row in table],
    "meant": lambda table: [{"unit": n, "temp": row["heat"], "meant": row["meant"], "dose": row["dose"], "cost": row["margin"]}
                            for n, row in enumerate(table)],
    "shifts": lambda table: [{"date": f"2026-01-{1 + row['hour'] % 28:02}", "shift": "ab"[row["hour"] // 28 % 2],
                              "heat": row["heat"], "recipe": row["recipe"], "dose": row["dose"],
                              "p_dose": row["p_dose_1"], "yield": row["margin"]}
                             for row in table],
}  # fmt: skip


@pytest.mark.parametrize("name", DRAFTS)
def test_drafts(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log, _ = write(tmp_path, "one-level", DRAFTS[name](rows(40, seed=6)))
    document = answer(capsys, "init", log, "--out", "draft.yaml")
    if Path("draft.yaml").exists():
        document["draft"] = yaml.safe_load(Path("draft.yaml").read_text())
    check(f"draft-{name}", document)
