"""Problems, ragged batches and a scripted policy for the tests of this room."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from aegis.problem import Actions, Array, Batch, Level, LevelTable, Problem, Variable

DOSE = Level("dose", Actions.grid("amount", -1.0, 1.0, 5), (Variable("temperature"),))
RECIPE = Level(
    "recipe", Actions.of("setting", ("low", "high", "off")), (Variable("task"), Variable("shift", "categorical", values=(1, 2)))
)
PLANT = Level("plant", Actions.of("speed", (3, 1, 2)), (Variable("load", "vector", ("load_a", "load_b")),))


def problem(depth: int = 2, **settings) -> Problem:
    return Problem((PLANT, RECIPE, DOSE)[3 - depth :], **settings)


def batch(given: Problem, seed: int, episodes: int = 4, masks: bool = False, childless: bool = True) -> Batch:
    """A ragged batch with random contexts and actions; masked actions are never taken. Propensities are arbitrary."""
    rng = np.random.default_rng(seed)
    above, levels = episodes, {}
    for spec in given.levels:
        parent = np.repeat(np.arange(above), rng.integers(0 if childless else 1, 4, above)).astype(np.int32)
        count, size = parent.size, spec.actions.count
        context = {}
        for variable in spec.context:
            if variable.kind == "categorical":
                context[variable.name] = rng.integers(0, len(variable.values), count).astype(np.int32)
            else:
                context[variable.name] = rng.normal(size=count if variable.kind == "real" else (count, len(variable.columns)))
        available = None
        if masks:
            available = rng.random((count, size)) < 0.6
            available[np.arange(count), rng.integers(0, size, count)] = True
        mu = rng.random((count, size)) * (1 if available is None else available)
        mu /= mu.sum(axis=1, keepdims=True)
        action = (mu.cumsum(axis=1) < rng.random((count, 1))).sum(axis=1).clip(0, size - 1)
        action = np.where(mu[np.arange(count), action] > 0, action, mu.argmax(axis=1)).astype(np.int32)
        levels[spec.name] = LevelTable(parent, context, action, mu[np.arange(count), action], mu, available)
        above = count
    return Batch(np.array([f"e{i}" for i in range(episodes)]), levels, extra={})


def undecided(complete: Batch, level: str) -> Batch:
    """The batch as it was when the actions at `level` were still to be chosen: nothing below, nothing recorded."""
    kept = {}
    for name, table in complete.levels.items():
        kept[name] = LevelTable.undecided(table.parent, table.context, table.available) if name == level else table
        if name == level:
            break
    return Batch(complete.episode, kept)


@dataclass(frozen=True)
class Scripted:
    """A policy whose distributions `[S, n, A]` are written down per level."""

    weights: Array
    tables: dict[str, Array]

    def full(self, level: str, batch: Batch) -> Array:
        return self.tables[level]

    def taken(self, level: str, batch: Batch) -> Array:
        action = batch.levels[level].action
        assert (action >= 0).all()
        return self.tables[level][:, np.arange(action.size), action]


def scripted(given: Problem, complete: Batch, particles: int, seed: int, zeros: float = 0.0) -> Scripted:
    rng = np.random.default_rng(seed)
    tables = {}
    for name, table in complete.levels.items():
        values = rng.random((particles, len(table), given.level(name).actions.count)) + 1e-3
        values[rng.random(values.shape) < zeros] = 0.0
        values[..., 0] += values.sum(axis=2) == 0
        tables[name] = values / values.sum(axis=2, keepdims=True)
    weights = rng.random(particles) + 0.05
    return Scripted(weights / weights.sum(), tables)


def full_columns(given: Problem, level: str) -> tuple[str, ...]:
    return tuple(f"legacy_{level}_{action}" for action in range(given.level(level).actions.count))


def told(given: Problem, complete: Batch) -> dict[str, Array]:
    """The logged distributions as columns, repeated on the rows below each decision."""
    innermost = list(complete.levels)[-1]
    rows = complete.ancestors(innermost)
    found = {}
    for name, table in complete.levels.items():
        found |= {column: table.mu_full[rows[name], place] for place, column in enumerate(full_columns(given, name))}
    return found
