"""`aegis bench` on the command line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typed import run as aegis

SMALL = """
title: A small bench
section: none
question: Does it run?
measure: online
base: {world: {name: additive, inner_steps: 3}, agent: nested_nig, episodes: 6}
seeds: 2
arms: {linear: {}}
claims: [{says: it earns something, test: within, with: {arm: linear, low: 0}}]
figures: [{kind: bars, label: reward}]
"""
QUICK = ("bench", "run", "3a", "--set", "episodes=5", "--set", "seeds=2")


def test_list(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = aegis("bench", "list", "--json", capsys=capsys)
    assert code == 0 and {"1a", "1b", "3b"} <= {item["name"] for item in json.loads(out)["benches"]}
    code, out, _ = aegis("bench", "list", capsys=capsys)
    assert code == 0 and "Recursive nested commit" in " ".join(out.replace("│", " ").split())


def test_run_prints_numbers_and_verdicts_and_keeps_them(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = aegis(*QUICK, "--store", tmp_path, "--json", capsys=capsys)
    assert code == 0, err
    found = json.loads(out)
    assert found["failures"] == []
    row = next(row for row in found["results"] if row["agent"] == "thompson")
    assert row["paper"]["mean"] == 80.2 and row["runs"] == 2 and row["oracle"] > 100
    assert {claim["verdict"] for claim in found["claims"]} <= {"holds", "does not hold", "cannot be tested"}
    code, out, _ = aegis(*QUICK, "--store", tmp_path, capsys=capsys)
    assert code == 0 and "80.2" in out and "Thompson gains over D-optimal" in out


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("bench", "run", "3x"), "3a"),
        (("bench", "run", "3a", "--preset", "quik"), "quick"),
        (("bench", "run", "3a", "--set", "epsodes=3"), "episodes"),
        (("bench", "run", "none.yaml"), "none.yaml"),
    ],
)
def test_bad_input(arguments: tuple[str, ...], says: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, _, err = aegis(*arguments, "--store", tmp_path, capsys=capsys)
    assert code == 2 and says in err


def test_a_part_that_fails_ends_with_1(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = aegis(*QUICK, "--set", "agent=nobody", "--store", tmp_path, capsys=capsys)
    assert code == 1 and "failed: 3a, thompson" in out and "nobody" in out


def test_report(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "small.yaml"
    path.write_text(SMALL, encoding="utf-8")
    store = ("--store", tmp_path / "store")
    assert aegis("bench", "run", path, *store, capsys=capsys)[0] == 0
    code, out, err = aegis("bench", "report", path, "3a", *store, "--out", tmp_path / "out", capsys=capsys)
    assert code == 0, err
    assert "left out, not run to its end with preset quick: 3a" in out
    assert "A small bench" in (tmp_path / "out" / "paper.md").read_text()
    assert "<svg" in (tmp_path / "out" / "paper.html").read_text()
