"""Where a method that was asked for does not apply, and evidence is of another kind: that is said, not done in silence."""

from __future__ import annotations

from collections.abc import Sequence

from aegis.audit.finding import Finding, finding
from aegis.certificate.claims import Claim
from aegis.certificate.request import Request
from aegis.problem import Scope


def other_methods(request: Request, claims: Sequence[Claim]) -> list[Finding]:
    """Return a warning for each candidate and scope whose gain is not tested by the method that was asked for."""
    asked = request.method
    if asked in ("auto", "plain"):  # auto is free to choose, and plain applies everywhere
        return []
    found = []
    for claim in claims:
        names = [part.name for part in claim.parts]
        if claim.what != "gain" or claim.group is not None or not names or any(name.startswith(asked) for name in names):
            continue
        place = ", ".join(f"'{name}'" for name in request.named(claim.scope))
        found.append(
            finding(
                "other-method",
                "warning",
                f"'{asked}' was asked for, but {_reason(request, claim.scope, asked)}: the evidence of "
                f"{request.candidates[claim.candidate].name} at {place} is {' + '.join(names)}",
            )
        )
    return found


def _reason(request: Request, scope: Scope, asked: str) -> str:
    levels = [request.problem.level(name) for name in request.named(scope)]
    for level in levels:
        if level.actions.continuous:
            return f"of the interval at '{level.name}' the density at the number taken is logged and no whole distribution"
    for level in levels:
        if level.propensity is not None and not level.propensity.full:
            return f"at '{level.name}' the probability of the action taken is logged and no whole distribution"
    if request.problem.wrong_by(scope):
        return "propensities there may be wrong by a declared factor"
    return f"{asked} bets do not apply to this candidate and scope"
