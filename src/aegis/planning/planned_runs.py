"""The planned policies of several runs in lockstep: episode g of a batch belongs to run g.

Runs that differ only in their seed are planned as particles of one recursion.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from aegis.mechanisms import StackedRegression, Theta, has_equal_counts
from aegis.planning.base import Choice
from aegis.planning.planned_policy import Planned
from aegis.planning.recursion import BLOCK
from aegis.planning.states import States
from aegis.planning.value_rules import GreedyChoice, ThompsonChoice
from aegis.policies import open_actions, probability_taken, table_of
from aegis.problem import AnyArray, Array, Batch, Bools

# Choices that look at the values of one particle in one state at a time, so that particles of several runs can be asked as one.
PARTICLE_BY_PARTICLE = (ThompsonChoice, GreedyChoice)
AT_ONCE = 2**18  # hypothetical decisions that are planned at once: a few megabytes for each array


@dataclass(frozen=True, slots=True)
class PlannedRuns:
    """G planned policies of one problem, scope, legacy, commit shape and integration, with a choice each.

    The g-th episode of a batch is asked of the g-th member, so that the particles of the policy are those of each of them.
    shared: the policy of the first one. stacks: the mechanisms of the members' beliefs, stacked in the same order.
    """

    shared: Planned
    choices: tuple[Choice, ...]
    stacks: Mapping[str, StackedRegression]

    @property
    def weights(self) -> Array:
        """Return the particle weights `[S]`, the same for all members."""
        return self.shared.weights

    def full(self, level: str, batch: Batch) -> Array:
        """Return each particle's distribution over actions, `[S, n, A]`: what each member would answer for its episode."""
        if level not in self.shared.scope:
            return self.shared.full(level, batch)
        if isinstance(self.choices[0], PARTICLE_BY_PARTICLE) and has_equal_counts(batch, level):
            return self._at_once(level, batch)
        members = [replace(self.shared, choice=choice) for choice in self.choices]
        return np.concatenate([own.full(level, batch.take_episodes([g])) for g, own in enumerate(members)], axis=1)

    def taken(self, level: str, batch: Batch) -> Array:
        """Return each particle's probability of the logged action, `[S, n]`."""
        return probability_taken(self.full(level, batch), self.shared.problem.level(level), table_of(batch, level))

    def _at_once(self, level: str, batch: Batch) -> Array:
        """Return `full` of choices by particle in episodes of the same number of rows."""
        shared, choices, table = self.shared, self.choices, table_of(batch, level)
        runs = len(choices)
        actions, times = shared.problem.level(level).actions.count, choices[0].theta.count
        mask = open_actions(table.available, len(table), actions, f"level '{level}'").reshape(runs, -1, actions)
        states = _by_run(States.of(shared.problem, batch, level), runs, times)
        drawn = [choice.theta.functions for choice in choices]
        functions = {name: stack.draws([planned[name] for planned in drawn]) for name, stack in self.stacks.items()}  # type: ignore[misc]
        theta = Theta(functions, runs * times)
        step = max(1, AT_ONCE // max(1, shared.unfolds(level) * states.count * times))
        parts = [(g, min(g + step, runs)) for g in range(0, runs, step)]
        planned = [self._of(level, *_part_of_runs(theta, states, times, part), mask[slice(*part)], times) for part in parts]
        chosen = planned[0] if len(planned) == 1 else np.concatenate(planned)
        if times > 1:
            chosen = chosen.reshape(runs, times, -1, actions).swapaxes(0, 1)
        chosen = chosen.reshape(times, -1, actions)
        return chosen if shared.legacy is None else np.repeat(chosen, shared.legacy.weights.size, axis=0)

    def _of(self, level: str, theta: Theta, states: States, mask: Bools, times: int) -> Array:
        """Return the distributions `[R * times, n, A]` of R of the runs."""
        choice: Choice = replace(self.choices[0], theta=theta)  # type: ignore[type-var]
        planner = replace(self.shared, choice=choice)
        known = planner.states(level, states)
        allowed = mask if times == 1 else np.repeat(mask, times, axis=0)
        return choice.probabilities(level, known, lambda: planner.known_values(level, known, BLOCK * len(mask)), allowed)


def _by_run(states: States, runs: int, times: int) -> States:
    """Return states `[1, G * n]` as `[G * times, n]`: each run's own, once for each of its particles."""

    def apart(values: AnyArray) -> AnyArray:
        own = values.reshape(runs, -1, *values.shape[2:])
        return own if times == 1 else np.repeat(own, times, axis=0)

    return states.change(apart, states.count // runs)


def _part_of_runs(theta: Theta, states: States, times: int, part: tuple[int, int]) -> tuple[Theta, States]:
    """Return the draws and states of the runs from `part[0]` up to, not including, `part[1]`."""
    start, stop = part
    if (stop - start) * times == theta.count:
        return theta, states
    own = slice(start * times, stop * times)
    functions = {name: drawn.part(start, stop) for name, drawn in theta.functions.items()}  # type: ignore[attr-defined]
    return Theta(functions, (stop - start) * times), states.change(lambda values: values[own], states.count)
