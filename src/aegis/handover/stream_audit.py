"""The audit of the stream that a gate certifies from (docs/theory.md, The gate audits itself).

The episodes that a gate counts go through the tests of `aegis audit`, in the order in which they started. What would refuse a
log of them pauses the gate. It is asked after every `CHUNK` episodes, and before anything is certified or changes hands. There
less is enough to put that off: what is certified may be wrong, and the next episodes will tell.

A gate is asked again and again, so only tests that hold at every time may pause it (`PAUSING`). Standard scores, which are
right once for a log of a fixed size, do not. Whatever the blocks in which episodes arrive, they are added in chunks counted from
the start of a segment; the rest is added to a copy, so that the answer depends on the episodes alone.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from aegis.audit import Auditor, Finding
from aegis.handover.budget import freeze_share
from aegis.handover.events import Event, Paused, PutOff
from aegis.handover.gate import decides
from aegis.problem import Batch, Problem, concat

ALPHA = 0.001  # of each test, over the life of a gate
DOUBT = 0.25  # level at which a finding puts off what would be decided; it promises nothing and costs time alone
AGAIN = 8  # episodes after which it is asked again, counted from the start of a segment
CHUNK = 128  # episodes after which a gate is audited, counted from the start of a segment
PLACING = 12  # first episodes of a segment, that place the cuts of contexts; a fixed number, so that no result moves it
STAKES = 4  # over which evidence is averaged in each bet

FORWARD, PAIRED = "forward", "paired"
PAUSING: Mapping[str, str] = {
    "miscalibrated-propensities": FORWARD,
    "actions-held": FORWARD,
    "carry-over": FORWARD,
    "siblings-interfere": FORWARD,
    "size-follows-action": FORWARD,
    "duplicated-episodes": FORWARD,
    "episodes-redone": FORWARD,
    "episodes-interfere": PAIRED,
}
"""Findings that pause a gate, and what makes their tests hold at every time.

`FORWARD`: each factor of the wealth has mean at most one given everything before the draw it bets on, or before its episode; by
Ville's inequality the wealth ever reaches 1/alpha with probability at most alpha. `PAIRED`: the reward of an episode is bet on by
the action of the one before it, so that neighbouring factors share an episode. The wealth is a product of two of the first kind,
over every other pair; one of them has the square root of it, and that is what has to be large (see `enough`).
"""


def enough(found: Finding, alpha: float) -> bool:
    """Say whether a finding of an audit at level alpha pauses a gate: it refuses, by evidence that holds at every time."""
    kind, evidence = PAUSING.get(found.code), found.figures.get("log10_evidence")
    if kind is None or found.severity != "refused" or not isinstance(evidence, float):
        return False
    if kind == FORWARD:
        return True  # the audit has compared it with 1/alpha
    overlap, bets = float(found.figures.get("overlap", 2.0)), float(found.figures.get("bets", 1.0))
    return overlap <= 1.0 or evidence >= overlap * math.log10(2.0 * overlap * STAKES * max(bets, 1.0) / alpha)


@dataclass(slots=True)
class StreamAudit:
    """Audits the episodes of a gate, segment by segment; `start` a new one whenever another policy begins to act.

    A segment begins with the gate, at a flip, a revert and a restart: pairs of episodes from both sides would show what the gate
    itself did. The s-th has the share 6 / (pi s)^2 of ALPHA, so that all of them together hold at ALPHA, however many there are.
    """

    problem: Problem
    segment: int = 1
    episodes: int = 0
    _auditor: Auditor | None = None  # of whole chunks
    _asked: tuple[int, Auditor] | None = None  # the latest one that was asked, and of how many episodes
    _waiting: list[tuple[Batch, list[int]]] = field(default_factory=list)  # episodes that are in no chunk yet, by batch

    @property
    def alpha(self) -> float:
        """Return the level of each test in this segment."""
        return freeze_share(ALPHA, self.segment)

    @property
    def due(self) -> bool:
        """Say whether the next episode fills a chunk."""
        return (self.episodes + 1) % CHUNK == 0

    def start(self) -> None:
        """Begin a new segment."""
        self.segment, self.episodes, self._auditor, self._asked = self.segment + 1, 0, None, None
        self._waiting.clear()

    def before(self, events: Sequence[Event], put_off: PutOff | None, batch: Batch, place: int) -> Paused | PutOff | None:
        """Return what comes in the place of events that would follow from the episode at a place of a batch; None if nothing.

        put_off: what puts off anything that is decided so far.
        """
        deciding = decides(events)
        if deciding and put_off is not None and (self.episodes + 1) % AGAIN:
            return put_off
        return self.asked(batch, place, deciding) if deciding or self.due else None

    def asked(self, batch: Batch | None = None, place: int = 0, deciding: bool = True) -> Paused | PutOff | None:
        """Return what follows from the episodes so far, and from one more at a place of a batch: a pause, or a delay, or nothing.

        deciding: something is to be decided by them. Nothing is added by asking.
        """
        waiting = [*self._waiting, *([] if batch is None else [(batch, [place])])]
        episodes = self.episodes + (batch is not None)
        auditor = self._auditor
        if waiting:
            auditor = self._with(concat([one.take_episodes(np.array(places)) for one, places in waiting]))
            self._asked = episodes, auditor
        if auditor is None:
            return None
        for found in auditor.result().findings:
            if enough(found, self.alpha):
                return Paused(0, f"the audit refuses what it counts: {found.message}", found.code, found.level, found.fix)
        for found in auditor.at(DOUBT).refused if deciding else ():
            if found.code in PAUSING and "log10_evidence" in found.figures:
                return PutOff(0, found.message, found.code, found.level)
        return None

    def add(self, batch: Batch, place: int) -> None:
        """Add the episode at a place of a batch, the next one of the segment."""
        if self._waiting and self._waiting[-1][0] is batch:
            self._waiting[-1][1].append(place)
        else:
            self._waiting.append((batch, [place]))
        self.episodes += 1
        if self.episodes % CHUNK:
            return
        if self._asked is None or self._asked[0] != self.episodes:
            self.asked(deciding=False)
        if self._asked is not None:
            self._auditor = self._asked[1]
        self._asked = None
        self._waiting.clear()

    def _with(self, rest: Batch) -> Auditor:
        """Return an auditor of all chunks and the rest; the one of the chunks stays as it is."""
        if self._auditor is not None:
            made = copy.deepcopy(self._auditor, {id(self.problem): self.problem})
        else:
            made = Auditor(self.problem, alpha=self.alpha)
            made.place(rest, min(PLACING, len(rest)))
        made.add(rest)
        return made
