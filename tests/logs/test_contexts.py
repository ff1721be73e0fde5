"""Contexts read from a file: what a log's decisions looked at, or a clear error."""

from __future__ import annotations

from pathlib import Path

import log_samples as samples
import numpy as np
import pyarrow as pa
import pyarrow.csv
import pytest

from aegis.errors import LogError
from aegis.logs import read_contexts, to_table
from aegis.problem import augmented_context, parse_problem

NESTED = parse_problem(samples.NESTED)
FLAT = parse_problem(samples.FLAT)
FULL = ("can_low", "can_mid", "can_high", "p_low", "p_mid", "p_high")


@pytest.fixture
def table() -> pa.Table:
    return to_table(samples.random_batch(NESTED, np.random.default_rng(2), 15), NESTED)


def written(table: pa.Table, path: Path) -> Path:
    pa.csv.write_csv(table, path)
    return path


def test_contexts_are_those_of_the_log(table: pa.Table, tmp_path: Path) -> None:
    batch = samples.random_batch(NESTED, np.random.default_rng(2), 15)
    path = written(table.drop_columns(["dose", "margin", "p_dose", "batch", "run"]), tmp_path / "c.csv")
    found, rows = read_contexts(path, NESTED, "dose")
    assert rows.num_rows == len(found) == len(batch.levels["dose"])
    for name, values in augmented_context(NESTED, batch, "dose").items():
        np.testing.assert_array_equal(augmented_context(NESTED, found, "dose")[name], values)
    assert (found.levels["dose"].action == -1).all()
    assert found.levels["dose"].mu_full is None  # the log has the probability of the dose taken only
    above = batch.ancestors("dose")["recipe"]
    np.testing.assert_array_equal(found.levels["recipe"].available, batch.levels["recipe"].available[above])


def test_the_legacy_comes_along_where_it_is_known(table: pa.Table, tmp_path: Path) -> None:
    batch = samples.random_batch(NESTED, np.random.default_rng(2), 15)
    above = batch.ancestors("dose")["recipe"]
    found, _ = read_contexts(written(table, tmp_path / "c.csv"), NESTED, "recipe")
    np.testing.assert_array_equal(found.levels["recipe"].mu_full, batch.levels["recipe"].mu_full[above])
    without, _ = read_contexts(written(table.drop_columns(["p_mid"]), tmp_path / "d.csv"), NESTED, "recipe")
    assert without.levels["recipe"].mu_full is None


@pytest.mark.parametrize(
    ("form", "expected"),
    [
        ("{policy: uniform}", [[1 / 3, 1 / 3, 1 / 3], [1 / 3, 1 / 3, 1 / 3]]),
        ("{shares: [0.5, 0.3, 0.2]}", [[0.5, 0.3, 0.2], [0.5, 0.3, 0.2]]),
        ("{base: meant, epsilon: 0.3}", [[0.8, 0.1, 0.1], [0.1, 0.1, 0.8]]),
    ],
)
def test_known_legacies_answer(form: str, expected: list[list[float]], tmp_path: Path) -> None:
    problem = parse_problem(samples.FLAT.replace("{column: p}", form))
    path = written(pa.table({"age": [1.5, 2.0], "meant": [1, 3]}), tmp_path / "c.csv")
    found, _ = read_contexts(path, problem, "dose")
    np.testing.assert_allclose(found.levels["dose"].mu_full, expected)


def spoil(table: pa.Table, column: str, value: object, row: int = 3) -> pa.Table:
    values = table[column].to_pylist()
    values[row] = value
    return table.set_column(table.column_names.index(column), column, pa.array(values))


BAD = {
    "missing context": (lambda t: t.drop_columns(["task"]), r"'task' \(context of level 'recipe'\)"),
    "missing outer action": (lambda t: t.drop_columns(["setting"]), r"'setting' \(action of level 'recipe'\)"),
    "missing mask": (lambda t: t.drop_columns(["can_mid"]), "'can_mid'"),
    "unknown category": (lambda t: spoil(t, "shape", "rund"), r"row 4, column 'shape': .*did you mean 'round'"),
    "unknown action": (lambda t: spoil(t, "setting", "lo"), r"row 4, column 'setting': .*did you mean 'low'"),
    "empty context": (lambda t: spoil(t, "s1", None), r"row 4, column 's1': .* missing"),
    "no rows": (lambda t: t.slice(0, 0), "no rows"),
}


@pytest.mark.parametrize("what", BAD)
def test_what_does_not_fit_is_named(what: str, table: pa.Table, tmp_path: Path) -> None:
    change, message = BAD[what]
    with pytest.raises(LogError, match=message):
        read_contexts(written(change(table), tmp_path / "c.csv"), NESTED, "dose")


def test_masks_that_leave_nothing_or_forbid_what_was_done_are_refused(table: pa.Table, tmp_path: Path) -> None:
    stuck = table
    for name in ("can_low", "can_mid", "can_high"):
        stuck = spoil(stuck, name, False)
    with pytest.raises(LogError, match=r"row 4, column 'can_low': no action of level 'recipe' is available"):
        read_contexts(written(stuck, tmp_path / "c.csv"), NESTED, "recipe")
    closed = spoil(table, f"can_{table['setting'][3].as_py()}", False)
    open_ = [name for name in ("can_low", "can_mid", "can_high") if name != f"can_{table['setting'][3].as_py()}"]
    closed = spoil(closed, open_[0], True)
    with pytest.raises(LogError, match=r"row 4, column 'setting': the action taken .* is not available"):
        read_contexts(written(closed, tmp_path / "d.csv"), NESTED, "dose")


def test_a_legacy_that_is_no_distribution_is_refused(table: pa.Table, tmp_path: Path) -> None:
    free = table
    for name in ("can_low", "can_mid", "can_high"):
        free = spoil(free, name, True)
    with pytest.raises(LogError, match=r"row 4.*sum to"):
        read_contexts(written(spoil(free, "p_low", 0.999), tmp_path / "c.csv"), NESTED, "recipe")
