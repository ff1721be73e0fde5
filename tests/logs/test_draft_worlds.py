"""Drafted problems of simulated plants: the true ones."""

from __future__ import annotations

from pathlib import Path

import draft_logs as logs
import pytest

from aegis.logs import draft_problem
from aegis.worlds import WORLDS


@pytest.mark.parametrize("name", WORLDS)
def test_worlds(name: str, tmp_path: Path) -> None:
    table, truth = logs.world_log(name)
    path = logs.parquet(table, tmp_path)
    problem = logs.checked(draft_problem(path), path)
    assert logs.essence(problem) == logs.essence(truth)
    assert problem.names == truth.names
    assert problem.episode == truth.episode
    assert problem.outcome is not None and truth.outcome is not None
    assert problem.outcome.name == truth.outcome.name
    assert [level.decision for level in problem.levels] == [level.decision for level in truth.levels]


@pytest.mark.parametrize("name", WORLDS)
@pytest.mark.parametrize("seed", [1, 2])
def test_worlds_with_columns_and_rows_in_any_order(name: str, seed: int, tmp_path: Path) -> None:
    table, truth = logs.world_log(name)
    path = logs.parquet(logs.shuffled(table, seed, rows=True), tmp_path)
    problem = logs.checked(draft_problem(path), path)
    assert logs.essence(problem) == logs.essence(truth)


@pytest.mark.parametrize("name", ["additive", "plant", "clinic"])
def test_worlds_with_other_names(name: str, tmp_path: Path) -> None:
    table, truth = logs.world_log(name)
    names = {"episode": "batchNo", "meta_step": "MetaRun", "inner_step": "Step", "R": "Profit", "reward": "score", "Y": "purity"}
    for old, new in (("M", "Setting"), ("A", "Dosage"), ("dose", "Amount"), ("plan", "Therapy"), ("blend", "Mix")):
        names |= {old: new, **{c: f"prob {new} {c.rsplit('_', 1)[1]}" for c in table.column_names if c.startswith(f"p_{old}_")}}
        names |= {c: f"{new}.{c.rsplit('_', 1)[1]}.available" for c in table.column_names if c.startswith(f"can_{old}_")}
    path = logs.parquet(logs.shuffled(table.rename_columns([names.get(c, c) for c in table.column_names]), 5), tmp_path)
    problem = logs.checked(draft_problem(path), path)
    assert logs.essence(problem) == logs.essence(truth, names)


@pytest.mark.parametrize(("name", "legacy"), [("additive", "sign:epsilon=0.3"), *((name, "natural") for name in WORLDS)])
def test_a_legacy_that_looks_at_the_context_and_leaves_actions_out(name: str, legacy: str, tmp_path: Path) -> None:
    table, truth = logs.world_log(name, 150, legacy)
    path = logs.parquet(logs.shuffled(table, 4), tmp_path)
    problem = logs.checked(draft_problem(path), path)
    assert logs.essence(problem) == logs.essence(truth)


@pytest.mark.parametrize("separator", [",", ";"])
def test_text_files(separator: str, tmp_path: Path) -> None:
    table, truth = logs.world_log("clinic")
    path = logs.csv(table, tmp_path, separator)
    problem = logs.checked(draft_problem(path), path)
    assert logs.essence(problem) == logs.essence(truth)
