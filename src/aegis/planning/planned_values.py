"""Planned values as a reward model: what a belief expects below every action, whoever acts further in."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

from aegis.errors import PolicyError
from aegis.planning.planned import Planned
from aegis.policies.state import storable
from aegis.problem import Array, Batch, Problem, State


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
        return State(self.kind, {}, members={"plan": storable(self.plan, "the plan")})

    @classmethod
    def restore(cls, state: State, problem: Problem) -> PlannedValues:
        """Build the model from its state."""
        plan = state.members.get("plan")
        if not isinstance(plan, Planned):
            raise PolicyError(f"a stored model of kind '{cls.kind}' holds a plan; found {sorted(state.members)}")
        return cls(problem, plan)
