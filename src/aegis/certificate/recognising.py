"""Recognising episodes that a candidate was learned from, whatever they are called now and whatever file they are in.

A learned policy records a sample of the hashes of the episodes it saw (`Seen`). Episodes that are to be certified are hashed the
same way, and more of them among those seen than chance explains refuse the certificate. What an export that rounds numbers, tells
rewards otherwise or joins episodes leaves of them is known by single decisions (`Traces`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
from scipy.special import bdtrc

from aegis.certificate.candidate import Candidate
from aegis.certificate.retracing import ALPHA, Retraced
from aegis.errors import RefusedError
from aegis.problem import Batch, Hashes, Problem, Seen, Traces, content_digest, episode_hashes, path_digest

UNSEEN = (
    "a certificate needs units that the policy has not seen; certify on other data, or on the log it was learned from, with its "
    "ids as they were and without --fresh"
)


@dataclass(slots=True)
class Recognised:
    """Which of the episodes and decisions that a candidate has seen came again among those that were tested.

    seen, retraced: what they are compared with; None if the record holds no such hashes of the columns of this problem.
    """

    name: str
    seen: Seen | None
    retraced: Retraced | None = None
    tested: int = 0
    example: str | None = None
    met: npt.NDArray[np.bool_] = field(init=False)

    def __post_init__(self) -> None:
        self.met = np.zeros(0 if self.seen is None else self.seen.hashes.size, dtype=bool)

    def add(self, hashes: Hashes, batch: Batch, rows: npt.NDArray[np.int64]) -> None:
        """Add episodes by their hashes `[k]`; rows `[k]`: which episodes of the batch they are."""
        self.tested += hashes.size
        if self.seen is None or not self.seen.hashes.size or not hashes.size:
            return
        known = self.seen.hashes
        place = np.minimum(np.searchsorted(known, hashes), known.size - 1)
        hit = known[place] == hashes
        if hit.any():
            self.met[place[hit]] = True
            self._show(batch, int(rows[int(np.argmax(hit))]))

    def retrace(self, batch: Batch, mask: npt.NDArray[np.bool_]) -> None:
        """Add the decisions of the episodes that `mask` `[E]` names."""
        row = None if self.retraced is None else self.retraced.add(batch, mask)
        if row is not None:
            self._show(batch, row)

    def merge(self, other: Recognised) -> None:
        """Add what came again elsewhere in the log."""
        self.tested += other.tested
        self.met |= other.met
        self.example = self.example or other.example
        if self.retraced is not None and other.retraced is not None:
            self.retraced.merge(other.retraced)

    def _show(self, batch: Batch, row: int) -> None:
        if self.example is None:
            value = batch.episode[row]
            self.example = ", ".join(map(str, value)) if batch.episode.dtype.names else str(value)

    @property
    def hits(self) -> int:
        """Return how many different episodes of those kept came again."""
        return int(self.met.sum())

    @property
    def episodes_beyond_chance(self) -> bool:
        """Say whether so many episodes would come again by chance with probability below ALPHA only."""
        if self.seen is None or not self.hits:
            return False
        return float(bdtrc(self.hits - 1, max(self.tested, self.hits), self.seen.chance)) < ALPHA

    @property
    def beyond_chance(self) -> bool:
        """Say whether more episodes, or more single decisions, came again than chance explains."""
        return self.episodes_beyond_chance or (self.retraced is not None and self.retraced.beyond_chance)

    def check(self) -> None:
        """Raise RefusedError if more came again than chance explains."""
        if self.seen is not None and self.episodes_beyond_chance:
            number = f"at least {self.hits}" if self.seen.sampled else f"{self.hits}"
            verb = "is" if self.hits == 1 else "are"
            raise RefusedError(
                f"{number} of the certified episodes {verb} among those that {self.name} was learned from, with the same "
                f"contexts, actions and rewards, for example episode {self.example}: {UNSEEN}"
            )
        if self.retraced is not None and self.retraced.beyond_chance:
            raise RefusedError(
                f"{self.retraced.compared} of the certified decisions have the contexts, to about three digits, of decisions "
                f"that {self.name} was learned from, and {self.retraced.same} of them the same action, more than the logged "
                f"probabilities explain, for example in episode {self.example}: they are the same decisions with rounded "
                f"numbers, other rewards or other ids; {UNSEEN}"
            )


def recognisers(problem: Problem, candidates: Sequence[Candidate], fresh: bool = False) -> tuple[list[Recognised], list[str]]:
    """Return one for each candidate that recorded what it has seen; and the names of those that did not, though learned.

    fresh: the log is said to be new to all of them, which has to be shown: RefusedError if there is nothing to compare.
    """
    found: list[Recognised] = []
    unknown: list[str] = []
    for candidate in candidates:
        seen, traces = seen_by(candidate), traces_of(candidate)
        same = seen is not None and seen.content == content_digest(problem)
        alike = traces is not None and traces.content == path_digest(problem) and not traces.empty
        if same or alike:
            actions = {level.name: level.actions for level in problem.levels}
            retraced = Retraced(traces, problem.wrong_by(), actions) if traces is not None and alike else None
            found.append(Recognised(candidate.name, seen if same else None, retraced))
        elif candidate.record:
            unknown.append(candidate.name)
            if fresh:
                raise RefusedError(_not_shown(candidate, seen))
    return found, unknown


def _not_shown(candidate: Candidate, seen: Seen | None) -> str:
    reason = (
        "holds no fingerprints of the episodes it was learned from (an earlier version wrote it)"
        if seen is None
        else "holds fingerprints of other columns of contexts, actions or rewards than those of this problem"
    )
    return (
        f"the record of {candidate.name} {reason}, so that nothing shows that this log is new to it, as --fresh says; learn it "
        "again with this version and this problem file, or leave out --fresh, if the ids of the log are those of learning"
    )


def seen_by(candidate: Candidate) -> Seen | None:
    """Return what a candidate recorded of the episodes it has seen; None if nothing."""
    plain = candidate.record.get("fingerprints")
    return None if plain is None else Seen.of(plain)


def traces_of(candidate: Candidate) -> Traces | None:
    """Return what a candidate recorded of single decisions; None if nothing, as in older records."""
    plain = (candidate.record.get("fingerprints") or {}).get("traces")
    return None if plain is None else Traces.of(plain)


def recognise(found: Sequence[Recognised], batch: Batch, mask: npt.NDArray[np.bool_]) -> None:
    """Add the episodes of a batch that `mask` `[E]` names."""
    if not found or not mask.any():
        return
    rows = np.flatnonzero(mask)
    hashes = episode_hashes(batch)[rows]
    for item in found:
        item.add(hashes, batch, rows)
        item.retrace(batch, mask)
