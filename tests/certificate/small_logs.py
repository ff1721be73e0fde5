"""A small plant with two levels, its logs as tables, and candidates that are truly better or truly worse than its legacy."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from aegis.logs import Source
from aegis.policies import Function
from aegis.problem import Level, Problem, Rows, parse_problem
from aegis.rng import stream

Floats = npt.NDArray[np.float64]
FULL = {"recipe": "{columns: [p_a, p_b]}", "dose": "{columns: [p_1, p_2, p_3]}"}
TAKEN = {"recipe": "{column: p_setting}", "dose": "{column: p_dose}"}
MODULE = "small_logs"


def problem_text(full: bool = True, head: str = "", reward: str = "", dose: str = "") -> str:
    """Return the problem file; head, reward and dose are further lines or fields."""
    propensity = FULL if full else TAKEN
    return f"""
episode: batch
{head}
reward: {{column: margin, range: [0, 1], unit: EUR{reward}}}
levels:
  - name: recipe
    context: [{{column: task, values: [plain, fine]}}]
    action: {{column: setting, values: [a, b]}}
    propensity: {propensity["recipe"]}
  - name: dose
    decision: step
    context: [temperature]
    action: {{column: dose, values: [1, 2, 3]}}
    propensity: {propensity["dose"]}
    {dose}
"""


@cache
def problem_of(full: bool = True, head: str = "", reward: str = "", dose: str = "") -> Problem:
    return parse_problem(problem_text(full, head, reward, dose))


def best_dose(temperature: Floats) -> npt.NDArray[np.int64]:
    return np.where(temperature < -0.5, 0, np.where(temperature < 0.5, 1, 2))


def best_setting(task: npt.NDArray[Any]) -> npt.NDArray[np.int64]:
    return np.asarray(task, dtype=np.int64)


def legacy_dose(temperature: Floats) -> Floats:
    """Return the legacy's chances `[n, 3]`; it leans towards a neighbour of the best dose."""
    favourite = (best_dose(temperature) + 1) % 3
    return np.full((temperature.size, 3), 0.25) + 0.25 * (np.arange(3) == favourite[:, None])


def legacy_setting(task: npt.NDArray[Any]) -> Floats:
    return np.where(best_setting(task)[:, None] == np.arange(2), 0.4, 0.6)


@cache
def make_table(episodes: int, seed: int = 1, steps: int = 3, noise: float = 0.1, target: str = "better") -> pa.Table:
    """Return a log with all propensities, those of the actions taken too, and two columns of a candidate's probabilities."""
    rng = stream(seed, "small log")
    owner = np.repeat(np.arange(episodes), steps)
    task = rng.integers(0, 2, episodes)
    outer = legacy_setting(task)
    setting = (rng.random(episodes) > outer[:, 0]).astype(np.int64)
    temperature = rng.normal(size=owner.size)
    inner = legacy_dose(temperature)
    dose = (np.cumsum(inner, axis=1) <= rng.random(owner.size)[:, None]).sum(axis=1)
    right = (dose == best_dose(temperature)).astype(float)
    tuned = (setting == best_setting(task)).astype(float)[owner]
    reward = 0.15 + 0.45 * right + 0.25 * tuned + noise * (rng.random(owner.size) - 0.5)
    rows = np.arange(owner.size)
    chosen = better if target == "better" else worse
    new_outer, new_inner = _chances(chosen, "recipe", task), _chances(chosen, "dose", temperature)
    return pa.table(
        {
            "batch": [f"b{k:05d}" for k in owner],
            "step": np.tile(np.arange(steps), episodes),
            "started": owner // 2,
            "line": [f"l{k // 4:04d}" for k in owner],
            "task": np.array(["plain", "fine"])[task[owner]],
            "setting": np.array(["a", "b"])[setting[owner]],
            "p_a": outer[owner, 0],
            "p_b": outer[owner, 1],
            "p_setting": outer[owner, setting[owner]],
            "temperature": temperature,
            "dose": dose + 1,
            "p_1": inner[:, 0],
            "p_2": inner[:, 1],
            "p_3": inner[:, 2],
            "p_dose": inner[rows, dose],
            "margin": reward,
            "scrap": 1.0 - right,
            "closed": np.ones(owner.size, dtype=bool),
            "new_setting": new_outer[np.arange(episodes), setting][owner],
            "new_dose": new_inner[rows, dose],
        }
    )


def better(level: Level, rows: Rows) -> Floats:
    """Return a policy that mostly does what is best."""
    if level.name == "recipe":
        return np.where(best_setting(rows["task"])[:, None] == np.arange(2), 0.8, 0.2)
    return np.where(best_dose(rows["temperature"])[:, None] == np.arange(3), 0.7, 0.15)


def worse(level: Level, rows: Rows) -> Floats:
    """Return a policy that mostly avoids what is best."""
    if level.name == "recipe":
        return np.where(best_setting(rows["task"])[:, None] == np.arange(2), 0.1, 0.9)
    return np.where(best_dose(rows["temperature"])[:, None] == np.arange(3), 0.04, 0.48)


def _chances(policy: Any, level: str, context: npt.NDArray[Any]) -> Floats:
    name = "task" if level == "recipe" else "temperature"
    return np.asarray(policy(problem_of().level(level), {name: context}))


def better_policy(problem: Problem) -> Function:
    return Function.named(problem, f"{MODULE}:better")


def worse_policy(problem: Problem) -> Function:
    return Function.named(problem, f"{MODULE}:worse")


def replaced(table: pa.Table, column: str, values: Any) -> pa.Table:
    """Return the table with another column of that name."""
    return table.set_column(table.column_names.index(column), column, pa.array(values))


def saved(table: pa.Table, path: Path) -> Path:
    pq.write_table(table, path)
    return path


def source_of(table: pa.Table, problem: Problem | None = None) -> Source:
    return Source(table, problem or problem_of())
