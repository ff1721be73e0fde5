"""What tests of rules share: fixed values in place of planned ones, and values planned by plain loops."""

from __future__ import annotations

import numpy as np
import planning_cases as cases

from aegis.mechanisms import Theta
from aegis.planning import Integration, States, plan_policy
from aegis.problem import Array, Batch, Problem
from aegis.rng import stream

NODES = 3


def nowhere(count: int) -> States:
    """States for choices that do not look at them."""
    return States({}, {}, count)


def of_values(choice, values: Array, allowed: Array) -> Array:
    """Probabilities `[S', n, A]` of a choice when planning gives `values` `[S, n, A]`."""
    return choice.probabilities("anywhere", nowhere(values.shape[1]), lambda: values, allowed)


def case(depth: int, seed: int = 1, masks: bool = False) -> tuple[Problem, object, Batch]:
    """A problem of real contexts, a learned belief about it and a few decisions."""
    problem = cases.real_problem(depth)
    rng = stream(seed, "rule case", depth)
    belief = cases.learned(problem, rng, "polynomial")
    return problem, belief, cases.random_batch(problem, rng, 2, 1, masks)


def planned_by(belief, rule, seed: int = 2, **settings):
    return plan_policy(belief, rule, stream(seed, "plan"), integration=Integration("quadrature", NODES), **settings)


def plain_values(problem: Problem, theta: Theta, batch: Batch, level: str) -> list[list[list[float]]]:
    """Values [draw][row][action] by the recursion as plain loops."""
    states = States.of(problem, batch, level)
    found = []
    for particle in range(theta.count):
        naive = cases.Naive(problem, cases.single(theta, particle), problem.scope(None), None, NODES, {})
        rows = []
        for row in range(states.count):
            known = {name: float(values[0, row]) for name, values in states.rows.items()}
            index = {name: int(values[0, row]) for name, values in states.index.items()}
            rows.append(naive.values(level, known, index))
        found.append(rows)
    return found


def open_rows(problem: Problem, batch: Batch, level: str) -> Array:
    """The mask `[n, A]` of a level, everything if there is none."""
    table = batch.levels[level]
    everything = np.ones((len(table), problem.level(level).actions.count), dtype=bool)
    return everything if table.available is None else table.available
