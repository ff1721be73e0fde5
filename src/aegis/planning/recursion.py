"""The recursive value function (the paper's R-recursion) for any number of levels and any scope.

`R^(l)(a, c~)` is the expected reward below a level-l decision: the mean reward at the innermost level; further out the
expectation, over the next level's contexts, of the best action there if that level is in scope, and of the legacy's mean if
it is not.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from aegis.errors import SettingError
from aegis.mechanisms import Theta
from aegis.planning.integration import Integration, Method
from aegis.planning.states import States, legacy_probabilities
from aegis.problem import Array, Policy, Problem, Rows, Scope

Mask = Callable[[Rows], npt.NDArray[np.bool_]]


@dataclass(frozen=True, slots=True)
class Recursion:
    """Values of actions under S drawn beliefs.

    legacy: acts at levels outside the scope. affine: whether every mechanism is affine, which allows the closed form. masks: by
    level name, which actions would be available in hypothetical rows `[S, n, A]`; without one, all are supposed available.
    """

    problem: Problem
    theta: Theta
    scope: Scope
    legacy: Policy | None = None
    affine: bool = False
    integration: Integration = field(default_factory=Integration)
    masks: Mapping[str, Mask] = field(default_factory=dict)

    def values(self, level: str, states: States) -> Array:
        """Return R^(level) for every action in every state, `[S, n, A]`, larger is better (costs are negated)."""
        actions = self.problem.level(level).actions.count
        wide = states.each_action(self.problem, level)
        child = self.problem.child(level)
        if child is None:
            return self._reward(wide).reshape(self.theta.count, states.count, actions)
        deeper, weights = self.integration.extend(self.problem, self.theta, child.name, wide, self._method(level))
        below = self.values(child.name, deeper)
        if child.name in self.scope:
            best = self._masked(child.name, deeper, below).max(axis=-1)
        else:
            best = np.sum(
                legacy_probabilities(self.problem, self._require_legacy(child.name), child.name, deeper) * below, axis=-1
            )
        nodes = best.reshape(self.theta.count, wide.count, -1)
        return np.sum(weights * nodes, axis=-1).reshape(self.theta.count, states.count, actions)

    def _reward(self, states: States) -> Array:
        """Return E[R | do(a), c~; theta] by forward propagation through f_Y, then f_R (the paper's scm-forward), `[S, n]`."""
        problem, functions = self.problem, self.theta.functions
        reward = functions[problem.reward.column]
        sign = 1.0 if problem.reward.goal == "maximise" else -1.0
        outcome = problem.outcome
        if outcome is None or outcome.name not in functions:
            return sign * self._wide(reward.mean(states.rows, states.count)[..., 0])
        mean = functions[outcome.name].mean(states.rows, states.count)
        if outcome.kind == "categorical":
            total = np.zeros((1, states.count))
            for code in range(outcome.width):
                fixed = states.with_variable(outcome.name, np.full((1, states.count), code))
                total = total + mean[..., code] * reward.mean(fixed.rows, states.count)[..., 0]
            return sign * self._wide(total)
        value = mean if outcome.kind == "vector" else mean[..., 0]
        known = states.with_variable(outcome.name, value)
        noisy = {outcome.name: functions[outcome.name].sd}
        return sign * self._wide(reward.mean(known.rows, states.count, noisy)[..., 0])

    def _wide(self, values: Array) -> Array:
        return np.broadcast_to(values, (self.theta.count, values.shape[-1]))

    def _masked(self, level: str, states: States, values: Array) -> Array:
        mask = self.masks.get(level)
        return values if mask is None else np.where(mask(states.rows), values, -np.inf)

    def _method(self, level: str) -> Method:
        """Return the integration method for the contexts directly below `level`."""
        if self.integration.method != "auto":
            return self.integration.method
        if self._closed_below(level):
            return "closed"
        child = self.problem.child(level)
        numbers = sum(v.width for v in child.context if v.kind != "categorical") if child is not None else 0
        return "quadrature" if numbers <= 1 else "monte_carlo"

    def _closed_below(self, level: str) -> bool:
        """Say whether replacing contexts below `level` by their means is exact.

        True if all mechanisms are affine, no decision below depends on a mask, and every level below is controlled: then no
        context changes the ranking of actions, and the best value is affine in the contexts.
        """
        if not self.affine:
            return False
        child = self.problem.child(level)
        while child is not None:
            if child.name not in self.scope or child.name in self.masks or any(v.kind == "categorical" for v in child.context):
                return False
            child = self.problem.child(child.name)
        return True

    def _require_legacy(self, level: str) -> Policy:
        if self.legacy is None:
            raise SettingError(f"level '{level}' is outside the scope: planning through it needs the legacy policy")
        return self.legacy
