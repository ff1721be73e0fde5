"""Estimates that go beside the bounds: unbiased, with a standard error, and never a certificate."""

from __future__ import annotations

import numpy as np

from aegis.certificate.measures import Measure
from aegis.certificate.plain import legacy_values, plain_gains, plain_values
from aegis.certificate.robust import nested_gains, scaled_gains
from aegis.certificate.view import View
from aegis.problem import Array, Scope

SERIES = ("gain", "value", "legacy")


def episode_estimates(view: View, scope: Scope, measure: Measure, robust: bool = False) -> Array:
    """Return gain, value and legacy value of each episode, `[E, 3]`, scaled. robust: use the doubly robust term for the gain."""
    legacy = legacy_values(view, measure)
    if robust:
        gain = scaled_gains(view, scope, measure, 2.0) if len(scope) == 1 else nested_gains(view, scope, measure, 1.0)
        return np.column_stack([gain, legacy + gain, legacy])
    return np.column_stack([plain_gains(view, scope, measure), plain_values(view, scope, measure), legacy])
