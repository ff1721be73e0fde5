"""Converted logs: written block by block and read again; numbers are finite and of their shape."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from aegis.adapters import ConvertedLog, write_converted
from aegis.adapters.base import finite_numbers
from aegis.errors import LogError, PolicyError
from aegis.logs import Source
from aegis.policies import Constant, Legacy
from aegis.problem import Actions, Level, Problem, Propensity, Reward, load_problem

PROBLEM = Problem(
    (Level("drug", Actions.of("drug", ("a", "b")), propensity=Propensity(policy="uniform"), decision="row"),),
    Reward("better", (0.0, 1.0)),
    episode=("row",),
)
TABLE = pa.table({"row": [1, 2, 3, 4], "drug": ["a", "b", "b", "a"], "better": [0.0, 1.0, 1.0, 0.5]})


def test_a_log_in_blocks_is_the_same_log(tmp_path: Path) -> None:
    policies = {"always": Legacy(PROBLEM, {"drug": Constant("b")})}
    places = ConvertedLog(TABLE, PROBLEM, policies=policies).write(tmp_path / "whole")
    assert list(places) == ["log", "problem", "always"] and places["always"].is_dir()
    assert write_converted([TABLE.slice(0, 3), TABLE.slice(3)], PROBLEM, tmp_path / "blocks") == 4
    for folder in ("whole", "blocks"):
        problem = load_problem(tmp_path / folder / "problem.yaml")
        batch = Source([tmp_path / folder / "log.parquet"], problem).read()
        assert batch.reward is not None and batch.reward.tolist() == TABLE["better"].to_pylist()


def test_nothing_to_convert_writes_nothing(tmp_path: Path) -> None:
    with pytest.raises(LogError, match="there is nothing to convert"):
        write_converted([], PROBLEM, tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_numbers_are_finite_and_of_their_shape() -> None:
    assert finite_numbers([[1, 2]], (1, 2), "here").tolist() == [[1.0, 2.0]]
    with pytest.raises(LogError, match=r"here: has the shape \[2\], expected \[3\]"):
        finite_numbers([1, 2], (3,), "here")
    with pytest.raises(PolicyError, match=r"here, round 1 \(from 0\): is not finite \(2 such rounds\)"):
        finite_numbers([0, np.nan, np.inf], (3,), "here", "round", PolicyError)
    with pytest.raises(LogError, match="here: expected numbers"):
        finite_numbers(["much"], (1,), "here")
