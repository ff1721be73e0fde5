"""The truth that bounds are judged by: the policy itself runs on the simulated plant. No weight and no propensity is used."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field, replace

import numpy as np

from aegis.policies import Hybrid
from aegis.problem import Array, Batch, Policy, Scope, augmented
from aegis.validation.acting import acting, handed_over
from aegis.worlds import World, true_value

EPISODES = 20_000
ONE_EACH = {"inner_steps": 1, "outer_steps": 1, "batches": 1, "recipe_steps": 1, "doses": 1}


@dataclass(frozen=True, slots=True)
class Truth:
    """The nested-mean reward of a policy and its gain, in reward units, with the standard error of each."""

    value: float
    gain: float
    error: float
    gain_error: float


@dataclass(slots=True)
class Oracle:
    """Values of policies on a world by long simulation with the same noise for all of them.

    The legacy's own value is integrated numerically once. A candidate's value is then either its own mean, or the legacy's
    value plus the mean difference to the legacy on the same noise: whichever varies less. Given all that was observed and
    the action, the world's equations give the mean reward exactly, so that noise of the reward does not enter.

    incumbent: who acts if nothing is handed over; gains are over it at the levels in scope, from the mean difference on the same
    noise. None if gains are over the legacy. others: whether it acts at the other levels too, under candidate and comparator
    alike; otherwise the legacy does. Values are always those with the legacy elsewhere.
    """

    world: World
    legacy: Policy
    episodes: int = EPISODES
    seed: int = 2**61 - 1
    incumbent: Policy | None = None
    others: bool = False
    legacy_value: float = field(init=False)
    _short: World = field(init=False)
    _legacy: Array = field(init=False)
    _compared: dict[Scope, Array] = field(init=False, default_factory=dict)

    def __post_init__(self) -> None:
        self._short = short(self.world)
        self.legacy_value = true_value(self._short, self.legacy)
        self._legacy = self._means(self.legacy)

    def truth(self, candidate: Policy, scope: Iterable[str]) -> Truth:
        """Return the value of the candidate at `scope` with the legacy elsewhere, and its gain over the comparator."""
        levels = Scope(scope)
        own = self._means(handed_over(self.world.problem, candidate, self.legacy, levels))
        paired = own - self._legacy
        root = math.sqrt(own.size)
        direct, common = float(own.std()) / root, float(paired.std()) / root
        value = float(own.mean()) if direct <= common else self.legacy_value + float(paired.mean())
        error = min(direct, common)
        if self.incumbent is None:
            return Truth(value, value - self.legacy_value, error, error)  # the legacy's value is exact
        # A candidate that asks the log is asked as if the legacy wrote it, also where the incumbent acts elsewhere.
        if self.others:
            acting_there = acting(candidate, self.legacy)
            own = self._means(Hybrid(self.world.problem, levels, acting_there, self.incumbent))
        difference = own - self._comparator(self.incumbent, levels)
        return Truth(value, float(difference.mean()), error, float(difference.std()) / root)

    def compared_value(self, scope: Iterable[str]) -> float:
        """Return the exact value of the comparator at `scope` with the legacy elsewhere."""
        if self.incumbent is None:
            return self.legacy_value
        return true_value(self._short, Hybrid(self.world.problem, scope, self.incumbent, self.legacy))

    def _comparator(self, incumbent: Policy, scope: Scope) -> Array:
        """Return the means `[E]` of the comparator at a scope; found once."""
        if scope not in self._compared:
            elsewhere = incumbent if self.others else self.legacy
            self._compared[scope] = self._means(Hybrid(self.world.problem, scope, incumbent, elsewhere))
        return self._compared[scope]

    def _means(self, policy: Policy) -> Array:
        """Return the expected nested-mean reward `[E]` of the episodes of a long run."""
        batch: Batch = self._short.episodes(0, self.episodes, policy, self.seed)
        return episode_means(self._short, batch, policy.weights.size == 1)


def short(world: World) -> World:
    """Return the world with one decision below each other where it lets one choose: nested means have the same expectation."""
    settings = {name: one for name, one in ONE_EACH.items() if name in getattr(world, "__dataclass_fields__", {})}
    return replace(world, **settings) if settings else world  # type: ignore[type-var]


def episode_means(world: World, batch: Batch, single: bool) -> Array:
    """Return the nested mean `[E]` of the expected rewards of a batch.

    single: the policy has one particle, so that the distribution in the batch is its own and actions can be averaged out.
    """
    problem, level = world.problem, world.problem.innermost
    table = batch.levels[level.name]
    if not single or table.mu_full is None:
        return batch.episode_means(world.mean_reward(augmented(problem, batch, level.name, with_action=True)))
    known = augmented(problem, batch, level.name)
    expected = np.zeros(len(table))
    for action in range(level.actions.count):  # one action at a time keeps memory at n
        rows = np.flatnonzero(table.mu_full[:, action])
        here = {name: values[rows] for name, values in known.items()}
        here[level.actions.column] = level.actions.as_rows(np.full(rows.size, action, dtype=np.int32))
        expected[rows] += table.mu_full[rows, action] * world.mean_reward(here)
    return batch.episode_means(expected)
