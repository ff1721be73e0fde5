"""Plain (importance-weighted) values and paired gains of episodes, and the estimates that go beside the bounds.

With w = pi/nu and u = mu/nu along the path of a reward (theory sections 1, 5 and 12):

- value `L = nested mean of w r`, at least 0;
- gain `D = nested mean of (w - u) r`, at least -sup u. Where the comparator is the logger u = 1;
- both sides `X = nested mean of w r + u (1 - r)`, at least 0, with a mean of at most 1 + gain. It needs no bound on u: what
  mu does where nu never acts drops out of the second term as if it had earned 1, the worst for the candidate.

The estimates treat what the log never shows as the bounds do: a candidate earns nothing there, a stated incumbent the most.
So do missing rewards in a gain. Elsewhere they are unbiased. The value of the candidate does not depend on its comparator, nor
that of the incumbent on the candidate, and the gain is their difference.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from aegis.ope.candidate_view import CandidateView
from aegis.ope.doubly_robust import nested_gains, nested_shortfalls, scaled_gains
from aegis.ope.measure import Measure
from aegis.problem import Array, Scope


def plain_values(view: CandidateView, scope: Scope, measure: Measure) -> Array:
    """Return L `[E]`; a missing reward counts as the worst, 0."""
    level = view.carrier(scope)
    return view.series(("value", scope, measure), lambda: view.carrier_weights(scope) * view.below(measure, level).low, level)


def plain_gains(view: CandidateView, scope: Scope, measure: Measure) -> Array:
    """Return D `[E]`; a missing reward counts as what hurts: 0 where w exceeds u, 1 where it is below."""
    deployed, wide = view.compared(scope)
    level = deployed.carrier(wide)

    def nodes() -> Array:
        surplus = deployed.carrier_weights(wide) - _ratios(view, wide)
        return surplus * view.below(measure, level).worst(surplus)

    # Where all rewards of a unit are known, a mean of differences is the difference of means.
    known = plain_values(deployed, wide, measure) - comparator_values(view, scope, measure)
    return _where_missing(view, measure, lambda: view.series(("gain", scope, measure), nodes, level), known)


def _where_missing(view: CandidateView, measure: Measure, worst: Callable[[], Array], known: Array) -> Array:
    """Return `known` `[E]` where all rewards of an episode are, elsewhere the worst case.

    Unit by unit: what a batch holds beside a unit makes no difference to it, not even in the last digit.
    """
    reward = view.observed(measure)
    if reward.low is reward.high:
        return known
    missing = view.series(("missing", measure), lambda: (reward.low != reward.high).astype(np.float64), view.level)
    return np.where(missing > 0, worst(), known)


def both_sides(view: CandidateView, scope: Scope, measure: Measure) -> Array:
    """Return X `[E]`: what the candidate earns plus what the comparator fails to earn; missing rewards count as what hurts."""
    deployed, wide = view.compared(scope)
    level = deployed.carrier(wide)

    def nodes() -> Array:
        w, u = deployed.carrier_weights(wide), _ratios(view, wide)
        reward = view.below(measure, level).worst(w - u)
        return w * reward + u * (1.0 - reward)

    return view.series(("both sides", scope, measure), nodes, level)


def unearned_values(view: CandidateView, scope: Scope, measure: Measure) -> Array:
    """Return the nested mean `[E]` of `w (1 - r)`: what a policy fails to earn, nothing where the log never acts."""
    level = view.carrier(scope)
    return view.series(
        ("unearned", scope, measure), lambda: view.carrier_weights(scope) * (1.0 - view.below(measure, level).low), level
    )


def comparator_values(view: CandidateView, scope: Scope, measure: Measure) -> Array:
    """Return `[E]`: an estimate of what the comparator earns, `u r`; what the units earned where that is the logger."""
    _, wide = view.compared(scope)
    incumbent = view.against(wide)
    return legacy_values(view, measure) if incumbent is None else plain_values(incumbent, wide, measure)


def legacy_values(view: CandidateView, measure: Measure) -> Array:
    """Return `[E]`: what the units earned, missing rewards counted as the worst."""
    return view.series(("legacy", measure), lambda: view.observed(measure).low, view.level)


def _ratios(view: CandidateView, scope: Scope) -> Array:
    """Return u `[n]` at the nodes of the carrier of a scope; 1 where the comparator is the logger."""
    incumbent = view.against(scope)
    return np.ones(1) if incumbent is None else incumbent.carrier_weights(scope)


# The estimates of a scope.
ESTIMATE_SERIES = ("gain", "value", "legacy", "incumbent")

ESTIMATE_CUT, ESTIMATE_RANGE = 1.0, 2.0  # of the doubly robust terms


def episode_estimates(view: CandidateView, scope: Scope, measure: Measure, robust: bool = False, sides: bool = False) -> Array:
    """Return gain, value, value of the logger and of the comparator of each episode, `[E, 4]`, scaled.

    robust: use the doubly robust term. sides: the bound estimates both sides, though the largest mu/nu is known.
    """
    legacy = legacy_values(view, measure)
    deployed, wide = view.compared(scope)
    compared = view.against(wide)
    if robust and wide == scope:
        over_log = view.over_log()
        if len(scope) == 1:
            gain = scaled_gains(over_log, scope, measure, ESTIMATE_RANGE)
        else:
            gain = nested_gains(over_log, scope, measure, ESTIMATE_CUT)
        value = legacy + gain
        if compared is None:
            return np.column_stack([gain, value, legacy, legacy])
        incumbent = 1.0 - nested_shortfalls(compared, scope, measure, ESTIMATE_CUT)
        gain = _where_missing(view, measure, lambda: nested_gains(view, scope, measure, ESTIMATE_CUT), value - incumbent)
        return np.column_stack([gain, value, legacy, incumbent])
    value = plain_values(deployed, wide, measure)
    if compared is not None and (sides or view.comparator.ratio(wide) is None):
        gain, incumbent = both_sides(view, scope, measure) - 1.0, 1.0 - unearned_values(compared, wide, measure)
    else:
        gain, incumbent = plain_gains(view, scope, measure), comparator_values(view, scope, measure)
    return np.column_stack([gain, value, legacy, incumbent])
