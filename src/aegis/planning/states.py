"""Hypothetical decisions: what a planner supposes to be known when it scores actions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from aegis.policies import path_full
from aegis.problem import AnyArray, Array, Batch, Level, Policy, Problem, Rows, augmented, chain


@dataclass(frozen=True, slots=True)
class States:
    """n states per particle: rows by variable name `[1 or S, n]` (`[.., k]` for vectors), action indices by level name.

    The first axis is 1 while all particles agree on the state, S once their own predictions are in it.
    """

    rows: Rows
    index: Mapping[str, AnyArray]
    count: int

    @classmethod
    def of(cls, problem: Problem, batch: Batch, level: str) -> States:
        """Return the states of the decisions of a batch at `level`."""
        above = batch.ancestors(level)
        rows = {name: values[None] for name, values in augmented(problem, batch, level).items()}
        index = {name: batch.levels[name].action[above[name]][None] for name in above if name != level}
        return cls(rows, index, len(batch.levels[level]))

    def repeat(self, times: int) -> States:
        """Return each state `times` times in a row."""
        rows = {name: np.repeat(values, times, axis=1) for name, values in self.rows.items()}
        index = {name: np.repeat(values, times, axis=1) for name, values in self.index.items()}
        return States(rows, index, self.count * times)

    def with_variable(self, name: str, values: AnyArray) -> States:
        """Return the states with one more known variable."""
        return States({**self.rows, name: values}, self.index, self.count)

    def each_action(self, problem: Problem, level: str) -> States:
        """Return every state followed by every action of `level`: n * A states, actions varying fastest."""
        actions = problem.level(level).actions
        index = np.tile(np.arange(actions.count, dtype=np.int32), self.count)[None]
        wide = self.repeat(actions.count)
        return States({**wide.rows, actions.column: actions.as_rows(index)}, {**wide.index, level: index}, wide.count)


def legacy_probabilities(problem: Problem, legacy: Policy, level: str, states: States) -> Array:
    """Return what the legacy would do in hypothetical states, `[1 or S, n, A]`."""
    known = {name: states.rows[name] for spec in _outside(problem, level) for name in [v.name for v in spec.context]}
    chosen = {spec.name: states.index[spec.name] for spec in problem.above(level)}
    particles = max([values.shape[0] for values in (*known.values(), *chosen.values())], default=1)
    flat_rows = {name: _flat(values, particles) for name, values in known.items()}
    flat_index = {name: _flat(values, particles) for name, values in chosen.items()}
    batch = chain(problem, level, particles * states.count, flat_rows, flat_index)
    return path_full(legacy, level, batch).reshape(particles, states.count, -1)


def _outside(problem: Problem, level: str) -> tuple[Level, ...]:
    return (*problem.above(level), problem.level(level))


def _flat(values: AnyArray, particles: int) -> AnyArray:
    wide = np.broadcast_to(values, (particles, *values.shape[1:]))
    return wide.reshape(-1, *values.shape[2:])
