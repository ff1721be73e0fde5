"""Water-filled factors of one level in scope: the default wherever the log holds the whole logging distribution.

A unit's factor is the nested mean of its decisions' factors; r is the mean reward below a decision. In certification the
comparator is the logging policy itself. With `carry_over: within` the candidate's probabilities are multiplied by G, the
weight of all earlier in-scope decisions of the episode (theory section 5).
"""

from __future__ import annotations

import numpy as np

from aegis.certificate.measures import Measure
from aegis.certificate.units import nested_means
from aegis.certificate.view import View
from aegis.certificate.weights import carried
from aegis.certificate.within import Within
from aegis.evidence import Choice, Stakes, gain_stakes, inner_factors, outer_stakes, value_stakes, water_filled
from aegis.policies import path_full, sequential_full
from aegis.problem import Array, Scope


def filled_gains(
    view: View, scope: Scope, measure: Measure, bets: Array, widened: float = 1.0, within: Within | None = None
) -> Array:
    """Return the factors `[E, J]` for the gain; `widened` multiplies residuals, to place a grid on data the model has seen.

    within: declared limits of the means below the decisions.
    """
    (level,) = scope
    nu = view.logging(level)
    stakes = gain_stakes(_candidate(view, level, scope), nu, nu)
    return _unit_factors(view, within or Within(level, measure), stakes, nu, bets, widened)


def filled_values(view: View, scope: Scope, measure: Measure, bets: Array, widened: float = 1.0) -> Array:
    """Return the factors `[E, J]` for the value."""
    (level,) = scope
    nu = view.logging(level)
    stakes = value_stakes(_candidate(view, level, scope), nu)
    return _unit_factors(view, Within(level, measure), stakes, nu, bets, widened)


def joint_gains(view: View, scope: Scope, measure: Measure, inner_cap: float, bets: Array, widened: float = 1.0) -> Array:
    """Return the factors `[E, J]` for the gain of a scope of two levels."""
    batch = view.batch
    outer_name, inner_name = (name for name in batch.levels if name in scope)
    outer = _choice(view, outer_name, scope)
    inner = _choice(view, inner_name, scope)
    below = view.predicted(measure, outer_name)
    stakes = outer_stakes(outer, view.predicted_below(measure, outer_name, scope), below, inner_cap, bets)
    rows = batch.ancestors(inner_name)[outer_name]
    candidate, comparator = outer.taken(outer.candidate)[rows], outer.taken(outer.comparator)[rows]
    place = np.arange(len(rows))
    sign = candidate * inner.taken(inner.candidate) - comparator
    predicted = view.predicted(measure, inner_name)
    reward = widen(view.subtree(measure, inner_name).worst(sign), predicted[place, inner.action], widened)
    factors = inner_factors(inner, candidate, comparator, stakes[rows], predicted, reward, bets)
    return nested_means(batch, inner_name, factors)


def _unit_factors(view: View, within: Within, stakes: Stakes, nu: Array, bets: Array, widened: float) -> Array:
    level, action, rows = within.level, view.batch.levels[within.level].action, np.arange(len(nu))
    predicted = within.scaled(view.predicted(within.measure, level))
    reward = within.observed(view.subtree(within.measure, level), view.batch).worst(stakes.weights[rows, action])
    reward = widen(reward, predicted[rows, action], widened)
    return nested_means(view.batch, level, water_filled(stakes, nu, predicted, action, reward, within.width * bets))


def _candidate(view: View, level: str, scope: Scope) -> Array:
    """Return the candidate's distribution `[n, A]`, times the weight of what went before if decisions carry over."""
    if view.problem.carry_over == "none":
        return path_full(view, level, view.batch, scope)
    before = carried(view.problem, view, view.batch, scope, level)
    return before[:, None] * sequential_full(view, level, view.batch, scope)


def _choice(view: View, level: str, scope: Scope) -> Choice:
    nu = view.logging(level)
    return Choice(path_full(view, level, view.batch, scope), nu, nu, view.batch.levels[level].action)


def widen(reward: Array, predicted: Array, factor: float) -> Array:
    """Return rewards `[n]` with their residuals multiplied by a factor, in [0, 1]."""
    return reward if factor == 1.0 else np.clip(predicted + factor * (reward - predicted), 0.0, 1.0)
