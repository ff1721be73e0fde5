"""Estimates that go beside the bounds: unbiased, with a standard error, and never a certificate."""

from __future__ import annotations

import numpy as np

from aegis.certificate.measures import Measure
from aegis.certificate.plain import compared_values, legacy_values, plain_gains, plain_values
from aegis.certificate.robust import nested_gains, scaled_gains
from aegis.certificate.view import View
from aegis.problem import Array, Scope

SERIES = ("gain", "value", "legacy", "incumbent")


def episode_estimates(view: View, scope: Scope, measure: Measure, robust: bool = False) -> Array:
    """Return gain, value, value of the logger and of the comparator of each episode, `[E, 4]`, scaled.

    robust: use the doubly robust term for the gain.
    """
    legacy, incumbent = legacy_values(view, measure), compared_values(view, scope, measure)
    if robust:
        most = view.comparator.ratio(scope)
        if len(scope) > 1 or most is None or view.comparator.others:
            gain = plain_gains(view, scope, measure) if view.comparator.others else nested_gains(view, scope, measure, 1.0)
        else:
            gain = scaled_gains(view, scope, measure, 2.0 * most)
        return np.column_stack([gain, incumbent + gain, legacy, incumbent])
    return np.column_stack([plain_gains(view, scope, measure), plain_values(view, scope, measure), legacy, incumbent])
