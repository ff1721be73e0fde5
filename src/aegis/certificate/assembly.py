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
from aegis.certificate.assumptions import codes_about, list_assumptions
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
from aegis.ope import guard_measures, reward_measure
from aegis.problem import Problem, Scope, dump_problem
from aegis.version import __version__


def other_method_findings(request: Request, claims: Sequence[Claim]) -> list[Finding]:
    """Return a warning for each candidate and scope whose gain is not tested by the method that was asked for."""
    method = request.method
    if method in ("auto", "plain"):  # auto is free to choose, and plain applies everywhere
        return []
    findings = []
    for claim in claims:
        names = [part.name for part in claim.parts]
        if claim.what != "gain" or claim.group is not None or not names or any(name.startswith(method) for name in names):
            continue
        place = ", ".join(f"'{name}'" for name in request.named(claim.scope))
        findings.append(
            make_finding(
                "other-method",
                "warning",
                f"'{method}' was asked for, but {_other_method_reason(request, claim.scope, method)}: the evidence of "
                f"{request.candidates[claim.candidate].name} at {place} is {' + '.join(names)}",
            )
        )
    return findings


def _other_method_reason(request: Request, scope: Scope, method: str) -> str:
    levels = [request.problem.level(name) for name in request.named(scope)]
    for level in levels:
        if level.actions.continuous:
            return f"of the interval at '{level.name}' the density at the number taken is logged and no whole distribution"
    for level in levels:
        if level.propensity is not None and not level.propensity.full:
            return f"at '{level.name}' the probability of the action taken is logged and no whole distribution"
    if request.problem.wrong_by(scope):
        return "propensities there may be wrong by a declared factor"
    return f"{method} bets do not apply to this candidate and scope"


CANNOT_CERTIFY = "cannot-certify"


@dataclass(frozen=True, slots=True)
class ScanOutcome:
    """What a pass over the log found; or why it was refused half way. data: with checksums of rows after a whole pass.

    code, fix: of the finding that says why; the fix stands in the refusal if it is None.
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
        doubts=_doubts(request, scan),
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
    figures = dict(outcome.audit.figures)
    measure = reward_measure(request.problem)
    rewards = {
        "mean": next((level.legacy_value for level in levels if level.legacy_value is not None), None),
        "smallest": figures.get("smallest_reward"),
        "largest": figures.get("largest_reward"),
        "low": measure.low,
        "high": measure.high,
    }
    subgroups = subgroup_results(request, outcome.scan, levels)
    exact = unsmoothed_results(request, levels)
    return {
        "weights": weights,
        "subgroups": subgroups,
        "rewards": rewards,
        "audit": figures,
        "rows": outcome.data.rows,
        **outcome.scan.described,
        **({"unsmoothed": exact} if exact else {}),
    }


SIZE_CODES = ("size-follows-action", "size-follows-reward")


def _levels(request: Request, outcome: ScanOutcome, findings: Sequence[Finding]) -> tuple[LevelResult, ...]:
    results = []
    several = {item.level for item in findings if item.code == SEVERAL_LOGGERS and item.level is not None}
    for index in range(len(request.candidates)):
        for scope in request.scopes:
            levels = request.comparator.compared(scope)
            refusals = [item for item in findings if item.severity == "refused" and _concerns(item, levels, request.problem)]
            if outcome.scan is not None:
                results.append(level_result(request, outcome.scan, index, scope, refusals, several))
            else:
                reason = outcome.refusal or "; ".join(item.message for item in refusals)
                results.append(refused_result(request, index, scope, reason))
        results += [refused_result(request, index, scope, _barred_reason(request, scope)) for scope in request.barred]
    return tuple(results)


def _barred_reason(request: Request, scope: Scope) -> str:
    """Return why a scope is barred."""
    missing = [name for name in request.named(scope) if request.problem.level(name).propensity is None]
    return f"there is no propensity of {join_words([repr(name) for name in missing])} [no-propensity]"


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
    earlier = looks.get("earlier", [])
    findings = [
        *_refusal_finding(outcome),
        *([_barred(request)] if request.barred else []),
        *(_damaged(look) for look in earlier if look.get("damaged")),
    ]
    scan = outcome.scan
    if scan is None:
        return findings
    others = [look for look in earlier if not look["same"] and not look.get("damaged")]
    if others and request.frozen is None:
        findings.append(_earlier_looks(others, share))
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
    findings += [*other_method_findings(request, scan.claims), *_unreached(scan)]
    if not scan.counts["certified_episodes"]:
        findings.append(make_finding("nothing-certified", "refused", "no unit is left on the certification side of the split"))
    return findings


def _refusal_finding(outcome: ScanOutcome) -> list[Finding]:
    """Return the finding of a refusal half way, unless the audit has found it as well."""
    if outcome.refusal is None or outcome.code in {item.code for item in outcome.audit.findings}:
        return []
    if outcome.code != CANNOT_CERTIFY:
        return [make_finding(outcome.code, "refused", outcome.refusal, fix=outcome.fix)]
    if outcome.audit.refused:
        return []
    return [make_finding(CANNOT_CERTIFY, "refused", outcome.refusal, fix=_after_semicolon(outcome.refusal))]


def _earlier_looks(others: Sequence[Mapping[str, Any]], share: RiskShare) -> Finding:
    count, parts = len(others), sum(1 for look in others if look.get("part"))
    return make_finding(
        "earlier-looks",
        "note",
        f"{'1 other look was' if count == 1 else f'{count} other looks were'} taken at these data before"
        f"{f' ({parts} of them at a part of them)' if parts else ''}, the last one {max(look['when'] for look in others)}; this "
        "request was fixed before their results, as far as the ledger and the user say. The risk of all statements on these "
        f"data together is at most {100 * share.total:.3g} %",
        looks=float(count),
    )


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


def _doubts(request: Request, scan: ScanResult | None) -> dict[tuple[str, tuple[str, ...]], WeightDoubt]:
    """Return what is doubtful about the weights, by candidate and scope."""
    balances = {} if scan is None else scan.balances
    return {
        (request.candidates[index].name, request.named(scope)): WeightDoubt(
            mean_weight(balance), chance_words(log_weight_evidence(balance))
        )
        for (index, scope), balance in balances.items()
        if weights_doubtful(balance)
    }


def _barred(request: Request) -> Finding:
    missing = sorted({name for scope in request.barred for name in scope if request.problem.level(name).propensity is None})
    scopes = join_words([" + ".join(request.named(scope)) for scope in request.barred])
    return make_finding(
        "no-propensity",
        "warning",
        f"there is no propensity of {join_words([repr(name) for name in missing])}: how likely was each action "
        "that was taken? Not "
        f"certified: {scopes}. The other scopes leave the legacy in charge there, and need no propensity of it",
        missing[0] if len(missing) == 1 else None,
        fix=NO_DENSITY if all(request.problem.level(name).actions.continuous for name in missing) else None,
    )


def _damaged(look: Mapping[str, Any]) -> Finding:
    return make_finding(
        "damaged-ledger",
        "warning",
        f"the ledger of looks is damaged: {look['damaged']}; what was written there counts as a look at risk {look['risk']:g}. "
        "Looks that can be read still count, and new ones go into a file beside it",
    )


def _after_semicolon(text: str) -> str:
    """Return the part of a message that says what to do."""
    head, _, tail = text.rpartition(";")
    return tail.strip() if head and tail.strip() else "see the message"


def _weights(request: Request, scan: ScanResult) -> list[dict[str, Any]]:
    listed = []
    for (index, scope), spread in scan.spreads.items():
        listed.append(
            {"candidate": request.candidates[index].name, "scope": list(request.named(scope)), "level": None, **spread.plain()}
        )
    for (index, name), spread in scan.level_spreads.items():
        listed.append({"candidate": request.candidates[index].name, "scope": [name], "level": name, **spread.plain()})
    return listed


def _assumptions(request: Request, outcome: ScanOutcome) -> Any:
    try:
        measures = (reward_measure(request.problem), *guard_measures(request.problem))
    except RefusedError:
        return ()
    assumptions = list_assumptions(
        request.problem, request.candidates, request.scopes, measures, codes_about(outcome.audit.findings, request.scopes)
    )
    code = [
        Assumption(
            "policy-code",
            f"{candidate.name} is code, which a certificate cannot hold; the code that was certified is what will be deployed.",
            "by declaration; verifying compares digests of its file and of its probabilities on the certified rows",
        )
        for candidate in request.candidates
        if candidate.is_code
    ]
    return (*assumptions, *code)


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
