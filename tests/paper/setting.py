"""Small problems of any depth, seen by the package and by the plain loops alike."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field, replace
from typing import Any

import naive
import numpy as np

from aegis.mechanisms import Belief, ModelSettings, Theta, build_belief
from aegis.planning import Planned
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


def make_batch(problem: Problem, rng: np.random.Generator, episodes: int = 6, children: int | None = 2) -> Batch:
    """A batch of random decisions with mu = 1 / A; one to three below each parent without a number of `children`."""
    levels: dict[str, LevelTable] = {}
    above = episodes
    for level in problem.levels:
        below = rng.integers(1, 4, above) if children is None else children
        parent = np.repeat(np.arange(above), below).astype(np.int32)
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


def plain_tables(batch: Batch) -> list[dict[str, list[Any]]]:
    """The tables of a batch as the plain loops want them: what each field holds, and nothing looked up across levels."""
    found = []
    for table in batch.levels.values():
        (context,) = table.context.values()
        values = ACTIONS[int(next(iter(table.context))[1:])]
        actions = [values[i] if i >= 0 else None for i in table.action.tolist()]
        found.append({"parent": table.parent.tolist(), "context": context.tolist(), "action": actions})
    return found


def known_row(problem: Problem, batch: Batch, level: str, row: int) -> dict[str, float]:
    """The augmented context of one decision as numbers, by plain loops."""
    return naive.known(plain_levels(problem), plain_tables(batch), problem.names.index(level), row)


@dataclass(frozen=True, slots=True)
class PlainPlant:
    """A plant made of plain numbers, as `naive.traverse` has it, that asks the package's policy and notes which one it was.

    counts: decisions below each parent, by level. truth, noises, uniforms: as in `naive.algorithm_1`.
    """

    problem: Problem
    counts: list[int]
    truth: dict[str, Any]
    noises: list[dict[str, list[float]]]
    uniforms: list[dict[str, list[float]]]
    policies: list[Planned] = field(default_factory=list)

    def episodes(self, first: int, count: int, policy: Policy, seed: int) -> Batch:
        """Run one episode, level by level."""
        self.policies.append(policy)  # type: ignore[arg-type]
        levels, noise, uniform = plain_levels(self.problem), self.noises[first], self.uniforms[first]
        tables: list[dict[str, list[Any]]] = []
        batch = Batch(np.array([first]), {})
        size = 1
        for position, (level, spec) in enumerate(zip(levels, self.problem.levels, strict=True)):
            parent = [row for row in range(size) for _ in range(self.counts[position])]
            above = [naive.known(levels, tables, position - 1, row, True) if tables else {} for row in parent]
            mean = self.truth[level["context"]]
            context = [mean(seen) + noise[level["context"]][row] for row, seen in enumerate(above)]
            table = LevelTable.undecided(parent, {spec.context[0].name: np.array(context)})
            full = policy.full(spec.name, batch.with_level(spec.name, table))[0]
            index = [naive.pick(chances, uniform[level["action"]][row]) for row, chances in enumerate(full.tolist())]
            batch = batch.with_level(spec.name, table.decided(index, full[np.arange(len(index)), index], full))
            tables.append({"parent": parent, "context": context, "action": [level["actions"][i] for i in index]})
            size = len(parent)
        seen_by = [naive.known(levels, tables, len(levels) - 1, row, True) for row in range(size)]
        y = [self.truth["y"](seen) + noise["y"][row] for row, seen in enumerate(seen_by)]
        r = [self.truth["r"]({**seen, "y": y[row]}) + noise["r"][row] for row, seen in enumerate(seen_by)]
        return replace(batch, reward=np.array(r), observed=np.ones(size, dtype=bool), outcome=np.array(y))


def make_plant(problem: Problem, episodes: int, counts: list[int], rng: np.random.Generator) -> PlainPlant:
    """A plant with linear mechanisms and all its randomness laid out beforehand."""
    levels = plain_levels(problem)
    truth: dict[str, Any] = {}
    for name in naive.variables(levels):
        parents = tuple(naive.parents_of(levels, name)) if name != levels[0]["context"] else ()
        truth[name] = _polynomial(monomials(parents, "linear"), rng.uniform(-1, 1, 1 + len(parents)).tolist())
    noises, uniforms = [], []
    for _ in range(episodes):
        noise, uniform = {}, {}
        size = 1
        for level, count in zip(levels, counts, strict=True):
            size *= count
            noise[level["context"]] = rng.standard_normal(size).tolist()
            uniform[level["action"]] = rng.random(size).tolist()
        noises.append({**noise, "y": rng.standard_normal(size).tolist(), "r": rng.standard_normal(size).tolist()})
        uniforms.append(uniform)
    return PlainPlant(problem, counts, truth, noises, uniforms)
