"""A comparison as an Arrow table: every number with what it may be called."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from aegis.comparison import Comparison, Estimate, LowerBound, comparison_table
from aegis.comparison.comparison import COMPARISON_SCHEMA
from aegis.rng import stream

BOUND = LowerBound("betting", "gain", 0.1, 0.02, 50, "anytime", True, "certificate", "the gain")
NOMINAL = LowerBound("bootstrap", "value", 0.4, 0.02, 50, "approximate", False, "not a certificate: in the limit", "the value")
ESTIMATE = Estimate("IPS", "value", 0.5, 0.05, 50)
FOUND = Comparison(
    "mine", ("recipe", "dose"), "EUR", "maximise", "episodes", 50, 3, 0.05, 0.02, "certified", ESTIMATE,
    (ESTIMATE,), (NOMINAL, BOUND), (), (), (), {},
)  # fmt: skip


def test_rows_are_bounds_then_estimates_and_say_which_is_a_certificate() -> None:
    table = comparison_table(FOUND)
    assert table.schema == COMPARISON_SCHEMA
    assert table["method"].to_pylist() == ["betting", "bootstrap", "IPS"]
    assert table["certificate"].to_pylist() == [True, False, False]
    assert table["kind"].to_pylist() == ["bound", "bound", "estimate"]
    assert table["scope"].to_pylist() == ["recipe + dose"] * 3
    assert table["error"].to_pylist() == [None, None, 0.05] and table["delta"].to_pylist() == [0.02, 0.02, None]
    assert all("not a certificate" in label for label in table["label"].to_pylist()[1:])


def test_the_command_writes_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from aegis.cli import main
    from aegis.problem import parse_problem, save_problem

    problem = parse_problem("""
episode: visit
reward: {column: score, range: [0, 1]}
levels: [{name: dose, context: [age], action: {column: dose, values: [1, 2]}, propensity: {columns: [p_1, p_2]}}]
""")
    save_problem(problem, tmp_path / "problem.yaml")
    count = 60
    dose = stream(1, "comparison table").integers(1, 3, count).tolist()
    log = {"visit": list(range(count)), "age": [0.01 * number for number in range(count)], "dose": dose, "p_1": [0.5] * count}
    log |= {
        "p_2": [0.5] * count,
        "score": [0.9 if taken == 2 else 0.1 for taken in dose],
        "q_1": [0.1] * count,
        "q_2": [0.9] * count,
    }
    pq.write_table(pa.table(log), tmp_path / "log.parquet")
    arguments = ["compare", str(tmp_path / "log.parquet"), "--problem", str(tmp_path / "problem.yaml"), "--json"]
    with pytest.raises(SystemExit) as stop:
        main([*arguments, "--policy", "full-columns:q_1,q_2", "--table", str(tmp_path / "methods.parquet")])
    assert not stop.value.code, capsys.readouterr().err
    found = json.loads(capsys.readouterr().out)
    table = pq.read_table(tmp_path / "methods.parquet")
    stated = found["certificates"] + found["not_certificates"]["bounds"] + found["not_certificates"]["estimates"]
    assert sorted(table["value"].to_pylist()) == sorted(one["value"] for one in stated)
    assert "doubly robust" in table["method"].to_pylist()  # whole distributions were told
    with pytest.raises(SystemExit) as stop:
        main([*arguments, "--policy", "full-columns:q_1,q_2", "--table", str(tmp_path / "methods.xlsx")])
    assert stop.value.code == 2
    with pytest.raises(SystemExit) as stop:
        main([*arguments, "--policy", "full-columns:q_1"])
    assert stop.value.code == 2 and "names 1 columns, expected 2: 2 for 'dose'" in capsys.readouterr().err
