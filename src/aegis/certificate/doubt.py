"""Logged probabilities that may be wrong: what every unit contributes if each is wrong by a factor of up to Gamma.

nu was logged and nu' true, `nu / Gamma <= nu' <= min(1, Gamma nu)` at the levels in doubt (theory section 7).

- Plain: with `w = product of pi / min(1, Gamma nu)`, which is at most the true weight, the nested mean of (w - 1) r has a mean of
  at most the true gain and is at least -1, like any plain gain. It needs no more than the propensities of the actions taken, and
  holds unit by unit: it does not matter on which data the propensities were fitted.
- Water-filled, one level: see `aegis.evidence.doubted`. It is about means given the context, so that propensities must be fitted
  on other data.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from aegis.certificate.filled import widen
from aegis.certificate.measures import Measure
from aegis.certificate.units import nested_means
from aegis.certificate.view import View
from aegis.certificate.weights import carried
from aegis.evidence import doubted_compared, doubted_filled, least_weights
from aegis.policies import path_full, sequential_full
from aegis.problem import Array, Batch, LevelTable, Problem, Scope

ROUNDING = 1e-14  # of sums of a few probabilities


@dataclass(frozen=True, slots=True)
class AsLogged:
    """A candidate that answers as it did on the log as it is: what it does may depend on what was logged."""

    view: View

    @property
    def weights(self) -> Array:
        """Return the particle weights `[S]`."""
        return self.view.weights

    def taken(self, level: str, batch: Batch) -> Array:
        """Return `[S, n]`."""
        return self.view.taken(level, self.view.batch)

    def full(self, level: str, batch: Batch) -> Array:
        """Return `[S, n, A]`."""
        return self.view.full(level, self.view.batch)


def doubted(view: View, factors: Mapping[str, float]) -> View:
    """Return the view with `min(1, factor nu)` as the propensities of the actions taken: its weights are the least; made once.

    A density may exceed 1, so that it is multiplied by the factor alone.

    factors: by level; levels without one stay as they are, and so does the view if there are none.
    """
    if not factors:
        return view
    key = tuple(sorted(factors.items()))
    if key not in view._doubted:
        levels = {
            name: replace(table, mu_taken=_largest(view.problem, name, table, factors[name])) if name in factors else table
            for name, table in view.batch.levels.items()
        }
        # Rewards, predictions and who is whose sibling stay what they are; weights, and what was made of them, do not.
        view._doubted[key] = replace(
            view,
            batch=replace(view.batch, levels=levels),
            policy=AsLogged(view),
            _taken={},
            _full={},
            _weights={},
            _series={},
            _doubted={},
            _known={},
            _against={},
        )
    return view._doubted[key]


def _largest(problem: Problem, level: str, table: LevelTable, factor: float) -> Array:
    """Return the largest propensity `[n]` that is possible within a factor."""
    found = factor * table.mu_taken
    return found if problem.level(level).actions.continuous else np.minimum(1.0, found)


def doubted_gains(
    view: View,
    scope: Scope,
    measure: Measure,
    bets: Array,
    factor: float,
    chances: Array | None = None,
    widened: float = 1.0,
) -> Array:
    """Return the water-filled factors `[E, J]` for the gain at a scope of one level, valid within a factor.

    chances `[n, A]`: the candidate's distribution there, if it has been asked. If decisions carry over it is multiplied by the
    least weight of what went before. widened: see `filled_gains`.
    """
    (level,) = scope
    chances = chances_at(view, scope) if chances is None else chances
    nu, action = view.logging(level), view.batch.levels[level].action
    compared = view.against(scope)
    if compared is not None:
        mu, predicted, rows = view.comparing(level), view.predicted(measure, level), np.arange(len(nu))
        reward = view.subtree(measure, level).worst((chances - mu)[rows, action])
        reward = widen(reward, predicted[rows, action], widened)
        return nested_means(view.batch, level, doubted_compared(chances, mu, nu, predicted, action, reward, bets, factor))
    if view.problem.carry_over != "none":
        lowered = doubted(view, {level: factor})
        chances = carried(view.problem, lowered, lowered.batch, scope, level)[:, None] * chances
    least = least_weights(chances, nu, factor)
    predicted, rows = view.predicted(measure, level), np.arange(len(nu))
    reward = view.subtree(measure, level).worst(least[rows, action] - 1.0)
    reward = widen(reward, predicted[rows, action], widened)
    return nested_means(view.batch, level, doubted_filled(least, nu, predicted, action, reward, bets, factor))


def chances_at(view: View, scope: Scope) -> Array:
    """Return the candidate's distribution `[n, A]` at the one level in scope."""
    (level,) = scope
    choice = path_full if view.problem.carry_over == "none" else sequential_full
    return choice(view, level, view.batch, scope)


def largest_gain(cap: float, factors: Mapping[str, float]) -> float:
    """Return T_max of the bets at one level: no gain is larger, and a candidate that keeps its cap can afford every bet.

    pi <= W nu <= W G nu', so that no gain exceeds `T = 1 - 1/(W G)`, and with w the least weights `sum nu (1 - w)^+ <= T` too.
    With a share C of a bet, (*) of `aegis.evidence.doubted` asks of the least stakes `b = (1 - w)^+` in [0, 1] that
    `sum nu b + (G^2 - 1) sum nu (b - C)^+ <= C`. As (b - C)^+ <= b (1 - C), `T + (G^2 - 1) T (1 - C) <= C` is enough, which is
    `C >= T G^2 / (1 + T (G^2 - 1)) >= T`.
    """
    (factor,) = factors.values()
    most, square = 1.0 - 1.0 / (cap * factor), factor * factor
    # A candidate may be so close to the legacy that rounding matters; a larger T is as valid.
    return min(1.0, most * square / (1.0 + most * (square - 1.0)) + ROUNDING) if most > 0 else 0.0
