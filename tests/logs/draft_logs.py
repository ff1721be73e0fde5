"""Logs to draft from, and what of a drafted problem must agree with the true one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq

from aegis.logs import Draft, Source, to_table
from aegis.problem import Level, Problem, load_problem
from aegis.worlds import make_world


def world_log(
    name: str, episodes: int = 120, legacy: str = "uniform", seed: int = 3, **settings: Any
) -> tuple[pa.Table, Problem]:
    """Return the log of a simulated plant as a table, and its problem."""
    world = make_world(name, **settings)
    batch = world.episodes(0, episodes, world.legacy(legacy), seed=seed)
    return to_table(batch, world.problem), world.problem


def essence(problem: Problem, names: dict[str, str] | None = None) -> list[Any]:
    """Return what a draft can know of a problem: no ranges, no graph, no names of levels; columns renamed by `names`."""
    return [_level_essence(level, names or {}) for level in problem.levels] + [
        _new(names or {}, problem.reward.column),
        problem.reward.per,
    ]


def _level_essence(level: Level, names: dict[str, str]) -> dict[str, Any]:
    values = [round(float(v), 9) + 0.0 if level.actions.numeric else str(v) for v in level.actions.values]
    given = level.propensity
    return {
        "action": _new(names, level.actions.column),
        "values": sorted(values, key=str),
        "context": {_new(names, column) for variable in level.context for column in variable.columns},
        "taken": None if given is None or given.column is None else _new(names, given.column),
        "full": {} if given is None else {value: _new(names, c) for value, c in zip(values, given.columns, strict=False)},
        "available": {value: _new(names, c) for value, c in zip(values, level.available, strict=False)},
    }


def _new(names: dict[str, str], column: str) -> str:
    return names.get(column, column)


def checked(draft: Draft, path: Path) -> Problem:
    """Return the drafted problem after making sure that its text says the same and that the log reads with it."""
    assert draft.problem is not None, draft.text
    file = path.parent / "drafted.yaml"
    file.write_text(draft.text, encoding="utf-8")
    assert load_problem(file) == draft.problem
    batch = Source(path, draft.problem).read()
    assert batch.reward is not None and batch.reward.size
    assert "# CHECK" in draft.text
    return draft.problem


def parquet(table: pa.Table, folder: Path, name: str = "log.parquet") -> Path:
    pq.write_table(table, folder / name)
    return folder / name


def csv(table: pa.Table, folder: Path, separator: str = ",", name: str = "log.csv") -> Path:
    pa.csv.write_csv(table, folder / name, pa.csv.WriteOptions(delimiter=separator))
    return folder / name


def shuffled(table: pa.Table, seed: int = 0, rows: bool = False) -> pa.Table:
    """Return the table with its columns, and if asked its rows, in another order."""
    rng = np.random.default_rng(seed)
    mixed = table.select([table.column_names[index] for index in rng.permutation(table.num_columns)])
    return mixed.take(pa.array(rng.permutation(table.num_rows))) if rows else mixed


def bandit_log(rows: int = 600, seed: int = 0) -> dict[str, Any]:
    """Return a one-level log as bandit libraries write it: action, reward, pscore, position and features, and no id."""
    rng = np.random.default_rng(seed)
    features = rng.normal(size=(rows, 5))
    scores = np.exp(features[:, :4])
    chances = scores / scores.sum(axis=1, keepdims=True)
    action = (chances.cumsum(axis=1) < rng.random(rows)[:, None]).sum(axis=1)
    return {
        "action": action,
        "position": rng.integers(0, 3, rows),
        "reward": rng.binomial(1, 0.2 + 0.1 * action),
        "pscore": chances[np.arange(rows), action],
        **{f"x_{index}": features[:, index] for index in range(5)},
    }


def nested_log(episodes: int = 80, runs: int = 2, steps: int = 3, seed: int = 0) -> dict[str, Any]:
    """Return a two-level log with ids, cluster, start and known chances: recipes (setting), and doses below them."""
    rng = np.random.default_rng(seed)
    rows = episodes * runs * steps
    batch = np.repeat(np.arange(episodes), runs * steps)
    run = np.tile(np.repeat(np.arange(runs), steps), episodes)
    setting = np.repeat(rng.integers(0, 3, episodes * runs), steps)
    dose = rng.integers(0, 5, rows) / 2
    task = np.repeat(rng.normal(size=episodes), runs * steps)
    temperature = task + setting + rng.normal(size=rows)
    purity = temperature + dose + rng.normal(size=rows)
    return {
        "batch": [f"B{number:04d}" for number in batch],
        "machine": [f"M{number % 7}" for number in batch],
        "started_at": np.repeat(np.datetime64("2024-01-01", "s") + np.arange(episodes) * 3600, runs * steps),
        "recipe_run": run,
        "task": task,
        "setting": np.array(["low", "mid", "high"])[setting],
        "p_setting": np.full(rows, 1 / 3),
        "temperature": temperature,
        "dose": dose,
        "dose_prob": np.full(rows, 0.2),
        "purity": purity,
        "margin": 10 + purity - dose**2,
    }
