"""From evidence to numbers in the user's units, one result per candidate and scope; and what they say of exact actions.

Where actions are an interval AEGIS certifies the smoothed policy, which acts uniformly in a window around a*. If the mean reward
changes by at most L per unit of action, taking a* itself earns at most L times the mean distance less. That distance is
`(u^2 + v^2) / (2 (u + v))` in a window that reaches u below and v above a*, which is at most half the larger of the two, and so
at most h / 2: also where it is cut.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from typing import Any

from aegis.audit import FOLLOWS_MOVING_LOG, Finding
from aegis.certificate.candidate import follows_log
from aegis.certificate.certificate import CERTIFIED, NOT_YET, REFUSED, GuardResult, LevelResult, Sensitivity, Station, Test
from aegis.certificate.claims import margin_of
from aegis.certificate.evidence import ClaimEvidence, UnitMoments
from aegis.certificate.request import Request
from aegis.certificate.scan import ScanResult
from aegis.certificate.sensitivity import find_sensitivity
from aegis.certificate.weight_checks import effective_units, mean_weight, weights_unbalanced
from aegis.errors import RefusedError
from aegis.ope import Measure, comparator_kind, describe_comparator, describe_other_levels, differs_by_exploration
from aegis.problem import Problem, Scope


def smoothing_slack(problem: Problem, scope: Sequence[str]) -> float | None:
    """Return by how much exact actions may earn less than smoothed ones, in reward units; None if that is not known.

    It is not without an interval in scope, without `lipschitz` at one of them, where several decisions share a reward, and where
    rewards are clipped or clusters weighed by their totals.
    """
    chosen = [problem.level(name).actions for name in scope if problem.level(name).actions.continuous]
    shared = problem.carry_over != "none" or problem.reward.per == "episode" or problem.cluster_most is not None
    if not chosen or shared or problem.reward.clip or problem.guards or any(actions.lipschitz is None for actions in chosen):
        return None
    if problem.reward.per != "decision" and any(problem.index(problem.reward.per) > problem.index(name) for name in scope):
        return None
    return sum(float(actions.lipschitz or 0.0) * float(actions.bandwidth or 0.0) / 2 for actions in chosen)


def unsmoothed_results(request: Request, levels: Sequence[LevelResult]) -> list[dict[str, Any]]:
    """Return for each result what holds of exact actions, as plain data; only for policies that are known to act in windows."""
    results: list[dict[str, Any]] = []
    problem = request.problem
    windowed = {item.name: frozenset(getattr(item.policy, "windowed", ())) for item in request.candidates}
    for level in levels:
        less = smoothing_slack(problem, level.scope)
        if less is None or level.verdict == REFUSED or not set(level.scope) <= windowed[level.candidate]:
            continue
        worse = less if problem.reward.goal == "maximise" else -less
        results.append(
            {
                "candidate": level.candidate,
                "scope": list(level.scope),
                "slack": less,
                "gain_lower": None if level.gain_lower is None else level.gain_lower - less,
                "value_lower": None if level.value_lower is None else level.value_lower - worse,
            }
        )
    return results


FORESEEABLE = 30  # units from which it is said how many more it would take

THIN_UNITS = 20  # effective units below which it is not: a few large weights tell nothing of the next ones

IDENTICAL = "identical"  # the code of a candidate that does what its comparator does


def identical_reason(request: Request, scan: ScanResult, index: int, scope: Scope, comparator: str) -> str:
    """Return why a candidate that does what its comparator does is refused; empty if they differ on a certified decision."""
    if scan.agreements[index, scope].differs or not scan.counts["certified_episodes"]:
        return ""
    place = ", ".join(repr(name) for name in request.named(scope))
    return (
        f"{request.candidates[index].name} is identical to {comparator}, at {place}: on every certified decision both give the "
        "same "
        "probabilities, so that there is no gain to certify"
    )


def moving_log_reason(request: Request, index: int, scope: Scope, several: Collection[str]) -> str:
    """Return why a candidate is refused that follows logged probabilities which are not those of one policy; empty if none is."""
    candidate = request.candidates[index]
    levels = [name for name in request.named(scope) if name in several and follows_log(candidate.policy, name)]
    if not levels or request.frozen is not None:
        return ""
    return (
        f"{candidate.name} follows the logged probabilities at {', '.join(map(repr, levels))}, such as a cap does, and several "
        "policies wrote them, or one that changed: deployed, the candidate is not one policy, and no gain of it can be certified"
    )


def level_result(
    request: Request, scan: ScanResult, index: int, scope: Scope, refusals: Sequence[Finding], several: Collection[str] = ()
) -> LevelResult:
    """Return the result of one candidate at one scope; refusals: findings that forbid a certificate at this scope.

    several: levels of which the audit says that several policies wrote the log.
    """
    own = [item for item in scan.evidence if (item.claim.candidate, item.claim.scope, item.claim.group) == (index, scope, None)]
    units = max((item.blend.count for item in own if item.blend is not None), default=0)
    delta = sum(item.claim.delta for item in own)
    comparator = describe_comparator(request.problem, request.comparator, scope, several)
    reason = _refusal_reason(request, scan, index, scope, refusals, several, comparator)
    if reason:
        return refused_result(request, index, scope, reason, delta, units)
    reward = next(item for item in own if item.claim.what == "gain")
    try:
        tests, path = [_test(item) for item in own], _path(reward)
    except RefusedError as error:
        return refused_result(request, index, scope, str(error), delta, units)
    gain = next(test for test in tests if test.what == "gain")
    value = next((test for test in tests if test.what == "value"), None)
    guards = tuple(_guard(item, test) for item, test in zip(own, tests, strict=True) if test.what == "guard")
    moments, measure = scan.moments[index, scope], reward.claim.measure
    effective = effective_units(scan.balances[index, scope])
    why = _reason(gain, guards)
    certified = gain.certified and all(guard.verdict == CERTIFIED for guard in guards)
    needed = [test.units_needed for test in tests if test.what != "value" and not test.certified]
    foreseen = [number for number in needed if number is not None]
    foreseeable = bool(needed) and len(foreseen) == len(needed) and not effective < THIN_UNITS
    incumbent_value, exploration = _exploration(request, moments, measure, scope)
    return LevelResult(
        candidate=request.candidates[index].name,
        scope=request.named(scope),
        verdict=CERTIFIED if certified else NOT_YET,
        reason=why,
        delta=delta,
        margin=margin_of(request.problem, scope),
        gain_lower=None if gain.lower_scaled is None else measure.gain(gain.lower_scaled),
        estimate=_finite(measure.gain(moments.mean("gain"))),
        estimate_error=_finite(measure.gain(moments.error("gain"))),
        value_lower=None if value is None or value.lower_scaled is None else measure.value(value.lower_scaled),
        value_estimate=_value_in_range(measure, moments.mean("value")),
        legacy_value=_finite(measure.value(moments.mean("legacy"))),
        units=gain.units,
        further_units=max(foreseen) - gain.units if foreseeable else None,
        method=" + ".join(gain.method) or "none",
        guards=guards,
        path=path,
        tests=tuple(tests),
        weights={**scan.spreads[index, scope].plain(), "effective_units": _finite(effective)},
        comparator=comparator,
        others=describe_other_levels(request.problem, request.comparator, scope),
        incumbent_value=incumbent_value,
        exploration=exploration,
        against=comparator_kind(request.comparator, scope, several),
        explored=differs_by_exploration(request.comparator, scope, several),
        unreached=unreached_share(scan, index, scope, request.comparator.compared(scope)),
        sensitivity=find_sensitivity(request, scan, [item for item in own if item.claim.what != "value"])
        if certified
        else Sensitivity(None, f"not certified: {why}"),
    )


def _refusal_reason(
    request: Request,
    scan: ScanResult,
    index: int,
    scope: Scope,
    refusals: Sequence[Finding],
    several: Collection[str],
    comparator: str,
) -> str:
    """Return why nothing is certified of a candidate at a scope, with the codes of findings; empty if nothing forbids it."""
    if refusals:
        return "; ".join(f"{item.message} [{item.code}]" for item in refusals)
    moving = moving_log_reason(request, index, scope, several)
    if moving:
        return f"{moving} [{FOLLOWS_MOVING_LOG}]"
    same = identical_reason(request, scan, index, scope, comparator)
    if same:
        return f"{same} [{IDENTICAL}]"
    return _unbalanced_reason(request, scan, index, scope) if weights_unbalanced(scan.balances[index, scope]) else ""


def _exploration(request: Request, moments: UnitMoments, measure: Measure, scope: Scope) -> tuple[float | None, float | None]:
    """Return estimates of what a stated incumbent earns and of what it earns more than the log, which explores."""
    if not request.comparator.stated(request.comparator.compared(scope)):
        return None, None
    over_log = moments.mean("value") - moments.mean("legacy")
    return _value_in_range(measure, moments.mean("incumbent")), _finite(measure.gain(over_log - moments.mean("gain")))


def unreached_share(scan: ScanResult, index: int, scope: Scope, wide: Scope) -> float:
    """Return the largest share of the incumbent's probability on actions that the log never takes, at any level compared."""
    agreement = scan.agreements[index, scope]
    known = [agreement.share(level) for level in agreement.decisions]
    return max([*known, *(ratios.missing for name, ratios in scan.ratios.items() if name in wide)], default=0.0)


def subgroup_results(request: Request, scan: ScanResult, levels: Sequence[LevelResult]) -> list[dict[str, Any]]:
    """Return the gains of subgroups as plain data, of those results that were not refused."""
    listed = []
    refused = {(level.candidate, level.scope) for level in levels if level.verdict == REFUSED}
    for item in scan.evidence:
        claim = item.claim
        name, scope = request.candidates[claim.candidate].name, request.named(claim.scope)
        if claim.group is None or (name, scope) in refused:
            continue
        try:
            test = _test(item)
        except RefusedError:
            continue
        listed.append(
            {
                "candidate": name,
                "scope": list(scope),
                "variable": claim.group.variable,
                "label": claim.group.label,
                "units": test.units,
                "gain_lower": None if test.lower_scaled is None else claim.measure.gain(test.lower_scaled),
                "delta": claim.delta,
                "verdict": CERTIFIED if test.certified else NOT_YET,
            }
        )
    return listed


def _test(item: ClaimEvidence) -> Test:
    claim, blend = item.claim, item.blend
    low, high = claim.bracket
    lower: float | None = None
    certified, needed = False, None
    if blend is not None and blend.count:
        lower = blend.lower(claim.delta, low, high)
        if claim.what == "value":
            certified = lower > low
        elif claim.margin >= high:
            certified = False
        elif claim.margin < low:
            certified = lower > low or not _cap_broken(item)
        else:
            certified = blend.certifies(claim.margin, claim.delta)
        if lower <= low and _cap_broken(item):
            lower = None  # without evidence the end of the bracket rests on the cap alone
        if not certified and claim.what != "value" and blend.count >= FORESEEABLE:
            needed = blend.units_needed(claim.margin, claim.delta)
    return Test(
        what=claim.what,
        column=claim.measure.column,
        method=tuple(part.name for part in claim.parts),
        delta=claim.delta,
        margin_scaled=claim.margin,
        lower_scaled=lower,
        certified=certified,
        units=0 if blend is None else blend.count,
        units_needed=needed,
        centres=tuple(grid.centre for grid in item.grids),
        sums=tuple(tuple(None if total is None else str(total) for total in sketch.sums) for sketch in item.sketches),
        grids=tuple(grid.digest for grid in item.grids),
    )


def _cap_broken(item: ClaimEvidence) -> bool:
    """Say whether a bet is dead: the candidate has moved more probability somewhere than its cap allows."""
    return any(total is None for sketch in item.sketches for total in sketch.sums)


def _guard(item: ClaimEvidence, test: Test) -> GuardResult:
    measure = item.claim.measure
    lower = None if test.lower_scaled is None else measure.gain(test.lower_scaled)
    return GuardResult(measure.column, lower, measure.allowed, CERTIFIED if test.certified else NOT_YET)


def _path(item: ClaimEvidence) -> tuple[Station, ...]:
    claim = item.claim
    low, high = claim.bracket
    blends = [blend for blend in item.path() if blend.count]
    return tuple(Station(blend.count, claim.measure.gain(blend.lower(claim.delta, low, high))) for blend in blends)


def _unbalanced_reason(request: Request, scan: ScanResult, index: int, scope: Scope) -> str:
    candidate, mean = request.candidates[index], mean_weight(scan.balances[index, scope])
    columns = f" ({', '.join(candidate.columns)})" if candidate.columns else ""
    return (
        f"the weights of {candidate.name} at {', '.join(repr(name) for name in request.named(scope))} average {mean:.4g} beyond "
        f"chance, those of a policy average one: its probabilities{columns} or the logged ones do not belong to the actions of "
        "their rows, or do not sum to one; correct them"
    )


def _reason(gain: Test, guards: Sequence[GuardResult]) -> str:
    if not gain.certified:
        return "the gain is not certified to exceed the margin yet"
    waiting = [guard.column for guard in guards if guard.verdict != CERTIFIED]
    return f"the gain is certified, the guard '{waiting[0]}' is not yet" if waiting else "the gain is certified"


def refused_result(request: Request, index: int, scope: Scope, reason: str, delta: float = 0.0, units: int = 0) -> LevelResult:
    """Return a refused result: no numbers, because what is not valid is not shown."""
    return LevelResult(
        candidate=request.candidates[index].name,
        scope=request.named(scope),
        verdict=REFUSED,
        reason=reason,
        delta=delta,
        margin=margin_of(request.problem, scope),
        units=units,
    )


def _value_in_range(measure: Measure, scaled: float) -> float | None:
    """Return an estimated value in the column's units: the estimate may leave the range, the value cannot."""
    return _finite(measure.value(min(max(scaled, 0.0), 1.0)))


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None
