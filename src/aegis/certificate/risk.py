"""The share of the risk that each request on the same data gets, and the registration of requests before any result is seen.

The sum of risks bounds the probability that any statement on some data is wrong only if every request was fixed without results
on them. The ledger shows which were: those registered before the first result, and the one that gave it. Together they are the
family, which shares the risk asked for in equal parts. Any other request is refused, unless it is declared in writing that it
was fixed before; then it gets what is left of the risk. Registering reads the log to recognise it later, and asks the candidates
for probabilities; no reward is evaluated.

Theorem (union bound). Let requests r_1, ..., r_k be fixed without looking at the data, and let r_i be tested at risk d_i.
Whether and when each one is asked may depend on earlier results. The probability that any statement is wrong is at most
d_1 + ... + d_k.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Unpack

from aegis.certificate.digests import DataDigest
from aegis.certificate.ledger import CERTIFY, REGISTER, Ledger, LookRecord, check_ledger_folder, identified, request_key, utc_now
from aegis.certificate.request import Candidates, Request, RequestTerms
from aegis.certificate.scan import open_head
from aegis.certificate.unit_split import read_head
from aegis.errors import RefusedError, SettingError
from aegis.files import json_digest
from aegis.logs import Source

CHOSEN_AFTER_RESULTS, RISK_SPENT = "chosen-after-results", "risk-spent"  # codes of findings
CHOSEN_WORDS = "not a certificate: chosen after results on these data"
RISK_ROUNDING = 1e-9  # of the risk asked for, below which sums of risks count as equal


@dataclass(frozen=True, slots=True)
class RiskShare:
    """The risk that a request is tested at, out of the risk of all statements on these data together.

    asked: the risk of all statements. risk: of this one. requests: how many statements the sum is over, those of registered
    requests without a result included. total: the sum. looks: it includes more than one look at the same request, or requests
    outside the family. fixed_before: the declaration that this request was fixed before results were seen.
    """

    asked: float
    risk: float
    requests: int
    total: float
    looks: bool = False
    fixed_before: str = ""

    @classmethod
    def alone(cls, delta: float, fixed_before: str = "") -> RiskShare:
        """Return the share of a request that is the only one."""
        return cls(delta, delta, 1, delta, fixed_before=fixed_before)

    @classmethod
    def of(cls, risk: float, stored: Mapping[str, Any] | None) -> RiskShare:
        """Return a share from plain data; that of a request that is the only one if nothing is stored."""
        if not stored:
            return cls.alone(risk)
        looks, fixed_before = bool(stored.get("looks")), str(stored.get("fixed_before", ""))
        return cls(float(stored["asked"]), risk, int(stored["requests"]), float(stored["sum"]), looks, fixed_before)

    def plain(self) -> dict[str, Any]:
        """Return plain data, without the risk itself."""
        own = {"asked": self.asked, "requests": self.requests, "sum": self.total}
        return {**own, "looks": self.looks, "fixed_before": self.fixed_before}

    @property
    def words(self) -> str:
        """Return what the sum of risks is about: all statements of 3 requests or looks."""
        return f"all statements of the {self.requests} {'looks at' if self.looks else 'requests registered on'} these data"


@dataclass(frozen=True, slots=True)
class BarredRequest:
    """Why a request may not be looked at: the code of the finding, the reason, and what to do."""

    code: str
    reason: str
    fix: str | None = None


@dataclass(frozen=True, slots=True)
class RequestFamily:
    """The records of some data in the order in which they were made. keys: of the requests that were fixed before the results.

    counted: those of them that share the risk: registered ones, and the one that stated something first.
    """

    records: tuple[LookRecord, ...]
    keys: frozenset[str]
    counted: frozenset[str]

    @classmethod
    def of(cls, records: Sequence[LookRecord]) -> RequestFamily:
        """Return the family of all records of these data and of data that share a part with them."""
        ordered = tuple(sorted(records, key=lambda look: look.at))  # stable: within a file in their order
        place = next((place for place, look in enumerate(ordered) if look.result), len(ordered))
        registered = {look.key for look in ordered[:place] if look.kind == REGISTER and not look.fixed_before}
        first = {look.key for look in ordered[place : place + 1] if look.declared and not look.damaged}
        stated = {look.key for look in ordered if look.statement}
        return cls(ordered, frozenset(registered | first), frozenset(registered | (first & stated)))

    @property
    def first(self) -> LookRecord | None:
        """Return the first result; None if there is none."""
        return next((look for look in self.records if look.result), None)

    def has(self, declared: Mapping[str, Any]) -> bool:
        """Say whether a request is known to be one of those that were fixed before the results; each is before the first one."""
        return self.first is None or (identified(declared) and request_key(declared) in self.keys)

    def asks(self, without: str = "") -> list[float]:
        """Return the risks that requests which share the risk asked for; of one of them only when it was registered."""
        return [
            look.asked
            for look in self.records
            if look.key in self.counted and (look.kind == REGISTER or (look.statement and look.key != without))
        ]

    def waiting(self, without: str = "") -> set[str]:
        """Return the requests that share the risk and have stated nothing yet, but for one of them."""
        return set(self.counted) - {look.key for look in self.records if look.statement} - {without}

    def spent(self, without: str = "") -> list[float]:
        """Return the risk of each statement so far, but for those of this request on these very data.

        A look that was repeated at the same risk counts once. One that is not known to be a repetition counts for itself.
        """
        largest: dict[tuple[str | float, ...], float] = {}
        for number, look in enumerate(self.records):
            if not look.statement or look.same(without, {}):
                continue
            alike = () if identified(look.declared) and not look.damaged else (str(number),)
            place = (look.key, look.data, look.risk, *alike)
            largest[place] = max(largest.get(place, 0.0), look.risk)
        return list(largest.values())

    def declaration(self, declared: Mapping[str, Any]) -> str:
        """Return what was declared of a request when it was first registered or looked at here."""
        key = request_key(declared)
        own = [look.fixed_before for look in self.records if look.key == key and look.fixed_before]
        return own[0] if own and identified(declared) else ""


def risk_share_of(
    declared: Mapping[str, Any], records: Sequence[LookRecord], fixed_before: str = ""
) -> RiskShare | BarredRequest:
    """Return the risk that a request may be tested at, or why it may not be looked at.

    records: all looks at these data and at data that share a part with them, and all registered requests. fixed_before: the
    declaration that the request was fixed before any result; empty if there is none.
    """
    family, key, asked = RequestFamily.of(records), request_key(declared), float(declared["delta"])
    member = family.has(declared)
    declaration = fixed_before or ("" if member else family.declaration(declared))
    if not member and not declaration:
        reason = f"{CHOSEN_WORDS}; {describe_first_result(family)}, and this request was not registered before"
        return BarredRequest(CHOSEN_AFTER_RESULTS, reason)
    own = [look for look in family.records if look.statement and look.key == key and identified(declared)]
    for look in reversed(own):
        if look.same(key, {}) and look.asked == asked:  # the same look, at the same risk
            return replace(RiskShare.of(look.risk, look.share), fixed_before=declaration)
    counted = family.counted | ({key} if member else set())
    asks = [*([asked] if member else []), *(family.asks(key) if counted != {key} else ())]  # alone it may ask for more
    equal = min(asks, default=0.0) / max(len(counted), 1)
    spent, waiting = family.spent(key), family.waiting(key)
    reserved = equal * len(waiting)
    again = any(look.part for look in own) and not any(look.same(key, {}) for look in own)

    def tested(used: Sequence[float]) -> float:
        left = asked - sum(used) - reserved
        return equal if member and not again and equal <= left + RISK_ROUNDING * asked else left

    # Bets are placed by the risk: the same request tested at another risk is another test, and its risk adds.
    before = {look.risk for look in own if look.same(key, {})}
    if not any(abs(tested(spent) - risk) <= RISK_ROUNDING * asked for risk in before):
        spent = [*spent, *before]
    risk = tested(spent)
    if risk <= RISK_ROUNDING * asked:
        return _bar_risk_spent(asked, sum(spent), reserved, again)
    requests = 1 + len(spent) + len(waiting)
    return RiskShare(asked, risk, requests, sum(spent) + reserved + risk, not member or requests != len(counted), declaration)


def describe_first_result(family: RequestFamily) -> str:
    """Return in words which result on these data came first."""
    first = family.first
    if first is None:
        return "there is no result on these data"
    if first.damaged:
        return f"the ledger cannot be read at {first.damaged}, which counts as a result"
    names = ", ".join(str(item.get("name", "")) for item in first.declared.get("candidates", []))
    what = {CERTIFY: "a certificate", REGISTER: "a request"}.get(first.kind, f"aegis {first.kind}")
    kind = f"{what} for {names}" if names else what
    return f"the first result on {'a part of them' if first.part else 'them'} was {kind}, {first.when}"


def _bar_risk_spent(asked: float, spent: float, reserved: float, again: bool) -> BarredRequest:
    """Return the refusal of a request for which no risk is left; again: the log has grown since it was looked at."""
    promised = f", and {reserved:.4g} is promised to registered requests without a result" if reserved else ""
    reason = (
        f"no risk is left: --delta {asked:g} is the risk of all statements on these data together, and earlier ones "
        f"spent {spent:.4g}{promised}{'. The log has grown since' if again else ''}"
    )
    more = f"ask for a --delta above {spent + reserved:.4g}, which is the risk of all statements together"
    alone = f"certify on the new episodes alone, in a file of their own; or {more}"
    return BarredRequest(RISK_SPENT, reason, alone if again else f"{more}; or certify on fresh data")


@dataclass(frozen=True, slots=True)
class Registration:
    """What was registered, how many requests are on these data, and the share of the risk that this one gets as things are.

    declared: the request as it stands in the ledger. requests: registered ones and those with a result. already: it was known
    before. share: None if no risk is left for it, and `reason` says why.
    """

    declared: Mapping[str, Any]
    requests: int
    already: bool
    share: RiskShare | None
    reason: str
    ledger: str
    fixed_before: str = ""

    def to_json(self) -> dict[str, Any]:
        """Return plain data."""
        share = None if self.share is None else {"risk": self.share.risk, **self.share.plain()}
        return {
            "registered": dict(self.declared),
            "digest": request_key(self.declared),
            "already": self.already,
            "requests": self.requests,
            "share": share,
            "reason": self.reason,
            "fixed_before": self.fixed_before,
            "ledger": self.ledger,
        }


def register(
    source: Source,
    candidates: Candidates,
    *,
    fixed_before: str | None = None,
    ledger: str | Path | None = None,
    now: str | None = None,
    **terms: Unpack[RequestTerms],
) -> Registration:
    """Write a request into the ledger of these data without looking at any result.

    Parameters
    ----------
    source, candidates, terms
        As in `certify`. The risk `delta` is recorded, and not part of what the request is known by.
    fixed_before
        A written declaration that the request was fixed before any result on these data; needed once there is one.
    ledger
        The folder of the ledger; None for the user's own.
    now
        The time that the ledger states; None for the present.

    Returns
    -------
    Registration
        The request, the number of requests on these data, and its share of the risk.

    Raises
    ------
    RefusedError
        There is a result on these data, or on data that share a part with them, and no declaration.
    SettingError
        A candidate has no digest, so that the request could not be known again.
    """
    request = Request.of(source.problem, candidates, **terms)
    if request.frozen is not None:
        raise SettingError("the tests of a challenger were fixed when it was frozen: certify it, it needs no registration")
    declared, declaration = request.declared(), check_declaration(fixed_before)
    if not identified(declared):
        names = ", ".join(candidate.name for candidate in request.candidates if candidate.digest is None)
        raise SettingError(
            f"{names}: a policy without a digest cannot be registered, because it would not be known again; give a policy "
            "folder, columns, or a function that has a name in a module"
        )
    check_ledger_folder(ledger)
    head, _, _ = open_head(request, source.batches(request.columns))
    data, key = DataDigest.of(source), request_key(declared)
    book = Ledger.of(data.total, ledger, data.known_by(head))
    already = False

    def choose(earlier: Sequence[LookRecord]) -> LookRecord | None:
        nonlocal already
        family = RequestFamily.of(earlier)
        fixed = family.has(declared)
        if not fixed and not declaration and not family.declaration(declared):
            raise RefusedError(
                f"cannot be registered: {describe_first_result(family)}, and a request that is chosen after a result is no "
                f"certificate [{CHOSEN_AFTER_RESULTS}]",
                fix='register it on fresh data, or declare in writing that it was fixed before: --fixed-before "reason"',
            )
        here = [look for look in earlier if look.key == key and not look.part and (look.kind == REGISTER or look.result)]
        already = bool(here) and (family.first is not None or here[-1].asked == request.delta)
        when, declared_before = now or utc_now(), "" if fixed else declaration
        return None if already else LookRecord(key, when, declared, kind=REGISTER, fixed_before=declared_before)

    book.add(choose)
    records = book.records()
    family, outcome = RequestFamily.of(records), risk_share_of(declared, records, declaration)
    share, reason = (None, f"{outcome.reason}; {outcome.fix}") if isinstance(outcome, BarredRequest) else (outcome, "")
    known = {look.key for look in records if look.kind == REGISTER or look.statement}
    written = declaration if not family.has(declared) else ""
    return Registration(declared, len(known), already, share, reason, str(book.path), written)


def record_result(
    source: Source, kind: str, request: Mapping[str, Any], ledger: str | Path | bool | None = None, now: str | None = None
) -> None:
    """Write down that a command other than `certify` shows estimates of candidates on all units of a log.

    kind: the command. asked: what it was asked for, as plain data. ledger: as in `certify`.
    """
    if ledger is False:
        return
    folder = None if isinstance(ledger, bool) else ledger
    check_ledger_folder(folder)
    batches = source.batches()
    head, _, _ = read_head(batches)
    batches.close()
    data = DataDigest.of(source)
    book = Ledger.of(data.total, folder, data.known_by(head))
    declared = {"asked": json_digest(dict(request)), **request}
    book.add(lambda _: LookRecord(request_key(declared), now or utc_now(), declared, "shown", kind=kind))


def check_declaration(text: str | None) -> str:
    """Return a written declaration; SettingError if it is blank."""
    if text is not None and not text.strip():
        raise SettingError("--fixed-before needs a reason in words: when and where was the request fixed before the results?")
    return "" if text is None else text.strip()
