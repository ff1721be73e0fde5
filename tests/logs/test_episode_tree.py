"""The order of siblings comes from ids or times, never from the rows; where it counts and nothing tells it, reading says so."""

from __future__ import annotations

import datetime
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aegis.errors import LogError
from aegis.logs import Source, describe_order, write_log
from aegis.logs.episode_tree import RowGroups, order_matters
from aegis.problem import Batch, Problem, parse_problem
from aegis.worlds import make_world

TEXT = """
episode: id
{head}
reward: {{column: r, range: [0, 100]{per}}}
levels:
  - name: recipe
    {run}
    context: [c]
    action: {{column: s, values: [0, 1]}}
    propensity: {{policy: uniform}}
  - name: dose
    {step}
    context: [x]
    action: {{column: a, values: [0, 1]}}
    propensity: {{policy: uniform}}
"""
RUN, STEP, TIME, WITHIN = "decision: run", "decision: step", "time: t", "carry_over: within"


def problem_of(run: str = RUN, step: str = STEP, time: str = TIME, carry: str = WITHIN, per: str = "") -> Problem:
    return parse_problem(TEXT.format(head=f"{time}\n{carry}", run=run, step=step, per=per))


def table(**changes: object) -> pa.Table:
    """Return two episodes with two runs of three steps, in order; the reward numbers the rows as they were decided."""
    episode, run, step = (values.ravel() for values in np.meshgrid(range(2), range(2), range(3), indexing="ij"))
    place = np.arange(12)
    columns = {
        "id": episode,
        "run": run,
        "step": step,
        "t": place * 10,
        "c": run,
        "x": place,
        "s": run,
        "a": place % 2,
        "r": place,
    }
    return pa.table({name: pa.array(changes.get(name, values)) for name, values in columns.items()})


def shuffled(log: pa.Table, seed: int = 1) -> pa.Table:
    return log.take(pa.array(np.random.default_rng(seed).permutation(len(log))))


def decided(problem: Problem, log: pa.Table) -> list[list[float]]:
    """Return the rewards of each episode in the order of the batch."""
    batch: Batch = Source(log, problem).read()
    owner = batch.episode_of("dose")
    assert batch.reward is not None
    return sorted(batch.reward[owner == episode].tolist() for episode in range(len(batch)))


IN_ORDER = [[0.0, 1, 2, 3, 4, 5], [6.0, 7, 8, 9, 10, 11]]
NAMES = [f"s{10 - value}" for value in range(12)]  # as text they are not in the order of time


@pytest.mark.parametrize("carry", [WITHIN, "carry_over: none"])
@pytest.mark.parametrize("seed", range(3))
def test_ids_and_times_give_the_order_whatever_the_rows_do(seed: int, carry: str) -> None:
    dates = [datetime.date(2024, 1, 1 + step) for step in range(3)] * 4
    moments = [datetime.datetime(2024, 1, 1, 6, minute) for minute in range(12)]
    text = [f"s{10 - step}" for step in range(3)] * 4
    for problem, log in (
        (problem_of(carry=carry), table()),
        (problem_of(time="", carry=carry), table()),
        (problem_of(time="", carry=carry), table(step=dates)),
        (problem_of(step="", carry=carry), table()),
        (problem_of(step="", carry=carry), table(t=moments)),
        (problem_of(step="", carry=carry), table(t=np.arange(12) / 7)),
        (problem_of(carry=carry), table(step=text, run=["second" if run else "zeroth" for run in table()["run"].to_pylist()])),
    ):
        assert decided(problem, shuffled(log, seed)) == IN_ORDER


@pytest.mark.parametrize(
    ("problem", "changes", "message"),
    [
        (
            problem_of(step="", time=""),
            {},
            r"column 'a': level 'dose' has several .* without decision ids .* numbers \(or dates\)",
        ),
        (problem_of(time=""), {"step": NAMES}, r"column 'step': level 'dose' has several .* ids of text such as 's\d+'"),
        (
            problem_of(time=""),
            {"run": list("xxxyyyxxxyyy")},
            r"column 'run': level 'recipe' has several .* ids of text such as 'y'",
        ),
        (problem_of(step=""), {"t": [5] * 6 + [9] * 6}, r"column 'a': level 'dose' has several .* without a time that differs"),
        (problem_of(step=""), {"t": [0, 1, 1, 3, 4, 5] * 2}, r"column 't': found 1 twice: two decisions of level 'dose'"),
        (problem_of(step="", time=""), {"t": NAMES}, "'time' column whose numbers or dates differ"),
        (
            problem_of(),
            {"t": [0, 1, 2, 4, 3, 5] * 2},
            r"column 't': found 3, but 4 at frame 1, row 4, which comes before it by dec",
        ),
        (problem_of(), {"t": [0, 2, 4, 1, 3, 5] * 2}, r"column 't': found 1, but 4 at frame 1, row 3"),  # runs that overlap
    ],
)
def test_an_order_that_counts_and_is_not_told_is_an_error(problem: Problem, changes: dict[str, object], message: str) -> None:
    with pytest.raises(LogError, match=message):
        Source(table(**changes), problem).read()
    Source(table(**changes), replace(problem, carry_over="none")).read()


def test_decisions_that_share_a_reward_need_no_order() -> None:
    episode = problem_of(step="", time="", per=", per: episode")
    Source(shuffled(table(r=[1] * 6 + [2] * 6)), episode).read()
    recipe = problem_of(step="", time="", per=", per: recipe")
    log = shuffled(table(r=[1, 1, 1, 2, 2, 2] * 2))
    Source(log, recipe).read()
    with pytest.raises(LogError, match="level 'recipe' has several"):
        Source(shuffled(table(r=[1, 1, 1, 2, 2, 2] * 2, run=list("xxxyyyxxxyyy"))), recipe).read()
    assert [order_matters(recipe, name) for name in ("recipe", "dose")] == [True, False]
    assert [order_matters(problem_of(), name) for name in ("recipe", "dose")] == [True, True]
    assert not order_matters(episode, "recipe") and not order_matters(problem_of(carry="carry_over: none"), "dose")


def test_single_decisions_need_no_order() -> None:
    log = table(id=np.arange(12))
    assert len(Source(log, problem_of(run="", step="", time="")).read()) == 12


def test_the_order_in_words() -> None:
    assert describe_order(problem_of(), "dose") == "in the order of 'step' (of 't' if it holds text)"
    assert describe_order(problem_of(step=""), "dose") == "in the order of 't', else of the log"
    assert describe_order(problem_of(step="", time=""), "dose") == "in the order of the log"


def test_a_log_without_an_order_is_not_written(tmp_path: Path) -> None:
    world = make_world("additive")
    problem = replace(world.problem, carry_over="within")
    batch = world.episodes(0, 3, world.legacy("uniform"), 1)
    bare = replace(problem, levels=(*problem.levels[:-1], replace(problem.levels[-1], decision=None)))
    path = tmp_path / "log.parquet"
    with pytest.raises(LogError, match="'carry_over: within' their order counts, and neither rows nor text tell it"):
        write_log(batch, bare, path)
    write_log(batch, problem, path)
    np.testing.assert_array_equal(Source(path, problem).read().reward, batch.reward)


@settings(max_examples=25, deadline=None)
@given(st.lists(st.integers(0, 5), min_size=1, max_size=30), st.integers(0, 10**6))
def test_groups_by_hand(of: list[int], seed: int) -> None:
    rng = np.random.default_rng(seed)
    names, first, inverse = np.unique(of, return_index=True, return_inverse=True)
    groups = RowGroups(inverse.astype(np.int64), first.astype(np.int64), bool((np.diff(inverse) >= 0).all()))
    values = rng.integers(0, 9, len(of))
    assert groups.earliest(values).tolist() == [min(values[inverse == place]) for place in range(names.size)]
    order = rng.permutation(names.size)
    moved = groups.rearranged(order)
    assert [set(np.flatnonzero(moved.of == place)) for place in range(names.size)] == [
        set(np.flatnonzero(inverse == place)) for place in order
    ]
    assert moved.first.tolist() == first[order].tolist() and moved.ordered == bool((np.diff(moved.of) >= 0).all())
