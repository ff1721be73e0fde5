"""The methods by which a claim is tested (water-filled, doubly robust, plain): what each computes per episode, how it is lifted
to be at least 0, and where it applies.

A claim's evidence is one part or the average of several. All are fixed before AEGIS opens the certified units.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial

from aegis.evidence import InnerLimits
from aegis.ope import (
    LOGGER_COMPARATOR,
    CandidateView,
    Closeness,
    Comparator,
    Measure,
    both_sides,
    corrected_gains,
    filled_gains,
    filled_gains_within_error,
    filled_values,
    joint_gains,
    largest_gain_within_error,
    mean_range_of,
    nested_gains,
    nested_values,
    plain_gains,
    plain_values,
    scaled_gains,
    scaled_values,
    with_least_weights,
)
from aegis.problem import Array, Problem, Scope

OFFSET_SLACK = 1e-9  # offsets are a hair larger than needed, so that rounding never makes a lifted value negative

SCALED_RANGES = (1.0, 1.25, 1.5, 2.0)

VALUE_RANGES = (0.5, 2.0, 8.0)

ROBUST_CUTS = (0.25, 0.5, 1.0)

PLAIN, FILLED = "plain", "water-filled"

BOTH_SIDES = "plain, both sides"  # what the candidate earns and what the incumbent fails to earn

LOWERED = ", lowered"  # with the least weights that a declared error of the propensities allows


Factors = Mapping[str, float]  # by which propensities may be wrong, by level


@dataclass(frozen=True, slots=True)
class EvidencePart:
    """One test. Per episode either a value x >= -offset, to which `lift` is added, or factors under each bet.

    kind: "values", or factors for a "gain" or a "value", which differ in their grids. function: from a view to x `[E]`, or with
    the keywords bets and widened to factors `[E, J]`; it can be sent to another process. largest: T_max of a gain grid.
    factors: by level, by how much propensities may be wrong; values take the least weights within them.
    """

    name: str
    kind: str
    offset: float
    function: Callable[..., Array]
    largest: float = 1.0
    lift: float = 0.0
    factors: Factors = field(default_factory=dict)

    def compute(self, view: CandidateView, bets: Array, widened: float) -> Array:
        """Return what is at least 0: lifted values `[E]`, or factors `[E, J]`; widened: multiplies residuals."""
        if self.kind == "values":
            return self.function(with_least_weights(view, self.factors)) + self.lift
        return self.function(view, bets=bets, widened=widened)

    @property
    def modelled(self) -> bool:
        """Say whether it uses predictions of the reward and the whole logging distribution."""
        return not self.name.startswith(PLAIN)

    @property
    def base(self) -> float:
        """Return what an episode contributes in which candidate and comparator earn the same: where clusters start from."""
        return self.offset if self.kind == "values" else 1.0


@dataclass(frozen=True, slots=True)
class Reach:
    """What a log allows for a candidate at a scope: is the whole distribution logged and asked for, and how close is it?

    full: the whole logging distribution is known at every level in scope, and the candidate's too. close: how close the candidate
    stays to its comparator, by level in scope, outermost first. comparator: who it is compared with.
    """

    full: bool
    close: tuple[Closeness, ...]
    comparator: Comparator = LOGGER_COMPARATOR

    @classmethod
    def capped(cls, *caps: float) -> Reach:
        """Return the reach of a candidate that is capped over the logger, its comparator, with all distributions logged."""
        return cls(True, tuple(Closeness(cap=cap, variation=1.0 - 1.0 / cap) for cap in caps))

    def total_variation(self) -> float:
        """Return T_max: at one level the largest total variation; at several that of caps together, or of steps."""
        if len(self.close) == 1:
            return self.close[0].variation
        by_caps = 1.0 - 1.0 / math.prod(item.cap for item in self.close)
        by_steps = 1.0 - math.prod(1.0 - item.step for item in self.close)
        return by_steps if self.inner.step < 1.0 else by_caps

    @property
    def inner(self) -> InnerLimits:
        """Return how close the candidate stays to its comparator at the innermost level in scope."""
        return InnerLimits(self.close[-1].cap, self.close[-1].step)


def gain_parts(problem: Problem, scope: Scope, measure: Measure, reach: Reach, method: str) -> tuple[EvidencePart, ...]:
    """Return the parts of a gain claim by method; where water-filled or robust bets do not apply, what does."""
    comparator = reach.comparator
    if problem.wrong_by(scope):
        return _lowered_gains(problem, scope, measure, reach, method)
    if method in ("auto", "water-filled") and can_water_fill(problem, scope, reach):
        largest = _largest_variation(problem, scope, reach)
        return (_filled_gain(problem, scope, measure, reach, largest),) if largest > 0 else ()
    plain = plain_gain(scope, measure, comparator, doubtful=_several_decisions(problem, comparator.compared(scope)))
    if method == "plain" or not can_be_robust(problem, scope, reach):
        return (plain,)
    most = comparator.ratio(scope)
    if len(scope) == 1 and most is not None:
        return (plain, *[_robust_part(scaled_gains, scope, measure, c * most, c * most) for c in SCALED_RANGES])
    terms = len(scope) * (2 if comparator.stated(scope) else 1)
    return (plain, *[_robust_part(nested_gains, scope, measure, cut, 1 + terms * cut) for cut in ROBUST_CUTS])


def _largest_variation(problem: Problem, scope: Scope, reach: Reach) -> float:
    """Return T_max of the water-filled bets of a scope: with carry-over the largest weight G^mu of what went before."""
    if problem.carry_over == "none":
        return reach.total_variation()
    (level,) = scope
    return reach.comparator.products[level] if reach.comparator.stated(scope) else 1.0


def value_parts(problem: Problem, scope: Scope, measure: Measure, reach: Reach, method: str) -> tuple[EvidencePart, ...]:
    """Return the parts of a value claim."""
    factors = problem.wrong_by(scope)
    if factors:
        values = partial(plain_values, scope=scope, measure=measure)
        return (EvidencePart(PLAIN + LOWERED, "values", 0.0, values, factors=factors),)
    if method in ("auto", "water-filled") and len(scope) == 1 and can_water_fill(problem, scope, reach):
        return (EvidencePart(FILLED, "value", 0.0, partial(filled_values, scope=scope, measure=measure)),)
    plain = EvidencePart(PLAIN, "values", 0.0, partial(plain_values, scope=scope, measure=measure))
    if method == "plain" or not can_be_robust(problem, scope, reach):
        return (plain,)
    if len(scope) == 1:
        return (plain, *[_robust_part(scaled_values, scope, measure, limit, limit) for limit in VALUE_RANGES])
    return (plain, *[_robust_part(nested_values, scope, measure, cut, cut * len(scope)) for cut in ROBUST_CUTS])


def can_water_fill(problem: Problem, scope: Scope, reach: Reach) -> bool:
    """Say whether water-filled bets apply: full distributions, one in-scope decision on the way to each reward, or two nested.

    Where decisions carry over, the incumbent's weight of what went before must be bounded; where other levels are corrected, so
    must its ratios there.
    """
    comparator = reach.comparator
    wide = comparator.compared(scope)
    if not reach.full or not _rewards_below(problem, wide):
        return False
    if wide != scope and (len(scope) > 1 or problem.carry_over != "none" or comparator.ratio(Scope(wide - scope)) is None):
        return False
    if problem.carry_over != "none" and any(name not in comparator.products for name in comparator.levels & scope):
        return False
    return len(scope) == 1 or (len(scope) == 2 and problem.carry_over == "none")


def can_be_robust(problem: Problem, scope: Scope, reach: Reach) -> bool:
    """Say whether the doubly robust term applies."""
    corrected = reach.comparator.compared(scope) != scope
    return reach.full and _rewards_below(problem, scope) and problem.carry_over == "none" and not corrected


def _several_decisions(problem: Problem, scope: Scope) -> bool:
    """Say whether several in-scope decisions of one level lead to one reward."""
    return problem.carry_over != "none" or not _rewards_below(problem, scope)


def _rewards_below(problem: Problem, scope: Scope) -> bool:
    """Say whether every reward belongs to a decision at or below the innermost level in scope."""
    per = problem.reward.per
    if per == "decision":
        return True
    return per != "episode" and all(problem.index(per) <= problem.index(name) for name in scope)


def plain_gain(
    scope: Scope, measure: Measure, comparator: Comparator, factors: Factors | None = None, doubtful: bool = False
) -> EvidencePart:
    """Return the paired gain, which needs the propensity of the action taken only.

    Over the logger it is at least -1; over an incumbent at least -sup mu/nu, if that is known. If it is not, or if
    propensities are doubtful or may be wrong by factors, both sides are estimated, which needs no bound and stays valid with
    the least weights. So they are where weights are products over several decisions of a level, which sup mu/nu does not bound.
    """
    wide, lowered = comparator.compared(scope), LOWERED if factors else ""
    most = comparator.ratio(wide)
    if comparator.stated(wide) and (most is None or factors or doubtful):
        sides = partial(both_sides, scope=scope, measure=measure)
        return EvidencePart(BOTH_SIDES + lowered, "values", 1.0, sides, factors=factors or {})
    offset = most * (1 + OFFSET_SLACK) if most is not None and comparator.stated(wide) else 1.0
    gains = partial(plain_gains, scope=scope, measure=measure)
    return EvidencePart(PLAIN + lowered, "values", offset, gains, lift=offset, factors=factors or {})


def _lowered_gains(problem: Problem, scope: Scope, measure: Measure, reach: Reach, method: str) -> tuple[EvidencePart, ...]:
    """Return the parts of a gain claim that is valid if propensities in scope are wrong by what was declared.

    Plain, and averaged with it water-filled bets at one level. The doubly robust term is left out: its control variate has mean
    zero only if the propensities are right.
    """
    factors, comparator = problem.wrong_by(scope), reach.comparator
    filled = method in ("auto", "water-filled") and len(scope) == 1 and can_water_fill(problem, scope, reach)
    filled = filled and not (comparator.stated(scope) and problem.carry_over != "none")
    filled = filled and comparator.compared(scope) == scope
    largest = 1.0
    if filled and problem.carry_over == "none":
        # Against a stated incumbent the worst case does not depend on the propensities.
        stated = comparator.stated(scope)
        largest = reach.total_variation() if stated else largest_gain_within_error(reach.close[0].cap, factors)
    if not largest > 0:
        return ()
    plain = replace(plain_gain(scope, measure, comparator, factors), largest=largest)
    if not filled:
        return (plain,)
    (factor,) = factors.values()
    bets = partial(filled_gains_within_error, scope=scope, measure=measure, factor=factor)
    return (plain, EvidencePart(FILLED + LOWERED, "gain", 0.0, bets, largest))


def _filled_gain(problem: Problem, scope: Scope, measure: Measure, reach: Reach, largest: float) -> EvidencePart:
    others = Scope(reach.comparator.compared(scope) - scope)
    name = FILLED
    if others:
        most = reach.comparator.ratio(others) or 1.0
        name, largest = f"{FILLED}, corrected", largest * most
        bets = partial(corrected_gains, scope=scope, measure=measure, most=most)
    elif len(scope) == 1:
        within = mean_range_of(problem, scope, measure)
        largest = largest if within is None else largest * within.width
        bets = partial(filled_gains, scope=scope, measure=measure, within=within)
    else:
        name, bets = f"{FILLED}, two levels", partial(joint_gains, scope=scope, measure=measure, inner=reach.inner)
    return EvidencePart(name, "gain", 0.0, bets, largest)


def _robust_part(function: Callable[..., Array], scope: Scope, measure: Measure, limit: float, below: float) -> EvidencePart:
    """Return a doubly robust part whose values are at least -below; limit: the range or the cut of its control variate."""
    offset = below * (1 + OFFSET_SLACK)
    cut = function in (nested_gains, nested_values)
    name = f"robust, nested, cut {limit:g}" if cut else f"robust, range {limit:g}"
    terms = partial(function, scope=scope, measure=measure, **{"cut" if cut else "range_below": limit})
    return EvidencePart(name, "values", offset, terms, lift=offset)


# How evidence for a claim is gathered; auto takes the strongest that the log allows.
CLAIM_METHODS = ("auto", "water-filled", "robust", "plain")
