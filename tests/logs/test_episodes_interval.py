"""Logs with actions on an interval: read, written back, refused with the row and the reason; drafted."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pytest

from aegis.errors import LogError
from aegis.logs import Source, draft_problem, read_contexts, to_table, write_log
from aegis.problem import Batch, concat, load_problem, parse_problem
from aegis.worlds import make_world

WORLD = make_world("dosing", ends="clip", natural_sd=4.0)
PROBLEM = WORLD.problem


def log(count: int = 40) -> Batch:
    return WORLD.episodes(0, count, WORLD.legacy("natural"), 3)


@pytest.mark.parametrize("ending", ["parquet", "csv"])
def test_exact_actions_and_densities_come_back(tmp_path: Path, ending: str) -> None:
    batch, path = log(), tmp_path / f"log.{ending}"
    if ending == "parquet":
        write_log(batch, PROBLEM, path)
    else:
        pyarrow.csv.write_csv(to_table(batch, PROBLEM), path)
    found = concat(list(Source(path, PROBLEM).batches()))
    before, after = batch.levels["dose"], found.levels["dose"]
    assert before.value is not None and after.value is not None
    np.testing.assert_array_equal(after.value, before.value)
    np.testing.assert_array_equal(after.mu_taken, before.mu_taken)
    np.testing.assert_array_equal(after.action, before.action)
    assert after.mu_full is None and (before.value == 0).any() and (before.value == 10).any()


def changed(column: str, row: int, value: float) -> pa.Table:
    table = to_table(log(), PROBLEM)
    numbers = table[column].to_numpy().copy()
    numbers[row] = value
    return table.set_column(table.column_names.index(column), column, pa.array(numbers))


def inside_row() -> int:
    value = log().levels["dose"].value
    assert value is not None
    return int(np.flatnonzero((value > 0) & (value < 10))[5])


def atom_row() -> int:
    value = log().levels["dose"].value
    assert value is not None
    return int(np.flatnonzero(value == 0)[0])


@pytest.mark.parametrize(
    ("column", "at_an_atom", "value", "words"),
    [
        ("dose", False, 10.2, "found 10.2, outside the interval [0, 10]"),
        ("dose", False, -0.5, "outside the interval"),
        ("dose", False, np.inf, "found inf as action"),
        ("density_dose", False, 0.0, "found 0: an action that was taken had a density"),
        ("density_dose", False, -1.7, "is it a log-density (then write exp of it)?"),
        ("density_dose", False, np.inf, "found inf as propensity"),
        ("density_dose", True, 1.3, "there the controller has a probability, at most 1, not a density"),
    ],
)
def test_what_cannot_be_is_refused_with_its_row(column: str, at_an_atom: bool, value: float, words: str) -> None:
    row = atom_row() if at_an_atom else inside_row()
    with pytest.raises(LogError, match=re.escape(words)) as error:
        list(Source(changed(column, row, value), PROBLEM).batches())
    assert f"row {row + 1}" in str(error.value) and column in str(error.value)


def test_a_density_above_one_is_read_and_round_off_at_the_ends_too() -> None:
    row = inside_row()
    (batch,) = Source(changed("density_dose", row, 7.5), PROBLEM).batches()
    assert batch.levels["dose"].mu_taken[row] == 7.5
    (batch,) = Source(changed("dose", atom_row(), -1e-12), PROBLEM).batches()
    assert batch.levels["dose"].value is not None and batch.levels["dose"].value.min() == 0.0


def test_a_density_of_a_finite_action_is_told_what_to_declare() -> None:
    text = """
episode: e
reward: {column: r, range: [0, 1]}
levels: [{name: d, action: {column: a, values: [1, 2]}, propensity: {column: p}}]
"""
    table = pa.table({"e": [1, 2], "a": [1, 2], "p": [0.5, 1.4], "r": [0.0, 1.0]})
    with pytest.raises(LogError, match=re.escape("give the action an 'interval' with a 'bandwidth'")):
        list(Source(table, parse_problem(text)).batches())


def test_writing_refuses_what_reading_would() -> None:
    from dataclasses import replace

    batch = log()
    dose = batch.levels["dose"]
    assert dose.value is not None
    for wrong, words in (
        (replace(dose, value=None), "columns for the exact actions, the batch none"),
        (replace(dose, value=dose.value + 20.0), "outside the interval"),
        (replace(dose, mu_taken=-dose.mu_taken), "log-density"),
    ):
        with pytest.raises(LogError, match=words):
            to_table(batch.with_level("dose", wrong), PROBLEM)


def test_contexts_below_an_interval_hold_numbers(tmp_path: Path) -> None:
    (tmp_path / "today.csv").write_text("severity,regimen,marker\n0.1,2,0.5\n-1.0,0,0.2\n")
    batch, rows = read_contexts(tmp_path / "today.csv", PROBLEM, "dose")
    assert len(batch.levels["dose"]) == 2 and batch.levels["course"].action.tolist() == [2, 0] and rows.num_rows == 2


def test_a_draft_offers_the_interval(tmp_path: Path) -> None:
    world = make_world("dosing")
    write_log(world.episodes(0, 200, world.legacy("natural"), 1), world.problem, tmp_path / "log.parquet")
    draft = draft_problem(tmp_path / "log.parquet")
    assert "interval: [" in draft.text and "density: true" in draft.text and "bandwidth" in draft.text
    (tmp_path / "problem.yaml").write_text(draft.text)
    level = load_problem(tmp_path / "problem.yaml").innermost
    assert level.name == "dose" and level.actions.continuous
    low, high = level.actions.limits
    assert low == 0.0 and 9.0 <= high <= 10.0  # round numbers just outside what was taken
    assert level.propensity is not None and level.propensity.column == "density_dose" and level.propensity.density
    assert list(Source(tmp_path / "log.parquet", load_problem(tmp_path / "problem.yaml")).batches())
