"""Hypothetical decisions: what a planner assumes to be known when it scores actions, and the legacy's probabilities there."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from aegis.policies import Hybrid, Legacy, Uniform, path_full
from aegis.problem import AnyArray, Array, Batch, Policy, Problem, Rows, Scope, augmented_context, hypothetical_batch


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
        rows = {name: values[None] for name, values in augmented_context(problem, batch, level).items()}
        index = {name: batch.levels[name].action[above[name]][None] for name in above if name != level}
        return cls(rows, index, len(batch.levels[level]))

    def part(self, start: int, stop: int) -> States:
        """Return the states from `start` up to, not including, `stop`."""
        return self.change(lambda values: values[:, start:stop], min(stop, self.count) - start)

    def repeat(self, times: int) -> States:
        """Return each state `times` times in a row."""
        return self.change(lambda values: np.repeat(values, times, axis=1), self.count * times)

    def change(self, change: Callable[[AnyArray], AnyArray], count: int) -> States:
        """Return `count` states with every array changed in the same way."""
        rows = {name: change(values) for name, values in self.rows.items()}
        return States(rows, {name: change(values) for name, values in self.index.items()}, count)

    def only(self, names: tuple[str, ...]) -> States:
        """Return the states with these variables alone."""
        return States({name: values for name, values in self.rows.items() if name in names}, {}, self.count)

    def with_variable(self, name: str, values: AnyArray) -> States:
        """Return the states with one more known variable."""
        return States({**self.rows, name: values}, self.index, self.count)

    def each_action(self, problem: Problem, level: str) -> States:
        """Return every state followed by every action of `level`: n * A states, actions varying fastest."""
        actions = problem.level(level).actions
        index = np.tile(np.arange(actions.count, dtype=np.int32), self.count)[None]
        wide = self.repeat(actions.count)
        return States({**wide.rows, actions.column: actions.as_rows(index)}, {**wide.index, level: index}, wide.count)


def legacy_probabilities(
    problem: Problem,
    legacy: Policy,
    level: str,
    states: States,
    scope: Scope | None = None,
    available: npt.NDArray[np.bool_] | None = None,
) -> Array:
    """Return what the legacy would do in hypothetical states, `[1 or S, n, A]`.

    Of a legacy that is itself a mixture, only its own actions, those at levels outside `scope`, tell which particle it is
    playing. available: mask `[1 or S, n, A]`, or None if all actions are.
    """
    outside = (*problem.above(level), problem.level(level))
    known = {variable.name: states.rows[variable.name] for spec in outside for variable in spec.context}
    chosen = {spec.name: states.index[spec.name] for spec in problem.above(level)}
    masks = () if available is None else (available,)
    particles = max([values.shape[0] for values in (*known.values(), *chosen.values(), *masks)], default=1)
    flat_rows = {name: flatten_particles(values, particles) for name, values in known.items()}
    flat_index = {name: flatten_particles(values, particles) for name, values in chosen.items()}
    flat_mask = {} if available is None else {level: flatten_particles(available, particles)}
    batch = hypothetical_batch(problem, level, particles * states.count, flat_rows, flat_index, flat_mask)
    if legacy.weights.size > 1 and scope:
        uniform = Legacy(problem, {name: Uniform() for name in problem.names})  # says nothing about the legacy's particle
        legacy = Hybrid(problem=problem, scope=scope, new=uniform, legacy=legacy)
    return path_full(legacy, level, batch).reshape(particles, states.count, problem.level(level).actions.count)


def flatten_particles(values: AnyArray, particles: int) -> AnyArray:
    """Return values `[1 or S, n, ...]` of `particles` = S as `[S * n, ...]`."""
    wide = np.broadcast_to(values, (particles, *values.shape[1:]))
    return wide.reshape(particles * values.shape[1], *values.shape[2:])
