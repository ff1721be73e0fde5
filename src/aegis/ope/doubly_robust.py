"""Doubly robust values and gains: a prediction as control variate, cut so that the range stays bounded below.

One level in scope: the control variate is scaled by the largest s(x) <= 1, a function of the context only, that keeps the
result above -c at every action for rewards 0 and 1. Several levels: nested, each level's prediction cut at kappa over the
weight it is multiplied with (theory section 4). Both need the whole logging distribution at the levels in scope.

With a stated incumbent, u = mu/nu (theory section 12): at one level `D = (w - u) r + s [sum (pi - mu) r^ - (w - u) r^_A]`,
which needs a known bound of u. Nested, both sides are estimated: what the candidate earns and what the incumbent fails to
earn, each at least -cut times the number of levels, so that no bound of u is needed.
"""

from __future__ import annotations

import numpy as np

from aegis.ope.candidate_view import CandidateView
from aegis.ope.measure import Measure
from aegis.policies import path_full
from aegis.problem import Array, Scope, nested_means, parent_means


def scaled_gains(view: CandidateView, scope: Scope, measure: Measure, range_below: float) -> Array:
    """Return D `[E]` >= -range_below for a scope of one level."""
    (level,) = scope
    return _scaled(view, scope, measure, range_below, view.comparing(level))


def scaled_values(view: CandidateView, scope: Scope, measure: Measure, range_below: float) -> Array:
    """Return L `[E]` >= -range_below for a scope of one level: the gain over earning nothing."""
    return _scaled(view, scope, measure, range_below, np.zeros(1))


def _scaled(view: CandidateView, scope: Scope, measure: Measure, range_below: float, mu: Array) -> Array:
    (level,) = scope
    ratio, nu, pi = _ratios(view, level, scope)
    own = 1.0 if mu is nu else np.where(nu > 0, mu / np.where(nu > 0, nu, 1.0), 0.0)
    predicted = view.predicted(measure, level)
    mean = np.where(nu > 0, (pi - mu) * predicted, 0.0).sum(axis=1)
    control = np.where(nu > 0, mean[:, None] - (ratio - own) * predicted, 0.0)
    scale = _largest_scale(control, range_below + np.minimum(ratio - own, 0.0), nu)
    rows, action = np.arange(len(nu)), view.batch.levels[level].action
    surplus = (ratio - own)[rows, action]
    reward = view.subtree(measure, level).worst(surplus)
    return nested_means(view.batch, level, surplus * reward + scale * control[rows, action])


def nested_values(view: CandidateView, scope: Scope, measure: Measure, cut: float) -> Array:
    """Return y_L `[E]` >= -cut times the number of levels in scope.

    `y_l = w_l (mean y_(l-1) - h_l(A)) + sum_a pi_l h_l`, `h_l(a) = min(r^, cut / (w_l(a) prod of the weights above))`, h = 0
    where nothing was logged. A missing reward counts as 0.
    """
    return _nested(view, scope, view.observed(measure).low, measure, cut)


def nested_gains(view: CandidateView, scope: Scope, measure: Measure, cut: float) -> Array:
    """Return y_L - mean r `[E]` >= -(1 + cut times the number of levels in scope).

    Against a stated incumbent: y_L of the candidate plus y_L of what the incumbent fails to earn, minus 1; twice the levels.
    """
    incumbent = view.against(scope)
    if incumbent is not None:
        reward = view.observed(measure).worst(view.node_weights(scope) - incumbent.node_weights(scope))
        earned = _nested(view, scope, reward, measure, cut)
        return earned + _nested(incumbent, scope, 1.0 - reward, measure, cut, failing=True) - 1.0
    reward = view.observed(measure).worst(view.node_weights(scope) - 1.0)
    legacy = nested_means(view.batch, view.level, reward)
    return _nested(view, scope, reward, measure, cut) - legacy


def nested_shortfalls(view: CandidateView, scope: Scope, measure: Measure, cut: float) -> Array:
    """Return y_L of 1 - r `[E]`: what a policy fails to earn, nothing where the log never acts. A missing reward counts as 0."""
    return _nested(view, scope, 1.0 - view.observed(measure).low, measure, cut, failing=True)


def _nested(view: CandidateView, scope: Scope, reward: Array, measure: Measure, cut: float, failing: bool = False) -> Array:
    """Return y_L `[E]` of rewards `[m]`; failing: they are 1 - r, and so are their predictions."""
    batch = view.batch
    names = list(batch.levels)
    above = _weights_above(view, scope)
    result = reward
    start = names.index(view.level) if view.level is not None else 0
    for position in range(start, -1, -1):
        name = names[position]
        if name in scope:
            ratio, nu, pi = _ratios(view, name, scope)
            with np.errstate(divide="ignore"):
                limit = cut / (ratio * above[name][:, None])
            predicted = view.predicted(measure, name)
            held = np.where(nu > 0, np.minimum(1.0 - predicted if failing else predicted, limit), 0.0)
            rows, action = np.arange(len(nu)), batch.levels[name].action
            result = ratio[rows, action] * (result - held[rows, action]) + (pi * held).sum(axis=1)
        size = len(batch) if position == 0 else len(batch.levels[names[position - 1]])
        result = parent_means(batch.levels[name].parent, result, size)
    return result


def _weights_above(view: CandidateView, scope: Scope) -> dict[str, Array]:
    """Return the product `[n]` of the in-scope ratios strictly above each decision, by level."""
    products: dict[str, Array] = {}
    total = np.ones(len(view.batch))
    for name, table in view.batch.levels.items():
        products[name] = total[table.parent]
        total = products[name]
        if name in scope:
            ratio, _, _ = _ratios(view, name, scope)
            total = total * ratio[np.arange(len(table)), table.action]
    return products


def _ratios(view: CandidateView, level: str, scope: Scope) -> tuple[Array, Array, Array]:
    """Return w `[n, A]` (0 where nothing was logged), nu and pi `[n, A]`, the candidate given its actions above."""
    nu = view.logging(level)
    pi = path_full(view, level, view.batch, scope)
    return np.where(nu > 0, pi / np.where(nu > 0, nu, 1.0), 0.0), nu, pi


def _largest_scale(control: Array, slack: Array, nu: Array) -> Array:
    """Return the largest s `[n]` in [0, 1] with s control >= -slack at every logged action."""
    falls = (nu > 0) & (control < 0)
    ratio = np.where(falls, slack / np.where(falls, -control, 1.0), 1.0)
    return np.clip(ratio.min(axis=1), 0.0, 1.0) * (1.0 - 1e-12)
