"""Put a certificate together from a scan: results, verdict, findings, assumptions, digests."""

from __future__ import annotations

import math
import platform
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from aegis.audit import (
    CODES,
    FOLLOWS_MOVING_LOG,
    NO_DENSITY,
    SEVERAL_LOGGERS,
    SEVERITIES,
    Audit,
    Finding,
    chance_words,
    doubtful_weights,
    make_finding,
)
from aegis.certificate.assumptions import list_assumptions
from aegis.certificate.candidate import Candidate
from aegis.certificate.certificate import REFUSED, Assumption, Certificate, LevelResult
from aegis.certificate.claims import Claim
from aegis.certificate.digests import DataDigest
from aegis.certificate.ledger import Behaviours
from aegis.certificate.request import Request
from aegis.certificate.results import IDENTICAL, level_result, refused_result, subgroup_results, unsmoothed_results
from aegis.certificate.risk import RiskShare
from aegis.certificate.scan import COUNTED, ScanResult
from aegis.certificate.verdict import Caveats, WeightDoubt, blocking_level, join_words, judge_results
from aegis.certificate.weight_checks import log_weight_evidence, mean_weight, unreached_finding, weights_doubtful
from aegis.errors import RefusedError
from aegis.ope import reward_measure
from aegis.problem import Problem, Scope, dump_problem
from aegis.version import __version__

CANNOT_CERTIFY = "cannot-certify"
SIZE_CODES = ("size-follows-action", "size-follows-reward")


@dataclass(frozen=True, slots=True)
class ScanOutcome:
    """What a pass over the log found; or why it was refused half way. data: with checksums of rows after a whole pass.

    code, fix: of the finding that says why; without a fix that of the code.
    """

    scan: ScanResult | None
    audit: Audit
    refusal: str | None
    data: DataDigest
    code: str = CANNOT_CERTIFY
    fix: str | None = None

    @property
    def behaviour(self) -> dict[str, dict[str, str]]:
        """Return what candidates that are code did on the certified rows, by candidate and level."""
        return {} if self.scan is None else {name: item.plain() for name, item in self.scan.behaviours.items()}


def assemble(
    request: Request, outcome: ScanOutcome, looks: Mapping[str, Any], data: DataDigest, when: str, share: RiskShare
) -> Certificate:
    """Return the certificate of an outcome. share: of the risk, which the request is tested at."""
    problem, scan, stated = request.problem, outcome.scan, request.stated
    audited = [item for item in outcome.audit.findings if not (request.barred and item.code == "no-propensity")]
    every = [*_own_findings(request, outcome, looks, share), *audited]
    findings = sorted(every, key=lambda item: SEVERITIES.index(item.severity))  # gravest first
    levels = _levels(request, outcome, findings)
    findings = sorted([*_of_candidates(levels), *findings], key=lambda item: SEVERITIES.index(item.severity))
    weights = [] if scan is None else _weights(request, scan)
    moving = {item.level for item in findings if item.code == SEVERAL_LOGGERS and item.level is not None}
    fixes = [item.fix for item in findings if item.severity == "refused"]
    caveats = Caveats(
        doubts={} if scan is None else _doubts(request, scan),
        assumed=[item.name for item in request.candidates if not item.record and item.frozen is None],
        moving=moving,
        warned={item.code for item in findings if item.severity == "warning"},
    )
    return Certificate(
        verdict=judge_results(problem, levels, request.delta, fixes, share, caveats),
        levels=levels,
        findings=tuple(item.plain() for item in findings),
        assumptions=_assumptions(request, outcome),
        blocking=blocking_level(problem, weights, levels, moving),
        counts=dict.fromkeys(COUNTED, 0) if scan is None else dict(scan.counts),
        candidates=tuple(_candidate(request, candidate, outcome.behaviour) for candidate in request.candidates),
        splits=() if scan is None else tuple(split.describe() for split in scan.sides.splits),
        looks=looks,
        settings={
            **request.settings(),
            "asked": request.asked,
            **(
                {} if stated is None else {"incumbent": {name: getattr(stated, name) for name in ("reference", "digest", "code")}}
            ),
            "risk": share.plain(),
        },
        digests={"data": data.total, "files": data.named, "problem": request.problem_digest},
        problem=dump_problem(problem),
        diagnostics=_diagnostics(request, outcome, weights, levels),
        versions={
            "aegis": __version__,
            "numpy": np.__version__,
            "pyarrow": pa.__version__,
            "python": platform.python_version(),
            "machine": platform.machine(),
        },
        created=when,
    )


def _diagnostics(
    request: Request, outcome: ScanOutcome, weights: list[dict[str, Any]], levels: Sequence[LevelResult]
) -> dict[str, Any]:
    """Return what explains a certificate without being part of it."""
    if outcome.scan is None:
        return {"weights": weights}
    figures, measure = dict(outcome.audit.figures), reward_measure(request.problem)
    exact = unsmoothed_results(request, levels)
    return {
        "weights": weights,
        "subgroups": subgroup_results(request, outcome.scan, levels),
        "rewards": {
            "mean": next((level.legacy_value for level in levels if level.legacy_value is not None), None),
            "smallest": figures.get("smallest_reward"),
            "largest": figures.get("largest_reward"),
            "low": measure.low,
            "high": measure.high,
        },
        "audit": figures,
        "rows": outcome.data.rows,
        **outcome.scan.described,
        **({"unsmoothed": exact} if exact else {}),
    }


def _levels(request: Request, outcome: ScanOutcome, findings: Sequence[Finding]) -> tuple[LevelResult, ...]:
    results, problem = [], request.problem
    several = {item.level for item in findings if item.code == SEVERAL_LOGGERS and item.level is not None}
    for index in range(len(request.candidates)):
        for scope in request.scopes:
            levels = request.comparator.compared(scope)
            refusals = [item for item in findings if item.severity == "refused" and _concerns(item, levels, problem)]
            if outcome.scan is not None:
                results.append(level_result(request, outcome.scan, index, scope, refusals, several))
            else:
                reason = outcome.refusal or "; ".join(item.message for item in refusals)
                results.append(refused_result(request, index, scope, reason))
        for scope in request.barred:
            missing = [repr(name) for name in request.named(scope) if problem.level(name).propensity is None]
            reason = f"there is no propensity of {join_words(missing)} [no-propensity]"
            results.append(refused_result(request, index, scope, reason))
    return tuple(results)


def _of_candidates(levels: Sequence[LevelResult]) -> list[Finding]:
    """Return a finding for each result that is refused for what its candidate does: a comparator's actions, or a moving log's."""
    return [
        make_finding(code, "refused", level.reason.removesuffix(f" [{code}]"), fix=CODES[code].fix)
        for code in (IDENTICAL, FOLLOWS_MOVING_LOG)
        for level in levels
        if level.verdict == REFUSED and level.reason.endswith(f"[{code}]")
    ]


def _concerns(item: Finding, scope: Scope, problem: Problem) -> bool:
    """Say whether a finding matters for a scope: those of a level only where the level is in it.

    How many decisions of a level there are may follow from what happens at it and below: that matters to all levels further in.
    """
    if item.level is None or item.level in scope:
        return True
    return item.code in SIZE_CODES and any(problem.index(name) < problem.index(item.level) for name in scope)


def _own_findings(request: Request, outcome: ScanOutcome, looks: Mapping[str, Any], share: RiskShare) -> list[Finding]:
    """Return the findings that are not the audit's: refusals, the ledger, the candidates and their weights."""
    earlier, scan, audit = looks.get("earlier", []), outcome.scan, outcome.audit
    findings = [
        make_finding(
            "damaged-ledger",
            "warning",
            f"the ledger of looks is damaged: {look['damaged']}; what was written there counts as a look at risk "
            f"{look['risk']:g}. Looks that can be read still count, and new ones go into a file beside it",
        )
        for look in earlier
        if look.get("damaged")
    ]
    if request.barred:
        findings.insert(0, _barred(request))
    # A refusal half way, unless the audit has found it as well.
    known = audit.refused if outcome.code == CANNOT_CERTIFY else outcome.code in audit.codes()
    if outcome.refusal is not None and not known:
        findings.insert(0, make_finding(outcome.code, "refused", outcome.refusal, fix=outcome.fix))
    if scan is None:
        return findings
    others = [look for look in earlier if not look["same"] and not look.get("damaged")]
    if others and request.frozen is None:
        count, parts = len(others), sum(1 for look in others if look.get("part"))
        findings.append(
            make_finding(
                "earlier-looks",
                "note",
                f"{'1 other look was' if count == 1 else f'{count} other looks were'} taken at these data before"
                f"{f' ({parts} of them at a part of them)' if parts else ''}, the last one "
                f"{max(look['when'] for look in others)}; this request was fixed before their results, as far as the ledger and "
                f"the user say. The risk of all statements on these data together is at most {100 * share.total:.3g} %",
                looks=float(count),
            )
        )
    findings += [
        make_finding(
            "no-fingerprints",
            "warning",
            f"the record of {name} holds no fingerprints of the episodes it was learned from, or of other columns: that no such "
            "episode is certified rests on their ids",
        )
        for name in scan.unrecognisable
    ]
    findings += [
        doubtful_weights(request.candidates[index].name, request.named(scope), mean_weight(balance), log_weight_evidence(balance))
        for (index, scope), balance in scan.balances.items()
        if weights_doubtful(balance)
    ]
    findings += [*_other_methods(request, scan.claims), *_unreached(scan)]
    if not scan.counts["certified_episodes"]:
        findings.append(make_finding("nothing-certified", "refused", "no unit is left on the certification side of the split"))
    return findings


def _barred(request: Request) -> Finding:
    missing = sorted({name for scope in request.barred for name in scope if request.problem.level(name).propensity is None})
    scopes = join_words([" + ".join(request.named(scope)) for scope in request.barred])
    return make_finding(
        "no-propensity",
        "warning",
        f"there is no propensity of {join_words([repr(name) for name in missing])}: how likely was each action that was taken? "
        f"Not certified: {scopes}. The other scopes leave the legacy in charge there, and need no propensity of it",
        missing[0] if len(missing) == 1 else None,
        fix=NO_DENSITY if all(request.problem.level(name).actions.continuous for name in missing) else None,
    )


def _other_methods(request: Request, claims: Sequence[Claim]) -> list[Finding]:
    """Return a warning for each candidate and scope whose gain is not tested by the method that was asked for."""
    method, findings = request.method, []
    if method in ("auto", "plain"):  # auto is free to choose, and plain applies everywhere
        return []
    for claim in claims:
        names = [part.name for part in claim.parts]
        if claim.what != "gain" or claim.group is not None or not names or any(name.startswith(method) for name in names):
            continue
        levels = [request.problem.level(name) for name in request.named(claim.scope)]
        interval = next((level.name for level in levels if level.actions.continuous), None)
        taken = next((level.name for level in levels if level.propensity is not None and not level.propensity.full), None)
        reason = f"{method} bets do not apply to this candidate and scope"
        if interval is not None:
            reason = f"of the interval at '{interval}' the density at the number taken is logged and no whole distribution"
        elif taken is not None:
            reason = f"at '{taken}' the probability of the action taken is logged and no whole distribution"
        elif request.problem.wrong_by(claim.scope):
            reason = "propensities there may be wrong by a declared factor"
        place = ", ".join(f"'{level.name}'" for level in levels)
        text = f"'{method}' was asked for, but {reason}: the evidence of {request.candidates[claim.candidate].name} at {place} is"
        findings.append(make_finding("other-method", "warning", f"{text} {' + '.join(names)}"))
    return findings


def _unreached(scan: ScanResult) -> list[Finding]:
    """Return a warning for each level at which the incumbent takes actions that the log never shows."""
    shares: dict[str, float] = {}
    for agreement in scan.agreements.values():
        for level in agreement.decisions:
            shares[level] = max(shares.get(level, 0.0), agreement.share(level))
    rows = [item for ratios in scan.ratios.values() if (item := ratios.finding()) is not None]
    never = "of its probability to actions that the log never takes: they count"
    return rows + [
        unreached_finding(level, f"at '{level}' the incumbent gives {100 * share:.3g} % {never}", share)
        for level, share in shares.items()
        if share > 0
    ]


def _doubts(request: Request, scan: ScanResult) -> dict[tuple[str, tuple[str, ...]], WeightDoubt]:
    return {
        (request.candidates[index].name, request.named(scope)): WeightDoubt(
            mean_weight(balance), chance_words(log_weight_evidence(balance))
        )
        for (index, scope), balance in scan.balances.items()
        if weights_doubtful(balance)
    }


def _weights(request: Request, scan: ScanResult) -> list[dict[str, Any]]:
    spreads = [(index, request.named(scope), None, spread) for (index, scope), spread in scan.spreads.items()]
    own = [(index, (name,), name, spread) for (index, name), spread in scan.level_spreads.items()]
    return [
        {"candidate": request.candidates[index].name, "scope": list(scope), "level": level, **spread.plain()}
        for index, scope, level, spread in (*spreads, *own)
    ]


def _assumptions(request: Request, outcome: ScanOutcome) -> tuple[Assumption, ...]:
    try:
        measure = reward_measure(request.problem)
    except RefusedError:
        return ()
    return list_assumptions(request.problem, request.candidates, request.scopes, measure, outcome.audit.findings)


def _candidate(request: Request, candidate: Candidate, behaviour: Behaviours) -> dict[str, Any]:
    return {
        "name": candidate.name,
        "reference": candidate.reference,
        "digest": candidate.digest,
        "code": candidate.code,
        "behaviour": behaviour.get(candidate.name),
        "kind": getattr(candidate.policy, "kind", type(candidate.policy).__name__),
        "particles": int(candidate.policy.weights.size),
        "caps": {name: cap if math.isfinite(cap := candidate.cap(name)) else None for name in request.problem.names},
        "columns": list(candidate.columns),
        "learned": bool(candidate.record),
        "split": candidate.record.get("split"),
    }
