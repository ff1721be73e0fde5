"""Propensities that are none: what they may be instead, and what to do; and what the problem promises of them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from log_samples import PROBLEMS, random_batch

from aegis.errors import LogError
from aegis.logs import Source, to_table
from aegis.logs.columns import Column
from aegis.logs.conversion import convert_table
from aegis.problem import Problem, RowOrigins, parse_problem
from aegis.rng import stream


def said_of(values: list[float], positive: bool = True) -> list[str]:
    """Return what is said of a column of propensities, a line for each kind, without the file."""
    column = Column("p", "propensity", "number", positive=positive)
    places = RowOrigins.following(("log",), 0, 0, len(values))
    try:
        convert_table(pa.table({"p": pa.array(values, pa.float64())}), [column], {}, places)
    except LogError as error:
        return [line.removeprefix("log, ") for line in str(error).splitlines()]
    return []


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ([0.5, 0.0, 0.0], ["row 1, column 'p': found 0: an action that was taken had a chance"]),
        ([float("nan"), 0.5], ["row 0, column 'p': found nan as propensity"]),
        (
            [-0.7, -1.2, 0.0],
            [
                "row 0, column 'p': found -0.7, below 0: no value is above 0, so each looks like a log-prob",
                "row 2, column 'p': found 0",
            ],
        ),
        ([-0.7, 0.5], ["row 0, column 'p': found -0.7, below 0: is it a log-probability (then write exp of it)?"]),
        (
            [50.0, 25.0, 100.0, 0.5],
            ["row 0, column 'p': found 50, above 1: most values are, and none is above 100, so these look like perc"],
        ),
        ([50.0, 125.0, 30.0], ["row 0, column 'p': found 50, above 1: is it a percentage"]),
        ([2.5, 0.5, 0.1], ["row 0, column 'p': found 2.5, above 1: is it a percentage"]),
        ([50.0, 25.0, -1.0], ["row 0, column 'p': found 50, above 1: is it a percentage", "row 2, column 'p': found -1"]),
        ([1.0, 1 + 5e-10], []),
        ([1e-300, 1.0], []),
        ([], []),
    ],
)
def test_what_the_values_look_like_is_said(values: list[float], words: list[str]) -> None:
    found = said_of(values)
    assert len(found) == len(words)
    for one, start in zip(found, words, strict=True):
        assert one.startswith(start)
        unknown = "a propensity is a number above 0 and at most 1; log the probability the behaviour policy used"
        assert (
            unknown if "nan" in start else "a propensity is the probability of the action taken, above 0 and at most 1"
        ) in one


def test_zero_is_a_chance_of_an_action_not_taken() -> None:
    assert said_of([0.0, 1.0], positive=False) == []
    assert len(said_of([0.0, -1.0, 2.0], positive=False)) == 2


@settings(max_examples=25, deadline=None)
@example([float("nan")])
@given(st.lists(st.floats(allow_nan=True, allow_infinity=False, width=32), max_size=6))
def test_nothing_wrong_passes_and_nothing_right_is_reported(values: list[float]) -> None:
    right = all(0 < value <= 1 + 1e-9 for value in values)
    assert (said_of(values) == []) == right


# ---- the lowest chance that is promised ------------------------------------------------------------------------------


def problem_of(propensity: str, masked: bool = False) -> Problem:
    mask = "available: [m0, m1], " if masked else ""
    level = f"{{name: a, action: {{column: x, values: [0, 1]}}, {mask}propensity: {propensity}}}"
    return parse_problem(f"episode: v\nreward: {{column: r}}\nlevels: [{level}]")


def log(**further: list[object]) -> pa.Table:
    return pa.table({"v": [1, 2, 3], "x": [0, 1, 1], "r": [1.0, 0.0, 1.0], **further})


@pytest.mark.parametrize(
    ("propensity", "masked", "further", "words"),
    [
        (
            "{column: p, least: 0.2}",
            False,
            {"p": [0.2, 0.5, 0.1]},
            "row 3, column 'p': this action had the probability 0.1, below",
        ),
        (
            "{columns: [q, s], least: 0.2}",
            False,
            {"q": [0.5, 0.1, 0.5], "s": [0.5, 0.9, 0.5]},
            "row 2, column 'q': an available act",
        ),
        ("{base: b, epsilon: 0.3, least: 0.2}", False, {"b": [0, 1, 1]}, "row 1, column 'b': an available action had the probab"),
        (
            "{policy: uniform, least: 0.6}",
            True,
            {"m0": [1, 1, 0], "m1": [0, 1, 1]},
            "row 2, column 'x': an available action had th",
        ),
    ],
)
def test_a_chance_below_the_promise_is_named(propensity: str, masked: bool, further: dict[str, list[object]], words: str) -> None:
    with pytest.raises(LogError) as caught:
        Source(log(**further), problem_of(propensity, masked)).read()
    said = str(caught.value)
    assert said.startswith(f"frame 1, {words}")
    assert "that propensity 'least' of level 'a' promises of every available action; declare less, or correct the log" in said


@pytest.mark.parametrize(
    ("propensity", "masked", "further"),
    [
        ("{column: p, least: 0.2}", False, {"p": [0.2, 0.5, 0.2 - 1e-12]}),
        ("{columns: [q, s], least: 0.2}", True, {"q": [1.0, 0.2, 0.0], "s": [0.0, 0.8, 1.0], "m0": [1, 1, 0], "m1": [0, 1, 1]}),
        ("{base: b, epsilon: 0.4, least: 0.2}", False, {"b": [0, 1, 1]}),
        ("{policy: uniform, least: 0.5}", False, {}),
    ],
)
def test_a_promise_that_is_kept_passes_and_masked_actions_do_not_count(
    propensity: str, masked: bool, further: dict[str, list[object]]
) -> None:
    assert len(Source(log(**further), problem_of(propensity, masked)).read()) == 3


def test_shares_are_the_chances_of_every_row_and_of_what_was_taken() -> None:
    table = Source(log(), problem_of("{shares: [0.9, 0.1]}", False)).read().levels["a"]
    assert table.mu_full is not None
    for row in range(3):
        assert table.mu_full[row].tolist() == [0.9, 0.1]
        assert table.mu_taken[row] == [0.9, 0.1][table.action[row]]
    with pytest.raises(LogError, match=r"below the 0\.2 that propensity 'least'"):
        Source(log(), problem_of("{shares: [0.9, 0.1], least: 0.2}", False)).read()


# ---- writing ---------------------------------------------------------------------------------------------------------


def test_a_batch_that_breaks_its_promise_cannot_be_written() -> None:
    problem = PROBLEMS["delayed"]
    batch = random_batch(problem, stream(1, "least"), 3)
    table = batch.levels["offer"]
    low = np.where(np.arange(len(table)) == 1, 0.0005, table.mu_taken)
    with pytest.raises(LogError, match=r"row 2, .*below the 0\.001"):
        to_table(batch.with_level("offer", replace(table, mu_taken=low)), problem)


def test_the_probability_of_the_taken_action_is_that_of_its_column() -> None:
    problem = PROBLEMS["nested"]
    batch = random_batch(problem, stream(2, "taken"), 3)
    table = batch.levels["recipe"]
    other = np.where(np.arange(len(table)) == 1, table.mu_taken / 2, table.mu_taken)
    with pytest.raises(LogError, match=r"row 1 of the batch .* the propensity is .*, but a reader would find"):
        to_table(batch.with_level("recipe", replace(table, mu_taken=other)), problem)


def test_a_batch_with_other_chances_than_the_shares_cannot_be_written() -> None:
    problem = problem_of("{shares: [0.9, 0.1]}", False)
    batch = Source(log(), problem).read()
    assert to_table(batch, problem).num_rows == 3
    table = batch.levels["a"]
    with pytest.raises(LogError, match=r"a reader would find 0\.9; make the batch agree with what the problem declares"):
        to_table(batch.with_level("a", replace(table, mu_taken=table.mu_taken / 2)), problem)
