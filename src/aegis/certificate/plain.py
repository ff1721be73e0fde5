"""Plain values and paired gains: they need nothing but the probability of the action taken.

With w = pi/nu and u = mu/nu along the path of a reward (theory sections 1, 5 and 12):

- value `L = nested mean of w r`, at least 0;
- gain `D = nested mean of (w - u) r`, at least -sup u. Where the comparator is the logger u = 1;
- both sides `X = nested mean of w r + u (1 - r)`, at least 0, with a mean of at most 1 + gain. It needs no bound on u: what mu
  does where nu never acts drops out of the second term as if it had earned 1, the worst for the candidate.
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
    """Return D `[E]`; a missing reward counts as what hurts: 0 where w exceeds u, 1 where it is below."""
    deployed, wide = view.compared(scope)
    seen = view.observed(measure)
    # Where all rewards of a unit are known, a mean of differences is the difference of means.
    known = plain_values(deployed, wide, measure) - compared_values(view, scope, measure)
    if seen.low is seen.high:
        return known
    level = deployed.carrier(wide)

    def nodes() -> Array:
        surplus = deployed.carrier_weights(wide) - _ratios(view, wide)
        return surplus * view.below(measure, level).worst(surplus)

    # Unit by unit: what a batch holds beside a unit makes no difference to it, not even in the last digit.
    missing = view.series(("missing", measure), lambda: (seen.low != seen.high).astype(np.float64), view.level)
    return np.where(missing > 0, view.series(("gain", scope, measure), nodes, level), known)


def both_sides(view: View, scope: Scope, measure: Measure) -> Array:
    """Return X `[E]`: what the candidate earns plus what the comparator fails to earn; missing rewards count as what hurts."""
    deployed, wide = view.compared(scope)
    level = deployed.carrier(wide)

    def nodes() -> Array:
        w, u = deployed.carrier_weights(wide), _ratios(view, wide)
        reward = view.below(measure, level).worst(w - u)
        return w * reward + u * (1.0 - reward)

    return view.series(("both sides", scope, measure), nodes, level)


def unearned(view: View, scope: Scope, measure: Measure) -> Array:
    """Return the nested mean `[E]` of `w (1 - r)`: what a policy fails to earn, nothing where the log never acts."""
    level = view.carrier(scope)
    return view.series(
        ("unearned", scope, measure), lambda: view.carrier_weights(scope) * (1.0 - view.below(measure, level).low), level
    )


def compared_values(view: View, scope: Scope, measure: Measure) -> Array:
    """Return `[E]`: an estimate of what the comparator earns, `u r`; what the units earned where that is the logger."""
    _, wide = view.compared(scope)
    found = view.against(wide)
    return legacy_values(view, measure) if found is None else plain_values(found, wide, measure)


def legacy_values(view: View, measure: Measure) -> Array:
    """Return `[E]`: what the units earned, missing rewards counted as the worst."""
    return view.series(("legacy", measure), lambda: view.observed(measure).low, view.level)


def _ratios(view: View, scope: Scope) -> Array:
    """Return u `[n]` at the nodes of the carrier of a scope; 1 where the comparator is the logger."""
    found = view.against(scope)
    return np.ones(1) if found is None else found.carrier_weights(scope)
