"""Estimates that go beside the bounds, with a standard error, and never a certificate.

They count what the log never shows as the bounds do: a candidate earns nothing there, a stated incumbent the most. So do missing
rewards in a gain. Elsewhere they are unbiased. The value of the candidate does not depend on its comparator, nor that of the
incumbent on the candidate, and the gain is their difference.
"""

from __future__ import annotations

import numpy as np

from aegis.certificate.measures import Measure
from aegis.certificate.plain import both_sides, compared_values, legacy_values, plain_gains, plain_values, unearned
from aegis.certificate.robust import nested_failures, nested_gains, scaled_gains
from aegis.certificate.view import View
from aegis.problem import Array, Scope

SERIES = ("gain", "value", "legacy", "incumbent")
CUT, RANGE = 1.0, 2.0  # of the doubly robust terms


def episode_estimates(view: View, scope: Scope, measure: Measure, robust: bool = False, sides: bool = False) -> Array:
    """Return gain, value, value of the logger and of the comparator of each episode, `[E, 4]`, scaled.

    robust: use the doubly robust term. sides: the bound estimates both sides, though the largest mu/nu is known.
    """
    legacy = legacy_values(view, measure)
    deployed, wide = view.compared(scope)
    found = view.against(wide)
    if robust and wide == scope:
        gain = _over_log(view.over_log(), scope, measure)
        value = legacy + gain
        if found is None:
            return np.column_stack([gain, value, legacy, legacy])
        incumbent = 1.0 - nested_failures(found, scope, measure, CUT)
        return np.column_stack([_gain(view, scope, measure, value - incumbent), value, legacy, incumbent])
    value = plain_values(deployed, wide, measure)
    if found is not None and (sides or view.comparator.ratio(wide) is None):
        gain, incumbent = both_sides(view, scope, measure) - 1.0, 1.0 - unearned(found, wide, measure)
    else:
        gain, incumbent = plain_gains(view, scope, measure), compared_values(view, scope, measure)
    return np.column_stack([gain, value, legacy, incumbent])


def _over_log(view: View, scope: Scope, measure: Measure) -> Array:
    """Return the doubly robust gain `[E]` over the logger."""
    return scaled_gains(view, scope, measure, RANGE) if len(scope) == 1 else nested_gains(view, scope, measure, CUT)


def _gain(view: View, scope: Scope, measure: Measure, known: Array) -> Array:
    """Return gains `[E]`: `known` where all rewards of an episode are, elsewhere with the rewards that hurt."""
    seen = view.observed(measure)
    if seen.low is seen.high:
        return known
    missing = view.series(("missing", measure), lambda: (seen.low != seen.high).astype(np.float64), view.level)
    return np.where(missing > 0, nested_gains(view, scope, measure, CUT), known)
