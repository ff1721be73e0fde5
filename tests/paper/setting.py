"""Small problems of any depth, seen by the package and by the plain loops alike."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np

from aegis.mechanisms import Belief, ModelSettings, Theta, build_belief
from aegis.policies import Epsilon, Legacy, Softmax, Uniform
from aegis.problem import Actions, Batch, Level, LevelTable, Policy, Problem, Propensity, Reward, Variable

ACTIONS = {1: (-1.0, 0.0, 0.5, 2.0), 2: (-1.0, 1.0, 1.5), 3: (0.0, 1.0)}


def make_problem(depth: int) -> Problem:
    """Levels named l{depth} .. l1 with one real context and one action each, outcome y, reward r, complete graph."""
    levels = tuple(
        Level(f"l{i}", Actions.of(f"a{i}", ACTIONS[i]), (Variable(f"c{i}"),), Propensity(column=f"p{i}"))
        for i in range(depth, 0, -1)
    )
    return Problem(levels, Reward("r"), Variable("y"))


def plain_levels(problem: Problem) -> list[dict[str, Any]]:
    """The levels as the plain loops want them."""
    return [
        {
            "name": v.name,
            "context": v.context[0].name,
            "action": v.actions.column,
            "actions": [float(x) for x in v.actions.values],
        }
        for v in problem.levels
    ]


def make_batch(problem: Problem, rng: np.random.Generator, episodes: int = 6, children: int = 2) -> Batch:
    """A batch of random decisions with mu = 1 / A."""
    levels: dict[str, LevelTable] = {}
    above = episodes
    for level in problem.levels:
        parent = np.repeat(np.arange(above), children).astype(np.int32)
        count = parent.size
        action = rng.integers(0, level.actions.count, count)
        context = {v.name: rng.standard_normal(count) for v in level.context}
        even = np.full((count, level.actions.count), 1 / level.actions.count)
        levels[level.name] = LevelTable.undecided(parent, context).decided(action, even[:, 0], even)
        above = count
    outcome = rng.standard_normal(above)
    reward = outcome + 0.3 * rng.standard_normal(above)
    return Batch(np.arange(episodes), levels, reward, np.ones(above, dtype=bool), outcome)


def make_belief(problem: Problem, features: str, rng: np.random.Generator) -> Belief:
    """A belief after a little data, so that nothing is at its prior."""
    return build_belief(problem, ModelSettings(features=features)).update(make_batch(problem, rng))


def monomials(names: tuple[str, ...], features: str) -> list[tuple[str, ...]]:
    """The features of a mechanism, as products of parent names."""
    linear: list[tuple[str, ...]] = [(), *[(name,) for name in names]]
    if features == "linear":
        return linear
    return linear + list(itertools.combinations_with_replacement(names, 2))


def plain_model(problem: Problem, theta: Theta, particle: int, features: str) -> dict[str, Any]:
    """Particle `particle` of a draw as python functions of numbers: f[name](known) and sd[name]."""
    model: dict[str, Any] = {"f": {}, "sd": {}}
    for name, function in theta.functions.items():
        parents = problem.graph.parents[name]
        weights = [float(w) for w in function.drawn.weights[particle, :, 0]]  # type: ignore[attr-defined]
        model["f"][name] = _polynomial(monomials(parents, features), weights)
        model["sd"][name] = float(function.sd[particle, 0])
    return model


def _polynomial(terms: list[tuple[str, ...]], weights: list[float]) -> Any:
    def f(known: dict[str, float]) -> float:
        total = 0.0
        for term, weight in zip(terms, weights, strict=True):
            product = weight
            for name in term:
                product *= known[name]
            total += product
        return total

    return f


def make_legacy(problem: Problem) -> Legacy:
    """A legacy that looks at the innermost context known to it."""
    rules: dict[str, Any] = {}
    for level in problem.levels:
        count = level.actions.count
        slopes = {level.context[0].name: tuple(0.4 * i for i in range(count))}
        rules[level.name] = Epsilon(Softmax(tuple(0.1 * i for i in range(count)), slopes), 0.2)
    return Legacy(problem, rules)


def plain_legacy(problem: Problem) -> Any:
    """The same legacy as a plain function of numbers."""
    import math

    def chances(level_name: str, known: dict[str, float]) -> list[float]:
        level = problem.level(level_name)
        count = level.actions.count
        scores = [math.exp(0.1 * i + 0.4 * i * known[level.context[0].name]) for i in range(count)]
        return [0.8 * s / sum(scores) + 0.2 / count for s in scores]

    return chances


def uniform(problem: Problem) -> Policy:
    """A legacy that looks at nothing."""
    return Legacy(problem, {name: Uniform() for name in problem.names})


def known_row(problem: Problem, batch: Batch, level: str, row: int) -> dict[str, float]:
    """The augmented context of one decision as numbers."""
    from aegis.problem import augmented

    return {name: float(values[row]) for name, values in augmented(problem, batch, level).items()}
