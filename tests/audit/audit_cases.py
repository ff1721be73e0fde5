"""Logs in order and logs with planted faults, in memory."""

from __future__ import annotations

import pickle
from dataclasses import replace

import numpy as np

from aegis.audit import Audit, Auditor
from aegis.problem import Batch, Policy, Problem, Propensity
from aegis.worlds import make_world

INNER = {"unified": "inner", "additive": "inner", "linear": "inner", "plant": "dose", "clinic": "dose"}


def audited(problem: Problem, *batches: Batch, policy: Policy | None = None, scope: object = None, alpha: float = 0.001) -> Audit:
    auditor = Auditor(problem, policy, scope, alpha)  # type: ignore[arg-type]
    for batch in batches:
        auditor.add(batch)
    return auditor.result()


def logged(world: str, legacy: str, episodes: int, seed: int, first: int = 0) -> tuple[Problem, Batch]:
    """Return a world's problem and a log in order, with whole distributions."""
    plant = make_world(world)
    return plant.problem, plant.episodes(first, episodes, plant.legacy(legacy), seed)


def taken_only(problem: Problem, batch: Batch, least: float | None = None) -> tuple[Problem, Batch]:
    """Return the same log with the taken action's probability only."""
    levels = tuple(
        replace(level, propensity=Propensity(column=f"p_{level.actions.column}", least=least)) for level in problem.levels
    )
    tables = {name: replace(table, mu_full=None) for name, table in batch.levels.items()}
    return replace(problem, levels=levels), replace(batch, levels=tables)


def with_propensities(batch: Batch, level: str, full: np.ndarray) -> Batch:
    """Return the log with other distributions at a level, scaled to sum to one."""
    table = batch.levels[level]
    scaled = full / full.sum(axis=1, keepdims=True)
    return batch.with_level(level, table.decided(table.action, scaled[np.arange(len(table)), table.action], scaled))


def with_taken(batch: Batch, level: str, taken: np.ndarray) -> Batch:
    table = batch.levels[level]
    return batch.with_level(level, replace(table, mu_taken=taken, mu_full=None))


def previous_action(problem: Problem, batch: Batch, level: str) -> np.ndarray:
    """Return the numeric action of the sibling before, 0 for the first ones."""
    table = batch.levels[level]
    values = problem.level(level).actions.numbers[table.action]
    first = np.concatenate([[True], table.parent[1:] != table.parent[:-1]])
    return np.where(first, 0.0, np.roll(values, 1))


def stopped(batch: Batch, level: str, stop: np.ndarray) -> Batch:
    """Return the log in which nothing follows, below one parent, after the first innermost row with `stop`."""
    table = batch.levels[level]
    first = np.searchsorted(table.parent, table.parent, side="left")
    before = np.cumsum(stop) - stop
    rows = np.flatnonzero(before == before[first])
    kept = table.take(rows, table.parent[rows])
    outcome = None if batch.outcome is None else batch.outcome[rows]
    observed = None if batch.observed is None else batch.observed[rows]
    assert batch.reward is not None
    return replace(batch, levels={**batch.levels, level: kept}, reward=batch.reward[rows], observed=observed, outcome=outcome)


def copied_reward(batch: Batch, level: str | None = None) -> Batch:
    """Return the log with one reward for all rows of an episode, or of a decision of a level."""
    innermost = list(batch.levels)[-1]
    rows = batch.episode_of(innermost) if level is None else batch.ancestors(innermost)[level]
    assert batch.reward is not None
    return replace(batch, reward=(np.bincount(rows, weights=batch.reward) / np.bincount(rows))[rows])


GRID = """
episode: k
reward: {column: r, range: [0, 1]}
levels:
  - name: dose
    context: [x, flow]
    action: {column: a, values: [1, 2, 3, 4, 5]}
    propensity: {shares: [0.2, 0.2, 0.2, 0.2, 0.2]}
"""


def in_parts(problem: Problem, batches: list[Batch], policy: Policy | None = None) -> Audit:
    auditor = Auditor(problem, policy)
    auditor.place(batches[0])
    template = pickle.loads(pickle.dumps(auditor.part(0)))
    for number, batch in enumerate(batches):
        part = template.part(number)
        part.add(batch)
        auditor.merge(pickle.loads(pickle.dumps(part)))
    return auditor.result()


def refused_codes(problem: Problem, batch: Batch) -> set[str]:
    return set(audited(problem, batch).codes("refused"))
