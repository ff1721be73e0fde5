"""The recursive value function (the paper's R-recursion) for any number of levels and any scope.

`R^(l)(a, c~)` is the expected reward below a level-l decision. Equal decisions are planned once, the others in blocks that
fit into memory.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from aegis.errors import SettingError
from aegis.mechanisms import MechanismDraw, RegressionDraw, StackedDraw, Theta, availability_name
from aegis.planning.integration import Integration, Method
from aegis.planning.states import States, legacy_probabilities
from aegis.problem import Array, Bools, Policy, Problem, Rows, Scope

# Hypothetical innermost decisions, times particles, that are held at once: with many levels or actions one state alone unfolds
# into more. Runs in lockstep are planned together up to 2^18 of them, a run alone beyond, so that both are cut alike.
AT_ONCE = 2**20


@dataclass(frozen=True, slots=True)
class Recursion:
    """Values of actions under S drawn beliefs.

    legacy: acts at levels outside the scope. affine: whether every mechanism is affine, which allows the closed form.
    """

    problem: Problem
    theta: Theta
    scope: Scope
    legacy: Policy | None = None
    affine: bool = False
    integration: Integration = field(default_factory=Integration)

    def values(self, level: str, states: States) -> Array:
        """Return R^(level) for every action in every state, `[S, n, A]`, larger is better (costs are negated)."""
        child = self.problem.child(level)
        if child is None:
            return self._rewards(states)
        actions = self.problem.level(level).actions.count
        wide = states.each_action(self.problem, level)
        step = max(1, AT_ONCE * actions // (self.size(level) * self.theta.count))
        parts = [self._ahead(level, child.name, wide.part(i, i + step)) for i in range(0, max(1, wide.count), step)]
        values = parts[0] if len(parts) == 1 else np.concatenate(parts, axis=1)
        return values.reshape(self.theta.count, states.count, actions)

    def _ahead(self, level: str, child: str, decided: States) -> Array:
        """Return what is ahead of decided states at `level`, `[S, n]`: over the contexts of its child, the value there."""
        deeper, weights = self.integration.extend(self.problem, self.theta, child, decided, self._method(level))
        below = self.values(child, deeper)
        if child in self.scope:
            best = self._best(child, deeper, below)
        else:
            if self.legacy is None:
                raise SettingError(f"level '{child}' is outside the scope: planning through it needs the legacy policy")
            learned = self.theta.functions.get(availability_name(child))
            mask = None if learned is None else predict_open_actions(learned, deeper.rows, deeper.count)
            chances = legacy_probabilities(self.problem, self.legacy, child, deeper, self.scope, mask)
            best = np.sum(chances * below, axis=-1)
        nodes = best.reshape(self.theta.count, decided.count, weights.shape[-1])
        return np.sum(weights * nodes, axis=-1)

    def size(self, level: str) -> int:
        """Return how many hypothetical innermost decisions one state at `level` unfolds into."""
        actions = self.problem.level(level).actions.count
        child = self.problem.child(level)
        if child is None:
            return actions
        nodes = self.integration.points(self.problem, self.theta, child.name, self._method(level))
        return actions * nodes * self.size(child.name)

    def _rewards(self, states: States) -> Array:
        """Return E[R | do(a), c~; theta] for every innermost action, `[S, n, A]` (the paper's scm-forward).

        Forward propagation: f_Y at every action, then f_R at that outcome, its noise integrated in closed form.
        """
        problem, functions = self.problem, self.theta.functions
        reward, outcome = functions[problem.reward.column], problem.outcome
        if outcome is None or outcome.name not in functions:
            return self._signed(self._each(reward, states)[..., 0])
        actions = problem.innermost.actions
        count = states.count * actions.count
        mean = self._each(functions[outcome.name], states)
        mean = mean.reshape(len(mean), count, mean.shape[-1])
        rows = {name: np.repeat(states.rows[name], actions.count, axis=1) for name in reward.parents if name in states.rows}
        if actions.column in reward.parents:
            rows[actions.column] = np.tile(actions.as_rows(np.arange(actions.count)), states.count)[None]
        if outcome.kind == "categorical":
            values = np.zeros((1, count))
            for code in range(outcome.width):
                fixed = {**rows, outcome.name: np.full((1, count), code)}
                values = values + mean[..., code] * reward.mean(fixed, count)[..., 0]
        else:
            known = {**rows, outcome.name: mean if outcome.kind == "vector" else mean[..., 0]}
            values = reward.mean(known, count, {outcome.name: functions[outcome.name].sd})[..., 0]
        every = (self.theta.count, count)
        return self._signed(np.broadcast_to(values, every).reshape(self.theta.count, states.count, actions.count))

    def _signed(self, rewards: Array) -> Array:
        return rewards if self.problem.reward.goal == "maximise" else -rewards

    def _each(self, function: MechanismDraw, states: States) -> Array:
        """Return a mechanism's mean for every innermost action, `[S, n, A, q]`."""
        actions = self.problem.innermost.actions
        if actions.column in function.parents:
            return function.mean_each(states.rows, states.count, actions.column, actions.as_rows(np.arange(actions.count)))
        mean = function.mean(states.rows, states.count)
        return np.broadcast_to(mean[:, :, None], (self.theta.count, states.count, actions.count, mean.shape[-1]))

    def _best(self, level: str, states: States, values: Array) -> Array:
        """Return what a controlled decision is worth `[S, n]`: its best open action, on average over what may be open."""
        learned = self.theta.functions.get(availability_name(level))
        if learned is None:
            return np.asarray(values.max(axis=-1))
        return expected_best(values, predict_open_probabilities(learned, states.rows, states.count))

    def _method(self, level: str) -> Method:
        """Return the integration method for the contexts directly below `level`."""
        exact = self._closed_below(level)
        if self.integration.method == "closed" and not exact:
            raise SettingError(
                f"below level '{level}' the closed form is not exact: it needs affine mechanisms, every level controlled, and no "
                "masks or categorical contexts; use 'auto', 'quadrature' or 'monte_carlo'"
            )
        if self.integration.method != "auto":
            return self.integration.method
        if exact:
            return "closed"
        child = self.problem.child(level)
        numbers = sum(v.width for v in child.context if v.kind != "categorical") if child is not None else 0
        return "quadrature" if numbers <= 1 else "monte_carlo"

    def _closed_below(self, level: str) -> bool:
        """Return whether replacing contexts below `level` by their means is exact.

        True if all mechanisms are affine, no decision below depends on a mask, and every level below is controlled: then no
        context changes the ranking of actions, and the best value is affine in the contexts.
        """
        if not self.affine:
            return False
        child = self.problem.child(level)
        while child is not None:
            if child.name not in self.scope or child.masked or any(v.kind == "categorical" for v in child.context):
                return False
            child = self.problem.child(child.name)
        return True


CLOSED_THRESHOLD = 0.5


def predict_open_actions(function: MechanismDraw, rows: Rows, count: int) -> Bools:
    """Return which actions a drawn belief expects to be open, `[S, n, A]`; where it expects none, the likeliest one."""
    closed = function.mean(rows, count)
    return (closed < CLOSED_THRESHOLD) | (closed == closed.min(axis=-1, keepdims=True))


def predict_open_probabilities(function: MechanismDraw, rows: Rows, count: int) -> Array:
    """Return the probability under a drawn belief that each action will be open, `[S, n, A]`; one of them above 0."""
    chances = 1.0 - np.clip(function.mean(rows, count), 0.0, 1.0)
    none = chances.max(axis=-1, keepdims=True) <= 0
    return np.where(none, 1.0, chances)


def expected_best(values: Array, chances: Array) -> Array:
    """Return E[best open action] `[S, n]` for values `[S, n, A]` when actions open independently, given that one is open.

    Sorted from the best down, action k is the one taken if it is open and all better ones are closed.
    """
    order = np.argsort(-values, axis=-1, kind="stable")
    ranked = np.take_along_axis(np.broadcast_to(chances, values.shape), order, axis=-1)
    all_better_closed = np.cumprod(1.0 - ranked, axis=-1)
    reach = np.concatenate([np.ones((*values.shape[:-1], 1)), all_better_closed[..., :-1]], axis=-1) * ranked
    total = np.sum(reach * np.take_along_axis(values, order, axis=-1), axis=-1)
    return total / reach.sum(axis=-1)


BLOCK = 2**25  # features of hypothetical decisions, times particles, that are held in memory at once

DISTINCT_FROM = 64  # decisions from which equal ones are looked for


def values_in_blocks(recursion: Recursion, level: str, states: States, block: int = BLOCK) -> Array:
    """Return `recursion.values`, `[S, n, A]`, with at most about `block` features in memory."""
    # Innermost decisions unfold into nothing: planning them costs no more than comparing them.
    if states.count >= DISTINCT_FROM and recursion.problem.child(level) is not None:
        some, places = distinct_states(states)
        if some.count < states.count:
            return values_in_blocks(recursion, level, some, block)[:, places]
    rows = max(1, block // (recursion.size(level) * recursion.theta.count * largest_feature_count(recursion.theta)))
    parts = [recursion.values(level, states.part(i, i + rows)) for i in range(0, max(1, states.count), rows)]
    return parts[0] if len(parts) == 1 else np.concatenate(parts, axis=1)


def distinct_states(states: States) -> tuple[States, npt.NDArray[np.int64]]:
    """Return the states that differ from each other, in order of first appearance, and which of them each state is, `[n]`.

    States on which particles disagree are taken as they are.
    """
    columns = [*states.rows.values(), *states.index.values()]
    if not columns or any(len(column) > 1 for column in columns):
        return states, np.arange(states.count)
    numbers = [column[0].reshape(states.count, -1).astype(np.float64) for column in columns]
    table = np.concatenate(numbers, axis=1) + 0.0  # makes -0 the same as 0
    _, first, places = np.unique(table, axis=0, return_index=True, return_inverse=True)
    order = np.argsort(first)
    rank = np.empty_like(order)
    rank[order] = np.arange(order.size)
    return states.change(lambda values: values[:, first[order]], order.size), rank[places.reshape(-1)]


def largest_feature_count(theta: Theta) -> int:
    """Return the largest number of features of a drawn regression; a table has one."""
    regressions = [drawn for drawn in theta.functions.values() if isinstance(drawn, RegressionDraw | StackedDraw)]
    weights = [drawn.drawn.weights if isinstance(drawn, RegressionDraw) else drawn.weights for drawn in regressions]
    return max((drawn_weights.shape[1] for drawn_weights in weights), default=1)
