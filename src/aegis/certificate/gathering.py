"""The pass over a long log, piece by piece, wherever the pieces are read: the same numbers whoever reads them, and how many do.

The head of the log is read here and places grids, models and cuts; every piece is then audited and weighed by itself, and what
was found is put together in the order of the log. Episodes that begin in one piece and end in another are added last.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable
from dataclasses import dataclass

import pyarrow as pa

from aegis.audit import Auditor
from aegis.audit.auditing import skimmed
from aegis.certificate.adding import add
from aegis.certificate.behaviour import code_modules
from aegis.certificate.collected import Collected
from aegis.certificate.request import Request
from aegis.certificate.run import Opening, opened, placed
from aegis.certificate.sides import Sides
from aegis.engine import Engine, give_back, mapped, sendable, sent_whole
from aegis.errors import RefusedError
from aegis.logs.pieces import Pieces
from aegis.problem import Batch


@dataclass(slots=True)
class Gathered:
    """What was found in a piece, the rows at its ends, and why it was refused half way, if it was."""

    found: Collected
    auditor: Auditor
    ends: list[pa.Table]
    refusal: str | None = None


@dataclass(frozen=True, slots=True)
class Gathering:
    """Audits and weighs a piece. start, auditor: with grids, models and cuts placed, and nothing in them."""

    pieces: Pieces
    request: Request
    start: Collected
    auditor: Auditor

    def __call__(self, number: int) -> Gathered:
        """Return what is in a piece."""
        skim = skimmed(number)
        found, auditor = self.start.again(self.request, number == 0, skim), self.auditor.part(number, skim, self.pieces.episodes)
        reading = self.pieces.read(number)
        refusal = self.weigh(reading, found, auditor)
        found.models = []  # everybody has them
        return Gathered(found, auditor, reading.ends, refusal)

    def weigh(self, batches: Iterable[Batch], found: Collected, auditor: Auditor) -> str | None:
        """Add batches; return why they were refused, None if they were not."""
        for batch in batches:
            auditor.add(batch)
            try:
                add(self.request, found, batch)
            except RefusedError as error:
                return str(error)
        return None


def gather(
    request: Request,
    batches: Generator[Batch, None, None],
    pieces: Pieces,
    sides: Sides,
    auditor: Auditor,
    engine: Engine,
    opening: Opening | None = None,
    report: Callable[[int], None] | None = None,
) -> Collected:
    """Run the whole pass; `batches` are read as far as the head goes. The audit is complete when this returns, or refuses."""
    head, _, whole = opened(request, batches)
    request = request if opening is None else opening(head)
    batches.close()
    auditor.place(head[0])
    found = placed(request, head, whole, sides)
    head.clear()
    _give_back()
    work = Gathering(pieces, request, found.again(request), auditor.part(0))
    edges, number = pieces.edges(), len(pieces)
    last = Gathered(found.again(request), auditor.part(number), [])
    own = [name for candidate in request.candidates for name in code_modules(candidate.policy)]
    with sent_whole(engine, own):
        for part in mapped(sendable(engine, work), work, range(number)):
            auditor.merge(part.auditor)
            _refuse(part.refusal)
            found.merge(part.found)
            _refuse(work.weigh(edges.add(part.ends), last.found, last.auditor))
            if report is not None:
                report(found.episodes)
    refusal = work.weigh(edges.close(), last.found, last.auditor)
    auditor.merge(last.auditor)
    _refuse(refusal)
    found.merge(last.found)
    found.close()
    return found


def _give_back() -> None:
    """Give back what reading the head has taken: from here on this process waits, and others need memory."""
    pa.default_memory_pool().release_unused()
    give_back()


def _refuse(refusal: str | None) -> None:
    if refusal is not None:
        raise RefusedError(refusal)
