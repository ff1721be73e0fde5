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


PLAIN = {"quality": "moisture"}  # a name that is no result's: in any order of the columns `quality` may be one


@pytest.mark.parametrize("name", WORLDS)
@pytest.mark.parametrize("seed", [1, 2])
def test_worlds_with_columns_and_rows_in_any_order(name: str, seed: int, tmp_path: Path) -> None:
    table, truth = logs.world_log(name)
    table = table.rename_columns([PLAIN.get(column, column) for column in table.column_names])
    path = logs.parquet(logs.shuffled(table, seed, rows=True), tmp_path)
    problem = logs.checked(draft_problem(path), path)
    assert logs.essence(problem) == logs.essence(truth, PLAIN)


def test_a_context_that_is_called_and_placed_like_a_result_waits_in_a_comment(tmp_path: Path) -> None:
    table, truth = logs.world_log("plant")
    action = truth.levels[0].actions.column
    order = [column for column in table.column_names if column != "quality"]
    order.insert(order.index(action) + 1, "quality")
    path = logs.parquet(table.select(order), tmp_path)
    draft = draft_problem(path)
    problem = logs.checked(draft, path)
    assert "quality" not in {name for level in problem.levels for variable in level.context for name in variable.columns}
    assert "    #   - quality  # its name is that of a result\n" in draft.text
    assert any("'quality' (its name is that of a result)" in question for question in draft.questions)


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
