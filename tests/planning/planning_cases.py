"""Problems of every shape, beliefs about them, and the recursion as plain loops over single numbers."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from aegis.mechanisms import Belief, ModelSettings, Theta, build_belief
from aegis.policies import Epsilon, Legacy, Softmax, path_full
from aegis.problem import Actions, Batch, Level, LevelTable, Problem, Reward, Scope, Variable, hypothetical_batch

GRADE = Variable("grade", "categorical", values=("a", "b", "c"))
LOAD = Variable("load", "vector", ("load_x", "load_y"))
RECIPE = Level(
    "recipe",
    Actions.of("setting", ("low", "high", "off")),
    (Variable("task"), Variable("shift", "categorical", values=("day", "night"))),
)
OUTCOMES = {
    "real": Variable("purity"),
    "vector": Variable("purity", "vector", ("p1", "p2")),
    "categorical": Variable("purity", "categorical", values=("bad", "good")),
    "none": None,
}


def mixed_problem(outcome: str = "real", inner: tuple[Variable, ...] = (Variable("heat"), LOAD, GRADE)) -> Problem:
    """Two levels and every kind of context; contexts of one level depend on each other in an order other than listed."""
    dose = Level("dose", Actions.of("amount", (2.0, -1.0, 0.5)), tuple(reversed(inner)))
    parents: dict[str, tuple[str, ...]] = {"heat": ("task", "shift", "setting"), "load": ("heat",), "grade": ("task", "heat")}
    names = {variable.name for variable in inner}
    kept = {name: tuple(p for p in above if p in names | {"task", "shift", "setting"}) for name, above in parents.items()}
    return Problem((RECIPE, dose), Reward("r"), OUTCOMES[outcome], {name: kept[name] for name in parents if name in names})


def real_problem(depth: int, outcome: bool = True, contexts: tuple[int, ...] = (1, 2, 3), goal: Any = "maximise") -> Problem:
    """Levels l{depth} .. l1, each with a real context if its index is in `contexts`."""
    actions = {1: (-1.0, 0.0, 2.0), 2: (1.0, -1.0), 3: (0.0, 1.0)}
    levels = tuple(
        Level(f"l{i}", Actions.of(f"a{i}", actions[i]), (Variable(f"c{i}"),) if i in contexts else ())
        for i in range(depth, 0, -1)
    )
    return Problem(levels, Reward("r", goal=goal), Variable("y") if outcome else None)


def random_values(variable: Variable, rng: np.random.Generator, count: int) -> np.ndarray:
    if variable.kind == "categorical":
        return rng.integers(0, variable.width, count).astype(np.int32)
    return rng.normal(0.3, 1.0, count if variable.kind == "real" else (count, variable.width))


def random_batch(problem: Problem, rng: np.random.Generator, episodes: int = 30, children: int = 2, masks: bool = False) -> Batch:
    """A batch of random decisions; masked actions are never taken."""
    above, levels = episodes, {}
    for spec in problem.levels:
        parent = np.repeat(np.arange(above), children).astype(np.int32)
        context = {variable.name: random_values(variable, rng, parent.size) for variable in spec.context}
        available = None
        if masks:
            available = rng.random((parent.size, spec.actions.count)) < 0.6
            available[np.arange(parent.size), rng.integers(0, spec.actions.count, parent.size)] = True
        score = rng.random((parent.size, spec.actions.count)) * (1 if available is None else available)
        levels[spec.name] = LevelTable.undecided(parent, context, available).decided(score.argmax(axis=1), np.ones(parent.size))
        above = parent.size
    outcome = None if problem.outcome is None else random_values(problem.outcome, rng, above)
    return Batch(np.arange(episodes), levels, rng.normal(0.0, 1.0, above), np.ones(above, dtype=bool), outcome)


def learned(problem: Problem, rng: np.random.Generator, features: str = "linear", structure: str = "factorised") -> Belief:
    """A belief after some random data."""
    return build_belief(problem, ModelSettings(structure, features)).update(random_batch(problem, rng))


def looking_legacy(problem: Problem) -> Legacy:
    """A legacy that looks at every real variable it can see."""
    rules = {}
    for level in problem.levels:
        seen = [v.name for outer in (*problem.above(level.name), level) for v in outer.context if v.kind == "real"]
        count = level.actions.count
        slopes = {name: tuple(0.5 * i * (1 + k) for i in range(count)) for k, name in enumerate(seen)}
        rules[level.name] = Epsilon(Softmax(tuple(0.2 * i for i in range(count)), slopes), 0.2)
    return Legacy(problem, rules)


def single(theta: Theta, particle: int) -> Theta:
    """One particle of a draw, as a draw of its own."""
    rows = slice(particle, particle + 1)
    return Theta(
        {
            name: replace(f, drawn=type(f.drawn)(f.drawn.weights[rows], f.drawn.sd[rows]))  # type: ignore[attr-defined, type-var]
            for name, f in theta.functions.items()
        },
        1,
    )


@dataclass(frozen=True)
class Formula:
    """A mechanism written down as a formula of its rows, for all of one particle."""

    formula: Callable[[Mapping[str, Any]], Any]
    spread: float = 1.0
    parents: tuple[str, ...] = ("a1", "c1", "a2", "c2", "y")

    @property
    def sd(self) -> np.ndarray:
        return np.array([[self.spread]])

    def mean(self, rows: Mapping[str, Any], count: int, noisy: Any = None) -> np.ndarray:
        return np.broadcast_to(self.formula(rows), (1, count))[..., None].astype(float)

    def mean_each(self, rows: Mapping[str, Any], count: int, name: str, values: np.ndarray) -> np.ndarray:
        wide = {key: np.repeat(known, len(values), axis=1) for key, known in rows.items()}
        wide[name] = np.tile(values, count)[None]
        return self.mean(wide, count * len(values)).reshape(1, count, len(values), 1)


Known = dict[str, Any]
Mask = Callable[[Mapping[str, Any]], Any]


@dataclass(frozen=True)
class Naive:
    """The recursion for one particle and one state at a time, over numbers; an oracle for the vectorised one."""

    problem: Problem
    theta: Theta
    scope: Scope
    legacy: Legacy | None
    nodes: int
    masks: Mapping[str, Mask]

    def values(self, level: str, known: Known, index: dict[str, int]) -> list[float]:
        spec = self.problem.level(level)
        child = self.problem.child(level)
        found = []
        for code in range(spec.actions.count):
            here = {**known, spec.actions.column: spec.actions.numbers[code] if spec.actions.numeric else code}
            chosen = {**index, level: code}
            if child is None:
                found.append(self.reward(here))
                continue
            total = 0.0
            for weight, deeper in self.contexts(child, here):
                total += weight * self.below(child.name, deeper, chosen)
            found.append(total)
        return found

    def below(self, level: str, known: Known, index: dict[str, int]) -> float:
        values = self.values(level, known, index)
        open_ones = [True] * len(values)
        if level in self.masks:
            open_ones = list(self.masks[level](_rows(known))[0, 0])
        if level in self.scope:
            return max(value for value, fine in zip(values, open_ones, strict=True) if fine)
        batch = hypothetical_batch(
            self.problem,
            level,
            1,
            {name: np.asarray([value]) for name, value in known.items()},
            {name: np.array([code]) for name, code in index.items()},
            {level: np.array([open_ones])},
        )
        chances = path_full(self.legacy, level, batch)[0]
        return float(sum(p * v for p, v in zip(chances, values, strict=True)))

    def contexts(self, level: Level, known: Known) -> list[tuple[float, Known]]:
        cases = [(1.0, known)]
        by_name = {variable.name: variable for variable in level.context}
        for name in [name for name in self.problem.graph.order if name in by_name]:
            cases = [(w * p, {**row, name: value}) for w, row in cases for p, value in self.law(by_name[name], row)]
        return cases

    def law(self, variable: Variable, known: Known) -> list[tuple[float, Any]]:
        function = self.theta.functions[variable.name]
        mean = function.mean(_rows(known), 1)[0, 0]
        if variable.kind == "categorical":
            return [(float(p), code) for code, p in enumerate(mean)]
        points, mass = np.polynomial.hermite_e.hermegauss(self.nodes)
        found: list[tuple[float, Any]] = []
        for chosen in itertools.product(range(self.nodes), repeat=len(mean)):
            value = mean + function.sd[0] * points[list(chosen)]
            weight = float(np.prod(mass[list(chosen)] / mass.sum()))
            found.append((weight, value if variable.kind == "vector" else float(value[0])))
        return found

    def reward(self, known: Known) -> float:
        sign = 1.0 if self.problem.reward.goal == "maximise" else -1.0
        reward = self.theta.functions[self.problem.reward.column]
        outcome = self.problem.outcome
        laws = [(1.0, None)] if outcome is None else self.law(outcome, known)
        total = 0.0
        for weight, value in laws:
            row = known if outcome is None else {**known, outcome.name: value}
            total += weight * float(reward.mean(_rows(row), 1)[0, 0, 0])
        return sign * total


def _rows(known: Known) -> dict[str, np.ndarray]:
    return {name: np.asarray([[value]]) for name, value in known.items()}
