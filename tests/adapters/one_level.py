"""A small clinic with one decision an episode: labels, a category, a mask, full propensities."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from aegis.logs import Source
from aegis.problem import Problem, parse_problem
from aegis.rng import stream

DRUGS = ("none", "a", "b")
WARDS = ("north", "south")


def problem_of(masked: bool = True, goal: str = "maximise") -> Problem:
    mask = "available: [can_none, can_a, can_b]" if masked else ""
    return parse_problem(f"""
episode: visit
reward: {{column: score, range: [0, 1], goal: {goal}}}
levels:
  - name: drug
    decision: visit
    context: [age, {{column: ward, values: [north, south]}}]
    action: {{column: drug, values: [none, a, b]}}
    propensity: {{columns: [p_none, p_a, p_b]}}
    {mask}
""")


def table_of(count: int = 400, seed: int = 1, masked: bool = True) -> pa.Table:
    """Return a log whose best drug is 'a' for the young and 'b' for the old, drawn with chances that are never 0 where open."""
    rng = stream(seed, "one level")
    age, ward = rng.uniform(0, 1, count), rng.integers(0, 2, count)
    can = np.ones((count, 3), dtype=bool)
    if masked:
        can[:, 2] = rng.random(count) < 0.8
    chances = np.where(can, np.stack([np.full(count, 0.4), 0.2 + 0.2 * age, 0.4 - 0.2 * age], axis=1), 0.0)
    chances /= chances.sum(axis=1, keepdims=True)
    action = (rng.random(count)[:, None] > chances.cumsum(axis=1)).sum(axis=1)
    best = np.where(age < 0.5, 1, 2)
    score = (rng.random(count) < np.where(action == best, 0.9, 0.2)).astype(np.float64)
    columns: dict[str, Any] = {
        "visit": np.arange(count),
        "age": age,
        "ward": np.array(WARDS)[ward],
        "drug": np.array(DRUGS)[action],
        "score": score,
    }
    columns |= {f"p_{name}": chances[:, place] for place, name in enumerate(DRUGS)}
    if masked:
        columns |= {f"can_{name}": can[:, place] for place, name in enumerate(DRUGS)}
    return pa.table(columns)


def source_of(count: int = 400, seed: int = 1, masked: bool = True) -> Source:
    return Source(table_of(count, seed, masked), problem_of(masked))
