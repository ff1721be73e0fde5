"""Which scopes a finding about one level refuses."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from small_logs import problem_of

from aegis.audit import make_finding
from aegis.certificate import certify
from aegis.certificate.assembly import _concerns
from aegis.logs import Source
from aegis.policies import Function
from aegis.problem import Scope, parse_problem

PROBLEM = """
episode: id
reward: {column: r, range: [0, 1]}
levels:
  - {name: plan, decision: run, action: {column: b, values: [0, 1]}, propensity: {columns: [q0, q1]}}
  - {name: dose, decision: step, action: {column: a, values: [0, 1]}, propensity: {columns: [p0, p1]}}
"""


@pytest.mark.parametrize(
    ("code", "level", "scope", "refused"),
    [
        ("miscalibrated-propensities", "recipe", ("dose",), False),
        ("miscalibrated-propensities", "recipe", ("recipe", "dose"), True),
        ("size-follows-reward", "recipe", ("dose",), True),
        ("size-follows-action", "recipe", ("dose",), True),
        ("size-follows-reward", "dose", ("recipe",), False),
    ],
)
def test_levels_of_findings(code: str, level: str, scope: tuple[str, ...], refused: bool) -> None:
    assert _concerns(make_finding(code, "refused", "found", level), Scope(scope), problem_of()) is refused


def stopping_log(episodes: int, seed: int) -> pa.Table:
    """Three doses a run; another run follows unless action 1 earned something: the better action 1 looks, the fewer rows."""
    rng, rows = np.random.default_rng(seed), []
    for episode in range(episodes):
        for run in range(6):
            stop = False
            b = rng.integers(2)
            for step in range(3):
                a = int(rng.integers(2))
                r = float(rng.random() < 0.51 - 0.02 * a)
                stop |= a == 1 and r == 1
                rows.append((episode, run, step, b, a, r, 0.5, 0.5, 0.5, 0.5))
            if stop:
                break
    names = ["id", "run", "step", "b", "a", "r", "q0", "q1", "p0", "p1"]
    return pa.table(dict(zip(names, map(list, zip(*rows, strict=True)), strict=True)))


def test_runs_that_stop_after_success_below_refuse_the_inner_level_alone() -> None:
    problem = parse_problem(PROBLEM, "inline")
    always = Function(problem, lambda level, rows: np.tile([0.0, 1.0], (len(next(iter(rows.values()))), 1)), ["dose"])
    for seed in range(3):
        found = certify(Source(stopping_log(500, seed), problem), always, scopes=[["dose"]], ledger=False)
        assert "size-follows-reward" in {item["code"] for item in found.findings}
        assert found.verdict.verdict == "refused"
