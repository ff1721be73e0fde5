"""Counters of a client: who decided and why, and the outages of the gate, each announced when it begins and when it ends."""

from __future__ import annotations

import logging
import threading
import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime

# Why the legacy decided.
NO_ANSWER, REFUSED, NOT_CONNECTED, UNABLE, CERTIFICATE, UNAUTHORISED, SPOOL, CLOSED = (
    *("no answer in time", "refused", "not connected", "unable", "certificate", "unauthorised", "spool", "closed"),
)
REASONS = (NO_ANSWER, REFUSED, NOT_CONNECTED, UNABLE, CERTIFICATE, UNAUTHORISED, SPOOL, CLOSED)
REMEDIES = {
    NO_ANSWER: "see how busy the gate is, or allow more time",
    NOT_CONNECTED: "see whether the gate runs, and whether its address is right",
    UNABLE: "see the log of the gate",
    UNAUTHORISED: "give the client a token of the role 'controller' that was not revoked",
    SPOOL: "see whether another process locks its file, and whether its disk is slow",
    CLOSED: "make a client in this process, and use it until you close it",
}
log = logging.getLogger("aegis.client")


@dataclass(frozen=True, slots=True)
class ClientCounters:
    """What a client has counted since it was made.

    decisions: all of them, by the gate (`by_gate`: answered in time) and by the legacy (`by_fallback`), and why (`reasons`, by
    reason). late: answers that came after the legacy had decided. outages: how often the gate stopped to help. undelivered,
    refused: requests in the spool, those that wait and those that the gate refuses. last_answer: the time of the last answer of
    the gate, None before. longest: seconds of the longest decision.
    """

    decisions: int
    by_gate: int
    by_fallback: int
    reasons: Mapping[str, int]
    late: int
    outages: int
    undelivered: int
    refused: int
    last_answer: datetime | None
    longest: float


@dataclass(slots=True)
class DecisionCounter:
    """Counts decisions, and announces outages. Threads other than the plant's count late answers alone."""

    by_gate: int = 0
    late: int = 0
    outages: int = 0
    longest: float = 0.0
    last_answer: float | None = None
    reasons: Counter[str] = field(default_factory=Counter)
    outage: str | None = None  # the reason of the outage that goes on
    _since: float = 0.0
    _before: int = 0
    _lock: threading.Lock = field(default_factory=threading.Lock)

    @property
    def fallbacks(self) -> int:
        """Return how many decisions the legacy has taken."""
        return sum(self.reasons.values())

    def took(self, seconds: float) -> None:
        """Take note of how long a decision took."""
        self.longest = max(self.longest, seconds)

    def answered(self) -> None:
        """Take note that the gate has answered: an outage ends."""
        self.last_answer = time.time()
        if self.outage is None:
            return
        seconds, count = time.monotonic() - self._since, self.fallbacks - self._before
        log.warning("the gate answers again, after %.1f s and %d decisions by the legacy (%s)", seconds, count, self.outage)
        self.outage = None

    def fell_back(self, reason: str, why: str, about: str) -> None:
        """Take note that the legacy decides: the first time of an outage, or for another reason, is a warning."""
        if self.outage is None:
            self.outages, self._since, self._before = self.outages + 1, time.monotonic(), self.fallbacks
        fresh, self.outage = reason != self.outage, reason
        self.reasons[reason] += 1
        if not fresh:
            log.info("the legacy decides %s: %s", about, why)
            return
        remedy = f"; {REMEDIES[reason]}" if reason in REMEDIES else ""
        log.warning("the legacy decides %s and until the gate answers (%s): %s%s", about, reason, why, remedy)

    def came_late(self) -> None:
        """Take note of an answer after the legacy had decided."""
        with self._lock:
            self.late += 1

    def shown(self, undelivered: int, refused: int) -> ClientCounters:
        """Return the counters as they are now."""
        fallbacks, last = self.fallbacks, self.last_answer
        return ClientCounters(
            decisions=self.by_gate + fallbacks,
            by_gate=self.by_gate,
            by_fallback=fallbacks,
            reasons=dict(self.reasons),
            late=self.late,
            outages=self.outages,
            undelivered=undelivered,
            refused=refused,
            last_answer=None if last is None else datetime.fromtimestamp(last, UTC),
            longest=self.longest,
        )
