"""The audit of the stream that a gate certifies from (docs/theory.md, The gate audits itself).

The episodes that a gate counts go through the tests of `aegis audit`, in the order in which they started. What would refuse a
log of them pauses the gate. It is asked after every `CHUNK` episodes, and before anything is certified or changes hands. There
less is enough to put that off: what is certified may be wrong, and the next episodes will tell. Probabilities of the legacy that
move, or are not one function of the context, change what a gain is over. The gate notes this, and neither pauses nor waits.

A gate is asked again and again, so only tests that hold at every time may pause it (`PAUSING`). Standard scores, which are
right once for a log of a fixed size, do not. In whichever blocks episodes arrive, they are added in chunks counted from
the start of a segment; the rest is added to a copy, so that the answer depends on the episodes alone.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from aegis.audit import ANYTIME, PROPENSITIES_MOVE, SEVERAL_LOGGERS, Audit, Auditor, Finding
from aegis.handover.budget import freeze_share
from aegis.handover.events import DoubtPassed, Event, Noted, Paused, PutOff, Unit
from aegis.handover.gate import UNASKED, Audited, Instead, decides
from aegis.handover.state import GateState
from aegis.problem import Batch, Problem, concat

ALPHA = 0.001  # of each test, over the life of a gate
MOVES = 0.001  # of the score for probabilities that move, over the chunks of a segment
DOUBT = 0.25  # level at which a finding puts off what would be decided; it promises nothing and costs time alone
AGAIN = 8  # episodes after which it is asked again, counted from the start of a segment
CHUNK = 128  # episodes after which a gate is audited, counted from the start of a segment
PLACING = 12  # first episodes of a segment, that place the cuts of contexts; a fixed number, so that no result moves it
STAKES = 4  # over which evidence is averaged in each bet

STATED = "none for a gain over the stated incumbent; learn from this log with a split in time"
UNSTATED = "state the incumbent in the problem file ('incumbent') and open another gate; learn from this log with a split in time"

DIFFER = "differ: several policies take turns, or the legacy changed or looks at something outside the context"

FORWARD, PAIRED = "forward", "paired"
PAUSING: Mapping[str, str] = {
    "miscalibrated-propensities": FORWARD,
    "actions-held": FORWARD,
    "carry-over": FORWARD,
    "siblings-interfere": FORWARD,
    "neighbours-interfere": FORWARD,
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


def asks(state: GateState, unit: Unit, events: Sequence[Event]) -> bool:
    """Say whether the stream is to be audited before events follow from the next unit: a chunk is full, or they decide something.

    While a decision is put off, that is asked again every `AGAIN` units, until the doubt has passed.
    """
    number = state.audited + 1
    again = decides(events) if state.put_off is None else number % AGAIN == 0
    return state.audits(unit) and (number % CHUNK == 0 or again)


def put_off(state: GateState, unit: Unit, events: Sequence[Event]) -> Audited:
    """Return what comes in the place of a decision that was put off before, where nothing is asked."""
    return Audited(state.put_off) if state.audits(unit) and decides(events) else UNASKED


def speaks(found: Finding) -> bool:
    """Say whether a finding that refuses comes from a test by betting that may pause a gate, and not from a standard score."""
    betting = "log10_evidence" in found.figures and found.figures.get("test", ANYTIME) == ANYTIME
    return found.code in PAUSING and found.severity == "refused" and betting


def enough(found: Finding, alpha: float) -> bool:
    """Say whether a finding of an audit at level alpha pauses a gate: it refuses, by evidence that holds at every time."""
    if not speaks(found):
        return False
    if PAUSING[found.code] == FORWARD:
        return True  # the audit has compared it with 1/alpha
    overlap, bets = float(found.figures.get("overlap", 2.0)), float(found.figures.get("bets", 1.0))
    evidence = float(found.figures["log10_evidence"])
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

    def start(self, segment: int) -> None:
        """Begin a new segment."""
        self.segment, self.episodes, self._auditor, self._asked = segment, 0, None, None
        self._waiting.clear()

    def asked(self, batch: Batch | None = None, place: int = 0, deciding: bool = True, before: PutOff | None = None) -> Audited:
        """Return what follows from the episodes so far, and from one more at a place of a batch. Nothing is added by asking.

        deciding: something is to be decided by them. before: why a decision is put off already.
        """
        waiting = [*self._waiting, *([] if batch is None else [(batch, [place])])]
        auditor = self._auditor
        if waiting:
            auditor = self._with(waiting)
            self._asked = self.episodes + (batch is not None), auditor
        if auditor is None:
            return UNASKED
        careful = deciding or before is not None
        audit = auditor.at(DOUBT) if careful else auditor.result()
        doubts = [item for item in audit.refused if speaks(item)] if careful else []
        notes: list[Noted | DoubtPassed] = list(self._changing(audit, auditor.episodes))
        if careful and not doubts:  # what is not in doubt is not refused either
            passed = [] if before is None else [DoubtPassed(0, before.code, before.level)]
            return Audited(None, (*notes, *passed))
        return Audited(self._instead(auditor.result() if careful else audit, doubts), tuple(notes))

    def _instead(self, audit: Audit, doubts: Sequence[Finding]) -> Instead | None:
        """Return the pause that an audit asks for, else the delay that doubts do, else None."""
        for found in audit.refused:
            if enough(found, self.alpha):
                return Paused(0, f"the audit refuses what it counts: {found.message}", found.code, found.level, found.fix)
        return next((PutOff(0, found.message, found.code, found.level) for found in doubts), None)

    def _changing(self, audit: Audit, episodes: int) -> list[Noted]:
        """Return a note for each level whose logged probabilities move, or are not one function of the context.

        The score of those that move is a standard one, asked for once in each chunk, at its share, and before decisions. A note
        warns, and nothing is decided by it.
        """
        most = freeze_share(MOVES, math.ceil(episodes / CHUNK))
        moving = {item.level: item for item in audit.findings if item.code == PROPENSITIES_MOVE}
        moving = {level: item for level, item in moving.items() if float(item.figures["chance"]) <= most}
        several = {item.level: item for item in audit.findings if item.code == SEVERAL_LOGGERS}
        return [self._note(level or "", item) for level, item in {**several, **moving}.items()]

    def _note(self, level: str, found: Finding) -> Noted:
        goes = f"go with {found.figures['follows']}: the legacy learns, or was changed" if "follows" in found.figures else DIFFER
        stated = self.problem.level(level).comparator
        fix = STATED if stated is not None and not stated.logged else UNSTATED
        return Noted(0, f"at like contexts the logged probabilities at level '{level}' {goes}", found.code, level, fix)

    def add(self, batch: Batch, place: int) -> None:
        """Add the episode at a place of a batch, the next one of the segment."""
        if self._waiting and self._waiting[-1][0] is batch:
            self._waiting[-1][1].append(place)
        else:
            self._waiting.append((batch, [place]))
        self.episodes += 1
        if self.episodes % CHUNK:
            return
        known = self._asked is not None and self._asked[0] == self.episodes
        self._auditor = self._asked[1] if known and self._asked is not None else self._with(self._waiting)
        self._asked = None
        self._waiting.clear()

    def _with(self, waiting: Sequence[tuple[Batch, list[int]]]) -> Auditor:
        """Return an auditor of all chunks and of what waits; the one of the chunks stays as it is."""
        rest = concat([batch.take_episodes(np.array(places)) for batch, places in waiting])
        if self._auditor is not None:
            made = copy.deepcopy(self._auditor, {id(self.problem): self.problem})
        else:
            made = Auditor(self.problem, alpha=self.alpha)
            made.place(rest, min(PLACING, len(rest)))
        made.add(rest)
        return made
