"""A problem with every kind of variable, ragged batches of it, and densities written down a second time."""

from __future__ import annotations

import numpy as np
from scipy.special import gammaln

from aegis.problem import Actions, Batch, Level, LevelTable, Problem, Reward, Variable

GRADE = Variable("grade", "categorical", values=("a", "b", "c"))
LOAD = Variable("load", "vector", ("load_x", "load_y"))
RECIPE = Level("recipe", Actions.of("setting", ("low", "high", "off")), (Variable("task"),))
DOSE = Level("dose", Actions.of("amount", (2.0, -1.0, 0.5)), (Variable("heat"), LOAD, GRADE))


def mixed_problem(outcome: Variable | None = None) -> Problem:
    """Two levels; contexts of the same level depend on each other; the inner actions are listed unsorted."""
    chosen = outcome or Variable("purity")
    parents = {
        "heat": ("task", "setting"),
        "load": ("heat",),
        "grade": ("task", "heat"),
        chosen.name: ("heat", "grade", "amount"),
        "reward": (chosen.name, "load", "setting", "amount"),
    }
    return Problem((RECIPE, DOSE), Reward("reward"), chosen, parents)


def random_values(variable: Variable, rng: np.random.Generator, count: int) -> np.ndarray:
    if variable.kind == "categorical":
        return rng.integers(0, variable.width, count).astype(np.int32)
    return rng.normal(1.0, 2.0, count if variable.kind == "real" else (count, variable.width))


def random_batch(problem: Problem, rng: np.random.Generator, episodes: int = 20) -> Batch:
    """A ragged batch of random decisions; every decision has at least one below it."""
    above, levels = episodes, {}
    for spec in problem.levels:
        parent = np.repeat(np.arange(above), rng.integers(1, 4, above)).astype(np.int32)
        context = {variable.name: random_values(variable, rng, parent.size) for variable in spec.context}
        action = rng.integers(0, spec.actions.count, parent.size)
        chance = np.full(parent.size, 1.0 / spec.actions.count)
        levels[spec.name] = LevelTable.undecided(parent, context).decided(action, chance)
        above = parent.size
    outcome = None if problem.outcome is None else random_values(problem.outcome, rng, above)
    return Batch(np.arange(episodes), levels, rng.normal(2.0, 3.0, above), np.ones(above, dtype=bool), outcome)


def log_inverse_gamma(log_variance: np.ndarray, shape: float, rate: float) -> np.ndarray:
    """The density of log s^2 when s^2 is inverse gamma (the Jacobian s^2 included)."""
    return shape * np.log(rate) - gammaln(shape) - shape * log_variance - rate * np.exp(-log_variance)


def log_normal(value: np.ndarray, mean: np.ndarray | float, variance: np.ndarray | float) -> np.ndarray:
    return -0.5 * (np.log(2.0 * np.pi * variance) + np.square(value - mean) / variance)
