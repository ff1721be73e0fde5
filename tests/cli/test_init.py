"""`aegis init` as a user types it."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from aegis.cli import main
from aegis.logs import Source, to_table
from aegis.problem import dump_problem, load_problem
from aegis.worlds import make_world


def aegis(*arguments: object, capsys: pytest.CaptureFixture[str]) -> tuple[int, str, str]:
    with pytest.raises(SystemExit) as stop:
        main([str(argument) for argument in arguments])
    captured = capsys.readouterr()
    code = stop.value.code
    return (0 if code is None else int(code)), captured.out, captured.err


@pytest.fixture
def log(tmp_path: Path) -> Path:
    world = make_world("additive", inner_steps=3)
    path = tmp_path / "logs" / "log.parquet"
    path.parent.mkdir()
    pq.write_table(to_table(world.episodes(0, 60, world.legacy("uniform"), seed=1), world.problem), path)
    return path


def test_the_draft_is_written_and_reads_the_log(log: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "problem.yaml"
    code, shown, err = aegis("init", log, "--out", out, capsys=capsys)
    assert code == 0, err
    problem = load_problem(out)
    assert len(Source(log, problem).read()) == 60
    assert "meta" in shown and "To be decided by you" in shown and str(out) in shown.replace("\n", "")
    assert [path.name for path in tmp_path.iterdir()] == ["logs", "problem.yaml"] or len(list(tmp_path.iterdir())) == 2


def test_without_out_the_draft_is_printed_and_nothing_else(log: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, shown, _ = aegis("init", log, capsys=capsys)
    assert code == 0
    (tmp_path / "kept.yaml").write_text(shown, encoding="utf-8")
    assert load_problem(tmp_path / "kept.yaml").names == ("meta", "inner")


def test_json(log: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "problem.yaml"
    code, shown, _ = aegis("init", log.parent, "--out", out, "--json", capsys=capsys)
    assert code == 0
    found = json.loads(shown)
    assert found["out"] == str(out)
    assert found["text"] == out.read_text(encoding="utf-8")
    assert found["problem"] == dump_problem(load_problem(out))
    assert found["notes"] and found["questions"]


def test_a_file_that_exists_is_kept_unless_forced(log: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "problem.yaml"
    out.write_text("mine")
    code, _, err = aegis("init", log, "--out", out, capsys=capsys)
    assert code == 2 and "--force" in err
    assert out.read_text() == "mine"
    assert aegis("init", log, "--out", out, "--force", capsys=capsys)[0] == 0
    assert load_problem(out).names == ("meta", "inner")


@pytest.mark.parametrize("given", ["log", "folder"])
def test_the_log_is_never_overwritten(given: str, log: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = log.read_bytes()
    code, _, err = aegis("init", log if given == "log" else log.parent, "--out", log, "--force", capsys=capsys)
    assert code == 2 and "would overwrite an input" in err
    assert log.read_bytes() == before


def test_a_draft_without_an_action_is_shown_but_not_a_success(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "log.parquet"
    pq.write_table(pa.table({"episode": [1, 2, 3], "margin": [0.1, 3.0, 2.0], "weather": ["dry", "wet", "dry"]}), path)
    code, shown, err = aegis("init", path, capsys=capsys)
    assert code == 2
    assert "column: margin" in shown
    assert "Which column is the action" in err and "weather" in err


def test_actions_may_be_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "log.parquet"
    columns = {"episode": [1, 2, 3], "margin": [0.1, 3.0, 2.0], "weather": ["dry", "wet", "dry"], "tool": ["a", "b", "b"]}
    pq.write_table(pa.table(columns), path)
    code, _, err = aegis("init", path, "--action", "tool", "--out", tmp_path / "p.yaml", capsys=capsys)
    assert code == 0, err
    assert [level.actions.column for level in load_problem(tmp_path / "p.yaml").levels] == ["tool"]
    code, _, err = aegis("init", path, "--action", "tol", capsys=capsys)
    assert code == 2 and "no column 'tol'" in err


def test_columns_that_are_not_used_are_named_with_the_reason(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "log.csv"
    path.write_text("order,oven,p_oven,version,note,gain\n1,low,0.5,v1,,0.5\n2,high,0.5,v1,late,1.5\n3,low,0.5,v1,,0.2\n")
    code, shown, err = aegis("init", path, "--out", tmp_path / "p.yaml", capsys=capsys)
    assert code == 0, err
    assert "not used: 'version': the same in every row\n" in shown and "not used: 'note': " in shown
    _, shown, _ = aegis("init", path, "--json", capsys=capsys)
    assert set(json.loads(shown)["unused"]) == {"version", "note"}


def test_probabilities_may_be_pointed_at(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path, out = tmp_path / "log.csv", tmp_path / "p.yaml"
    path.write_text("order,oven,w,gain\n1,low,0.5,0.5\n2,high,0.5,1.5\n3,low,0.5,0.2\n")
    code, shown, err = aegis("init", path, "--propensity", "oven=w", "--out", out, capsys=capsys)
    assert code == 0, err
    propensity = load_problem(out).innermost.propensity
    assert propensity is not None and propensity.column == "w" and "of the action taken" in shown
    code, _, err = aegis("init", path, "--propensity", "oven=v", capsys=capsys)
    assert code == 2 and "no column 'v' for a propensity" in err


def test_names_are_never_taken_for_markup(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "log.parquet"
    columns = {"episode": [1, 2], "action": ["a", "b"], "pscore": [0.5, 0.5], "[bold]x[/]": [1.5, 2.5], "reward": [0.0, 1.0]}
    pq.write_table(pa.table(columns), path)
    code, shown, err = aegis("init", path, "--out", tmp_path / "p.yaml", capsys=capsys)
    assert code == 0, err
    assert "[bold]x[/]" in shown


def test_a_log_that_is_not_there(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, shown, err = aegis("init", tmp_path / "none.csv", capsys=capsys)
    assert (code, shown) == (2, "")
    assert "none.csv" in err and "Traceback" not in err
