"""`aegis audit` as a user types it, and the candidates that commands accept."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typed import done, run

from aegis.api import load_candidate
from aegis.audit import CAVEAT, CODES
from aegis.errors import PolicyError
from aegis.policies import Function, Legacy, TargetColumns
from aegis.problem import load_problem, save_problem

MODULE = """
import numpy as np
from aegis.policies import Legacy, Uniform
from aegis.problem import load_problem

def even(level, rows):
    count = len(next(iter(rows.values())))
    return np.full((count, level.actions.count), 1 / level.actions.count)

problem = load_problem({problem!r})
policy = Legacy(problem, {{name: Uniform() for name in problem.names}})
number = 3
"""


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A log in order with target columns, the same with wrong rewards, and a learned policy."""
    folder = tmp_path_factory.mktemp("audited")
    for call in (
        ["simulate", "--world", "additive", "--episodes", "80", "--out", folder],
        ["learn", folder / "log.parquet", "--problem", folder / "problem.yaml", "--scope", "inner", "--out", folder / "policy"],
    ):
        assert done(*call) == 0
    table = pq.read_table(folder / "log.parquet")
    even = pa.array(np.full(table.num_rows, 1 / 11))
    pq.write_table(
        table.append_column("t_A", even).append_column("t_M", pa.array(np.full(table.num_rows, 1 / 7))), folder / "t.parquet"
    )
    problem = load_problem(folder / "problem.yaml")
    save_problem(replace(problem, reward=replace(problem.reward, range=(-1.0, 1.0))), folder / "narrow.yaml")
    (folder / "mine.py").write_text(MODULE.format(problem=str(folder / "problem.yaml")))
    return folder


def test_a_log_in_order_is_fit(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = run("audit", place / "log.parquet", "--problem", place / "problem.yaml", capsys=capsys)
    assert code == 0, err
    assert out.splitlines()[0].startswith("fit: 80 episodes, 1600 decisions")
    assert CAVEAT in out


def test_a_refused_log_says_first_so_and_then_what_to_do(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    call = ["audit", place / "log.parquet", "--problem", place / "narrow.yaml"]
    code, out, _ = run(*call, capsys=capsys)
    assert code == 4
    assert out.splitlines()[0].startswith("refused")
    text = " ".join(out.replace("│", " ").split())
    assert "reward-outside-range" in text and "clip: true" in text and CAVEAT in text
    code, out, _ = run(*call, "--json", capsys=capsys)
    found = json.loads(out)
    assert (code, found["verdict"], found["caveat"]) == (4, "refused", CAVEAT)
    assert found["findings"][0]["code"] == "reward-outside-range" and found["findings"][0]["figures"]["outside"] > 0


def test_brackets_in_a_fix_are_printed(place: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    problem = load_problem(place / "problem.yaml")
    save_problem(replace(problem, reward=replace(problem.reward, range=None)), tmp_path / "p.yaml")
    code, out, _ = run("audit", place / "log.parquet", "--problem", tmp_path / "p.yaml", capsys=capsys)
    assert code == 4 and "[low, high]" in " ".join(out.replace("│", " ").split())


@pytest.mark.parametrize("reference", ["policy", "columns:t_A", "columns:t_M,t_A", "mine:even", "mine:policy"])
def test_a_candidate_adds_its_overlap(
    place: Path, reference: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(place)
    call = ["audit", "t.parquet", "--problem", "problem.yaml", "--policy", reference, "--scope", "inner", "--json"]
    code, out, err = run(*call, capsys=capsys)
    assert code == 0, err
    figures = json.loads(out)["figures"]
    assert figures["scope"] == "inner"
    expected = 1.0 if reference != "policy" else figures["weights_effective_share"]
    assert figures["weights_effective_share"] == pytest.approx(expected)


def test_the_scope_of_a_policy_folder_is_the_default(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    call = ["audit", place / "log.parquet", "--problem", place / "problem.yaml", "--policy", place / "policy"]
    code, out, _ = run(*call, capsys=capsys)
    assert code == 0 and "levels inner" in out and "effective share" in out


def test_explain(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run("audit", "--explain", "carry-over", capsys=capsys)
    assert code == 0 and "carry_over: within" in " ".join(out.split())
    code, out, _ = run("audit", "--explain", "drift", "--json", capsys=capsys)
    assert json.loads(out)["meaning"] == CODES["drift"].meaning
    code, _, err = run("audit", "--explain", "carryover", capsys=capsys)
    assert code == 2 and "did you mean 'carry-over'" in err


BAD = {
    "no log": ([], "name a LOG"),
    "no problem": (["t.parquet"], "name a LOG"),
    "unknown level": (["t.parquet", "--problem", "problem.yaml", "--scope", "iner"], "did you mean 'inner'"),
    "bad alpha": (["t.parquet", "--problem", "problem.yaml", "--alpha", "2"], "alpha"),
    "no such folder": (["t.parquet", "--problem", "problem.yaml", "--policy", "polcy"], "there is no folder 'polcy'"),
    "too few columns": (["t.parquet", "--problem", "problem.yaml", "--policy", "columns:t_A"], "1 columns for 2 levels"),
    "missing column": (["t.parquet", "--problem", "problem.yaml", "--policy", "columns:t_M,x"], "'x'"),
    "missing module": (["t.parquet", "--problem", "problem.yaml", "--policy", "nowhere:even"], "nowhere"),
    "missing object": (["t.parquet", "--problem", "problem.yaml", "--policy", "mine:odd"], "odd"),
    "not a policy": (["t.parquet", "--problem", "problem.yaml", "--policy", "mine:number"], "not a callable"),
}


@pytest.mark.parametrize("what", BAD)
def test_bad_input_is_a_clear_error(
    what: str, place: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(place)
    arguments, expected = BAD[what]
    code, out, err = run("audit", *arguments, capsys=capsys)
    assert code == 2 and expected in err and "Traceback" not in out + err


def test_candidates_bring_what_they_need(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(place)
    problem = load_problem("problem.yaml")
    folder = load_candidate("policy", problem)
    assert folder.record["scope"] == ["inner"] and folder.rewards is not None and folder.columns == ()
    columns = load_candidate("columns: t_A", problem, ["inner"])
    assert isinstance(columns.policy, TargetColumns) and columns.columns == ("t_A",) and columns.record == {}
    assert dict(columns.policy.columns) == {"inner": "t_A"}
    assert isinstance(load_candidate("mine:even", problem, ["inner"]).policy, Function)
    assert isinstance(load_candidate("mine:policy", problem).policy, Legacy)
    with pytest.raises(PolicyError, match="empty column"):
        load_candidate("columns:t_A,", problem)
