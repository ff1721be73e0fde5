"""Logs of a plant with one or two levels, in order or with a fault that no average shows."""

from __future__ import annotations

from functools import cache

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pytest
from audit_cases import audited, taken_only

from aegis.certificate import Certificate, certify
from aegis.logs import Source
from aegis.policies import Function
from aegis.problem import Batch, Level, LevelTable, Problem, Rows, parse_problem

Floats = npt.NDArray[np.float64]
ONE = """
episode: id
{head}
reward: {{column: r, range: [0, 1]{reward}}}
levels:
  - name: dose
    {dose}
    context: [{context}]
    action: {{column: a, values: [0, 1]}}
    propensity: {{columns: [p0, p1]}}
"""
TWO = """
episode: id
reward: {column: r, range: [0, 1]}
levels:
  - name: recipe
    decision: run
    context: [c]
    action: {column: s, values: [0, 1]}
    propensity: {columns: [q0, q1]}
  - name: dose
    context: [x]
    action: {column: a, values: [0, 1]}
    propensity: {columns: [p0, p1]}
"""


@cache
def one_level(head: str = "", reward: str = "", dose: str = "", context: str = "x") -> Problem:
    return parse_problem(ONE.format(head=head, reward=reward, dose=dose, context=context))


@cache
def two_levels() -> Problem:
    return parse_problem(TWO)


def high_action(level: Level, rows: Rows) -> Floats:
    return np.tile([0.0, 1.0], (len(next(iter(rows.values()))), 1))


def always_high(problem: Problem) -> Function:
    """Return the candidate that always takes the second action."""
    return Function(problem, high_action)


def rows_of(action: npt.NDArray[np.int64], reward: Floats, **columns: npt.ArrayLike) -> pa.Table:
    """Return a log of one-row episodes with even propensities."""
    count = action.size
    return pa.table(
        {"id": np.arange(count), "a": action, "p0": np.full(count, 0.5), "p1": np.full(count, 0.5), "r": reward, **columns}
    )


def even(parent: npt.ArrayLike, action: npt.ArrayLike, **context: npt.NDArray[np.float64]) -> LevelTable:
    """Return decisions with even propensities among two actions."""
    taken = np.asarray(action, dtype=np.int32)
    full = np.full((taken.size, 2), 0.5)
    return LevelTable(np.asarray(parent, dtype=np.int32), context, taken, full[:, 0].copy(), full)


def runs_and_doses(rng: np.random.Generator, episodes: int, runs: int = 3, doses: int = 2) -> Batch:
    """Return a log of two levels in order: actions and contexts at random, rewards that follow from the own dose."""
    run, dose = np.repeat(np.arange(episodes), runs), np.repeat(np.arange(episodes * runs), doses)
    recipe = even(run, rng.integers(0, 2, run.size), c=rng.normal(size=run.size))
    inner = even(dose, rng.integers(0, 2, dose.size), x=rng.normal(size=dose.size))
    reward = 0.45 + 0.3 * inner.action + 0.2 * (rng.random(dose.size) - 0.5)
    return Batch(np.arange(episodes), {"recipe": recipe, "dose": inner}, reward)


def steps(rng: np.random.Generator, episodes: int, count: int, cost: float = 0.6) -> pa.Table:
    """Return a log of steps: the second action pays at once and costs more at the next step. It loses 0.025 a step in all."""
    owner = np.repeat(np.arange(episodes), count)
    step = np.tile(np.arange(count), episodes)
    action = rng.integers(0, 2, owner.size)
    before = np.where(step == 0, 0, np.roll(action, 1))
    reward = (rng.random(owner.size) < 0.6 + 0.35 * action - cost * before).astype(np.float64)
    half = np.full(owner.size, 0.5)
    columns = {"id": owner, "t": owner * 100 + step, "step": step, "x": rng.normal(size=owner.size), "a": action}
    return pa.table({**columns, "p0": half, "p1": half, "r": reward})


def certified(problem: Problem, table: pa.Table, delta: float = 0.05) -> Certificate:
    return certify(Source(table, problem), always_high(problem), what=("gain",), delta=delta, ledger=False)


def codes_of(found: Certificate) -> set[str]:
    return {str(item["code"]) for item in found.findings}


FORMS = pytest.mark.parametrize("taken", [False, True])


def refused(batch: Batch, taken: bool, alpha: float = 0.001) -> list[tuple[str, str | None]]:
    problem, log = taken_only(two_levels(), batch) if taken else (two_levels(), batch)
    return [(item.code, item.level) for item in audited(problem, log, alpha=alpha).refused]
