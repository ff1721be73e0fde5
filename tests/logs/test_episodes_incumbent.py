"""Incumbents in logs: what they mean to do, or how likely; what is wrong is named by file, row and column."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from aegis.errors import LogError
from aegis.logs import Source, read_contexts, write_log
from aegis.problem import Problem, concat, parse_problem

TEXT = """
episode: day
reward: {{column: saved, range: [0, 1]}}
levels:
  - name: firing
    context: [outside]
    action: {{column: rate, values: [low, mid, high]}}
    {available}
    propensity: {propensity}
    incumbent: {incumbent}
"""
SHARES = "{shares: [0.25, 0.25, 0.5]}"


def problem_of(incumbent: str, propensity: str = SHARES, available: str = "") -> Problem:
    return parse_problem(TEXT.format(incumbent=incumbent, propensity=propensity, available=available))


def table_of(**more: list[object]) -> pa.Table:
    rows = {"day": [1, 2, 3], "outside": [0.5, 1.5, 2.5], "rate": ["low", "mid", "high"], "saved": [0.1, 0.2, 0.3]}
    return pa.table({**rows, **more})


def test_the_action_it_means_to_take_is_read_and_written_again(tmp_path: Path) -> None:
    problem = problem_of("{base: meant}")
    batch = Source(table_of(meant=["high", "mid", "mid"]), problem).read()
    assert batch.levels["firing"].base is not None and batch.levels["firing"].base.tolist() == [2, 1, 1]
    write_log(batch, problem, tmp_path / "log.parquet")
    again = Source(tmp_path / "log.parquet", problem).read()
    assert again.levels["firing"].base.tolist() == [2, 1, 1]  # type: ignore[union-attr]
    both = concat([batch, again]).take_episodes([5, 0])
    assert both.levels["firing"].base.tolist() == [1, 2]  # type: ignore[union-attr]


def test_its_probabilities_are_read_and_written_again(tmp_path: Path) -> None:
    problem = problem_of("{columns: [m_low, m_mid, m_high]}")
    batch = Source(table_of(m_low=[1.0, 0.5, 0.0], m_mid=[0.0, 0.5, 0.5], m_high=[0.0, 0.0, 0.5]), problem).read()
    write_log(batch, problem, tmp_path / "log.parquet")
    again = Source(tmp_path / "log.parquet", problem).read()
    np.testing.assert_array_equal(again.levels["firing"].incumbent, [[1, 0, 0], [0.5, 0.5, 0], [0, 0.5, 0.5]])  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("incumbent", "more", "message"),
    [
        ("{base: meant}", {}, "'meant' \\(base action of level 'firing'\\)"),
        ("{base: meant}", {"meant": ["high", "hot", "mid"]}, "row 2, column 'meant'.*hot"),
        ("{base: meant}", {"meant": ["high", None, "mid"]}, "row 2, column 'meant'"),
        ("{columns: [a, b, c]}", {"a": [1.0, 0.9, 1.0], "b": [0.0] * 3, "c": [0.0] * 3}, "row 2, column 'a'.*sum to 0.9"),
        ("{columns: [a, b, c]}", {"a": [1.2, 1.0, 1.0], "b": [-0.2, 0.0, 0.0], "c": [0.0] * 3}, "row 1, column 'a'.*above 1"),
    ],
)
def test_what_cannot_be_is_named_by_row_and_column(incumbent: str, more: dict[str, list[object]], message: str) -> None:
    with pytest.raises(LogError, match=message):
        Source(table_of(**more), problem_of(incumbent)).read()


def test_an_action_that_is_not_available_is_named() -> None:
    problem = problem_of("{base: meant}", "{column: p}", "available: [can_low, can_mid, can_high]")
    masks = {"can_low": [True] * 3, "can_mid": [True] * 3, "can_high": [False, False, True]}
    table = table_of(meant=["high", "mid", "mid"], p=[0.5, 0.5, 0.5], **masks)
    with pytest.raises(LogError, match=r"row 1, column 'meant'.*the incumbent's action 'high' is not available"):
        Source(table, problem).read()


def test_contexts_to_decide_in_bring_the_incumbent_along(tmp_path: Path) -> None:
    (tmp_path / "today.csv").write_text("outside,meant\n1,mid\n2,high\n")
    batch, _ = read_contexts(tmp_path / "today.csv", problem_of("{base: meant}"), "firing")
    assert batch.levels["firing"].base.tolist() == [1, 2]  # type: ignore[union-attr]
    (tmp_path / "bare.csv").write_text("outside\n1\n")
    batch, _ = read_contexts(tmp_path / "bare.csv", problem_of("{base: meant}"), "firing")
    assert batch.levels["firing"].base is None
    (tmp_path / "columns.csv").write_text("outside,a,b,c\n1,0.5,0.25,0.25\n")
    batch, _ = read_contexts(tmp_path / "columns.csv", problem_of("{columns: [a, b, c]}"), "firing")
    np.testing.assert_array_equal(batch.levels["firing"].incumbent, [[0.5, 0.25, 0.25]])  # type: ignore[arg-type]
