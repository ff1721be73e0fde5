"""explain as a user types it: where policies differ, and what is an estimate."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path

import pytest
from typed import rows_of, run

from aegis.policies import load_record

EXPLAINED = ["logged_decisions", "action_value", "policy_probability", "incumbent_probability"]


def test_explain_tells_where_they_differ(place: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    call = ["explain", place / "greedy", place / "log.parquet", "--problem", place / "problem.yaml"]
    code, out, err = run(*call, "--lookup", tmp_path / "table.csv", capsys=capsys)
    assert code == 0, err
    assert "favourite differs" in out and "prior side" in " ".join(out.split())
    code, out, _ = run(*call, "--json", capsys=capsys)
    found = json.loads(out)
    assert [level["level"] for level in found["levels"]] == ["plan", "dose"]
    assert found["side"] == "prior"
    assert found["episodes"] == load_record(place / "greedy")["episodes"]
    for level in found["levels"]:
        assert 0 < level["total_variation"] <= 1
        assert {part["variable"] for part in level["bins"]} <= {"severity", "frailty", "ward", "response", "level"}
    cells = rows_of(tmp_path / "table.csv")
    assert list(cells[0]) == ["decision_level", "severity", "frailty", "ward", "response", "level", *EXPLAINED]
    total = dict.fromkeys(("plan", "dose"), 0.0)
    for row in cells:
        total[row["decision_level"]] += float(row["policy_probability"]) * int(row["logged_decisions"])
    for level in found["levels"]:
        assert total[level["level"]] == pytest.approx(level["decisions"], rel=1e-4)


def test_explain_says_what_is_an_estimate(place: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    world = ["simulate", "--world", "additive", "--episodes", 60, "--propensities", "taken", "--out", tmp_path / "log"]
    assert run(*world, capsys=capsys)[0] == 0
    log, problem = tmp_path / "log" / "log.parquet", tmp_path / "log" / "problem.yaml"
    assert run("learn", log, "--problem", problem, "--out", tmp_path / "p", capsys=capsys)[0] == 0
    call = ["explain", tmp_path / "p", log, "--problem", problem]
    text = " ".join(run(*call, capsys=capsys)[1].split())
    assert "about 0." in text and "about: an estimate" in text and "not logged" in text
    assert all(level["estimated"] for level in json.loads(run(*call, "--json", capsys=capsys)[1])["levels"])
    known = ["explain", place / "greedy", place / "log.parquet", "--problem", place / "problem.yaml"]
    assert "about" not in run(*known, capsys=capsys)[1]
    assert not any(level["estimated"] for level in json.loads(run(*known, "--json", capsys=capsys)[1])["levels"])


def test_explain_other_sides_and_fewer_episodes(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    call = [
        "explain",
        place / "greedy",
        place / "log.parquet",
        "--problem",
        place / "problem.yaml",
        "--json",
    ]
    counts = {side: json.loads(run(*call, "--side", side, capsys=capsys)[1])["episodes"] for side in ("prior", "certify", "all")}
    assert counts["prior"] + counts["certify"] == counts["all"] == 120
    assert json.loads(run(*call, "--episodes", 7, capsys=capsys)[1])["episodes"] == 7


def test_explain_draws_if_it_can(place: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    call = ["explain", place / "greedy", place / "log.parquet", "--problem", place / "problem.yaml"]
    code, _, err = run(*call, "--plot", tmp_path / "x.png", capsys=capsys)
    if importlib.util.find_spec("matplotlib") is None:
        assert code == 2
        assert "aegis-handover[report]" in err
        assert not list(tmp_path.iterdir())
    else:
        assert code == 0
        assert (tmp_path / "x.png").read_bytes().startswith(b"\x89PNG")
        code, _, err = run(*call, "--plot", tmp_path / "x.xyz", capsys=capsys)
        assert code == 2
        assert ".png" in err
