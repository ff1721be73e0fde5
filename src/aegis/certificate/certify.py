"""Certify: can we trust this policy here, and at what risk? From a log and candidates to a certificate."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from aegis.audit import PROPENSITIES_MOVE, Audit, Auditor
from aegis.certificate.assembly import ScanOutcome, assemble
from aegis.certificate.candidate import Candidate
from aegis.certificate.certificate import Certificate
from aegis.certificate.claims import CLAIMED_QUANTITIES
from aegis.certificate.digests import DataDigest, RowChecksums
from aegis.certificate.ledger import (
    CERTIFY,
    Behaviours,
    Ledger,
    LookRecord,
    check_ledger_folder,
    request_key,
    summarise_looks,
    utc_now,
)
from aegis.certificate.request import Candidates, Request
from aegis.certificate.risk import CHOSEN_AFTER_RESULTS, CHOSEN_WORDS, BarredRequest, RiskShare, check_declaration, risk_share_of
from aegis.certificate.scan import ScanResult, scan_log, scan_pieces
from aegis.certificate.unit_split import EarliestUnits, UnitSplit, first_open_unit, gap_columns, learned_splits, placing_in_time
from aegis.certificate.verdict import join_words
from aegis.engine import Engine, parse_engine, warm_engine
from aegis.errors import RefusedError
from aegis.logs import LogChunks, Source, Split
from aegis.ope import check_cluster_totals, reward_measure
from aegis.problem import Batch, Policy

EpisodeProgress = Callable[[int], None]


def certify(
    source: Source,
    candidates: Candidates,
    *,
    scopes: Iterable[Iterable[str]] | None = None,
    delta: float = 0.05,
    method: str = "auto",
    what: Sequence[str] = CLAIMED_QUANTITIES,
    fresh: bool = False,
    by: Sequence[str] = (),
    fixed_before: str | None = None,
    ledger: str | Path | bool | None = None,
    report: EpisodeProgress | None = None,
    now: str | None = None,
    engine: str = "local",
    workers: int | None = 1,
    incumbent: Policy | Candidate | None = None,
    others: str = "log",
) -> Certificate:
    """Certify candidates that were fixed beforehand: policies, or what `learn` returned.

    Parameters
    ----------
    source
        The log, with its problem.
    candidates
        One or several. Their claims share the risk.
    scopes
        The level names of each scope; all scopes if None.
    delta
        The risk of all statements on these data together. Requests that were registered on them (`register`) share it.
    method
        auto, water-filled, robust or plain.
    what
        'gain', or 'gain' and 'value'.
    fresh
        Learned candidates have not seen this log, so that all of it may be certified.
    by
        Contexts of the outermost level whose groups get claims of their own.
    fixed_before
        A written declaration that the request was fixed before any result on these data. It is needed if the request was not
        registered before the first one.
    ledger
        The folder of the ledger; None for the user's own; False for none, as in a study by simulation.
    report
        Called with the number of episodes read so far.
    now
        The time that the certificate states; None for the present.
    engine, workers
        'local' with so many processes (None: one for each core), 'dask' for a cluster of this machine, or 'dask://host:port'.
        The numbers are the same.
    incumbent
        The policy that acts if nothing is handed over, in the place of the one that the problem states. Gains are over it.
    others
        Levels outside a scope act as in the 'log', or as the 'incumbent'.

    Returns
    -------
    Certificate
        Its verdict is certified, not yet or refused.

    Raises
    ------
    InputError
        The log, a candidate or a setting is wrong.
    """
    request = Request.of(source.problem, candidates, scopes, delta, method, what, fresh, by, incumbent, others)
    terms = LookTerms(ledger, fixed_before=check_declaration(fixed_before))
    return issue_certificate(source, request, terms, report=report, now=now, engine=engine, workers=workers)


@dataclass(frozen=True, slots=True)
class LookTerms:
    """On which terms a log is looked at. ledger: as in `certify`. kind: of the record in the ledger.

    share: the risk that a stored certificate was tested at, if it is recomputed; None: the ledger decides.
    """

    ledger: str | Path | bool | None = None
    kind: str = CERTIFY
    fixed_before: str = ""
    share: RiskShare | None = None


def issue_certificate(
    source: Source,
    request: Request,
    terms: LookTerms,
    *,
    report: EpisodeProgress | None = None,
    now: str | None = None,
    engine: str = "local",
    workers: int | None = 1,
) -> Certificate:
    """Return the certificate of a request."""
    team = parse_engine(engine, workers)
    folder = None if isinstance(terms.ledger, bool) else terms.ledger
    if terms.ledger is not False:
        check_ledger_folder(folder)
    with contextlib.ExitStack() as stack:
        if source.long:
            team = stack.enter_context(warm_engine(team, scan_pieces.__module__))
        with ThreadPoolExecutor(1) as pool:  # the log is digested while its first rows are read
            digest = pool.submit(DataDigest.of, source)
            columns = (*request.columns, *(gap_columns(source) if request.frozen is None else ()))
            pieces = source.chunks(columns)
            batches = source.batches(columns)
            first = list(itertools.islice(batches, 1))
            data = digest.result()
        when = now or utc_now()
        book = None if terms.ledger is False else Ledger.of(data.total, folder, data.files)
        look = PendingLook(book, request, data, when, terms)
        log = _LogPass(source=source, data=data, pieces=pieces, engine=team, look=look, report=report)
        scanned = log.run(_chained(first, batches))
        if log.needs_time_split(scanned):
            scanned = log.run_in_time(scanned, columns)
        outcome, looks = look.judged(scanned), look.summary(scanned.behaviour)
        certificate = assemble(look.request, outcome, looks, outcome.data, when, look.share)
        look.close(certificate.verdict.verdict, scanned.behaviour)
        return certificate


@dataclass(slots=True)
class PendingLook:
    """A look on its way: written down as soon as certified units are opened, and closed with the verdict.

    What is wrong with the request, the policies or the columns of the log comes to light before, and is not a look. So
    does whether the ledger can be written, and whether the request may be looked at. request: once it is open, with the risk
    that it is tested at.
    """

    book: Ledger | None
    request: Request
    data: DataDigest
    when: str
    terms: LookTerms
    declared: Mapping[str, Any] = field(init=False)
    share: RiskShare = field(init=False)
    earlier: list[LookRecord] | None = None
    barred: BarredRequest | None = None
    opened: bool = False

    def __post_init__(self) -> None:
        self.declared = self.request.declared()
        self.share = self.terms.share or RiskShare.alone(self.request.delta, self.terms.fixed_before)

    def open(self, head: Sequence[Batch]) -> Request:
        """Write the look down when the head of the log was read, before anything is computed; RefusedError if barred.

        A second pass of the same look over the same log is no other look.
        """
        if self.opened:
            return self.request
        if self.book is not None:
            self.book = replace(self.book, files=self.data.known_by(head))
            self.earlier = self.book.add(self._look)
        if self.barred is not None:
            raise RefusedError(self.barred.reason)
        self.opened = True
        self.request = replace(self.request, delta=self.share.risk)
        return self.request

    def _look(self, earlier: Sequence[LookRecord]) -> LookRecord | None:
        """Return the look that goes into the ledger after all earlier ones; None if it may not be taken."""
        if self.ruled:
            share = risk_share_of(self.declared, earlier, self.terms.fixed_before)
            if isinstance(share, BarredRequest):
                self.barred = share
                return None
            self.share = share
        stored = {"risk": self.share.risk, **self.share.plain()}
        key, before = request_key(self.declared), self.share.fixed_before
        return LookRecord(key, self.when, self.declared, kind=self.terms.kind, share=stored, fixed_before=before)

    @property
    def ruled(self) -> bool:
        """Say whether the ledger decides: tests of a gate were fixed beforehand, and a comparison is no certificate."""
        return self.terms.kind == CERTIFY and self.request.frozen is None

    def judged(self, outcome: ScanOutcome) -> ScanOutcome:
        """Return the outcome, refused if the look was barred, or if code did not behave as at an earlier look."""
        if self.barred is not None:
            return replace(outcome, refusal=self.barred.reason, code=self.barred.code, fix=self.barred.fix)
        if not self.ruled or outcome.scan is None:
            return outcome
        key = request_key(self.declared)
        own = [look for look in self.earlier or () if look.statement and look.same(key, {})]
        if not own or any(look.same(key, outcome.behaviour) for look in own):
            return outcome
        reason = f"{CHOSEN_WORDS}; the code of a candidate behaves otherwise than when this request was looked at before"
        fix = "certify it under a name of its own, on data that came later"
        return replace(outcome, scan=None, refusal=reason, code=CHOSEN_AFTER_RESULTS, fix=fix)

    def summary(self, behaviour: Behaviours) -> dict[str, Any]:
        """Return what the certificate prints: looks at these data, and at others that share a part with them."""
        if self.book is None:
            return {}
        earlier = self.book.records() if self.earlier is None else self.earlier
        return summarise_looks(earlier, self.declared, self.book, behaviour)

    def close(self, verdict: str, behaviour: Behaviours) -> None:
        """Write down what was found, if the look was taken."""
        if self.book is not None and self.opened:
            self.book.close(self.declared, self.when, verdict, behaviour)


@dataclass(frozen=True, slots=True)
class _LogPass:
    """Passes over a log for one look. pieces: of a long log, which the engine reads; None: it is read as a stream."""

    source: Source
    data: DataDigest
    pieces: LogChunks | None
    engine: Engine
    look: PendingLook
    report: EpisodeProgress | None

    def run(self, batches: Generator[Batch, None, None], placing: tuple[Split | EarliestUnits, ...] = ()) -> ScanOutcome:
        """Return what one pass finds, or why there is none. placing: sets units apart that place bets."""
        request = self.look.request
        # In the log of a gate agents act after handovers; the units that it counted are held against the incumbent one by one.
        auditor = Auditor(
            request.problem, scope={name for scope in request.scopes for name in scope}, whole=request.frozen is None
        )
        rows = RowChecksums()
        try:
            scanned = self._scan(request, batches, placing, auditor, rows)
        except RefusedError as error:
            # An audit that saw nothing has nothing to say.
            audit = auditor.result() if self.look.opened else Audit.of([], {})
            missing = _without_propensity(request)
            if missing is not None or not error.code:
                error = missing or error
                return ScanOutcome(None, audit, str(error), self.data, fix=error.fix or None)
            first = next((item.message for item in audit.findings if item.code == error.code), error.message)
            return ScanOutcome(None, audit, first, self.data, error.code, error.fix)
        return ScanOutcome(scanned, auditor.result(), None, self.data.with_rows(rows))

    def _scan(
        self,
        request: Request,
        batches: Generator[Batch, None, None],
        placing: tuple[Split | EarliestUnits, ...],
        auditor: Auditor,
        rows: RowChecksums,
    ) -> ScanResult:
        measure = reward_measure(request.problem)
        if "value" in request.what:
            check_cluster_totals(request.problem, measure)
        fixed = () if request.frozen is None else (request.frozen.window,)
        sides = UnitSplit((*self._learned(), *fixed, *placing), first_open_unit(self.source))
        if self.pieces is None:
            observers = [auditor.add, rows.add, *([] if self.report is None else [_counting(self.report)])]
            return scan_log(request, batches, sides, observers, self.look.open)
        digests = [bytes.fromhex(item) for item in self.data.digests] if self.engine.elsewhere else []
        pieces = self.pieces.sealed(digests)
        return scan_pieces(request, batches, pieces, sides, auditor, self.engine, self.look.open, self.report)

    def _learned(self) -> tuple[Split, ...]:
        request = self.look.request
        return learned_splits(self.source, request.candidates, request.fresh, self.data)

    def needs_time_split(self, outcome: ScanOutcome) -> bool:
        """Say whether a split by hash was used though propensities move or follow earlier rewards (theory section 1)."""
        if outcome.scan is None or PROPENSITIES_MOVE not in outcome.audit.codes() or self.look.request.frozen is not None:
            return False
        return any(isinstance(split, Split) and split.kind == "hash" for split in outcome.scan.sides.splits)

    def run_in_time(self, outcome: ScanOutcome, columns: Sequence[str]) -> ScanOutcome:
        """Return what is found if the earliest units place the bets; refused if a candidate was learned by hash."""
        if any(not split.unlearned for split in self._learned()):
            moving = next(item for item in outcome.audit.findings if item.code == PROPENSITIES_MOVE)
            reason = f"{moving.message}; the candidate was learned from one side of a split by hash"
            return replace(outcome, scan=None, refusal=reason, code=PROPENSITIES_MOVE, fix=moving.fix)
        units = int(float(outcome.audit.figures.get("clusters", outcome.audit.figures["episodes"])))
        return self.run(self.source.batches(columns), (placing_in_time(self.source, units),))


def _without_propensity(request: Request) -> RefusedError | None:
    """Return why nothing can be certified if a level in scope has no propensity, and which levels have one; else None."""
    levels = {name for scope in request.scopes for name in scope}
    unknown = [name for name in request.problem.names if request.problem.level(name).propensity is None]
    missing = [repr(name) for name in unknown if name in levels]
    if not missing:
        return None
    known = [repr(name) for name in request.problem.names if name not in unknown]
    return RefusedError(
        f"there is no propensity of {join_words(missing)}: how likely was each action that was taken? Nothing can be certified "
        "without",
        fix=f"what can be is a scope of {join_words(known)} alone (--scope)" if known else "",
    )


def _chained(first: list[Batch], rest: Iterator[Batch]) -> Generator[Batch, None, None]:
    yield from first
    yield from rest


def _counting(report: EpisodeProgress) -> Callable[[Batch], None]:
    """Return a look that tells how many episodes have been read."""
    episodes = 0

    def look(batch: Batch) -> None:
        nonlocal episodes
        episodes += len(batch)
        report(episodes)

    return look
