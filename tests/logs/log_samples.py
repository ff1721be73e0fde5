"""Small problems of every shape, random batches of them, and ways to compare batches and to write them as text."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv

from aegis.logs import to_table
from aegis.problem import Batch, LevelTable, Problem, parse_problem

FLAT = """
episode: visit
reward: {column: score, range: [0, 1]}
levels:
  - name: dose
    context: [age]
    action: {column: dose, values: [1, 2, 3]}
    propensity: {column: p}
"""

NESTED = """
episode: batch
cluster: machine
time: started
reward: {column: margin, range: [0, 40]}
guards: [{column: scrap, range: [0, 1], max_worsening: 0.01}]
outcome: {column: purity}
levels:
  - name: recipe
    decision: run
    context: [task, {column: shape, values: [round, square, NA]}]
    action: {column: setting, values: [low, mid, high]}
    available: [can_low, can_mid, can_high]
    propensity: {columns: [p_low, p_mid, p_high]}
  - name: dose
    decision: step
    context: [{name: sensor, columns: [s1, s2]}]
    action: {column: dose, grid: {low: -2, high: 2, points: 21}}
    propensity: {column: p_dose}
"""

DEEP = """
episode: [plant, day]
reward: {column: yield, range: [0, 1]}
outcome: {column: grade, values: [a, b, c]}
levels:
  - name: season
    context: [rain]
    action: {column: crop, values: [true, false]}
    propensity: {policy: uniform}
  - name: week
    decision: week
    context: [{column: soil, values: [1, 2, 5]}]
    action: {column: water, values: [0, 0.5, 1]}
    available: [w0, w1, w2]
    propensity: {policy: uniform}
  - name: hour
    context: [sun]
    action: {column: shade, values: [0, 1]}
    propensity: {columns: [q0, q1]}
"""

LOOSE = """
episode: visit
reward: {column: score}
levels:
  - name: plan
    action: {column: plan, values: [a, b]}
  - name: dose
    action: {column: dose, values: [1, 2, 3]}
    propensity: {column: p}
"""

MEANT = """
episode: [site, visit]
cluster: site
reward: {column: score}
levels:
  - name: plan
    context: [{column: site, values: [x, y]}]
    action: {column: plan, values: [a, b, c]}
    available: [can_a, can_b, can_c]
    propensity: {base: proposal, epsilon: 0.3}
  - name: dose
    context: [weight]
    action: {column: dose, values: [1, 2.5]}
    propensity: {base: usual, epsilon: 1}
"""

DELAYED = """
episode: order
cluster: {column: shop, most: 9}
time: placed
reward: {column: paid, range: [0, 1], clip: true, closed: final}
levels:
  - name: offer
    decision: line
    context: [size]
    action: {column: price, values: [1, 2, 4]}
    propensity: {column: p, least: 0.001, estimated: true}
"""

TEXTS = {"flat": FLAT, "nested": NESTED, "deep": DEEP, "loose": LOOSE, "meant": MEANT, "delayed": DELAYED}
PROBLEMS = {name: parse_problem(text) for name, text in TEXTS.items()}


def random_batch(problem: Problem, rng: np.random.Generator, episodes: int, first: int = 0, text_ids: bool = False) -> Batch:
    """Return episodes with one to three decisions below each parent where the problem can tell them apart."""
    levels: dict[str, LevelTable] = {}
    bases: dict[str, Any] = {}
    above = episodes
    ids = _ids(problem, first, episodes, text_ids)
    for level in problem.levels:
        several = level.decision is not None or level is problem.innermost
        parent = np.repeat(np.arange(above, dtype=np.int32), rng.integers(1, 4, above) if several else 1)
        count = above = parent.size
        context: dict[str, Any] = {}
        for variable in level.context:
            if variable.name == problem.cluster:
                context[variable.name] = np.array([variable.values.index(site) for site in ids[variable.name]], dtype=np.int32)
            elif variable.kind == "categorical":
                context[variable.name] = rng.integers(0, len(variable.values), count, dtype=np.int32)
            else:
                context[variable.name] = rng.normal(size=(count, len(variable.columns)) if variable.kind == "vector" else count)
        available = None
        if level.available:
            available = rng.random((count, level.actions.count)) < 0.6
            available[np.arange(count), rng.integers(0, level.actions.count, count)] = True
        full = np.ones((count, level.actions.count)) if available is None else available.astype(float)
        uniform = level.propensity is not None and level.propensity.policy == "uniform"
        if not uniform:
            full = full * rng.uniform(0.1, 1.0, full.shape)
        full /= full.sum(axis=1, keepdims=True)
        if level.propensity is not None and level.propensity.base is not None:
            meant, epsilon = np.argmax(full, axis=1), level.propensity.epsilon
            open_actions = np.ones_like(full) if available is None else available
            full = epsilon * open_actions / open_actions.sum(axis=1, keepdims=True)
            full[np.arange(count), meant] += 1 - epsilon
            bases[level.name] = meant
        action = (full.cumsum(axis=1) > rng.random((count, 1))).argmax(axis=1).astype(np.int32)
        known = level.propensity is not None
        taken = full[np.arange(count), action] if known else np.full(count, np.nan)
        whole = full if known and level.propensity.full else None
        levels[level.name] = LevelTable(parent, context, action, taken, whole, available)
    observed = rng.random(above) < 0.8
    outcome = None
    if problem.outcome is not None:
        outcome = rng.integers(-1, 3, above, dtype=np.int32) if problem.outcome.kind == "categorical" else rng.normal(size=above)
    batch = Batch(
        ids,
        levels,
        np.where(observed, rng.uniform(0, 1, above), np.nan),
        observed,
        outcome,
        {guard.column: rng.uniform(0, 1, above) for guard in problem.guards},
        _clusters(problem, ids),
        None if problem.time is None else np.datetime64("2024-03-01T06:00", "us") + np.arange(episodes) * np.timedelta64(1, "h"),
    )
    above_rows = batch.ancestors(problem.innermost.name)
    extra = {}
    for level in problem.levels:
        if level.name in bases:
            values = level.actions.values
            listed = np.array(values, dtype=object if isinstance(values[0], str) else None)
            extra[str(level.propensity.base)] = listed[bases[level.name][above_rows[level.name]]]  # type: ignore[union-attr]
    closed = observed | (rng.random(above) < 0.5) if problem.reward.closed else None
    return replace(batch, extra=extra, closed=closed)


def _clusters(problem: Problem, ids: Any) -> Any:
    if problem.cluster is None or problem.cluster in problem.episode:
        return None if problem.cluster is None else ids[problem.cluster]
    return np.array([f"m{k % 3}" for k in range(ids.size)], dtype=object)


def _ids(problem: Problem, first: int, episodes: int, text_ids: bool) -> Any:
    number = np.arange(first, first + episodes)
    text = np.array([f"id-{k}" for k in number], dtype=object)
    if len(problem.episode) == 1:
        return text if text_ids else number
    ids = np.empty(episodes, dtype=[(problem.episode[0], object), (problem.episode[1], np.int64)])
    ids[problem.episode[0]], ids[problem.episode[1]] = np.array(["x", "y"], dtype=object)[number % 2], number // 2
    return ids


def assert_same(one: Batch, other: Batch) -> None:
    """Compare everything that two batches hold, types included."""
    same_array(one.episode, other.episode)
    assert list(one.levels) == list(other.levels)
    for name, table in one.levels.items():
        twin = other.levels[name]
        for field in ("parent", "action", "mu_taken", "mu_full", "available"):
            same_array(getattr(table, field), getattr(twin, field))
        assert list(table.context) == list(twin.context)
        for variable, values in table.context.items():
            same_array(values, twin.context[variable])
    for field in ("reward", "observed", "outcome", "cluster", "time", "closed"):
        same_array(getattr(one, field), getattr(other, field))
    for mine, theirs in ((one.guards, other.guards), (one.extra, other.extra)):
        assert list(mine) == list(theirs)
        for name in mine:
            same_array(mine[name], theirs[name])


def same_array(one: Any, other: Any) -> None:
    assert (one is None) == (other is None)
    if one is not None:
        assert one.dtype == other.dtype
        np.testing.assert_array_equal(one, other)


def by_id(batch: Batch) -> Batch:
    """Return the episodes in the order of their ids."""
    return batch.take_episodes(
        np.array(sorted(range(len(batch)), key=lambda k: batch.episode[k].item() if _structured(batch) else batch.episode[k]))
    )


def _structured(batch: Batch) -> bool:
    return batch.episode.dtype.names is not None


def shuffled(table: pa.Table, rng: np.random.Generator) -> pa.Table:
    return table.take(pa.array(rng.permutation(table.num_rows)))


def write_csv(table: pa.Table, path: Path) -> Path:
    pa.csv.write_csv(table, path)
    return path


def columns_of(problem: Problem, batch: Batch) -> dict[str, list[Any]]:
    """Return the log as lists, to be spoilt one entry at a time."""
    return to_table(batch, problem).to_pydict()
