"""The claims of a certificate, and the methods by which they are tested: water-filled, doubly robust, plain.

Everything is declared before the certified units are opened: scopes, margins, risks, subgroups, and for each claim one test (part
of its evidence) or the average of several. A part says what is computed per episode and how it is lifted to be at least 0.

A subgroup is defined by a context of the outermost level, which is known before any decision of the episode is taken. Looking
only at the units of a subgroup is then as valid as looking at all of them; each subgroup is a claim with its own part of the
risk.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

import numpy as np
import numpy.typing as npt

from aegis.errors import SettingError, check_choice
from aegis.evidence import FLOOR, InnerLimits
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
    guard_measures,
    joint_gains,
    largest_gain_within_error,
    mean_range_of,
    nested_gains,
    nested_values,
    plain_gains,
    plain_values,
    reward_measure,
    scaled_gains,
    scaled_values,
    with_least_weights,
)
from aegis.problem import Array, Batch, Problem, Scope, Variable

# What a claim bounds: the gain over the incumbent, or the value.
CLAIMED_QUANTITIES = ("gain", "value")
# How evidence for a claim is gathered; auto takes the strongest that the log allows.
CLAIM_METHODS = ("auto", "water-filled", "robust", "plain")
PLAIN, FILLED = "plain", "water-filled"
BOTH_SIDES = "plain, both sides"  # what the candidate earns and what the incumbent fails to earn
LOWERED = ", lowered"  # with the least weights that a declared error of the propensities allows
OFFSET_SLACK = 1e-9  # offsets are a hair larger than needed, so that rounding never makes a lifted value negative
WORST_FACTOR = 0.999 * FLOOR  # no factor of a unit is smaller, rounding included
SCALED_RANGES = (1.0, 1.25, 1.5, 2.0)
VALUE_RANGES = (0.5, 2.0, 8.0)
ROBUST_CUTS = (0.25, 0.5, 1.0)
SUBGROUP_SHARE = 0.1  # of the risk, for all subgroups together
MOST_SUBGROUPS = 12
MOST_LEVELS = 4  # beyond, only scopes that go from the inside out

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

    def worst(self, bets: Array) -> Array:
        """Return the least that `compute` can give for an episode, as one row: a lifted value `[1]`, or factors `[1, J]`."""
        return np.zeros(1) if self.kind == "values" else np.full((1, bets.size), WORST_FACTOR)

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
        return _filled_gain(problem, scope, measure, reach)
    # Several in-scope decisions of one level may lead to one reward.
    several = problem.carry_over != "none" or not _rewards_below(problem, comparator.compared(scope))
    plain = plain_gain(scope, measure, comparator, doubtful=several)
    if method == "plain" or not can_be_robust(problem, scope, reach):
        return (plain,)
    most = comparator.ratio(scope)
    if len(scope) == 1 and most is not None:
        return (plain, *[_robust_part(scaled_gains, scope, measure, c * most, c * most) for c in SCALED_RANGES])
    terms = len(scope) * (2 if comparator.stated(scope) else 1)
    return (plain, *[_robust_part(nested_gains, scope, measure, cut, 1 + terms * cut) for cut in ROBUST_CUTS])


def value_parts(problem: Problem, scope: Scope, measure: Measure, reach: Reach, method: str) -> tuple[EvidencePart, ...]:
    """Return the parts of a value claim."""
    factors = problem.wrong_by(scope)
    values = partial(plain_values, scope=scope, measure=measure)
    plain = EvidencePart(PLAIN + (LOWERED if factors else ""), "values", 0.0, values, factors=factors)
    if not factors and method in ("auto", "water-filled") and len(scope) == 1 and can_water_fill(problem, scope, reach):
        return (EvidencePart(FILLED, "value", 0.0, partial(filled_values, scope=scope, measure=measure)),)
    if factors or method == "plain" or not can_be_robust(problem, scope, reach):
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


def _filled_gain(problem: Problem, scope: Scope, measure: Measure, reach: Reach) -> tuple[EvidencePart, ...]:
    """Return the water-filled part of a gain claim; none if candidate and comparator cannot differ."""
    comparator = reach.comparator
    if problem.carry_over == "none":
        largest = reach.total_variation()
    else:  # T_max is the largest weight G^mu of what went before
        (level,) = scope
        largest = comparator.products[level] if comparator.stated(scope) else 1.0
    if not largest > 0:
        return ()
    others = Scope(comparator.compared(scope) - scope)
    name = FILLED
    if others:
        most = comparator.ratio(others) or 1.0
        name, largest = f"{FILLED}, corrected", largest * most
        bets = partial(corrected_gains, scope=scope, measure=measure, most=most)
    elif len(scope) == 1:
        within = mean_range_of(problem, scope, measure)
        largest = largest if within is None else largest * within.width
        bets = partial(filled_gains, scope=scope, measure=measure, within=within)
    else:
        name, bets = f"{FILLED}, two levels", partial(joint_gains, scope=scope, measure=measure, inner=reach.inner)
    return (EvidencePart(name, "gain", 0.0, bets, largest),)


def _robust_part(function: Callable[..., Array], scope: Scope, measure: Measure, limit: float, below: float) -> EvidencePart:
    """Return a doubly robust part whose values are at least -below; limit: the range or the cut of its control variate."""
    offset = below * (1 + OFFSET_SLACK)
    cut = function in (nested_gains, nested_values)
    name = f"robust, nested, cut {limit:g}" if cut else f"robust, range {limit:g}"
    terms = partial(function, scope=scope, measure=measure, **{"cut" if cut else "range_below": limit})
    return EvidencePart(name, "values", offset, terms, lift=offset)


@dataclass(frozen=True, slots=True)
class UnitGroup:
    """The episodes whose outermost decisions all have a variable in [low, high), or equal to a code."""

    variable: str
    label: str
    level: str
    code: int | None = None
    low: float = -np.inf
    high: float = np.inf

    def members(self, batch: Batch) -> npt.NDArray[np.bool_]:
        """Return which episodes belong to the group, `bool[E]`."""
        table = batch.levels[self.level]
        values = table.context[self.variable]
        inside = values == self.code if self.code is not None else (values >= self.low) & (values < self.high)
        outside = np.bincount(table.parent, weights=~inside, minlength=len(batch))
        mask: npt.NDArray[np.bool_] = outside == 0
        return mask


def check_group_variables(problem: Problem, names: Sequence[str]) -> tuple[Variable, ...]:
    """Return the variables to group by; SettingError unless they are contexts of the outermost level, one number or category."""
    outermost = problem.levels[0]
    if names and problem.carry_over == "within" and outermost.decision is not None:
        raise SettingError(
            f"with 'carry_over: within' the contexts of later '{outermost.name}' decisions follow from what was decided before, "
            "and units must not be chosen by that; leave the groups out"
        )
    known = {variable.name: variable for variable in outermost.context}
    variables = []
    for name in dict.fromkeys(names):
        check_choice(name, known, f"variable to group by (a context of the outermost level '{outermost.name}')")
        variable = known[name]
        if variable.kind == "vector":
            raise SettingError(f"'{name}' is a vector; group by a single number or category")
        if variable.kind == "categorical" and len(variable.values) > MOST_SUBGROUPS:
            raise SettingError(f"'{name}' has {len(variable.values)} values; group by a variable with at most {MOST_SUBGROUPS}")
        variables.append(variable)
    return tuple(variables)


def subgroups_of(problem: Problem, names: Sequence[str], prior: Batch | None) -> tuple[UnitGroup, ...]:
    """Return the groups: one per category; below and above the prior median for numbers. Their number is known beforehand."""
    level = problem.names[0]
    groups: list[UnitGroup] = []
    for variable in check_group_variables(problem, names):
        if variable.kind == "categorical":
            groups += [UnitGroup(variable.name, str(value), level, code) for code, value in enumerate(variable.values)]
            continue
        values = np.zeros(1) if prior is None else prior.levels[level].context[variable.name]
        cut = float(f"{np.median(values):.3g}")
        groups += [
            UnitGroup(variable.name, f"below {cut:g}", level, high=cut),
            UnitGroup(variable.name, f"from {cut:g}", level, low=cut),
        ]
    return tuple(groups)


@dataclass(frozen=True, slots=True)
class Claim:
    """What is claimed of a candidate at a scope, at which risk, and by which tests.

    what: gain, value or guard. margin: the scaled gain that has to be exceeded (a guard: minus the worsening allowed).
    group: the subgroup of units it is about, None for all.
    No parts: candidate and comparator agree, there is nothing to test.
    """

    candidate: int
    scope: Scope
    what: str
    measure: Measure
    margin: float
    delta: float
    parts: tuple[EvidencePart, ...]
    group: UnitGroup | None = None

    @property
    def bracket(self) -> tuple[float, float]:
        """Return the smallest and the largest scaled value or gain that is possible."""
        if self.what == "value":
            return 0.0, 1.0
        largest = min(1.0, max(part.largest for part in self.parts)) if self.parts else 1.0  # no gain exceeds the range
        return -largest, largest


def scopes_of(
    problem: Problem, named: Iterable[Iterable[str]] | None = None, levels: Iterable[str] | None = None
) -> tuple[Scope, ...]:
    """Return the scopes to certify: those asked for, else all of `levels` (all if None), inner ones first.

    Beyond four levels only those that go from the inside out.
    """
    if named is not None:
        scopes = tuple(dict.fromkeys(problem.scope(names) for names in named))
        if not scopes or any(not scope for scope in scopes):
            raise SettingError(f"a scope names at least one level of {', '.join(problem.names)}")
        return scopes
    chosen = problem.scope(levels)
    inner_first = tuple(name for name in reversed(problem.names) if name in chosen)
    if len(inner_first) > MOST_LEVELS:
        return tuple(Scope(inner_first[: count + 1]) for count in range(len(inner_first)))
    sizes = range(1, len(inner_first) + 1)
    return tuple(Scope(names) for size in sizes for names in itertools.combinations(inner_first, size))


def margin_of(problem: Problem, scope: Scope) -> float:
    """Return the gain that makes a switch worth it, in reward units: the levels' margins together."""
    return sum(problem.level(name).margin for name in scope)


@dataclass(frozen=True, slots=True)
class ChallengeTerms:
    """What the claims about a challenger are made by.

    variation: the largest total variation between its choice and that of its comparator. allowed: the share of a negative margin
    that this flip may use, and of what guards allow, which `levels` levels share. comparator: who it is compared with, the
    incumbent, or for an upgrade the policy in control, which writes the log.
    """

    variation: float
    allowed: float = 1.0
    levels: int = 1
    comparator: Comparator = LOGGER_COMPARATOR


def claims_at(
    problem: Problem,
    scope: Scope,
    reach: Reach,
    methods: Mapping[str, str],
    *,
    margin: float,
    delta: float,
    candidate: int = 0,
    allowed: float = 1.0,
) -> list[Claim]:
    """Return what is claimed of a candidate at a scope: a gain, a value, and that no guard gets worse than is allowed.

    methods: by claimed quantity the method that tests it; guards are tested as gains are. margin: of the gain, scaled. allowed:
    the share of what guards allow.
    """
    reward = reward_measure(problem)
    parts = gain_parts(problem, scope, reward, reach, methods["gain"])
    claims = [Claim(candidate, scope, "gain", reward, margin, delta, parts)]
    if "value" in methods:
        parts = value_parts(problem, scope, reward, reach, methods["value"])
        claims.append(Claim(candidate, scope, "value", reward, 0.0, delta, parts))
    for guard in guard_measures(problem):
        parts = gain_parts(problem, scope, guard, reach, methods["gain"])
        claims.append(Claim(candidate, scope, "guard", guard, -(allowed * guard.allowed / guard.width), delta, parts))
    return claims


def challenge_claims(problem: Problem, level: str, terms: ChallengeTerms) -> list[Claim]:
    """Return what is claimed of a challenger at a level."""
    scope = Scope(level)
    cap = 1.0 / (1.0 - terms.variation) if terms.variation < 1.0 else math.inf
    reach = Reach(True, (Closeness(cap=cap, variation=terms.variation),), terms.comparator)
    margin = margin_of(problem, scope) / reward_measure(problem).width
    margin = margin if margin > 0 else terms.allowed * margin
    # The value is only watched, and a plain bound of it is many times quicker than a water-filled one.
    methods = {"gain": "auto", "value": "plain"}
    return claims_at(problem, scope, reach, methods, margin=margin, delta=0.5, allowed=terms.allowed / terms.levels)
