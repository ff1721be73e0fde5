"""Scores as storable models: pessimistic values, and how likely a policy makes each action."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from aegis.errors import PolicyError
from aegis.planning.planned import Planned
from aegis.planning.ucb import SpreadChoice
from aegis.policies import path_full
from aegis.policies.state import storable
from aegis.problem import Array, Batch, Policy, Problem, RewardModel, State

Last = dict[str, tuple[Batch, Array]]  # by level, the batch that was asked about last, and the answer


@dataclass(frozen=True, slots=True)
class Pessimistic:
    """Mean minus kappa standard deviations of a plan's values over its beliefs (the paper's ra-inner), as logged rewards.

    Of a plan by the rule `lcb`, whose choice holds kappa. Several challengers ask about the same episodes: the last answer is
    remembered.
    """

    kind: ClassVar[str] = "pessimistic_values"
    problem: Problem
    plan: Planned
    _last: Last = field(default_factory=dict, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if not isinstance(self.plan.choice, SpreadChoice):
            raise PolicyError(
                f"pessimistic values are those of a plan by the rule 'lcb', found {type(self.plan.choice).__name__}"
            )

    def predict(self, level: str, batch: Batch) -> Array:
        """Return `[n, A]`."""
        return _remembered(self._last, level, batch, self._computed)

    def state(self) -> State:
        """Return the plan as a member."""
        return State(self.kind, {}, members={"plan": storable(self.plan, "the plan")})

    @classmethod
    def restore(cls, state: State, problem: Problem) -> Pessimistic:
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
class Likeliest:
    """Ranks of the actions by how likely a policy takes them, ties by a prediction: what a cap fills towards that policy.

    Without a prediction ties are left to the order of the actions. A score is A for the likeliest of A actions, down to 1, or
    its negative if the goal is to minimise.
    """

    kind: ClassVar[str] = "likeliest"
    problem: Problem
    policy: Policy
    prediction: RewardModel | None = None
    _last: Last = field(default_factory=dict, init=False, repr=False, compare=False)

    def predict(self, level: str, batch: Batch) -> Array:
        """Return `[n, A]`."""
        return _remembered(self._last, level, batch, self._computed)

    def state(self) -> State:
        """Return policy and prediction as members."""
        members = {"policy": storable(self.policy, "the policy")}
        if self.prediction is not None:
            members["prediction"] = storable(self.prediction, "the prediction")
        return State(self.kind, {}, members=members)

    @classmethod
    def restore(cls, state: State, problem: Problem) -> Likeliest:
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


def _remembered(last: Last, level: str, batch: Batch, compute: Callable[[str, Batch], Array]) -> Array:
    if level not in last or last[level][0] is not batch:
        last[level] = batch, compute(level, batch)
    return last[level][1]
