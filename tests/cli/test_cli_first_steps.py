"""What a newcomer is told: where to start, and what to do about what is not there yet."""

from __future__ import annotations

from pathlib import Path

import pytest
from typed import run

from aegis.cli import COMMANDS, FIRST_STEPS

DRAFT = "`aegis init LOG --out problem.yaml` drafts one"


def test_without_arguments_the_last_lines_say_where_to_start(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = run(capsys=capsys)
    shown = (out + err).rstrip().splitlines()
    assert code in (0, 2) and shown[-1 - len(FIRST_STEPS)] == "Start here:"
    for line, (typed, outcome) in zip(shown[-len(FIRST_STEPS) :], FIRST_STEPS, strict=True):
        assert line.split() == [*typed.split(), *outcome.split()], "a step takes one line of an ordinary terminal"


def test_the_steps_name_commands_that_exist() -> None:
    named = [typed.split()[1] for typed, _ in FIRST_STEPS if typed.startswith("aegis ")]
    assert named == ["demo", "init", "COMMAND"] and all(name in COMMANDS for name in named[:2])


LACKING = {
    "audit without a problem": (["audit", "log.csv"], DRAFT),
    "learn without a problem": (["learn", "log.csv", "--out", "x"], DRAFT),
    "certify without a problem": (["certify", "log.csv", "--policy", "x"], DRAFT),
    "certify, problem not there": (
        ["certify", "log.csv", "--problem", "mine.yaml", "--policy", "x"],
        "cannot read mine.yaml: No such file or directory; `aegis init LOG --out mine.yaml` drafts one",
    ),
    "no certificate": (["verify", "c.json", "log.csv"], "`aegis certify LOG ... --out c.json` writes one"),
    "neither plant nor problem": (["serve"], "`aegis serve --simulate additive --mode live`"),
}


@pytest.mark.parametrize("what", LACKING)
def test_what_is_lacking_is_told_with_the_command_that_makes_it(
    what: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "log.csv").write_text("a,b\n1,2\n")
    arguments, expected = LACKING[what]
    code, out, err = run(*arguments, capsys=capsys)
    assert code == 2 and expected in err
    assert "Traceback" not in out + err


@pytest.mark.parametrize("command", [["audit"], ["certify", "--policy", "x"], ["learn", "--out", "x"]])
def test_a_draft_that_is_not_complete_says_what_to_fill_in(
    command: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "log.csv").write_text("order,oven,note,gain\n1,low,x,0.5\n2,high,y,1.5\n3,low,x,0.2\n")
    code, out, err = run("init", "log.csv", "--out", "p.yaml", capsys=capsys)
    assert code == 2 and "answer question" in err and out.count("Which column is the action?") == 1 and "Which" not in err
    assert "p.yaml was not written" in err and not (tmp_path / "p.yaml").exists()
    code, out, err = run("init", "log.csv", capsys=capsys)
    (tmp_path / "p.yaml").write_text(out)  # as `> p.yaml` does
    code, _, err = run(command[0], "log.csv", "--problem", "p.yaml", *command[1:], capsys=capsys)
    assert code == 2 and "p.yaml: 'levels' is missing" in err
    assert "fill in levels; or draft it again" in err and "aegis init LOG --action COLUMN --out p.yaml --force" in err
    assert run("init", "log.csv", "--action", "oven", "--out", "q.yaml", capsys=capsys)[0] == 0
    code, out, err = run("audit", "log.csv", "--problem", "q.yaml", capsys=capsys)
    assert code == 4 and "no-propensity" in out


def test_a_log_without_an_id_is_drafted_row_by_row(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log, out = tmp_path / "log.csv", tmp_path / "p.yaml"
    log.write_text("oven,gain\nlow,0.5\nhigh,1.5\nlow,0.5\nhigh,0.4\n")
    assert run("init", log, "--action", "oven", "--out", out, capsys=capsys)[0] == 0
    code, shown, err = run("audit", log, "--problem", out, capsys=capsys)
    assert code == 4 and "no-propensity" in shown and "4 episodes" in shown, err


def test_a_missing_policy_is_told_with_the_command_that_makes_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run("simulate", "--episodes", 2, "--out", tmp_path / "log", capsys=capsys)
    given = [tmp_path / "log" / "log.parquet", "--problem", tmp_path / "log" / "problem.yaml"]
    code, _, err = run("certify", *given, "--policy", tmp_path / "poly", capsys=capsys)
    assert code == 2 and "`aegis learn` writes one" in err
    code, _, err = run("explain", tmp_path / "poly", *given, capsys=capsys)
    assert code == 2 and "`aegis learn` writes such folders" in err


def test_a_missing_log_is_told_with_what_is_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    code, _, err = run("init", "log.csv", capsys=capsys)
    assert code == 2 and "has no table" in err and "`aegis simulate --out log/` writes" in err
    code, _, err = run("init", "nowhere/log.csv", capsys=capsys)
    assert code == 2 and "nor does its folder nowhere; check the path" in err
    for number in range(7):
        (tmp_path / f"week-{number}.csv").touch()
    (tmp_path / "notes.md").touch()
    code, _, err = run("init", "weak-3.csv", capsys=capsys)
    assert code == 2 and "(did you mean 'week-3.csv'?); in that folder: week-0.csv, " in err
    assert "week-4.csv ..." in err and "week-5.csv" not in err and "notes.md" not in err
