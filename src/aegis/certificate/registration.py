"""Register a request before any result is seen, and write results of other commands into the ledger.

A registered request belongs to the family of these data: it may be certified after any results of others, at its share
of the risk. Registering reads the log to recognise it later, and asks the candidates for probabilities; no reward is evaluated.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from aegis.certificate.candidate import Candidate, LearnedPolicy
from aegis.certificate.claims import CLAIMED_QUANTITIES
from aegis.certificate.digests import DataDigest
from aegis.certificate.ledger import REGISTER, Ledger, LookRecord, check_ledger_folder, identified, request_key, utc_now
from aegis.certificate.request import Request
from aegis.certificate.risk import BarredRequest, RequestFamily, RiskShare, describe_first_result, risk_share_of
from aegis.certificate.scan import open_head
from aegis.certificate.unit_split import read_head
from aegis.errors import RefusedError, SettingError
from aegis.files import json_digest
from aegis.logs import Source
from aegis.problem import Policy


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
    candidates: Policy | LearnedPolicy | Candidate | Sequence[Policy | LearnedPolicy | Candidate],
    *,
    scopes: Iterable[Iterable[str]] | None = None,
    delta: float = 0.05,
    method: str = "auto",
    what: Sequence[str] = CLAIMED_QUANTITIES,
    fresh: bool = False,
    by: Sequence[str] = (),
    fixed_before: str | None = None,
    ledger: str | Path | None = None,
    now: str | None = None,
    incumbent: Policy | Candidate | None = None,
    others: str = "log",
) -> Registration:
    """Write a request into the ledger of these data without looking at any result; the parameters are those of `certify`.

    Parameters
    ----------
    delta
        The risk of all statements on these data together. It is recorded, and not part of what the request is known by.
    fixed_before
        A written declaration that the request was fixed before any result on these data; needed once there is one.
    ledger
        The folder of the ledger; None for the user's own.

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
    request = Request.of(source.problem, candidates, scopes, delta, method, what, fresh, by, incumbent, others)
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
    data = DataDigest.of(source)
    book = Ledger.of(data.total, ledger, data.known_by(head))
    before: list[LookRecord] = []

    def choose(earlier: Sequence[LookRecord]) -> LookRecord | None:
        family = RequestFamily.of(earlier)
        known = [look for look in earlier if look.key == request_key(declared)]
        fixed = family.has(declared)
        if not fixed and not declaration and not family.declaration(declared):
            raise RefusedError(
                f"cannot be registered: {describe_first_result(family)}, and a request that is chosen after a result is no "
                "certificate "
                "[chosen-after-results]; register it on fresh data, or declare in writing that it was fixed before: "
                '--fixed-before "reason"'
            )
        before.extend(known)
        here = [look for look in known if not look.part and (look.kind == REGISTER or look.result)]
        if here and (family.first is not None or here[-1].asked == request.delta):
            return None
        before.clear()
        return LookRecord(
            request_key(declared), now or utc_now(), declared, kind=REGISTER, fixed_before="" if fixed else declaration
        )

    book.add(choose)
    records = book.records()
    family, outcome = RequestFamily.of(records), risk_share_of(declared, records, declaration)
    share, reason = (None, f"{outcome.reason}; {outcome.fix}") if isinstance(outcome, BarredRequest) else (outcome, "")
    known = {look.key for look in records if look.kind == REGISTER or look.statement}
    written = declaration if not family.has(declared) else ""
    return Registration(declared, len(known), bool(before), share, reason, str(book.path), written)


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
    head, rest, _ = read_head(source.batches())
    close = getattr(rest, "close", None)
    if close is not None:
        close()
    data = DataDigest.of(source)
    book = Ledger.of(data.total, folder, data.known_by(head))
    declared = {"asked": json_digest(dict(request)), **request}
    book.add(lambda _: LookRecord(request_key(declared), now or utc_now(), declared, "shown", kind=kind))


def check_declaration(text: str | None) -> str:
    """Return a written declaration; SettingError if it is blank."""
    if text is not None and not text.strip():
        raise SettingError("--fixed-before needs a reason in words: when and where was the request fixed before the results?")
    return "" if text is None else text.strip()
