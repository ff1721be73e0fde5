"""What a decision would tell about the mechanisms: the gain in log-determinant of their posterior precision.

A mechanism with posterior precision P learns from one more sample with features phi: P becomes P + phi phi'. After I samples
the determinant has grown by the factor `1 + I phi' P^-1 phi`, in each coordinate of the target. Predictive variances give
the leverage `phi' P^-1 phi` of any mechanism: it is the variance of the mean over the variance of the noise.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from aegis.errors import ModelError, PolicyError
from aegis.mechanisms import Belief, Theta
from aegis.planning.integration import Integration
from aegis.planning.rules import Mask
from aegis.planning.states import States
from aegis.problem import AnyArray, Array, Level

# The logarithm is smooth in the parents it is averaged over, so that a short rule does.
AVERAGE = Integration(nodes=16, samples=128)
BLOCK = 2**16  # hypothetical samples whose features are held at once
TIES = 9  # digits to which scores are compared


@dataclass(frozen=True, slots=True)
class Information:
    """How much each action tells, under a belief.

    point: the posterior mean, which predicts parents that are not yet known. samples: how many samples of the contexts directly
    below follow one decision; with a tempered likelihood, times its power.
    """

    belief: Belief
    point: Theta
    samples: float = 1.0

    def score(self, level: str, states: States) -> Array:
        """Return `[1 or S, n, A]`: sum over mechanisms and target coordinates of `E log(1 + I phi' P^-1 phi)`.

        Above the innermost level the mechanisms are those of the contexts directly below, averaged over contexts of that level
        that are parents of others, and I is `samples`. At the innermost level they are outcome and reward, the reward at the
        predicted outcome (averaged over a categorical one), and I is 1: a decision there has one result. Raises PolicyError if
        there is nothing to learn directly below, or if a context is missing.
        """
        problem = self.belief.problem
        actions, child = problem.level(level).actions.count, problem.child(level)
        ahead = Theta({}, 1) if child is None else self._ahead(child)
        nodes = 1 if child is None else AVERAGE.points(problem, ahead, child.name, _method(child, ahead))
        rows = max(1, BLOCK // (actions * nodes))
        parts = []
        for start in range(0, max(1, states.count), rows):
            wide = states.part(start, start + rows).each_action(problem, level)
            told = self._results(wide) if child is None else self._contexts(level, child, wide, ahead)
            parts.append(told.reshape(len(told), -1, actions))
        scores = np.concatenate(parts, axis=1)
        unknown = ~np.isfinite(scores).all(axis=(0, 2))
        if unknown.any():
            raise PolicyError(
                f"level '{level}', row {int(np.argmax(unknown))}: what an action would tell is not finite ({int(unknown.sum())} "
                "such rows); a context is missing or far too large, so set these rows aside or fill them in"
            )
        return scores

    def _ahead(self, child: Level) -> Theta:
        """Return the predictors of those contexts of `child` that are parents of others there: what is averaged over."""
        own = {variable.name for variable in child.context}
        parents = {parent for name in own & set(self.belief.mechanisms) for parent in self.belief.mechanisms[name].parents}
        return Theta({name: function for name, function in self.point.functions.items() if name in own & parents}, 1)

    def _contexts(self, level: str, child: Level, states: States, ahead: Theta) -> Array:
        learned = [variable.name for variable in child.context if variable.name in self.belief.mechanisms]
        if not learned:
            raise PolicyError(
                f"level '{level}': there is no mechanism of a context of '{child.name}' to learn about, so that no action tells "
                "more than another; use another rule at this level, or a model with such mechanisms"
            )
        deeper, weights = AVERAGE.extend(self.belief.problem, ahead, child.name, states, _method(child, ahead))
        total = np.zeros((1, deeper.count))
        for name in learned:
            total = total + self._gain(name, deeper, self.samples)
        return np.sum(weights * total.reshape(len(total), states.count, weights.shape[-1]), axis=-1)

    def _results(self, states: States) -> Array:
        outcome, reward = self.belief.problem.outcome, self.belief.problem.reward.column
        if outcome is None or outcome.name not in self.belief.mechanisms:
            return self._gain(reward, states, 1.0)
        total = self._gain(outcome.name, states, 1.0)
        if outcome.name not in self.belief.mechanisms[reward].parents:
            return total + self._gain(reward, states, 1.0)
        predicted = self.point.functions[outcome.name].mean(states.rows, states.count)
        if outcome.kind == "categorical":
            for code in range(outcome.width):
                fixed = states.with_variable(outcome.name, np.full((1, states.count), code))
                total = total + predicted[..., code] * self._gain(reward, fixed, 1.0)
            return total
        value = predicted if outcome.kind == "vector" else predicted[..., 0]
        return total + self._gain(reward, states.with_variable(outcome.name, value), 1.0)

    def _gain(self, name: str, states: States, samples: float) -> Array:
        """Return `[1 or S, n]`: the log-determinant gained by one mechanism, all coordinates of its target together."""
        rows = states.only(self.belief.mechanisms[name].parents).rows
        particles = max((values.shape[0] for values in rows.values()), default=1)
        flat = {key: _flat(values, particles) for key, values in rows.items()}
        mean, of_mean, of_value = self.belief.predict(name, flat, particles * states.count)
        if np.isinf(of_value).any():
            raise ModelError(
                f"the predictive variance of '{name}' is infinite: a prior shape of at most 1 has too few data yet; use a prior "
                "shape above 1"
            )
        leverage = of_mean[:, 0] / (of_value - of_mean)[:, 0]  # the same for all coordinates, which share their precision
        return (mean.shape[-1] * np.log1p(samples * leverage)).reshape(particles, states.count)


def comparable(scores: Array, allowed: Mask) -> Array:
    """Return scores `[..., n, A]`, at least 0, as shares of the best allowed one, rounded; -inf where not allowed.

    Actions that tell the same by symmetry differ by rounding alone; it must not decide between them.
    """
    top = np.where(allowed, scores, 0.0).max(axis=-1, keepdims=True)
    return np.where(allowed, np.round(scores / np.where(top > 0, top, 1.0), TIES), -np.inf)


def _method(child: Level, ahead: Theta) -> Literal["quadrature", "monte_carlo"]:
    numbers = sum(v.width for v in child.context if v.kind != "categorical" and v.name in ahead.functions)
    return "quadrature" if numbers <= 1 else "monte_carlo"


def _flat(values: AnyArray, particles: int) -> AnyArray:
    wide = np.broadcast_to(values, (particles, *values.shape[1:]))
    return wide.reshape(particles * values.shape[1], *values.shape[2:])
