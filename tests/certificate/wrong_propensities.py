"""Tiny problems whose log is wrong by a factor, shared by tests of units and of methods."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, replace

import numpy as np
from tiny_episodes import Place, Tiny, TinyModel, TinyPolicy, draw

from aegis.ope import CandidateView, RewardModels
from aegis.problem import Array, Scope


@dataclass(frozen=True)
class Wrong(Tiny):
    """A tiny problem in which the controller acts with other chances than those it logs, each within a factor of `gamma`."""

    gamma: float = 1.3

    def mu(self, level: int, place: Place) -> list[float]:
        logged = Tiny.mu(self, level, place)
        chances = [chance / self.gamma for chance in logged]
        left = 1.0 - sum(chances)
        for action in sorted(range(len(logged)), key=lambda a: draw(self.seed, "wrong", level, place, a)):
            more = min(left, min(1.0, self.gamma * logged[action]) - chances[action])
            chances[action] += more
            left -= more
        return chances

    def logged(self) -> Tiny:
        """Return the same problem as its log tells it."""
        names = ("seed", "contexts", "actions", "most", "particles", "carry", "masks", "holes", "sharp", "per", "goal")
        return Tiny(**{name: getattr(self, name) for name in names})


TWO = Wrong(0, (1, 2), (2, 2), (2, 2))
CASES = {
    "two levels": TWO,
    "mixture": replace(TWO, particles=2, sharp=True),
    "masks and holes": replace(TWO, actions=(3, 3), contexts=(1, 1), masks=True, holes=True),
    "minimise": replace(TWO, goal="minimise", gamma=2.5),
    "per slow": replace(TWO, per="slow"),
    "per episode": replace(TWO, per="episode", particles=2),
    "carry over": replace(TWO, carry=True, particles=2),
    "three levels": Wrong(0, (1, 1, 2), (2, 2, 2), (1, 2, 2), gamma=1.1),
}


def scopes(tiny: Tiny) -> list[Scope]:
    names = tiny.names
    return [Scope(part) for size in range(1, len(names) + 1) for part in itertools.combinations(names, size)]


def listed(case: str, seed: int, missing: bool = False) -> tuple[Wrong, Array, CandidateView]:
    """Return a problem, the true chances of all its episodes, and their log as the candidate sees it."""
    truth = replace(CASES[case], seed=seed)
    told = truth.logged()
    episodes = truth.episodes()
    batch = told.batch([episode for _, episode in episodes])
    if missing and batch.reward is not None:
        batch = replace(batch, observed=np.arange(batch.reward.size) % 5 != 2)
    models = RewardModels({told.problem.reward.column: TinyModel(told)})
    return truth, np.array([p for p, _ in episodes]), CandidateView(told.problem, batch, TinyPolicy(told), models)
