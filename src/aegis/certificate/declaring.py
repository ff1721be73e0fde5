"""Declaring the claims of a request: which tests, at which share of the risk."""

from __future__ import annotations

from collections.abc import Sequence

from aegis.certificate.candidate import Candidate
from aegis.certificate.claims import Claim, margin_of
from aegis.certificate.groups import SHARE, Group
from aegis.certificate.measures import guard_measures, reward_measure
from aegis.certificate.parts import Reach, gain_parts, value_parts
from aegis.certificate.request import Request
from aegis.problem import Batch, Problem


def declare(request: Request, sample: Batch, groups: Sequence[Group] = ()) -> tuple[Claim, ...]:
    """Return all claims, each at delta divided by their number; subgroups share a tenth of it among them.

    sample: a few episodes, to find out which policies give whole distributions; the number of claims does not depend on it.
    """
    problem, method, comparator = request.problem, request.method, request.comparator
    reward, guards = reward_measure(problem), guard_measures(problem)
    pairs = len(request.candidates) * len(request.scopes)
    delta = request.delta * (1.0 - SHARE) if groups else request.delta
    share = delta / (pairs * (len(request.what) + len(guards)))
    claims: list[Claim] = []
    for index, candidate in enumerate(request.candidates):
        knows = {name: _knows_all(problem, candidate, name, sample) for scope in request.scopes for name in scope}
        for scope in request.scopes:
            ordered = request.named(scope)
            close = tuple(candidate.close(name, comparator) for name in ordered)
            reach = Reach(all(knows[name] for name in ordered), close, comparator)
            margin = margin_of(problem, scope) / reward.width
            parts = gain_parts(problem, scope, reward, reach, method)
            claims.append(Claim(index, scope, "gain", reward, margin, share, parts))
            small = request.delta * SHARE / (pairs * max(len(groups), 1))
            claims += [Claim(index, scope, "gain", reward, 0.0, small, parts, group) for group in groups]
            if "value" in request.what:
                parts = value_parts(problem, scope, reward, reach, method)
                claims.append(Claim(index, scope, "value", reward, 0.0, share, parts))
            for guard in guards:
                parts = gain_parts(problem, scope, guard, reach, method)
                claims.append(Claim(index, scope, "guard", guard, -guard.allowed / guard.width, share, parts))
    return tuple(claims)


def _knows_all(problem: Problem, candidate: Candidate, level: str, sample: Batch) -> bool:
    propensity = problem.level(level).propensity
    logged = propensity is not None and propensity.full and sample.levels[level].mu_full is not None
    return logged and candidate.knows_all(level, sample)
