"""People who come several times and get an offer each time. Declared: an offer matters at its own visit alone."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from aegis.handover import HOSTS, GateSettings, Handover
from aegis.policies import Function, path_full
from aegis.problem import (
    Actions,
    Array,
    Batch,
    Incumbent,
    Level,
    LevelTable,
    Policy,
    Problem,
    Propensity,
    Reward,
    Rows,
    Variable,
    concat,
)
from aegis.rng import stream

VISITS = 4
LEVEL = Level("visit", Actions.of("offer", (0, 1)), (Variable("need"),), Propensity(columns=("p_0", "p_1")), "day")


@dataclass(frozen=True)
class Visits:
    """An offer earns `now` at its visit. later: what it costs at the next visit. across: what the last one costs the next person.

    redone: every other episode is the one before it done once more, with the same need and the same offers, if that went badly.
    drawn: the probability with which an offer is really made is the logged one plus this. shared: what it costs each person that
    the 19 people before took offers throughout: they share a capacity. next: what it costs each visit of the next person if all
    offers were made. success: rewards are 0 or 1.
    """

    now: float = 0.1
    later: float = 0.0
    across: float = 0.0
    redone: bool = False
    drawn: float = 0.0
    shared: float = 0.0
    next: float = 0.0
    success: bool = False
    visits: int = VISITS
    last: dict[int, float] = field(default_factory=dict, init=False, compare=False, repr=False)
    taken: dict[int, float] = field(default_factory=dict, init=False, compare=False, repr=False)

    @property
    def problem(self) -> Problem:
        return Problem((LEVEL,), Reward("earned", (0.0, 1.0)))

    def episodes(self, first: int, count: int, policy: Policy, seed: int) -> Batch:
        size, numbers = self.visits, range(first, first + count)
        luck = np.stack([self._luck(number, seed) for number in numbers])
        source = [self._source(number, seed) for number in numbers]
        noise = np.stack([stream(seed, "visits", number).random(2 * size) for number in source])
        need, choice = noise[:, :size].ravel(), noise[:, size:].ravel()
        table = LevelTable.undecided(np.repeat(np.arange(count), size), {"need": need})
        batch = Batch(np.arange(first, first + count), {"visit": table})
        chances = path_full(policy, "visit", batch)
        action = (choice < chances[:, 1] + self.drawn).astype(np.int64)
        decided = table.decided(action, chances[np.arange(action.size), action], chances)
        offers = action.reshape(count, size).astype(float)
        before = np.hstack([np.zeros((count, 1)), offers[:, :-1]])
        self.last.update({number: float(row[-1]) for number, row in zip(numbers, offers, strict=True)})
        self.taken.update({number: float(row.mean()) for number, row in zip(numbers, offers, strict=True)})
        reward = 0.45 + 0.4 * (luck - 0.5) + self.now * offers - self.later * before
        if self.shared:
            crowd = [[self.taken.get(other, 0.0) for other in range(number - 19, number)] for number in numbers]
            reward += 0.1 - self.shared * np.mean(crowd, axis=1)[:, None]
        if self.next:
            reward -= self.next * np.array([self.taken.get(number - 1, 0.0) for number in numbers])[:, None]
        if self.success:
            reward = (luck < reward - 0.4 * (luck - 0.5)).astype(float)
        reward[:, 0] -= self.across * np.array([self.last.get(number - 1, 0.0) for number in numbers])
        return replace(batch.with_level("visit", decided), reward=np.clip(reward, 0.0, 1.0).ravel())

    def _luck(self, number: int, seed: int) -> Array:
        return stream(seed, "luck", number).random(self.visits)

    def _source(self, number: int, seed: int) -> int:
        """Return of which episode this one has need and offers: of the one before it, if that went badly and is done again."""
        again = self.redone and number % 2 == 1 and self._luck(number - 1, seed).mean() < 0.5
        return number - 1 if again else number

    @property
    def legacy(self) -> Policy:
        return Function(self.problem, even, name="visits_plant:even")


@dataclass(frozen=True)
class Learning(Visits):
    """Visits whose legacy makes offers more often after a good episode, if it `follows`. stated: the incumbent has even odds."""

    follows: bool = True
    stated: bool = False
    chances: dict[int, float] = field(default_factory=dict, init=False, compare=False, repr=False)

    @property
    def problem(self) -> Problem:
        incumbent = Incumbent(policy="uniform") if self.stated else None
        return Problem((replace(LEVEL, incumbent=incumbent),), Reward("earned", (0.0, 1.0)))

    def episodes(self, first: int, count: int, policy: Policy, seed: int) -> Batch:
        found = []
        for number in range(first, first + count):
            found.append(super().episodes(number, 1, policy, seed))
            if self.follows:
                reward = found[-1].reward
                assert reward is not None
                self.chances[number + 1] = 0.8 if float(reward.mean()) > 0.45 else 0.2
        return concat(found)

    @property
    def legacy(self) -> Policy:
        return Remembered(self.problem, self.chances)


@dataclass(frozen=True)
class Remembered:
    """Offers with the probability that is remembered for the episode."""

    problem: Problem
    chances: dict[int, float]
    weights: Array = field(default_factory=lambda: np.ones(1))

    def taken(self, level: str, batch: Batch) -> Array:
        action = batch.levels[level].action
        return self.full(level, batch)[:, np.arange(action.size), action]

    def full(self, level: str, batch: Batch) -> Array:
        own = [self.chances.get(int(number), 0.5) for number in batch.episode[batch.episode_of(level)]]
        return np.stack([1.0 - np.array(own), np.array(own)], axis=1)[None]


def even(level: Level, rows: Rows) -> Array:
    return np.full((len(rows["need"]), 2), 0.5)


def gate(plant: Visits, seed: int = 1, **settings: Any) -> Handover:
    """Return a gate on these visits, the quickest host proposing."""
    return Handover(plant, plant.legacy, HOSTS["greedy"](), GateSettings.of({"upgrades": False, **settings}), seed)
