"""The direct method, doubly robust and SWITCH: a reward model, corrected by weighted residuals where weights are small enough.

With q(a) the modelled mean reward below an action when the candidate acts further in, the recursion is
`y = 1{W <= threshold} w (mean of y below - q(A)) + sum_a pi(a) q(a)`, w the ratio of the decision, W the product of the ratios
down to it. A threshold of infinity is doubly robust, one of 0 is the direct method. Unlike the doubly robust evidence of a
certificate nothing is cut: these are estimates, and need no range.
"""

from __future__ import annotations

import numpy as np

from aegis.certificate.measures import Measure
from aegis.certificate.units import parent_means
from aegis.certificate.view import View
from aegis.comparison.models import Predictions
from aegis.policies import path_full
from aegis.problem import Array, Scope


def switched(view: View, scope: Scope, measure: Measure, predictions: Predictions, threshold: float) -> Array:
    """Return y `[E]`, the nested means of the recursion from the rewards up to the episodes; a missing reward counts as 0."""
    batch, names = view.batch, list(view.batch.levels)
    reached = _reached(view, scope)
    result = view.observed(measure).low
    for position in range(names.index(view.level or names[0]), -1, -1):
        name = names[position]
        table = batch.levels[name]
        if name in scope:
            chances, predicted = path_full(view, name, batch, scope), predictions.at(view, measure, name)
            rows = np.arange(len(table))
            ratio = chances[rows, table.action] / table.mu_taken
            correction = ratio * (result - predicted[rows, table.action])
            result = np.einsum("na,na->n", chances, predicted) + np.where(reached[name] <= threshold, correction, 0.0)
        size = len(batch) if position == 0 else len(batch.levels[names[position - 1]])
        result = parent_means(table.parent, result, size)
    return result


def _reached(view: View, scope: Scope) -> dict[str, Array]:
    """Return W `[n]`, the product of the in-scope ratios down to each decision and its own, by level in scope."""
    found: dict[str, Array] = {}
    total = np.ones(len(view.batch))
    for name, table in view.batch.levels.items():
        total = total[table.parent]
        if name in scope:
            chances = path_full(view, name, view.batch, scope)
            total = total * chances[np.arange(len(table)), table.action] / table.mu_taken
            found[name] = total
    return found
