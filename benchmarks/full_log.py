"""A log of one level that holds the whole logging distribution: one column for each action."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from aegis.problem import Actions, Level, Problem, Propensity, Reward, Variable
from aegis.rng import stream


def full_problem(actions: int) -> Problem:
    """Return the problem: a context, and a grid of so many actions."""
    columns = tuple(f"p_{place}" for place in range(actions))
    dose = Level("dose", Actions.grid("dose", -1, 1, actions), (Variable("x"),), Propensity(columns=columns))
    return Problem((dose,), Reward("margin", (0.0, 1.0)), episode=("batch",))


def write_full_log(path: Path, actions: int, rows: int, seed: int = 1) -> None:
    """Write so many episodes of one decision each, by a legacy that leans a little with the context."""
    rng = stream(seed, "full log", actions)
    values, x = np.linspace(-1, 1, actions), rng.normal(size=rows)
    chances = np.exp(0.3 * x[:, None] * values)
    chances /= chances.sum(axis=1, keepdims=True)
    taken = np.minimum((np.cumsum(chances, axis=1) < rng.random(rows)[:, None]).sum(axis=1), actions - 1)
    margin = np.clip(0.5 + 0.2 * x * values[taken] + 0.1 * rng.normal(size=rows), 0, 1)
    table = {"batch": np.arange(rows), "x": x, "dose": values[taken], "margin": margin}
    pq.write_table(pa.table(table | {f"p_{place}": chances[:, place] for place in range(actions)}), path)
