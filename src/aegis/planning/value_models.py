"""Reward models made from plans, and the table POLICY_KINDS of everything a policy folder may hold.

Models: mean values of a plan, pessimistic values (the paper's ra-inner), and ranks by the likelihood of actions.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar, Self

import numpy as np

from aegis.errors import PolicyError
from aegis.mechanisms import LevelRewards
from aegis.planning.planned_policy import Planned
from aegis.planning.value_rules import SpreadChoice
from aegis.policies import POLICIES, path_full, read_policy, read_stored, storable_members
from aegis.problem import Array, Batch, Policy, Problem, RewardModel, State, Storable

LastAnswer = dict[str, tuple[Batch, Array]]  # by level, the batch that was asked about last, and the answer


class RememberedPrediction(ABC):
    """A reward model that several challengers ask about the same episodes: the last answer is remembered."""

    __slots__ = ()
    problem: Problem
    _last: LastAnswer

    def predict(self, level: str, batch: Batch) -> Array:
        """Return `[n, A]`, in the units of the reward as logged."""
        if level not in self._last or self._last[level][0] is not batch:
            self._last[level] = batch, self._as_logged(self._scores(level, batch))
        return self._last[level][1]

    @abstractmethod
    def _scores(self, level: str, batch: Batch) -> Array:
        """Return `[n, A]`, larger is better."""

    def _as_logged(self, values: Array) -> Array:
        """Return values of which large ones are good in logged units, or the other way round: a cost has the other sign."""
        return values if self.problem.reward.goal == "maximise" else -values


@dataclass(frozen=True, slots=True)
class PlannedValues(RememberedPrediction):
    """The mean of a plan's values over its beliefs, in the units of the reward as logged."""

    kind: ClassVar[str] = "planned_values"
    problem: Problem
    plan: Planned
    _last: LastAnswer = field(default_factory=dict, init=False, repr=False, compare=False)

    def state(self) -> State:
        """Return the plan as a member."""
        return State(self.kind, {}, members=storable_members(plan=self.plan))

    @classmethod
    def restore(cls, state: State, problem: Problem) -> Self:
        """Build the model from its state."""
        plan = state.members.get("plan")
        if not isinstance(plan, Planned):
            raise PolicyError(f"a stored model of kind '{cls.kind}' holds a plan; found {sorted(state.members)}")
        return cls(problem, plan)

    def _scores(self, level: str, batch: Batch) -> Array:
        return np.asarray(self.plan.values(level, batch).mean(axis=0))


@dataclass(frozen=True, slots=True)
class PessimisticValues(PlannedValues):
    """Mean minus kappa standard deviations of a plan's values over its beliefs (the paper's ra-inner), as logged rewards.

    Of a plan by the rule `lcb`, whose choice holds kappa.
    """

    kind: ClassVar[str] = "pessimistic_values"

    def __post_init__(self) -> None:
        if not isinstance(self.plan.choice, SpreadChoice):
            raise PolicyError(
                f"pessimistic values are those of a plan by the rule 'lcb', found {type(self.plan.choice).__name__}"
            )

    def _scores(self, level: str, batch: Batch) -> Array:
        drawn = self.plan.values(level, batch)
        kappa = self.plan.choice.kappa  # type: ignore[attr-defined]  # checked at the start
        return np.asarray(drawn.mean(axis=0) + kappa * drawn.std(axis=0))


@dataclass(frozen=True, slots=True)
class LikelihoodRanks(RememberedPrediction):
    """Ranks of the actions by how likely a policy takes them, ties by a prediction: what a cap fills towards that policy.

    Without a prediction ties are left to the order of the actions. A score is A for the likeliest of A actions, down to 1, or
    its negative if the goal is to minimise.
    """

    kind: ClassVar[str] = "likeliest"
    problem: Problem
    policy: Policy
    prediction: RewardModel | None = None
    _last: LastAnswer = field(default_factory=dict, init=False, repr=False, compare=False)

    def state(self) -> State:
        """Return policy and prediction as members."""
        return State(self.kind, {}, members=storable_members(policy=self.policy, prediction=self.prediction))

    @classmethod
    def restore(cls, state: State, problem: Problem) -> LikelihoodRanks:
        """Build the model from its state."""
        prediction = state.members.get("prediction")
        if prediction is not None and not isinstance(prediction, RewardModel):
            raise PolicyError(f"a stored model of kind '{cls.kind}' predicts rewards, found a {type(prediction).__name__}")
        return cls(problem, state.policy("policy"), prediction)

    def _scores(self, level: str, batch: Batch) -> Array:
        chances = path_full(self.policy, level, batch)
        if self.prediction is None:
            order = np.argsort(-chances, axis=1, kind="stable")
        else:
            order = np.lexsort((-self._as_logged(self.prediction.predict(level, batch)), -chances), axis=1)
        places = np.arange(chances.shape[1], 0.0, -1.0)
        ranks = np.empty(chances.shape)
        np.put_along_axis(ranks, order, np.broadcast_to(places, chances.shape), axis=1)
        return ranks


POLICY_KINDS: dict[str, type[Storable]] = POLICIES | {
    stored.kind: stored for stored in (Planned, PlannedValues, LevelRewards, PessimisticValues, LikelihoodRanks)
}


def load_policy(folder: str | Path, problem: Problem) -> Policy:
    """Return the policy stored in a folder, of any kind.

    Parameters
    ----------
    folder
        A folder that `save_policy` or `aegis learn` wrote.
    problem
        The problem that the policy was made for.

    Returns
    -------
    Policy
        The policy. A stored user function is found by importing its module.

    Raises
    ------
    PolicyError
        If the folder was altered, is newer than this version, or holds a policy for another problem.
    """
    return read_policy(folder, problem, POLICY_KINDS)


def load_rewards(folder: str | Path, problem: Problem) -> LevelRewards:
    """Return the reward models stored in a folder.

    Parameters
    ----------
    folder
        A folder that `save_policy` wrote.
    problem
        The problem that the models were fitted for.

    Returns
    -------
    LevelRewards
        One regression per level.

    Raises
    ------
    PolicyError
        If the folder cannot be used, or holds something else.
    """
    stored = read_stored(folder, problem, POLICY_KINDS)
    if not isinstance(stored, LevelRewards):
        raise PolicyError(f"{folder} holds a {type(stored).__name__}, not reward models")
    return stored
