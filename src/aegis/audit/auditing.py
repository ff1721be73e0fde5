"""The audit of a log: one pass over its batches, or over its pieces wherever they are read, with the same findings."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Sequence
from dataclasses import dataclass

import pyarrow as pa

from aegis.audit.auditor import Auditor
from aegis.audit.finding import Audit
from aegis.engine import Engine, engine_of, mapped, sendable
from aegis.logs import Source, Split, part_digests
from aegis.logs.pieces import Pieces
from aegis.problem import Batch, Policy

SKIMMED = 16  # of so many pieces of a long log the costly tests look at one
Report = Callable[[int], None]


def audit_log(
    source: Source,
    policy: Policy | None = None,
    scope: Iterable[str] | None = None,
    columns: Sequence[str] = (),
    split: Split | None = None,
    side: str | None = None,
    alpha: float = 0.001,
    report: Report | None = None,
    engine: str = "local",
    workers: int | None = 1,
    learned: bool = False,
) -> Audit:
    """Audit a log, or one `side` of a `split` of it; `columns` are read along, for policies that are columns of the log.

    report: called after each batch, or piece, with the number of episodes so far. engine, workers: who reads a long log, as for
    `certify`. learned: the policy was learned from this log, so that the mean of its weights on it says nothing. Raises what
    reading and the policy raise.
    """
    auditor = Auditor(source.problem, policy, scope, alpha, learned)
    team = engine_of(engine, workers)
    pieces = None if split is not None else source.pieces(columns)
    if pieces is not None:
        pieces = pieces.sealed(part_digests(source.files)) if team.elsewhere else pieces
        _audit_pieces(auditor, source.batches(columns), pieces, team, report)
        return auditor.result()
    for batch in source.batches(columns, side=side, split=split):
        auditor.add(batch)
        if report is not None:
            report(auditor.episodes)
    return auditor.result()


def skimmed(number: int) -> bool:
    """Say whether the costly tests leave a piece out; that depends on its number alone, so that bets stay fair."""
    return number % SKIMMED > 0


@dataclass(frozen=True, slots=True)
class _Work:
    """Audits a piece. auditor: with its cuts placed, and nothing in it."""

    pieces: Pieces
    auditor: Auditor

    def __call__(self, number: int) -> tuple[Auditor, list[pa.Table]]:
        auditor, reading = self.auditor.part(number, skimmed(number), self.pieces.episodes), self.pieces.read(number)
        for batch in reading:
            auditor.add(batch)
        return auditor, reading.ends


def _audit_pieces(
    auditor: Auditor, batches: Generator[Batch, None, None], pieces: Pieces, engine: Engine, report: Report | None
) -> None:
    """Add all pieces; the first of the batches places the cuts."""
    auditor.place(next(batches))
    batches.close()
    work, edges, last = _Work(pieces, auditor.part(0)), pieces.edges(), auditor.part(len(pieces))
    for part, ends in mapped(sendable(engine, work), work, range(len(pieces))):
        auditor.merge(part)
        for batch in edges.add(ends):
            last.add(batch)
        if report is not None:
            report(auditor.episodes)
    for batch in edges.close():
        last.add(batch)
    auditor.merge(last)
