"""Tiny problems in which every episode can be written down with its probability, so that expectations are sums.

All laws are tables drawn from a hash of their arguments. Nothing here knows of weights: what a policy earns is found by letting
it act (`value_of`), once more by listing all episodes, this time with its own probabilities.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import numpy as np

from aegis.problem import Array, Batch, LevelTable, Problem, Scope, parse_problem

NAMES = {1: ("fast",), 2: ("slow", "fast"), 3: ("slow", "middle", "fast")}
LOW, HIGH = -2.0, 3.0
Path = tuple[tuple[int, int], ...]
Place = tuple[Any, ...]  # the path above and the own context
Chance = Callable[[int, Place], list[float]]


@dataclass(frozen=True)
class Node:
    """A decision: (context, action) of the decisions above it and its own, what was done before it, and what came below."""

    level: int
    path: Path
    history: tuple[tuple[int, int], ...]
    children: tuple[Node, ...] = ()

    @property
    def place(self) -> Place:
        return (*self.path[:-1], self.path[-1][0])

    @property
    def action(self) -> int:
        return self.path[-1][1]


Episode = tuple[Node, ...]


@dataclass(frozen=True)
class Tiny:
    """contexts, actions, most: how many there are, how many decisions there can be below one parent; outermost level first.

    holes: some actions are never logged. masks: some are not available. carry: earlier decisions change later contexts and
    rewards. sharp: the candidate is certain of its action, models predict 0 or 1; so is an incumbent.

    incumbent: who acts if nothing is handed over. "": the logging policy `mu`; "mixed": a policy of its own, around which the
    logger explores in a share `explored` of its decisions; "free": one that has nothing to do with the logger, so that it may do
    what is never logged.
    """

    seed: int
    contexts: tuple[int, ...] = (2, 2)
    actions: tuple[int, ...] = (2, 2)
    most: tuple[int, ...] = (1, 2)
    particles: int = 1
    carry: bool = False
    masks: bool = False
    holes: bool = False
    sharp: bool = False
    per: str = "decision"
    goal: str = "maximise"
    incumbent: str = ""
    explored: float = 0.4

    @property
    def names(self) -> tuple[str, ...]:
        return NAMES[len(self.actions)]

    @property
    def problem(self) -> Problem:
        return _problem(self)

    # ---- laws ------------------------------------------------------------------------------------------------------

    def number(self, level: int, path: Path) -> int:
        return self.most[0] if level == 0 else 1 + int(draw(self.seed, "number", path) * self.most[level])

    def law(self, level: int, path: Path, history: Any) -> list[float]:
        key = (path, history) if self.carry else (path,)
        return distribution([draw(self.seed, "law", key, c) + 0.2 for c in range(self.contexts[level])])

    def available(self, level: int, place: Place) -> list[bool]:
        count = self.actions[level]
        closed = int(draw(self.seed, "mask", level, place) * count) if self.masks and count > 2 else None
        return [a != closed for a in range(count)]

    def mu(self, level: int, place: Place) -> list[float]:
        found = distribution(self._without_hole(self._chances("mu", level, place), level, place))
        if self.incumbent != "mixed":
            return found
        return [(1 - self.explored) * b + self.explored * q for b, q in zip(self.base(level, place), found, strict=True)]

    def base(self, level: int, place: Place) -> list[float]:
        """Return the incumbent's distribution."""
        if not self.incumbent:
            return self.mu(level, place)
        found = self._chances("base", level, place)
        found = found if self.incumbent == "free" else self._without_hole(found, level, place)
        return distribution([float(chance == max(found)) for chance in found] if self.sharp else found)

    def _without_hole(self, found: list[float], level: int, place: Place) -> list[float]:
        """Return chances without the action that is never logged, if there is one."""
        open_actions = [a for a, value in enumerate(found) if value > 0]
        hole = self.holes and len(open_actions) > 1 and draw(self.seed, "hole", level, place) < 0.6
        closed = open_actions[int(draw(self.seed, "which", level, place) * len(open_actions))] if hole else None
        return [0.0 if a == closed else value for a, value in enumerate(found)]

    def pi(self, particle: int, level: int, place: Place) -> list[float]:
        found = self._chances(f"pi{particle}", level, place)
        return distribution([float(chance == max(found)) for chance in found] if self.sharp else found)

    @property
    def shares(self) -> list[float]:
        return distribution([1.0 + n for n in range(self.particles)])

    def _chances(self, who: str, level: int, place: Place) -> list[float]:
        free = self.available(level, place)
        return [draw(self.seed, who, level, place, a) ** 2 + 0.05 if free[a] else 0.0 for a in range(self.actions[level])]

    # ---- rewards ---------------------------------------------------------------------------------------------------

    def reward(self, *causes: Any) -> float:
        """Return a reward in [LOW, HIGH] that depends on what caused it."""
        return LOW + (HIGH - LOW) * draw(self.seed, "reward", causes)

    def scaled(self, reward: float) -> float:
        found = (reward - LOW) / (HIGH - LOW)
        return found if self.goal == "maximise" else 1.0 - found

    def carries_reward(self, level: int) -> bool:
        owner = self.names[-1] if self.per == "decision" else self.per
        return owner == self.names[level]

    def reward_at(self, node: Node) -> float:
        """Return the reward that belongs to a decision: of all on its path and below it, and of all before it if that counts."""
        return self.reward(signature(node), node.history if self.carry else node.path)

    def unit_reward(self, episode: Episode) -> float:
        """Return the nested mean of the scaled rewards of an episode."""
        if self.per == "episode":
            return self.scaled(self.reward("episode", tuple(signature(node) for node in episode)))
        return mean([self._below(node) for node in episode])

    def _below(self, node: Node) -> float:
        if self.carries_reward(node.level):
            return self.scaled(self.reward_at(node))
        return mean([self._below(child) for child in node.children])

    # ---- episodes --------------------------------------------------------------------------------------------------

    def episodes(self, chance: Chance | None = None) -> list[tuple[float, Episode]]:
        """Return all episodes with their probabilities, the actions drawn from `chance` (the logging policy if None)."""
        acting = self.mu if chance is None else chance
        return [(p, episode) for p, episode, _ in self._siblings(0, (), (), self.number(0, ()), acting)]

    def _siblings(self, level: int, path: Path, history: Any, left: int, acting: Chance) -> Iterator[tuple[float, Episode, Any]]:
        if left == 0:
            yield 1.0, (), history
            return
        for first_chance, first, after in self._one(level, path, history, acting):
            for rest_chance, rest, last in self._siblings(level, path, after, left - 1, acting):
                yield first_chance * rest_chance, (first, *rest), last

    def _one(self, level: int, path: Path, history: Any, acting: Chance) -> Iterator[tuple[float, Node, Any]]:
        for context, likely in enumerate(self.law(level, path, history)):
            for action, chance in enumerate(acting(level, (*path, context))):
                if chance == 0.0:
                    continue
                here = (*path, (context, action))
                after = (*history, (level, action))
                if level == len(self.actions) - 1:
                    yield likely * chance, Node(level, here, history), after
                    continue
                for p, children, last in self._siblings(level + 1, here, after, self.number(level + 1, here), acting):
                    yield likely * chance * p, Node(level, here, history, children), last

    def guard_at(self, node: Node) -> float:
        """Return a second quantity in [0, 1], at every innermost decision."""
        return draw(self.seed, "guard", node.path, node.history if self.carry else ())

    def unit_guard(self, episode: Episode) -> float:
        """Return the nested mean of the second quantity, 1 is best."""

        def below(node: Node) -> float:
            return mean([below(child) for child in node.children]) if node.children else 1.0 - self.guard_at(node)

        return mean([below(node) for node in episode])

    def gain_of(self, scope: Scope, unit: Callable[[Episode], float] | None = None, others: bool = False) -> float:
        """Return the gain over the incumbent at a scope; others: it acts at the other levels too, else the logging policy."""
        earned = unit or self.unit_reward

        def acting(level: int, place: Place) -> list[float]:
            return self.base(level, place) if others or self.names[level] in scope else self.mu(level, place)

        compared = sum(p * earned(episode) for p, episode in self.episodes(acting))
        return self.value_of(scope, unit, others) - compared

    def value_of(self, scope: Scope, unit: Callable[[Episode], float] | None = None, others: bool = False) -> float:
        """Return what the hybrid earns: the candidate, one particle for each episode, in scope, the logging policy elsewhere.

        others: the incumbent acts elsewhere.
        """
        earned = unit or self.unit_reward
        elsewhere = self.base if others else self.mu
        total = 0.0
        for particle, share in enumerate(self.shares):

            def acting(level: int, place: Place, n: int = particle) -> list[float]:
                return self.pi(n, level, place) if self.names[level] in scope else elsewhere(level, place)

            total += share * sum(p * earned(episode) for p, episode in self.episodes(acting))
        return total

    # ---- as the library sees it ------------------------------------------------------------------------------------

    def batch(self, episodes: list[Episode]) -> Batch:
        """Return episodes as a batch."""
        rows: list[list[tuple[int, Node]]] = [[] for _ in self.actions]
        rewards: list[float] = []
        guards: list[float] = []

        def enter(node: Node, parent: int, reward: float | None) -> None:
            rows[node.level].append((parent, node))
            found = self.reward_at(node) if self.carries_reward(node.level) else reward
            if not node.children:
                rewards.append(0.0 if found is None else found)
                guards.append(self.guard_at(node))
            own = len(rows[node.level]) - 1
            for child in node.children:
                enter(child, own, found)

        for number, episode in enumerate(episodes):
            whole = self.reward("episode", tuple(signature(node) for node in episode)) if self.per == "episode" else None
            for node in episode:
                enter(node, number, whole)
        levels = {}
        for level, name in enumerate(self.names):
            nodes = [node for _, node in rows[level]]
            full = np.array([self.mu(level, node.place) for node in nodes])
            action = np.array([node.action for node in nodes], dtype=np.int32)
            levels[name] = LevelTable(
                np.array([parent for parent, _ in rows[level]], dtype=np.int32),
                {f"c_{name}": np.array([node.path[-1][0] for node in nodes], dtype=np.int32)},
                action,
                full[np.arange(len(action)), action],
                full,
                np.array([self.available(level, node.place) for node in nodes]) if self.masks else None,
            )
        reward = np.array(rewards)
        observed = np.ones(reward.size, dtype=bool)
        return Batch(np.arange(len(episodes)), levels, reward, observed, guards={"g": np.array(guards)})


@dataclass(frozen=True)
class TinyPolicy:
    """The candidate of a tiny problem."""

    tiny: Tiny

    @property
    def weights(self) -> Array:
        return np.array(self.tiny.shares)

    def full(self, level: str, batch: Batch) -> Array:
        depth = self.tiny.names.index(level)
        return np.array(
            [[self.tiny.pi(n, depth, place) for place in places(batch, level)] for n in range(self.tiny.particles)]
        ).reshape(self.tiny.particles, -1, self.tiny.actions[depth])

    def taken(self, level: str, batch: Batch) -> Array:
        action = batch.levels[level].action
        return self.full(level, batch)[:, np.arange(len(action)), action]


@dataclass(frozen=True)
class TinyIncumbent:
    """The incumbent of a tiny problem."""

    tiny: Tiny

    @property
    def weights(self) -> Array:
        return np.ones(1)

    def full(self, level: str, batch: Batch) -> Array:
        depth = self.tiny.names.index(level)
        found = [self.tiny.base(depth, place) for place in places(batch, level)]
        return np.array(found).reshape(1, -1, self.tiny.actions[depth])

    def taken(self, level: str, batch: Batch) -> Array:
        action = batch.levels[level].action
        return self.full(level, batch)[:, np.arange(len(action)), action]


@dataclass(frozen=True)
class TinyModel:
    """Predictions without any relation to the truth, in the units of the reward; `scaled` gives them in [0, 1] instead."""

    tiny: Tiny
    name: str = "model"
    scaled: bool = False

    def predict(self, level: str, batch: Batch) -> Array:
        depth = self.tiny.names.index(level)
        found = np.array([self.guess(depth, place) for place in places(batch, level)])
        return found if self.scaled else LOW + (HIGH - LOW) * (found if self.tiny.goal == "maximise" else 1.0 - found)

    def guess(self, level: int, place: Place) -> list[float]:
        """Return scaled predictions, one for each action."""
        found = [draw(self.tiny.seed, self.name, level, place, a) for a in range(self.tiny.actions[level])]
        found = [round(guess * 2**20) / 2**20 for guess in found]  # predictions are multiples of that
        return [float(round(guess)) for guess in found] if self.tiny.sharp else found


def places(batch: Batch, level: str) -> list[Place]:
    """Return for each decision of a level the path above it and its context."""
    above = batch.ancestors(level)
    found: list[Place] = [()] * len(batch.levels[level])
    for name in reversed(above):
        table, rows = batch.levels[name], above[name]
        context = table.context[f"c_{name}"][rows].tolist()
        if name == level:
            return [(*place, c) for place, c in zip(found, context, strict=True)]
        action = table.action[rows].tolist()
        found = [(*place, (c, a)) for place, c, a in zip(found, context, action, strict=True)]
    return found


def lost(tiny: Tiny, node: Node, missing: float) -> bool:
    """Say whether the reward of a decision is missing, if a share of them is."""
    return draw(tiny.seed, "lost", signature(node)) < missing


def hidden(tiny: Tiny, batch: Batch, episodes: list[Episode], missing: float) -> Batch:
    """Return the batch of episodes without the rewards that are missing."""
    if not missing:
        return batch
    gone: list[bool] = []

    def enter(node: Node) -> None:
        if not node.children:
            gone.append(lost(tiny, node, missing))
        for child in node.children:
            enter(child)

    for episode in episodes:
        for node in episode:
            enter(node)
    observed = ~np.array(gone)
    return replace(batch, reward=np.where(observed, batch.reward, np.nan), observed=observed)


def signature(node: Node) -> Any:
    """Return everything that was decided on the path to a decision and below it."""
    return node.path, tuple(signature(child) for child in node.children)


def mean(values: list[float]) -> float:
    return sum(values) / len(values)


def distribution(values: list[float]) -> list[float]:
    total = sum(values)
    return [value / total for value in values]


@cache
def draw(*key: Any) -> float:
    """Return a number in [0, 1) that depends on the key alone."""
    return random.Random(repr(key)).random()


@cache
def _problem(tiny: Tiny) -> Problem:
    lines = [
        "episode: id",
        f"carry_over: {'within' if tiny.carry else 'none'}",
        f"reward: {{column: r, range: [{LOW}, {HIGH}], per: {tiny.per}, goal: {tiny.goal}}}",
        "guards: [{column: g, range: [0, 1], max_worsening: 0.1}]",
        "levels:",
    ]
    for name, contexts, actions in zip(tiny.names, tiny.contexts, tiny.actions, strict=True):
        columns = ", ".join(f"p_{name}_{a}" for a in range(actions))
        lines += [
            f"  - name: {name}",
            f"    decision: n_{name}",
            f"    context: [{{column: c_{name}, values: {list(range(max(contexts, 2)))}}}]",
            f"    action: {{column: a_{name}, values: {list(range(actions))}}}",
            f"    propensity: {{columns: [{columns}]}}",
        ]
        if tiny.masks:
            lines.append(f"    available: [{', '.join(f'm_{name}_{a}' for a in range(actions))}]")
    return parse_problem("\n".join(lines))
