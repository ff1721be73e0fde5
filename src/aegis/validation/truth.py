"""What a policy truly earns on a plant, and over which comparator: the policy itself runs, without weights or propensities.

On a world the equations give the mean reward of every decision; on any other plant rewards are added up over long runs.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass, field, replace

import numpy as np

from aegis.errors import SettingError, check_choice
from aegis.ope import ClusterUnits, Comparator, describe_comparator, describe_other_levels
from aegis.policies import (
    Capped,
    Floored,
    Hybrid,
    Legacy,
    Logged,
    Mixture,
    StatedIncumbent,
    known_incumbent,
    stated_levels,
    without_exploration,
)
from aegis.problem import Array, Batch, Incumbent, Plant, Policy, Problem, Scope, augmented_context
from aegis.worlds import World, true_value


def runnable_policy(policy: Policy, legacy: Policy) -> Policy:
    """Return the policy with the legacy in the place of `Logged`, which knows the propensities of a log and cannot act."""
    if isinstance(policy, Logged):
        return legacy
    if isinstance(policy, Capped):
        return Capped(policy.problem, policy.model, runnable_policy(policy.legacy, legacy), policy.limit, policy.levels)
    if isinstance(policy, StatedIncumbent):  # at a level where none is stated it is the policy that wrote the log
        return Hybrid(policy.problem, policy.levels, policy, legacy)
    if isinstance(policy, Floored):
        new, base = runnable_policy(policy.new, legacy), runnable_policy(policy.legacy, legacy)
        return Floored(policy.problem, new, base, policy.share, policy.levels)
    if isinstance(policy, Hybrid):
        return Hybrid(policy.problem, policy.scope, runnable_policy(policy.new, legacy), runnable_policy(policy.legacy, legacy))
    if isinstance(policy, Mixture):
        return Mixture([runnable_policy(member, legacy) for member in policy.policies], policy.shares)
    return policy


def handover_policy(problem: Problem, candidate: Policy, legacy: Policy, scope: Iterable[str]) -> Hybrid:
    """Return what acts after a handover of `scope`: the candidate there, the legacy elsewhere."""
    return Hybrid(problem, scope, runnable_policy(candidate, legacy), legacy)


COMPARATORS = ("incumbent", "logger")  # whom gains may be over


def problem_with_comparator(problem: Problem, legacy: Policy, comparator: str = "incumbent") -> Problem:
    """Return the problem that logs of a legacy are certified with.

    comparator: 'incumbent', who acts if nothing is handed over: what the problem states, else a legacy of rules without its
    exploration, else the logger. 'logger', the policy that wrote the log, exploration included.
    """
    check_choice(comparator, COMPARATORS, "comparator")
    if comparator == "incumbent":
        return known_incumbent(problem, legacy)
    logged = Incumbent(policy="logged")
    stated = stated_levels(problem)
    return replace(
        problem,
        levels=tuple(replace(level, incumbent=logged) if level.name in stated else level for level in problem.levels),
    )


def acting_incumbent(problem: Problem, legacy: Policy) -> Policy | None:
    """Return who acts if nothing is handed over, as a policy that can be run; None if that is the logger at every level.

    Raises SettingError where the incumbent is known by columns of a log only: it cannot act, so that no truth can be found.
    """
    levels = stated_levels(problem)
    if not levels:
        return None
    known = [problem.level(name) for name in sorted(levels)]
    columns = [level.name for level in known if level.comparator is not None and level.comparator.log_columns]
    if columns and isinstance(legacy, Legacy):
        return without_exploration(legacy)
    if columns:
        raise SettingError(
            f"the incumbent at '{columns[0]}' is known by columns of the log, which cannot act on the plant; state it as a rule "
            "under 'policy', or compare with the logger (comparator 'logger')"
        )
    return runnable_policy(StatedIncumbent(problem), legacy)


def comparator_phrase(problem: Problem, scope: Iterable[str], others: str = "log") -> str:
    """Return over whom gains at a scope are, for a sentence."""
    comparator, levels = Comparator.of(problem, others=others == "incumbent"), Scope(scope)
    words = describe_comparator(problem, comparator, levels), describe_other_levels(problem, comparator, levels)
    return ", ".join(part for part in words if part)


# Episodes that a simulated truth is measured on.
ORACLE_EPISODES = 20_000

ONE_EACH = {"inner_steps": 1, "outer_steps": 1, "batches": 1, "recipe_steps": 1, "doses": 1}


@dataclass(frozen=True, slots=True)
class Truth:
    """The nested-mean reward of a policy and its gain, in reward units, with the standard error of each."""

    value: float
    gain: float
    error: float
    gain_error: float


@dataclass(slots=True)
class Judge(ABC):
    """Knows what a policy really earns, by long runs under one seed, so that all policies meet the same noise.

    incumbent: who acts if nothing is handed over; gains are over it at the levels in scope. None if gains are over the legacy.
    others: whether it acts at the other levels too, under candidate and comparator alike; otherwise the legacy does. Values are
    always those with the legacy elsewhere.
    """

    plant: Plant
    legacy: Policy
    episodes: int = ORACLE_EPISODES
    seed: int = 2**61 - 1  # no log has it
    incumbent: Policy | None = None
    others: bool = False
    _legacy: Array = field(init=False)
    _compared: dict[Scope, Array] = field(init=False, default_factory=dict)

    @abstractmethod
    def truth(self, candidate: Policy, scope: Iterable[str]) -> Truth:
        """Return the value of the candidate at `scope` with the legacy elsewhere, and its gain over the comparator."""

    @abstractmethod
    def _units(self, policy: Policy) -> Array:
        """Return the mean reward `[U]` of every unit of a long run."""

    def _comparator(self, scope: Scope) -> Array:
        """Return the units `[U]` of the comparator at a scope; found once."""
        if self.incumbent is None:
            return self._legacy
        if scope not in self._compared:
            elsewhere = self.incumbent if self.others else self.legacy
            self._compared[scope] = self._units(Hybrid(self.plant.problem, scope, self.incumbent, elsewhere))
        return self._compared[scope]


@dataclass(slots=True)
class Oracle(Judge):
    """Values of policies on a world.

    The legacy's own value is integrated numerically once. A candidate's value is then either its own mean, or the legacy's
    value plus the mean difference to the legacy on the same noise: whichever varies less. Given all that was observed and
    the action, the world's equations give the mean reward exactly, so that noise of the reward does not enter.
    """

    plant: World
    legacy_value: float = field(init=False)
    _short: World = field(init=False)

    def __post_init__(self) -> None:
        self._short = short_world(self.plant)
        self.legacy_value = true_value(self._short, self.legacy)
        self._legacy = self._units(self.legacy)

    def truth(self, candidate: Policy, scope: Iterable[str]) -> Truth:
        """Return the value of the candidate at `scope` with the legacy elsewhere, and its gain over the comparator."""
        levels = Scope(scope)
        own = self._units(handover_policy(self.plant.problem, candidate, self.legacy, levels))
        paired = own - self._legacy
        root = math.sqrt(own.size)
        direct, common = float(own.std()) / root, float(paired.std()) / root
        value = float(own.mean()) if direct <= common else self.legacy_value + float(paired.mean())
        error = min(direct, common)
        if self.incumbent is None:  # the legacy's value is exact
            return Truth(value=value, gain=value - self.legacy_value, error=error, gain_error=error)
        # A candidate that asks the log is asked as if the legacy wrote it, also where the incumbent acts elsewhere.
        if self.others:
            own = self._units(Hybrid(self.plant.problem, levels, runnable_policy(candidate, self.legacy), self.incumbent))
        difference = own - self._comparator(levels)
        return Truth(value=value, gain=float(difference.mean()), error=error, gain_error=float(difference.std()) / root)

    def compared_value(self, scope: Iterable[str]) -> float:
        """Return the exact value of the comparator at `scope` with the legacy elsewhere."""
        if self.incumbent is None:
            return self.legacy_value
        return true_value(self._short, Hybrid(self.plant.problem, scope, self.incumbent, self.legacy))

    def _units(self, policy: Policy) -> Array:
        batch: Batch = self._short.episodes(0, self.episodes, policy, self.seed)
        return expected_episode_means(self._short, batch, policy.weights.size == 1)


def short_world(world: World) -> World:
    """Return the world with one decision below each other where it lets one choose: nested means have the same expectation."""
    settings = {name: one for name, one in ONE_EACH.items() if name in getattr(world, "__dataclass_fields__", {})}
    return replace(world, **settings) if settings else world  # type: ignore[type-var]


def expected_episode_means(world: World, batch: Batch, single: bool) -> Array:
    """Return the nested mean `[E]` of the expected rewards of a batch.

    single: the policy has one particle, so that the distribution in the batch is its own and actions can be averaged out.
    """
    problem, level = world.problem, world.problem.innermost
    table = batch.levels[level.name]
    if not single or table.mu_full is None:
        return batch.episode_means(world.mean_reward(augmented_context(problem, batch, level.name, with_action=True)))
    known = augmented_context(problem, batch, level.name)
    expected = np.zeros(len(table))
    for action in range(level.actions.count):  # one action at a time keeps memory at n
        rows = np.flatnonzero(table.mu_full[:, action])
        here = {name: values[rows] for name, values in known.items()}
        here[level.actions.column] = level.actions.as_rows(np.full(rows.size, action, dtype=np.int32))
        expected[rows] += table.mu_full[rows, action] * world.mean_reward(here)
    return batch.episode_means(expected)


EPISODES_AT_ONCE = 2048  # episodes


def judge_for(plant: Plant, legacy: Policy, episodes: int, incumbent: Policy | None = None) -> Judge:
    """Return the judge of a plant: equations where they are known, long runs with rewards as they come elsewhere.

    incumbent: who acts if nothing is handed over, and so whom gains are over; None if that is the legacy.
    """
    kind = Oracle if isinstance(plant, World) else LongRuns
    return kind(plant, legacy, episodes, incumbent=incumbent)  # type: ignore[arg-type]  # an oracle gets a world


@dataclass(slots=True)
class LongRuns(Judge):
    """Values of policies on any plant, from rewards as they come.

    The difference to the comparator is taken unit by unit where both had as many: a plant that draws its noise from seed and
    episode number alone, as it should, then shows a gain with less noise.
    """

    def __post_init__(self) -> None:
        self._legacy = self._units(self.legacy)

    def truth(self, candidate: Policy, scope: Iterable[str]) -> Truth:
        """Return the value of the candidate at `scope` with the legacy elsewhere, and its gain over the comparator."""
        levels = Scope(scope)
        own, base = self._units(handover_policy(self.plant.problem, candidate, self.legacy, levels)), self._comparator(levels)
        value, error = float(own.mean()), _error(own)
        gain_error = _error(own - base) if own.size == base.size else math.hypot(error, _error(base))
        return Truth(value=value, gain=value - float(base.mean()), error=error, gain_error=gain_error)

    def _units(self, policy: Policy) -> Array:
        problem, means, clusters = self.plant.problem, [], None
        if problem.cluster is not None:
            clusters = ClusterUnits(np.zeros(1), problem.cluster_most, problem.cluster_name)
        for first in range(0, self.episodes, EPISODES_AT_ONCE):
            batch = self.plant.episodes(first, min(EPISODES_AT_ONCE, self.episodes - first), policy, self.seed)
            means.append(_means(batch))
            if clusters is not None and batch.cluster is None:
                raise SettingError(f"the problem has the cluster '{problem.cluster_name}', the plant's batches have none")
            if clusters is not None and batch.cluster is not None:
                clusters.add(batch.cluster, means[-1][:, None])
        return np.concatenate(means) if clusters is None else clusters.units()[:, 0]


def _means(batch: Batch) -> Array:
    rewards = batch.reward
    complete = rewards is not None and bool(np.isfinite(rewards).all()) and (batch.observed is None or batch.observed.all())
    if rewards is None or not complete:
        raise SettingError(
            "the plant leaves out rewards: what a policy really earns is then unknown, and no bound can be judged; let the plant "
            "return the reward of every innermost decision"
        )
    return batch.episode_means(rewards)


def _error(units: Array) -> float:
    return float(units.std(ddof=1)) / math.sqrt(units.size)
