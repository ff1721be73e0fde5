"""decide as a user types it: the policy's answers, and contexts that do not fit."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import numpy as np
import pytest
from typed import rows_of, run

from aegis.logs import Source
from aegis.planning import load_policy
from aegis.problem import load_problem


@pytest.mark.parametrize("kind", ["greedy", "planned", "capped"])
@pytest.mark.parametrize("level", ["plan", "dose"])
def test_decide_answers_as_the_policy_does(
    kind: str, level: str, place: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    given = load_problem(place / "problem.yaml")
    call = [
        "decide",
        place / kind,
        place / "contexts.csv",
        "--problem",
        place / "problem.yaml",
        "--level",
        level,
        "--scope",
        level,
    ]
    code, _, err = run(*call, "--out", tmp_path / "d.csv", capsys=capsys)
    assert code == 0, err
    answers = rows_of(tmp_path / "d.csv")
    values = given.level(level).actions.values
    chances = np.array([[float(row[f"probability_{value}"]) for value in values] for row in answers])
    np.testing.assert_allclose(chances.sum(axis=1), 1)
    batch = Source(place / "log.parquet", given).read()
    policy = load_policy(place / kind, given)
    owner = batch.ancestors("dose")[level][:30]
    expected = np.einsum("s,sna->na", policy.weights, policy.full(level, batch))[owner]
    np.testing.assert_allclose(chances, expected, atol=1e-12)
    drawn = np.array([[str(value) for value in values].index(row[f"drawn_{level}"]) for row in answers])
    assert (chances[np.arange(30), drawn] > 0).all()
    if level == "dose":
        closed = np.array([row["can_dose_3"] == "false" for row in answers])
        assert closed.any() and (chances[closed, 3] == 0).all()


def test_decide_is_reproducible_and_follows_the_seed(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    call = [
        "decide",
        place / "capped",
        place / "contexts.csv",
        "--problem",
        place / "problem.yaml",
        "--level",
        "dose",
        "--json",
    ]
    one, two, three = (run(*call, "--seed", seed, capsys=capsys)[1] for seed in (1, 1, 2))
    assert one == two
    drawn = [[decision["action"] for decision in json.loads(text)["decisions"]] for text in (one, three)]
    assert drawn[0] != drawn[1]


def test_decide_prints_a_table_for_the_outermost_level(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(
        "decide",
        place / "greedy",
        place / "contexts.csv",
        "--problem",
        place / "problem.yaml",
        capsys=capsys,
    )
    assert code == 0
    assert "Level 'plan': 10 of 30 decisions" in out


def test_decide_stays_within_what_was_learned(place: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    learned = [
        "learn",
        place / "log.parquet",
        "--problem",
        place / "problem.yaml",
        "--scope",
        "dose",
        "--kind",
        "capped",
    ]
    assert run(*learned, "--out", tmp_path / "p", capsys=capsys)[0] == 0
    call = ["decide", tmp_path / "p", place / "contexts.csv", "--problem", place / "problem.yaml"]
    code, out, err = run(*call, "--json", capsys=capsys)
    assert code == 0, err
    assert json.loads(out)["level"] == "dose"  # the outermost level that it controls
    for more in (["--scope", "plan"], ["--scope", "plan", "--scope", "dose", "--level", "dose"]):
        code, _, err = run(*call, *more, capsys=capsys)
        assert code == 2
        assert "--scope plan: the policy was learned for dose only" in err
    code, _, err = run(*call, "--level", "plan", capsys=capsys)
    assert code == 2
    assert "does not act at level 'plan'" in err


def spoilt(place: Path, tmp_path: Path, column: str, value: str | None) -> Path:
    """The contexts without a column, or with another value in its first row."""
    rows = rows_of(place / "contexts.csv")
    names = [name for name in rows[0] if value is not None or name != column]
    if value is not None:
        rows[0][column] = value
    with (tmp_path / "spoilt.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, names, extrasaction="ignore")
        writer.writeheader()
        writer.writerows(rows)
    return tmp_path / "spoilt.csv"


CONTEXTS = {
    "lacking": ("severity", None, "'severity' (context of level 'plan')"),
    "category": ("ward", "genral", "did you mean 'general'"),
    "number": ("level", "high", "a number is needed"),
}


@pytest.mark.parametrize("what", CONTEXTS)
def test_contexts_that_do_not_fit(what: str, place: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    column, value, expected = CONTEXTS[what]
    path = spoilt(place, tmp_path, column, value)
    code, _, err = run("decide", place / "greedy", path, "--problem", place / "problem.yaml", "--level", "dose", capsys=capsys)
    assert code == 2
    assert expected in err


def test_a_capped_policy_needs_the_legacy_to_decide(place: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = spoilt(place, tmp_path, "p_dose_1", None)
    code, _, err = run("decide", place / "capped", path, "--problem", place / "problem.yaml", "--level", "dose", capsys=capsys)
    assert code == 2
    assert "probabilities of all actions" in err


def test_a_policy_of_another_problem_is_refused(place: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run("simulate", "--world", "additive", "--episodes", 5, "--out", tmp_path, capsys=capsys)
    for call in (
        ["explain", place / "greedy", tmp_path / "log.parquet"],
        ["decide", place / "greedy", tmp_path / "log.parquet"],
    ):
        code, _, err = run(*call, "--problem", tmp_path / "problem.yaml", capsys=capsys)
        assert code == 2
        assert "another problem" in err


def test_a_mixture_has_no_answer_below_actions_it_would_never_take(
    place: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    call = [
        "decide",
        place / "planned",
        place / "contexts.csv",
        "--problem",
        place / "problem.yaml",
        "--level",
        "dose",
    ]
    code, _, err = run(*call, capsys=capsys)
    assert code == 2
    assert "--scope" in err
