"""Rewards that are missing for good, and rewards that are still awaited."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from log_samples import PROBLEMS, assert_same, random_batch, write_csv

from aegis.errors import LogError
from aegis.logs import Source, to_table, write_log
from aegis.problem import parse_problem
from aegis.rng import stream

DELAYED = PROBLEMS["delayed"]


def log(**changes: list[object]) -> pa.Table:
    columns = {
        "order": [1, 1, 2], "line": [0, 1, 0], "shop": ["a", "a", "b"], "placed": [5, 5, 6], "size": [1.0, 2.0, 3.0],
        "price": [1, 2, 4], "p": [0.5, 0.5, 0.5], "paid": [1.0, None, None], "final": [True, True, False],
    }  # fmt: skip
    return pa.table({**columns, **changes})


def test_a_reward_is_observed_missing_or_awaited(tmp_path: Path) -> None:
    for given in (log(), write_csv(log(), tmp_path / "log.csv")):
        batch = Source(given, DELAYED).read()
        assert batch.observed is not None and batch.observed.tolist() == [True, False, False]
        assert batch.closed is not None and batch.closed.tolist() == [True, True, False]
        assert batch.reward is not None and np.isnan(batch.reward).tolist() == [False, True, True]


def test_without_a_column_nothing_is_awaited() -> None:
    problem = replace(DELAYED, reward=replace(DELAYED.reward, closed=None))
    batch = Source(log(), problem).read()
    assert batch.closed is None
    assert batch.observed is not None and batch.observed.tolist() == [True, False, False]


def test_an_awaited_reward_has_no_value_yet() -> None:
    with pytest.raises(
        LogError, match=r"row 3, column 'paid': found 0\.5, but 'final' is false: the reward is still awaited; leave"
    ):
        Source(log(paid=[1.0, None, 0.5]), DELAYED).read()


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (
            [True, None, False],
            "row 2, column 'final': the flag that closes the reward is missing .*write true where the reward is fin",
        ),
        ([1, 0, 2], "row 3, column 'final': found 2 .*true or false"),
    ],
)
def test_flags_are_true_or_false(flags: list[object], words: str) -> None:
    with pytest.raises(LogError, match=words):
        Source(log(final=flags), DELAYED).read()


def test_a_missing_flag_column_is_named() -> None:
    with pytest.raises(LogError, match=r"'final' \(flag that closes the reward\)"):
        Source(log().drop_columns(["final"]), DELAYED).read()


def test_a_reward_of_an_episode_is_awaited_as_a_whole() -> None:
    problem = replace(DELAYED, reward=replace(DELAYED.reward, per="episode"))
    with pytest.raises(LogError, match=r"row 2, column 'final': found False, but True at frame 1, row 1, in the same episode"):
        Source(log(paid=[None, None, None], final=[True, False, True]), problem).read()


def test_nothing_is_clipped_on_reading() -> None:
    assert DELAYED.reward.clip and DELAYED.reward.range == (0.0, 1.0)
    batch = Source(log(paid=[7.0, -3.0, None]), DELAYED).read()
    assert batch.reward is not None and batch.reward.tolist()[:2] == [7.0, -3.0]


def test_awaited_rewards_are_written_and_read(tmp_path: Path) -> None:
    batch = random_batch(DELAYED, stream(1, "delays"), 30)
    assert batch.closed is not None and not batch.closed.all()
    write_log(batch, DELAYED, tmp_path / "log.parquet")
    assert_same(Source(tmp_path / "log.parquet", DELAYED).read(), batch)
    assert to_table(replace(batch, closed=None), DELAYED)["final"].to_pylist() == [True] * len(batch.levels["offer"])


def test_awaited_rewards_without_a_column_or_with_a_value_cannot_be_written() -> None:
    batch = random_batch(DELAYED, stream(2, "delays"), 30)
    problem = replace(DELAYED, reward=replace(DELAYED.reward, closed=None))
    with pytest.raises(LogError, match=r"rewards of the batch are still awaited, .*name one under reward 'closed'"):
        to_table(batch, problem)
    open_rows = np.zeros(len(batch.levels["offer"]), dtype=np.bool_)
    with pytest.raises(LogError, match=r"'final' is false: the reward is still awaited"):
        to_table(replace(batch, closed=open_rows), DELAYED)


def test_missing_guards_and_outcomes_are_missing_in_words(tmp_path: Path) -> None:
    problem = parse_problem(
        "episode: v\nreward: {column: r}\nguards: [{column: g, range: [0, 1], max_worsening: 0.1}]\n"
        "outcome: {column: y, values: [1, 2]}\nlevels: [{name: a, action: {column: x, values: [0, 1]}}]"
    )
    path = tmp_path / "log.csv"
    path.write_text("v,x,r,g,y\n1,0,NA,nan,NULL\n2,1,0.5,0.5,2\n")
    batch = Source(path, problem).read()
    assert batch.observed is not None and batch.observed.tolist() == [False, True]
    assert np.isnan(batch.guards["g"]).tolist() == [True, False]
    assert batch.outcome is not None and batch.outcome.tolist() == [-1, 1]
    path.write_text("v,x,r,g,y\n1,NA,1,0.5,1\n")
    with pytest.raises(LogError, match=r"row 1, column 'x': the action of level 'a' is missing"):
        Source(path, problem).read()
