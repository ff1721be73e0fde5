"""The stream of a gate: checks of the episodes that a plant sends, and the audit of those the gate counts.

A plant must send whole episodes, in order, with the propensities of the policy that was asked to act. Tests that hold at
every time audit what is counted (docs/theory.md, The gate audits itself): after every `CHUNK` episodes, and before anything
is certified or handed over.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from hashlib import blake2b
from typing import TypeVar

import numpy as np

from aegis.audit import ANYTIME, PROPENSITIES_MOVE, SEVERAL_LOGGERS, Audit, Auditor, Finding
from aegis.errors import AegisError, InputError, PolicyError, RefusedError
from aegis.handover.events import AuditNote, DoubtPassed, Event, Paused, Postponed, UnitCounted
from aegis.handover.gate import NO_RESPONSE, AuditResponse, Interruption, is_decision
from aegis.handover.gate_state import GateState
from aegis.handover.hosts.base import check_distributions, logged_propensities
from aegis.handover.risk_budget import freeze_share
from aegis.problem import AnyArray, Array, Batch, Policy, Problem, concat

SAME_PROPENSITY = 1e-6  # by how much a logged probability may differ from that of the policy asked to act

SILENT = 32  # episodes without a reward after which a gate pauses

Judged = TypeVar("Judged")


@dataclass(slots=True)
class ArrivalCheck:
    """Looks at what a plant sends, and remembers by hashes of their ids the episodes that were taken.

    Ids that are whole numbers count the episodes from 0; others must differ from each other, however long the run.
    """

    problem: Problem
    _ids: set[bytes] = field(default_factory=set)

    def check(self, batch: Batch, first: int) -> None:
        """Raise an AegisError unless these can be the episodes after the first ones: not seen before, and sound."""
        self._check_ids(batch.episode, first)
        for name in self.problem.names:
            _check_propensities(batch, name)
        _check_finite(self.problem, batch)

    def take(self, batch: Batch) -> None:
        """Remember episodes that were counted."""
        if not _are_numbers(batch.episode):
            self._ids.update(map(_id_hash, batch.episode.tolist()))

    def _check_ids(self, ids: AnyArray, first: int) -> None:
        if _are_numbers(ids):
            wanted = np.arange(first, first + ids.size)
            if not np.array_equal(ids, wanted):
                place = int(np.argmax(ids != wanted))
                raise PolicyError(
                    f"the plant was asked for episode {wanted[place]} and sent {ids[place]}: episodes are counted in the order "
                    "in which they start"
                )
            return
        new: set[bytes] = set()
        for place, item in enumerate(ids.tolist()):
            known = _id_hash(item)
            if known in self._ids or known in new:
                raise PolicyError(
                    f"the plant was asked for an episode after the first {first + place} and sent {item!r}, which it has sent "
                    "before: every episode counts once, and has an id of its own"
                )
            new.add(known)


def _are_numbers(ids: AnyArray) -> bool:
    return np.issubdtype(ids.dtype, np.integer)


def _id_hash(item: object) -> bytes:
    return blake2b(repr(item).encode(), digest_size=8).digest()


def accept_batch(batch: Batch, first: int, count: int) -> Batch:
    """Return what a plant sent, rewards that are nan marked as missing; PolicyError unless it is as much as was asked for."""
    if len(batch) != count:
        raise PolicyError(f"the plant was asked for {count} episodes after the first {first} and sent {len(batch)}")
    if batch.reward is None or not np.isnan(batch.reward).any():
        return batch
    known = ~np.isnan(batch.reward)
    return replace(batch, observed=known if batch.observed is None else known & batch.observed)


def readable_prefix(batch: Batch, judge: Callable[[Batch], Judged]) -> tuple[Batch, Judged, AegisError | None]:
    """Return episodes, judged; only those before the first that cannot be, and why. Raises if that is the first of all."""
    try:
        return batch, judge(batch), None
    except AegisError as error:
        good, bad = 0, len(batch)
        while bad - good > 1:
            middle = (good + bad) // 2
            try:
                judge(batch.take_episodes(np.arange(middle)))
                good = middle
            except AegisError:
                bad = middle
        if not good:
            raise
        part = batch.take_episodes(np.arange(good))
        return part, judge(part), error


def _check_propensities(batch: Batch, level: str) -> None:
    taken, table = logged_propensities(level, batch), batch.levels[level]
    full = table.mu_full
    if full is None:
        raise RefusedError(f"level '{level}': the gate needs the probabilities of all actions, and the plant logs none")
    episodes = batch.episode[batch.episode_of(level)]
    check_distributions(full, f"level '{level}', as the plant logs it", episodes)
    listed = full[np.arange(len(table)), table.action]
    off = np.abs(listed - taken) > SAME_PROPENSITY
    off |= listed <= 0.0
    if off.any():
        row = int(np.argmax(off))
        raise RefusedError(
            f"level '{level}', row {row} (episode {episodes[row]}): the action taken, {table.action[row]}, is logged with the "
            f"probability {taken[row]}, and has {listed[row]} among those of all actions; what was done must have been possible, "
            "and both must be the same"
        )


def _check_finite(problem: Problem, batch: Batch) -> None:
    """Raise InputError for a reward or a guard that is infinite; one that is missing is nan."""
    for column, values in {problem.reward.column: batch.reward, **batch.guards}.items():
        if values is not None and np.isinf(values).any():
            row, innermost = int(np.argmax(np.isinf(values))), problem.innermost.name
            raise InputError(
                f"episode {batch.episode[batch.episode_of(innermost)[row]]}, level '{innermost}', row {row}: '{column}' is "
                f"{values[row]}; expected a finite number, or nan where it is missing"
            )


def find_policy_mismatch(policy: Policy, batch: Batch) -> tuple[int, str] | None:
    """Return where logged probabilities differ from those of the policy asked to act, and how; None if they do not.

    Where: the place of the first such episode in the batch. The probabilities of a mixture depend on the form in which they are
    logged, of its particle or of several weighed in some way: they lie between the smallest and the largest of its particles.
    """
    mismatch: tuple[int, str] | None = None
    for level, table in batch.levels.items():
        if table.mu_full is None:
            continue
        expected: Array = policy.full(level, batch)
        low, high = expected.min(axis=0), expected.max(axis=0)
        off = np.maximum(low - table.mu_full, table.mu_full - high).max(axis=1) > SAME_PROPENSITY
        if not off.any():
            continue
        row, owner = int(np.argmax(off)), batch.episode_of(level)
        place = int(owner[row])
        if mismatch is None or place < mismatch[0]:
            decision = row - int(np.searchsorted(owner, place)) + 1
            own = [f"{np.round(edge[row], 6).tolist()}" for edge in (low, high)]
            words = (
                f"level '{level}', episode {batch.episode[place]}, decision {decision}: the plant logs the probabilities "
                f"{np.round(table.mu_full[row], 6).tolist()}, the policy in control has {' to '.join(dict.fromkeys(own))}: "
                "another version of the policy acts"
            )
            mismatch = place, words
    return mismatch


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


EXPLORED = "follow the exploration of this gate, which is planned anew at each freeze"


UNEXPLORED = "none for a gain over the legacy without exploration; learn from this log with a split in time"


PAIRED = "episodes-interfere"

PAUSING = (
    *("miscalibrated-propensities", "actions-held", "carry-over", "siblings-interfere", "neighbours-interfere"),
    *("size-follows-action", "duplicated-episodes", "episodes-redone", PAIRED),
)
"""Findings that pause a gate: their tests hold at every time.

Each factor of the wealth has mean at most one given everything before the draw it bets on, or before its episode; by Ville's
inequality the wealth ever reaches 1/alpha with probability at most alpha. `PAIRED`: the reward of an episode is bet on by the
action of the one before it, so that neighbouring factors share an episode. The wealth is a product of two of the first kind,
over every other pair; one of them has the square root of it, and that is what has to be large (see `pauses_gate`).
"""


def is_audit_due(state: GateState, unit: UnitCounted, events: Sequence[Event]) -> bool:
    """Say whether the stream is to be audited before events follow from the next unit: a chunk is full, or they decide something.

    A unit that the audit does not see may decide something too. While a decision is put off, that is asked again every `AGAIN`
    units that the audit sees, until the doubt has passed.
    """
    sees, number = state.audits(unit), state.audited + 1
    again = is_decision(events) if state.put_off is None else sees and number % AGAIN == 0
    return again or (sees and number % CHUNK == 0)


def standing_postponement(state: GateState, events: Sequence[Event]) -> AuditResponse:
    """Return what comes in the place of a decision that was put off before, where nothing is asked."""
    return AuditResponse(state.put_off) if is_decision(events) else NO_RESPONSE


def is_anytime_refusal(finding: Finding) -> bool:
    """Say whether a finding that refuses comes from a test by betting that may pause a gate, and not from a standard score."""
    betting = "log10_evidence" in finding.figures and finding.figures.get("test", ANYTIME) == ANYTIME
    return finding.code in PAUSING and finding.severity == "refused" and betting


def pauses_gate(finding: Finding, alpha: float) -> bool:
    """Say whether a finding of an audit at level alpha pauses a gate: it refuses, by evidence that holds at every time."""
    if not is_anytime_refusal(finding):
        return False
    if finding.code != PAIRED:
        return True  # the audit has compared it with 1/alpha
    overlap, bets = float(finding.figures.get("overlap", 2.0)), float(finding.figures.get("bets", 1.0))
    evidence = float(finding.figures["log10_evidence"])
    return overlap <= 1.0 or evidence >= overlap * math.log10(2.0 * overlap * STAKES * max(bets, 1.0) / alpha)


@dataclass(slots=True)
class StreamAudit:
    """Audits the episodes of a gate, segment by segment; `start` a new one whenever another policy begins to act.

    A segment begins with the gate, at a flip, a revert and a restart: pairs of episodes from both sides would show what the gate
    itself did. The s-th has the share 6 / (pi s)^2 of ALPHA, so that all of them together hold at ALPHA, however many there are.
    """

    problem: Problem
    explores: bool = False  # whether the gate itself moves the probabilities
    segment: int = 1
    episodes: int = 0
    _auditor: Auditor | None = None  # of whole chunks
    _latest: tuple[int, Auditor] | None = None  # the auditor of the latest answer, with its number of episodes
    _waiting: list[tuple[Batch, list[int]]] = field(default_factory=list)  # episodes that are in no chunk yet, by batch

    @property
    def alpha(self) -> float:
        """Return the level of each test in this segment."""
        return freeze_share(ALPHA, self.segment)

    def start(self, segment: int) -> None:
        """Begin a new segment."""
        self.segment, self.episodes, self._auditor, self._latest = segment, 0, None, None
        self._waiting.clear()

    def asked(
        self, batch: Batch | None = None, place: int = 0, deciding: bool = True, before: Postponed | None = None
    ) -> AuditResponse:
        """Return what follows from the episodes so far, and from one more at a place of a batch. Nothing is added by asking.

        deciding: something is to be decided by them. before: why a decision is put off already.
        """
        waiting = [*self._waiting, *([] if batch is None else [(batch, [place])])]
        auditor = self._auditor
        if waiting:
            auditor = self._with(waiting)
            self._latest = self.episodes + (batch is not None), auditor
        if auditor is None:
            return NO_RESPONSE
        careful = deciding or before is not None
        audit = auditor.at(DOUBT) if careful else auditor.result()
        doubts = [item for item in audit.refused if is_anytime_refusal(item)] if careful else []
        notes: list[AuditNote | DoubtPassed] = list(self._changing(audit, auditor.episodes))
        if careful and not doubts:  # what is not in doubt is not refused either
            passed = [] if before is None else [DoubtPassed(0, before.code, before.level)]
            return AuditResponse(None, (*notes, *passed))
        return AuditResponse(self._instead(auditor.result() if careful else audit, doubts), tuple(notes))

    def _instead(self, audit: Audit, doubts: Sequence[Finding]) -> Interruption | None:
        """Return the pause that an audit asks for, else the delay that doubts do, else None."""
        for finding in audit.refused:
            if pauses_gate(finding, self.alpha):
                return Paused(0, f"the audit refuses what it counts: {finding.message}", finding.code, finding.level, finding.fix)
        return next((Postponed(0, finding.message, finding.code, finding.level) for finding in doubts), None)

    def _changing(self, audit: Audit, episodes: int) -> list[AuditNote]:
        """Return a note for each level whose logged probabilities move, or are not one function of the context.

        The score of those that move is a standard one, asked for once in each chunk, at its share, and before decisions. A note
        warns, and nothing is decided by it.
        """
        most = freeze_share(MOVES, math.ceil(episodes / CHUNK))
        moving = {item.level: item for item in audit.findings if item.code == PROPENSITIES_MOVE}
        moving = {level: item for level, item in moving.items() if float(item.figures["chance"]) <= most}
        several = {item.level: item for item in audit.findings if item.code == SEVERAL_LOGGERS}
        return [self._note(level or "", item) for level, item in {**several, **moving}.items()]

    def _note(self, level: str, finding: Finding) -> AuditNote:
        if self.explores:
            words = f"the logged probabilities at level '{level}' {EXPLORED}"
            return AuditNote(0, words, finding.code, level, UNEXPLORED)
        follows = finding.figures.get("follows")
        goes = DIFFER if follows is None else f"go with {follows}: the legacy learns, or was changed"
        stated = self.problem.level(level).comparator
        fix = STATED if stated is not None and not stated.logged else UNSTATED
        return AuditNote(0, f"at like contexts the logged probabilities at level '{level}' {goes}", finding.code, level, fix)

    def add(self, batch: Batch, place: int) -> None:
        """Add the episode at a place of a batch, the next one of the segment."""
        if self._waiting and self._waiting[-1][0] is batch:
            self._waiting[-1][1].append(place)
        else:
            self._waiting.append((batch, [place]))
        self.episodes += 1
        if self.episodes % CHUNK:
            return
        latest, self._latest = self._latest, None
        self._auditor = latest[1] if latest is not None and latest[0] == self.episodes else self._with(self._waiting)
        self._waiting.clear()

    def _with(self, waiting: Sequence[tuple[Batch, list[int]]]) -> Auditor:
        """Return an auditor of all chunks and of what waits; the one of the chunks stays as it is."""
        rest = concat([batch.take_episodes(np.array(places)) for batch, places in waiting])
        if self._auditor is not None:
            auditor = copy.deepcopy(self._auditor, {id(self.problem): self.problem})
        else:
            auditor = Auditor(self.problem, alpha=self.alpha)
            auditor.place(rest, min(PLACING, len(rest)))
        auditor.add(rest)
        return auditor
