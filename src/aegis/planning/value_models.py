"""Reward models made from plans, and the table POLICY_KINDS of everything a policy folder may hold.

Models: mean values of a plan, pessimistic values (the paper's ra-inner), and ranks by the likelihood of actions.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar

import numpy as np

from aegis.errors import PolicyError
from aegis.mechanisms import LevelRewards
from aegis.planning.planned_policy import Planned
from aegis.planning.value_rules import SpreadChoice
from aegis.policies import POLICIES, path_full, read_stored, require_storable
from aegis.policies import read_policy as load_one_of
from aegis.problem import Array, Batch, Policy, Problem, RewardModel, State, Storable


@dataclass(frozen=True, slots=True)
class PlannedValues:
    """The mean of a plan's values over its beliefs, in the units of the reward as logged.

    Several challengers ask the same model about the same episodes: the last answer is remembered.
    """

    kind: ClassVar[str] = "planned_values"
    problem: Problem
    plan: Planned
    _last: dict[str, tuple[Batch, Array]] = field(default_factory=dict, init=False, repr=False, compare=False)

    def predict(self, level: str, batch: Batch) -> Array:
        """Return `[n, A]`."""
        if level not in self._last or self._last[level][0] is not batch:
            values = self.plan.values(level, batch).mean(axis=0)
            self._last[level] = batch, values if self.problem.reward.goal == "maximise" else -values
        return self._last[level][1]

    def state(self) -> State:
        """Return the plan as a member."""
        return State(self.kind, {}, members={"plan": require_storable(self.plan, "the plan")})

    @classmethod
    def restore(cls, state: State, problem: Problem) -> PlannedValues:
        """Build the model from its state."""
        plan = state.members.get("plan")
        if not isinstance(plan, Planned):
            raise PolicyError(f"a stored model of kind '{cls.kind}' holds a plan; found {sorted(state.members)}")
        return cls(problem, plan)


LastAnswer = dict[str, tuple[Batch, Array]]  # by level, the batch that was asked about last, and the answer


@dataclass(frozen=True, slots=True)
class PessimisticValues:
    """Mean minus kappa standard deviations of a plan's values over its beliefs (the paper's ra-inner), as logged rewards.

    Of a plan by the rule `lcb`, whose choice holds kappa. Several challengers ask about the same episodes: the last answer is
    remembered.
    """

    kind: ClassVar[str] = "pessimistic_values"
    problem: Problem
    plan: Planned
    _last: LastAnswer = field(default_factory=dict, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if not isinstance(self.plan.choice, SpreadChoice):
            raise PolicyError(
                f"pessimistic values are those of a plan by the rule 'lcb', found {type(self.plan.choice).__name__}"
            )

    def predict(self, level: str, batch: Batch) -> Array:
        """Return `[n, A]`."""
        return _cached(self._last, level, batch, self._computed)

    def state(self) -> State:
        """Return the plan as a member."""
        return State(self.kind, {}, members={"plan": require_storable(self.plan, "the plan")})

    @classmethod
    def restore(cls, state: State, problem: Problem) -> PessimisticValues:
        """Build the model from its state."""
        plan = state.members.get("plan")
        if not isinstance(plan, Planned):
            raise PolicyError(f"a stored model of kind '{cls.kind}' holds a plan; found {sorted(state.members)}")
        return cls(problem, plan)

    def _computed(self, level: str, batch: Batch) -> Array:
        drawn = self.plan.values(level, batch)
        kappa = self.plan.choice.kappa  # type: ignore[attr-defined]  # checked at the start
        return _as_logged(self.problem, drawn.mean(axis=0) + kappa * drawn.std(axis=0))


@dataclass(frozen=True, slots=True)
class LikelihoodRanks:
    """Ranks of the actions by how likely a policy takes them, ties by a prediction: what a cap fills towards that policy.

    Without a prediction ties are left to the order of the actions. A score is A for the likeliest of A actions, down to 1, or
    its negative if the goal is to minimise.
    """

    kind: ClassVar[str] = "likeliest"
    problem: Problem
    policy: Policy
    prediction: RewardModel | None = None
    _last: LastAnswer = field(default_factory=dict, init=False, repr=False, compare=False)

    def predict(self, level: str, batch: Batch) -> Array:
        """Return `[n, A]`."""
        return _cached(self._last, level, batch, self._computed)

    def state(self) -> State:
        """Return policy and prediction as members."""
        members = {"policy": require_storable(self.policy, "the policy")}
        if self.prediction is not None:
            members["prediction"] = require_storable(self.prediction, "the prediction")
        return State(self.kind, {}, members=members)

    @classmethod
    def restore(cls, state: State, problem: Problem) -> LikelihoodRanks:
        """Build the model from its state."""
        prediction = state.members.get("prediction")
        if prediction is not None and not isinstance(prediction, RewardModel):
            raise PolicyError(f"a stored model of kind '{cls.kind}' predicts rewards, found a {type(prediction).__name__}")
        return cls(problem, state.policy("policy"), prediction)

    def _computed(self, level: str, batch: Batch) -> Array:
        chances = path_full(self.policy, level, batch)
        if self.prediction is None:
            order = np.argsort(-chances, axis=1, kind="stable")
        else:
            order = np.lexsort((-_as_logged(self.problem, self.prediction.predict(level, batch)), -chances), axis=1)
        places = np.arange(chances.shape[1], 0.0, -1.0)
        ranks = np.empty(chances.shape)
        np.put_along_axis(ranks, order, np.broadcast_to(places, chances.shape), axis=1)
        return _as_logged(self.problem, ranks)


def _as_logged(problem: Problem, values: Array) -> Array:
    """Return values of which large ones are good in logged units, or the other way round: with a cost both differ in sign."""
    return values if problem.reward.goal == "maximise" else -values


def _cached(last: LastAnswer, level: str, batch: Batch, compute: Callable[[str, Batch], Array]) -> Array:
    if level not in last or last[level][0] is not batch:
        last[level] = batch, compute(level, batch)
    return last[level][1]


POLICY_KINDS: dict[str, type[Storable]] = {
    **POLICIES,
    "planned": Planned,
    "planned_values": PlannedValues,
    "level_rewards": LevelRewards,
    PessimisticValues.kind: PessimisticValues,
    LikelihoodRanks.kind: LikelihoodRanks,
}


def load_policy(folder: str | Path, problem: Problem) -> Policy:
    """Return the policy stored in a folder for `problem`, whatever its kind; raises PolicyError if it cannot be used."""
    return load_one_of(folder, problem, POLICY_KINDS)


def load_rewards(folder: str | Path, problem: Problem) -> LevelRewards:
    """Return the reward models stored in a folder for `problem`."""
    found = read_stored(folder, problem, POLICY_KINDS)
    if not isinstance(found, LevelRewards):
        raise PolicyError(f"{folder} holds a {type(found).__name__}, not reward models")
    return found
