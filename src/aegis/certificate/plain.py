"""Plain values and paired gains: they need nothing but the probability of the action taken.

Value `L = nested mean of w r`, at least 0. Gain `D = nested mean of (w - 1) r`, at least -1 (theory sections 1 and 5).
"""

from __future__ import annotations

import numpy as np

from aegis.certificate.measures import Measure
from aegis.certificate.view import View
from aegis.problem import Array, Scope


def plain_values(view: View, scope: Scope, measure: Measure) -> Array:
    """Return L `[E]`; a missing reward counts as the worst, 0."""
    level = view.carrier(scope)
    return view.series(("value", scope, measure), lambda: view.carrier_weights(scope) * view.below(measure, level).low, level)


def plain_gains(view: View, scope: Scope, measure: Measure) -> Array:
    """Return D `[E]`; a missing reward counts as what hurts: 0 where the weight is above one, 1 where it is below."""
    seen = view.observed(measure)
    # Where all rewards of a unit are known, a mean of differences is the difference of means.
    known = plain_values(view, scope, measure) - legacy_values(view, measure)
    if seen.low is seen.high:
        return known
    level = view.carrier(scope)

    def nodes() -> Array:
        surplus = view.carrier_weights(scope) - 1.0
        return surplus * view.below(measure, level).worst(surplus)

    # Unit by unit: what a batch holds beside a unit makes no difference to it, not even in the last digit.
    missing = view.series(("missing", measure), lambda: (seen.low != seen.high).astype(np.float64), view.level)
    return np.where(missing > 0, view.series(("gain", scope, measure), nodes, level), known)


def legacy_values(view: View, measure: Measure) -> Array:
    """Return `[E]`: what the units earned, missing rewards counted as the worst."""
    return view.series(("legacy", measure), lambda: view.observed(measure).low, view.level)
