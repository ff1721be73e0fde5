"""From evidence to numbers in the user's units, one result per candidate and scope; what they say of exact actions; and how wrong
the logged probabilities may be.

Where actions are an interval AEGIS certifies the smoothed policy, which acts uniformly in a window around a*. If the mean reward
changes by at most L per unit of action, taking a* itself earns at most L times the mean distance less. That distance is
`(u^2 + v^2) / (2 (u + v))` in a window that reaches u below and v above a*, which is at most half the larger of the two, and so
at most h / 2: also where it is cut.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any

from aegis.audit import FOLLOWS_MOVING_LOG, Finding
from aegis.certificate.candidate import follows_log
from aegis.certificate.certificate import CERTIFIED, NOT_YET, REFUSED, GuardResult, LevelResult, Sensitivity, Station, Test
from aegis.certificate.claims import FILLED, PLAIN, EvidencePart, margin_of, plain_gain
from aegis.certificate.evidence import ClaimEvidence, UnitMoments, place_grid
from aegis.certificate.request import Request
from aegis.certificate.scan import ScanResult
from aegis.certificate.weight_checks import effective_units, mean_weight, weights_unbalanced
from aegis.errors import RefusedError
from aegis.ope import (
    CandidateView,
    Measure,
    candidate_distribution,
    comparator_kind,
    describe_comparator,
    describe_other_levels,
    differs_by_exploration,
    filled_gains_within_error,
    views_in_pieces,
    with_least_weights,
)
from aegis.problem import Array, Problem, Scope

FORESEEABLE = 30  # units from which it is said how many more it would take
THIN_UNITS = 20  # effective units below which it is not: a few large weights tell nothing of the next ones
IDENTICAL = "identical"  # the code of a candidate that does what its comparator does


def level_result(
    request: Request, scan: ScanResult, index: int, scope: Scope, refusals: Sequence[Finding], several: Collection[str] = ()
) -> LevelResult:
    """Return the result of one candidate at one scope; refusals: findings that forbid a certificate at this scope.

    several: levels of which the audit says that several policies wrote the log.
    """
    problem, against = request.problem, request.comparator
    own = [item for item in scan.evidence if (item.claim.candidate, item.claim.scope, item.claim.group) == (index, scope, None)]
    units = max((item.blend.count for item in own if item.blend is not None), default=0)
    delta = sum(item.claim.delta for item in own)
    comparator = describe_comparator(problem, against, scope, several)
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
    waiting = [guard.column for guard in guards if guard.verdict != CERTIFIED]
    certified = gain.certified and not waiting
    why = "the gain is certified"
    if not gain.certified:
        why = "the gain is not certified to exceed the margin yet"
    elif waiting:
        why += f", the guard '{waiting[0]}' is not yet"
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
        margin=margin_of(problem, scope),
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
        others=describe_other_levels(problem, against, scope),
        incumbent_value=incumbent_value,
        exploration=exploration,
        against=comparator_kind(against, scope, several),
        explored=differs_by_exploration(against, scope, several),
        unreached=_unreached_share(scan, index, scope, against.compared(scope)),
        sensitivity=find_sensitivity(request, scan, [item for item in own if item.claim.what != "value"])
        if certified
        else Sensitivity(None, f"not certified: {why}"),
    )


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
    candidate, names = request.candidates[index], request.named(scope)
    followed = [name for name in names if name in several and follows_log(candidate.policy, name)]
    if followed and request.frozen is None:
        return (
            f"{candidate.name} follows the logged probabilities at {_quoted(followed)}, such as a cap does, and several policies "
            "wrote them, or one that changed: deployed, the candidate is not one policy, and no gain of it can be certified "
            f"[{FOLLOWS_MOVING_LOG}]"
        )
    if scan.counts["certified_episodes"] and not scan.agreements[index, scope].differs:
        return (
            f"{candidate.name} is identical to {comparator}, at {_quoted(names)}: on every certified decision both give the same "
            f"probabilities, so that there is no gain to certify [{IDENTICAL}]"
        )
    if not weights_unbalanced(scan.balances[index, scope]):
        return ""
    columns = f" ({', '.join(candidate.columns)})" if candidate.columns else ""
    return (
        f"the weights of {candidate.name} at {_quoted(names)} average {mean_weight(scan.balances[index, scope]):.4g} beyond "
        f"chance, those of a policy average one: its probabilities{columns} or the logged ones do not belong to the actions of "
        "their rows, or do not sum to one; correct them"
    )


def _quoted(names: Sequence[str]) -> str:
    return ", ".join(map(repr, names))


def _exploration(request: Request, moments: UnitMoments, measure: Measure, scope: Scope) -> tuple[float | None, float | None]:
    """Return estimates of what a stated incumbent earns and of what it earns more than the log, which explores."""
    if not request.comparator.stated(request.comparator.compared(scope)):
        return None, None
    over_log = moments.mean("value") - moments.mean("legacy")
    return _value_in_range(measure, moments.mean("incumbent")), _finite(measure.gain(over_log - moments.mean("gain")))


def _unreached_share(scan: ScanResult, index: int, scope: Scope, wide: Scope) -> float:
    """Return the largest share of the incumbent's probability on actions that the log never takes, at any level compared."""
    agreement = scan.agreements[index, scope]
    known = [agreement.share(level) for level in agreement.decisions]
    return max([*known, *(ratios.missing for name, ratios in scan.ratios.items() if name in wide)], default=0.0)


def _value_in_range(measure: Measure, scaled: float) -> float | None:
    """Return an estimated value in the column's units: the estimate may leave the range, the value cannot."""
    return _finite(measure.value(min(max(scaled, 0.0), 1.0)))


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None


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
        # A dead bet: the candidate has moved more probability somewhere than its cap allows.
        cap_broken = any(total is None for sketch in item.sketches for total in sketch.sums)
        if claim.what == "value":
            certified = lower > low
        elif claim.margin < low:
            certified = lower > low or not cap_broken
        elif claim.margin < high:
            certified = blend.certifies(claim.margin, claim.delta)
        if lower <= low and cap_broken:
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


def _guard(item: ClaimEvidence, test: Test) -> GuardResult:
    measure = item.claim.measure
    lower = None if test.lower_scaled is None else measure.gain(test.lower_scaled)
    return GuardResult(measure.column, lower, measure.allowed, CERTIFIED if test.certified else NOT_YET)


def _path(item: ClaimEvidence) -> tuple[Station, ...]:
    claim = item.claim
    low, high = claim.bracket
    blends = [blend for blend in item.path() if blend.count]
    return tuple(Station(blend.count, claim.measure.gain(blend.lower(claim.delta, low, high))) for blend in blends)


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


GAMMAS = (1.02, 1.05, 1.1, 1.2, 1.3, 1.5, 2.0, 3.0, 5.0, 10.0)
CLUSTERS_CUT_OFF = "clusters may go on behind the first rows of a log as long as this, and only whole ones can be looked at"
PLAIN_ONLY = "the plain test was used, which may survive less than the test of the certificate"


def find_sensitivity(request: Request, scan: ScanResult, items: Sequence[ClaimEvidence]) -> Sensitivity:
    """Return how wrong the logged probabilities may be; items: gain and guards of a candidate and scope, all certified.

    Let nu be the logged probability of an action at a level in scope and nu' the true one, within a factor Gamma of each other.
    A test at Gamma is valid for every such nu'. Where the certificate rests on water-filled bets at one level the wealths of
    these and of the plain test are averaged. Everywhere else the plain test stands alone and may survive less.

    Gammas are tried from the smallest up to the first that is not certified, each at the risk of the claim itself. That costs no
    risk. 'It survives Gamma' is false only if the truth is wrong by a factor of some G <= Gamma while the gain does not exceed
    its margin. Let Gamma_i be the smallest on the list with Gamma_i >= G (the claim itself, at a factor of one, heads the list).
    Its test is valid, because the truth lies within Gamma_i, and it must have been certified on the way to Gamma: the
    probability of that is at most the risk of the claim. If G = 1 it is even the same event as that of a false certificate.

    Where a factor is declared for every level in scope (`wrong_by`) the claim itself is certified at it: the smallest of them
    heads the list. A level with a larger one keeps it.
    """
    held, problem, comparator = scan.held, request.problem, request.comparator
    if held is None or held.units is None or not held.whole:
        return Sensitivity(None, CLUSTERS_CUT_OFF, GAMMAS)
    index, scope = items[0].claim.candidate, items[0].claim.scope
    policy, models = request.candidates[index].policy, scan.models[index]
    # Beside the units of a gate stand episodes that other policies wrote, of which nothing is promised. They only place bets.
    placing = comparator if request.frozen is None else replace(comparator, ratios={}, promised={})
    prior = None if held.prior is None else CandidateView(problem, held.prior, policy, models, placing)
    trials = [_sensitivity_trial(request, item, prior, held.foreseen) for item in items]
    parts = trials[0].claim.parts
    filled = any(map(_is_water_filled, parts))
    views = [answered_view(view, scope, filled) for view in views_in_pieces(problem, policy, models, [held.units], comparator)]
    declared = {name: problem.wrong_by().get(name, 1.0) for name in scope}
    survived, count = min(declared.values()), 0
    tried = tuple(gamma for gamma in GAMMAS if gamma > survived)
    for gamma in tried:
        factors = {name: max(gamma, own) for name, own in declared.items()}
        tested = [_evidence_within(trial, views, factors, problem) for trial in trials]
        count = tested[0].running[0].count
        if not all(map(survives, tested)):
            break
        survived = gamma
    plain = not any(part.modelled for part in items[0].claim.parts)
    method = " + ".join(FILLED if _is_water_filled(part) else PLAIN for part in parts)
    return Sensitivity(survived, "" if filled or plain else PLAIN_ONLY, tried, method, count)


def answered_view(view: CandidateView, scope: Scope, whole: bool) -> CandidateView:
    """Return a view whose candidate has answered at a scope; whole: for its distribution at the one level in scope, too."""
    if whole:
        candidate_distribution(view, scope)
    for name in scope:
        view.taken(name, view.batch)
    return replace(view, _full={})  # the answers of every particle are too large to be kept


def _sensitivity_trial(request: Request, item: ClaimEvidence, prior: CandidateView | None, foreseen: int) -> ClaimEvidence:
    """Return no evidence yet for a claim, to be tested with its own water-filled bets at one level, and by the plain test."""
    claim, comparator = item.claim, request.comparator
    carries = request.problem.carry_over != "none" and comparator.stated(claim.scope)
    single = len(claim.scope) == 1 and not comparator.others and not carries
    plain = plain_gain(claim.scope, claim.measure, comparator, doubtful=True)
    both = zip(claim.parts, item.grids, strict=True)
    listed = [(part, grid) for part, grid in both if single and _is_water_filled(part)]
    listed.append((plain, place_grid(plain, claim, prior, foreseen)))
    parts, grids = zip(*listed, strict=True)
    return ClaimEvidence.start(replace(claim, what="sensitivity", parts=parts), grids, request.problem)


def _evidence_within(
    trial: ClaimEvidence, views: Sequence[CandidateView], factors: Mapping[str, float], problem: Problem
) -> ClaimEvidence:
    """Return the evidence of some units at factors by level in scope."""
    evidence = ClaimEvidence.start(trial.claim, trial.grids, problem)
    for view in views:
        both = zip(trial.claim.parts, trial.grids, strict=True)
        evidence.add([_values_within(evidence, part, grid.bets, view, factors) for part, grid in both], view.batch.cluster)
    evidence.close()
    return evidence


def _values_within(
    evidence: ClaimEvidence, part: EvidencePart, bets: Array, view: CandidateView, factors: Mapping[str, float]
) -> Array:
    if _is_water_filled(part):
        (factor,) = factors.values()
        return filled_gains_within_error(view, evidence.claim.scope, evidence.claim.measure, bets, factor)
    return part.compute(with_least_weights(view, factors), bets, 1.0)


def survives(evidence: ClaimEvidence) -> bool:
    """Say whether the gain is certified to exceed the margin of its claim, or more than that."""
    blend, claim = evidence.blend, evidence.claim
    low = max(-part.largest for part in claim.parts)  # the least gain that all bets can be held against
    return blend is not None and blend.count > 0 and blend.certifies(max(claim.margin, low), claim.delta)


def _is_water_filled(part: EvidencePart) -> bool:
    return part.kind == "gain"
