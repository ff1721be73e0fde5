"""The request of a certificate: candidates, scopes, risk and method, fixed before the data are opened, and its claims."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypedDict

from aegis.certificate.candidate import Candidate, FrozenTests, LearnedPolicy
from aegis.certificate.claims import (
    CLAIM_METHODS,
    CLAIMED_QUANTITIES,
    SUBGROUP_SHARE,
    Claim,
    Reach,
    UnitGroup,
    check_group_variables,
    claims_at,
    margin_of,
    scopes_of,
)
from aegis.errors import SettingError, check_choice
from aegis.evidence import check_delta
from aegis.files import json_digest
from aegis.ope import Comparator, guard_measures, reward_measure
from aegis.problem import Batch, Policy, Problem, Scope, dump_problem

USUAL_DELTA = 0.05
OTHER_LEVELS_ACT = ("log", "incumbent")
Candidates = Policy | LearnedPolicy | Candidate | Sequence[Policy | LearnedPolicy | Candidate]


class RequestTerms(TypedDict, total=False):
    """What may be asked for beside the candidates; see `aegis.certificate.certify`."""

    scopes: Iterable[Iterable[str]] | None
    delta: float
    method: str
    what: Sequence[str]
    fresh: bool
    by: Sequence[str]
    incumbent: Policy | Candidate | None
    others: str


@dataclass(frozen=True, slots=True)
class Request:
    """Candidates, scopes, risk and method. asked: the user named the scopes. fresh: no candidate has seen any of the log.

    by: contexts of the outermost level whose groups get claims of their own. barred: scopes that the user did not name and
    that hold a level without propensities: nothing is claimed there. The weights of the other scopes have no factor of it.
    stated: the incumbent as a policy, in the place of what the problem states. others: how levels outside a scope act, as in the
    `log` or as the `incumbent`.
    """

    problem: Problem
    candidates: tuple[Candidate, ...]
    scopes: tuple[Scope, ...]
    delta: float
    method: str
    what: tuple[str, ...]
    fresh: bool
    asked: bool
    by: tuple[str, ...] = ()
    barred: tuple[Scope, ...] = ()
    stated: Candidate | None = None
    others: str = "log"

    @classmethod
    def of(
        cls,
        problem: Problem,
        candidates: Candidates,
        scopes: Iterable[Iterable[str]] | None = None,
        delta: float = USUAL_DELTA,
        method: str = "auto",
        what: Sequence[str] = CLAIMED_QUANTITIES,
        fresh: bool = False,
        by: Sequence[str] = (),
        incumbent: Policy | Candidate | None = None,
        others: str = "log",
    ) -> Request:
        """Return a checked request; SettingError says what does not fit."""
        policies: list[Any] = list(candidates) if isinstance(candidates, list | tuple) else [candidates]
        listed = tuple(Candidate.of(item, place) for place, item in enumerate(policies, 1))
        if not listed:
            raise SettingError("there is no candidate; give at least one policy")
        name, count = Counter(candidate.name for candidate in listed).most_common(1)[0]
        if count > 1:
            raise SettingError(f"two candidates are called '{name}'; each needs a name of its own")
        frozen = next((candidate.frozen for candidate in listed if candidate.frozen is not None), None)
        if frozen is not None:
            scopes, delta = _fixed_tests(frozen, len(listed), scopes, delta, method, by)
        check_delta(delta)
        check_choice(method, CLAIM_METHODS, "method")
        for word in what:
            check_choice(word, CLAIMED_QUANTITIES, "claim")
        if "gain" not in what:
            raise SettingError("the gain is always among the claims; add 'gain'")
        chosen, barred = _possible_scopes(problem, scopes, {name for candidate in listed for name in candidate.levels(problem)})
        variables = tuple(variable.name for variable in check_group_variables(problem, by))
        asked = scopes is not None
        check_choice(others, OTHER_LEVELS_ACT, "way in which other levels act")
        stated = incumbent if isinstance(incumbent, Candidate | None) else replace(Candidate.of(incumbent), name="the incumbent")
        claims = tuple(dict.fromkeys(what))
        return cls(problem, listed, chosen, delta, method, claims, fresh, asked, variables, barred, stated, others)

    @property
    def comparator(self) -> Comparator:
        """Return who candidates are compared with."""
        if self.frozen is not None:
            return self.frozen.comparator
        if self.stated is None:
            return Comparator.of(self.problem, others=self.others == "incumbent")
        return Comparator.of(self.problem, self.stated.policy, self.others == "incumbent", self.stated.reference)

    @property
    def frozen(self) -> FrozenTests | None:
        """Return the tests that were fixed before; None if they are those of this request."""
        return self.candidates[0].frozen

    @property
    def columns(self) -> tuple[str, ...]:
        """Return the further columns of the log that candidates read."""
        window = () if self.frozen is None else (self.frozen.window.number, self.frozen.window.arm)
        policies = (*self.candidates, *(() if self.stated is None else (self.stated,)))
        return tuple(dict.fromkeys((*(column for candidate in policies for column in candidate.columns), *window)))

    @property
    def problem_digest(self) -> str:
        """Return the digest of the problem."""
        return json_digest(dump_problem(self.problem))

    def named(self, scope: Scope) -> tuple[str, ...]:
        """Return the levels of a scope, outermost first."""
        return tuple(name for name in self.problem.names if name in scope)

    def settings(self) -> dict[str, Any]:
        """Return scopes, risk and method as plain data."""
        return {
            "scopes": [list(self.named(scope)) for scope in self.scopes],
            "delta": self.delta,
            "method": self.method,
            "what": list(self.what),
            "fresh": self.fresh,
            "by": list(self.by),
            **({} if self.others == "log" else {"others": self.others}),
        }

    def declared(self) -> dict[str, Any]:
        """Return the claims as plain data: what goes into the ledger before the data are opened."""
        return {
            "problem": self.problem_digest,
            "candidates": [
                {"name": candidate.name, "digest": candidate.digest, "code": candidate.code} for candidate in self.candidates
            ],
            **self.settings(),
            **({} if self.stated is None else {"incumbent": self.stated.digest}),
        }


def _possible_scopes(
    problem: Problem, named: Iterable[Iterable[str]] | None, levels: set[str]
) -> tuple[tuple[Scope, ...], tuple[Scope, ...]]:
    """Return the scopes to certify, and those that cannot be because a level in them has no propensity.

    Scopes that the user named are all to be certified, or refused; so are all if no level has propensities.
    """
    known = {name for name in levels if problem.level(name).propensity is not None}
    if named is not None or not known or known == levels:
        return scopes_of(problem, named, levels), ()
    possible = scopes_of(problem, None, known)
    return possible, tuple(scope for scope in scopes_of(problem, None, levels) if scope not in possible)


def _fixed_tests(
    frozen: FrozenTests, candidates: int, scopes: Iterable[Iterable[str]] | None, delta: float, method: str, by: Sequence[str]
) -> tuple[list[list[str]], float]:
    """Return scopes and risk of tests that were fixed before; SettingError if something else is asked for."""
    named = None if scopes is None else [sorted(scope) for scope in scopes]
    other = named not in (None, [[frozen.level]]) or method != "auto" or by or delta not in (USUAL_DELTA, frozen.delta)
    if candidates > 1 or other:
        raise SettingError(
            f"the tests of this challenger were fixed when it was frozen, at level '{frozen.level}' and risk {frozen.delta:.6g}: "
            "certify it by itself, without --scope, --delta, --method or --by"
        )
    return [[frozen.level]], frozen.delta


def declare_claims(request: Request, sample: Batch, groups: Sequence[UnitGroup] = ()) -> tuple[Claim, ...]:
    """Return all claims, each at delta divided by their number; subgroups share a tenth of it among them.

    sample: a few episodes, to find out which policies give whole distributions; the number of claims does not depend on it.
    """
    problem, comparator = request.problem, request.comparator
    reward, guards = reward_measure(problem), guard_measures(problem)
    methods = dict.fromkeys(request.what, request.method)
    pairs = len(request.candidates) * len(request.scopes)
    delta = request.delta * (1.0 - SUBGROUP_SHARE) if groups else request.delta
    share = delta / (pairs * (len(request.what) + len(guards)))
    claims: list[Claim] = []
    for index, candidate in enumerate(request.candidates):
        knows = {
            name: _logs_distributions(problem, name, sample) and candidate.knows_all(name, sample)
            for scope in request.scopes
            for name in scope
        }
        for scope in request.scopes:
            ordered = request.named(scope)
            close = tuple(candidate.close(name, comparator) for name in ordered)
            reach = Reach(all(knows[name] for name in ordered), close, comparator)
            margin = margin_of(problem, scope) / reward.width
            own = claims_at(problem, scope, reach, methods, margin=margin, delta=share, candidate=index)
            small = request.delta * SUBGROUP_SHARE / (pairs * max(len(groups), 1))
            subgroups = [replace(own[0], margin=0.0, delta=small, group=group) for group in groups]
            claims += [own[0], *subgroups, *own[1:]]  # a subgroup uses the grids of the claim before it
    return tuple(claims)


def _logs_distributions(problem: Problem, level: str, sample: Batch) -> bool:
    propensity = problem.level(level).propensity
    return propensity is not None and propensity.full and sample.levels[level].mu_full is not None
