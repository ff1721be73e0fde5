"""Certify: can we trust this policy here, and at what risk? From a log and candidates to a certificate."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from aegis.audit import Auditor
from aegis.certificate.assembling import Outcome, assemble
from aegis.certificate.candidate import Candidate, Learned
from aegis.certificate.certificate import Certificate
from aegis.certificate.claims import WHAT
from aegis.certificate.data import DataDigest
from aegis.certificate.ledger import Ledger, summary
from aegis.certificate.measures import check_totals, reward_measure
from aegis.certificate.request import Request
from aegis.certificate.run import collect
from aegis.certificate.sides import Sides, first_open, learned_splits
from aegis.errors import RefusedError
from aegis.logs import Source
from aegis.problem import Batch, Policy

Report = Callable[[int], None]


def certify(
    source: Source,
    candidates: Policy | Learned | Candidate | Sequence[Policy | Learned | Candidate],
    *,
    scopes: Iterable[Iterable[str]] | None = None,
    delta: float = 0.05,
    method: str = "auto",
    what: Sequence[str] = WHAT,
    fresh: bool = False,
    by: Sequence[str] = (),
    ledger: str | Path | bool | None = None,
    report: Report | None = None,
    now: str | None = None,
) -> Certificate:
    """Return a certificate for one or several candidates that were fixed beforehand: policies, or what `learn` returned.

    scopes: level names of each scope; all scopes if None. delta: the risk, shared by all claims. method: auto, water-filled,
    robust or plain. what: 'gain', or 'gain' and 'value'. fresh: learned candidates have seen none of this log, so that all of it
    may be certified. by: contexts of the outermost level whose groups are looked at too. ledger: its folder; None for the user's
    own; False for none, as in a study by simulation. report: told the episodes read so far. The verdict is
    certified, not yet or refused; bad input raises InputError.
    """
    request = Request.of(source.problem, candidates, scopes, delta, method, what, fresh, by)
    data = DataDigest.of(source)
    when = now or datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
    declared = request.declared()
    book = None if ledger is False else Ledger.of(data.total, None if isinstance(ledger, bool) else ledger)
    looks = {} if book is None else summary(book.open(declared, when), declared, book)
    outcome = _run(source, request, data.total, report)
    certificate = assemble(request, outcome, looks, data, when)
    if book is not None:
        book.close(declared, when, certificate.verdict.verdict)
    return certificate


def _run(source: Source, request: Request, digest: str, report: Report | None) -> Outcome:
    """Return what one pass over the log finds, or why there is none."""
    problem = request.problem
    auditor = Auditor(problem, scope={name for scope in request.scopes for name in scope})
    try:
        measure = reward_measure(problem)
        if "value" in request.what:
            check_totals(problem, measure)
        sides = Sides(learned_splits(source, request.candidates, request.fresh, digest), first_open(source))
        looks = [auditor.add] if report is None else [auditor.add, _counting(report)]
        found = collect(request, source.batches(request.columns), sides, None, looks)
    except RefusedError as error:
        return Outcome(None, auditor.result(), str(error))
    return Outcome(found, auditor.result(), None)


def _counting(report: Report) -> Callable[[Batch], None]:
    """Return a look that tells how many episodes have been read."""
    seen = 0

    def look(batch: Batch) -> None:
        nonlocal seen
        seen += len(batch)
        report(seen)

    return look
