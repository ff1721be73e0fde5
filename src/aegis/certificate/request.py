"""What somebody asks a certificate for: everything that is fixed before the data are opened."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from aegis.certificate.candidate import Candidate, Learned
from aegis.certificate.claims import METHODS, WHAT, scopes_of
from aegis.certificate.comparator import Comparator
from aegis.certificate.frozen import FrozenTests
from aegis.certificate.groups import check_variables
from aegis.errors import SettingError, choose
from aegis.evidence.sketch import check_delta
from aegis.files import digest_of
from aegis.problem import Policy, Problem, Scope, dump_problem

USUAL_DELTA = 0.05
OTHERS = ("log", "incumbent")


@dataclass(frozen=True, slots=True)
class Request:
    """Candidates, scopes, risk and method. asked: the user named the scopes. fresh: no candidate has seen any of the log.

    by: contexts of the outermost level whose groups get claims of their own. barred: scopes that nobody asked for by name and
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
        candidates: Policy | Learned | Candidate | Sequence[Policy | Learned | Candidate],
        scopes: Iterable[Iterable[str]] | None = None,
        delta: float = USUAL_DELTA,
        method: str = "auto",
        what: Sequence[str] = WHAT,
        fresh: bool = False,
        by: Sequence[str] = (),
        incumbent: Policy | Candidate | None = None,
        others: str = "log",
    ) -> Request:
        """Return a checked request; SettingError says what does not fit."""
        given: list[Any] = list(candidates) if isinstance(candidates, list | tuple) else [candidates]
        listed = tuple(Candidate.of(item, place) for place, item in enumerate(given, 1))
        if not listed:
            raise SettingError("there is no candidate; give at least one policy")
        names = [candidate.name for candidate in listed]
        for name in names:
            if names.count(name) > 1:
                raise SettingError(f"two candidates are called '{name}'; each needs a name of its own")
        frozen = next((candidate.frozen for candidate in listed if candidate.frozen is not None), None)
        if frozen is not None:
            scopes, delta = _fixed(frozen, len(listed), scopes, delta, method, by)
        check_delta(delta)
        choose(method, METHODS, "method")
        for word in what:
            choose(word, WHAT, "claim")
        if "gain" not in what:
            raise SettingError("the gain is always among the claims; add 'gain'")
        found, barred = _possible(problem, scopes, {name for candidate in listed for name in candidate.levels(problem)})
        variables = tuple(variable.name for variable in check_variables(problem, by))
        asked = scopes is not None
        choose(others, OTHERS, "way in which other levels act")
        stated = None if incumbent is None else _stated(incumbent)
        claims = tuple(dict.fromkeys(what))
        return cls(problem, listed, found, delta, method, claims, fresh, asked, variables, barred, stated, others)

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
        return digest_of(dump_problem(self.problem))

    def named(self, scope: Scope) -> tuple[str, ...]:
        """Return the levels of a scope, outermost first."""
        return tuple(name for name in self.problem.names if name in scope)

    def declared(self) -> dict[str, Any]:
        """Return the claims as plain data: what goes into the ledger before the data are opened."""
        return {
            "problem": self.problem_digest,
            "candidates": [
                {"name": candidate.name, "digest": candidate.digest, "code": candidate.code} for candidate in self.candidates
            ],
            "scopes": [list(self.named(scope)) for scope in self.scopes],
            "delta": self.delta,
            "method": self.method,
            "what": list(self.what),
            "fresh": self.fresh,
            "by": list(self.by),
            **({} if self.stated is None else {"incumbent": self.stated.digest}),
            **({} if self.others == "log" else {"others": self.others}),
        }


def _stated(incumbent: Policy | Candidate) -> Candidate:
    """Return a given incumbent with the columns that it reads."""
    found = Candidate.of(incumbent)
    return found if isinstance(incumbent, Candidate) else replace(found, name="the incumbent")


def _possible(
    problem: Problem, asked: Iterable[Iterable[str]] | None, levels: set[str]
) -> tuple[tuple[Scope, ...], tuple[Scope, ...]]:
    """Return the scopes to certify, and those that cannot be because a level in them has no propensity.

    Scopes that somebody asked for by name are all to be certified, or refused; so are all if no level has propensities.
    """
    known = {name for name in levels if problem.level(name).propensity is not None}
    if asked is not None or not known or known == levels:
        return scopes_of(problem, asked, levels), ()
    found = scopes_of(problem, None, known)
    return found, tuple(scope for scope in scopes_of(problem, None, levels) if scope not in found)


def _fixed(
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
