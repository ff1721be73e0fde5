"""Certify: can we trust this policy here, and at what risk? From a log and candidates to a certificate."""

from __future__ import annotations

import contextlib
import datetime
import itertools
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from aegis.audit import Auditor
from aegis.audit.finding import Audit
from aegis.certificate.assembling import Outcome, assemble
from aegis.certificate.candidate import Candidate, Learned
from aegis.certificate.certificate import Certificate
from aegis.certificate.claims import WHAT
from aegis.certificate.data import DataDigest
from aegis.certificate.gathering import gather
from aegis.certificate.ledger import Ledger, check_folder, summary
from aegis.certificate.looks import Behaviours, Look
from aegis.certificate.measures import check_totals, reward_measure
from aegis.certificate.request import Request
from aegis.certificate.rows import RowSums
from aegis.certificate.run import collect
from aegis.certificate.sides import Sides, first_open, gap_columns, learned_splits
from aegis.certificate.verdicts import listed
from aegis.engine import Engine, engine_of, prepared
from aegis.errors import RefusedError
from aegis.logs import Source
from aegis.logs.pieces import Pieces
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
    engine: str = "local",
    workers: int | None = 1,
    incumbent: Policy | Candidate | None = None,
    others: str = "log",
) -> Certificate:
    """Return a certificate for one or several candidates that were fixed beforehand: policies, or what `learn` returned.

    scopes: level names of each scope; all scopes if None. delta: the risk, shared by all claims. method: auto, water-filled,
    robust or plain. what: 'gain', or 'gain' and 'value'. fresh: learned candidates have seen none of this log, so that all of it
    may be certified. by: contexts of the outermost level whose groups are looked at too. ledger: its folder; None for the user's
    own; False for none, as in a study by simulation. report: told the episodes read so far. engine, workers:
    who reads a long log: so many processes of this machine (None: one for each core), 'dask' for a cluster of this machine, or
    'dask://host:port'; the numbers are the same. incumbent: who acts if nothing is handed over, in the place of what the problem
    states; gains are over it. others: levels outside a scope act as in the 'log', or as the 'incumbent'. The verdict is
    certified, not yet or refused; bad input raises InputError.
    """
    team = engine_of(engine, workers)
    request = Request.of(source.problem, candidates, scopes, delta, method, what, fresh, by, incumbent, others)
    folder = None if isinstance(ledger, bool) else ledger
    if ledger is not False:
        check_folder(folder)
    with contextlib.ExitStack() as stack:
        if source.long:
            team = stack.enter_context(prepared(team, gather.__module__))
        return _certify(source, request, team, ledger, report, now)


def _certify(
    source: Source, request: Request, team: Engine, ledger: str | Path | bool | None, report: Report | None, now: str | None
) -> Certificate:
    folder = None if isinstance(ledger, bool) else ledger
    with ThreadPoolExecutor(1) as pool:  # the log is digested while its first rows are read
        digest = pool.submit(DataDigest.of, source)
        columns = (*request.columns, *(gap_columns(source) if request.frozen is None else ()))
        pieces = source.pieces(columns)
        batches = source.batches(columns)
        first = list(itertools.islice(batches, 1))
        data = digest.result()
    when = now or datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
    book = None if ledger is False else Ledger.of(data.total, folder, data.files)
    looking = Looking(book, request.declared(), when)
    outcome = _run(source, _Rows(_chained(first, batches), pieces, team), request, data, looking, report)
    data, looks = outcome.data, looking.summary(outcome.data, outcome.behaviour)
    certificate = assemble(request, outcome, looks, data, when)
    looking.close(data, certificate.verdict.verdict, outcome.behaviour)
    return certificate


@dataclass(slots=True)
class Looking:
    """A look on its way: written down as soon as certified units are opened, and closed with the verdict.

    What is wrong with the request, the policies or the columns of the log comes to light before, and is not a look. So
    does whether the ledger can be written.
    """

    book: Ledger | None
    declared: Mapping[str, Any]
    when: str
    earlier: list[Look] | None = None
    opened: bool = False

    def open(self, batch: Batch) -> None:
        """Write the look down when the first batch comes by, before anybody has looked at it."""
        self.opened = True
        if self.book is not None and self.earlier is None:
            self.earlier = self.book.open(self.declared, self.when)

    def summary(self, data: DataDigest, behaviour: Behaviours) -> dict[str, Any]:
        """Return what the certificate prints: looks at these data, and at others that share a part with them."""
        if self.book is None:
            return {}
        book = replace(self.book, files=data.files)
        earlier = book.looks() if self.earlier is None else self.earlier
        return summary([*earlier, *book.sharing()], self.declared, book, behaviour)

    def close(self, data: DataDigest, verdict: str, behaviour: Behaviours) -> None:
        """Write down what was found, if the look was taken."""
        if self.book is not None and self.earlier is not None:
            replace(self.book, files=data.files).close(self.declared, self.when, verdict, behaviour)


@dataclass(frozen=True, slots=True)
class _Rows:
    """The log as a stream, and in pieces if it is long, with who reads these."""

    batches: Generator[Batch, None, None]
    pieces: Pieces | None
    engine: Engine


def _run(source: Source, log: _Rows, request: Request, data: DataDigest, looking: Looking, report: Report | None) -> Outcome:
    """Return what one pass over the log finds, or why there is none."""
    problem = request.problem
    auditor = Auditor(problem, scope={name for scope in request.scopes for name in scope})
    rows = RowSums()
    try:
        measure = reward_measure(problem)
        if "value" in request.what:
            check_totals(problem, measure)
        fixed = () if request.frozen is None else (request.frozen.window,)
        sides = Sides((*learned_splits(source, request.candidates, request.fresh, data), *fixed), first_open(source))
        if log.pieces is None:
            looks = [auditor.add, rows.add, *([] if report is None else [_counting(report)])]
            found = collect(request, log.batches, sides, None, looks, looking.open)
        else:
            digests = [bytes.fromhex(item) for item in data.digests] if log.engine.elsewhere else []
            pieces = log.pieces.sealed(digests)
            found = gather(request, log.batches, pieces, sides, auditor, log.engine, looking.open, report)
    except RefusedError as error:
        # An audit that saw nothing has nothing to say.
        reason = _without_propensity(request) or str(error)
        return Outcome(None, auditor.result() if looking.opened else Audit.of([], {}), reason, data)
    return Outcome(found, auditor.result(), None, data.with_rows(rows))


def _without_propensity(request: Request) -> str:
    """Return why nothing can be certified if a level in scope has no propensity, and which levels have one; else nothing."""
    asked = {name for scope in request.scopes for name in scope}
    missing = [name for name in request.problem.names if name in asked and request.problem.level(name).propensity is None]
    if not missing:
        return ""
    words, others = listed([f"'{name}'" for name in missing]), [name for name in request.problem.names if name not in missing]
    text = f"there is no propensity of {words}: how likely was each action that was taken? Nothing can be certified without"
    known = [name for name in others if request.problem.level(name).propensity is not None]
    return text + (f"; what can be is a scope of {listed([repr(name) for name in known])} alone (--scope)" if known else "")


def _chained(first: list[Batch], rest: Iterator[Batch]) -> Generator[Batch, None, None]:
    yield from first
    yield from rest


def _counting(report: Report) -> Callable[[Batch], None]:
    """Return a look that tells how many episodes have been read."""
    seen = 0

    def look(batch: Batch) -> None:
        nonlocal seen
        seen += len(batch)
        report(seen)

    return look
