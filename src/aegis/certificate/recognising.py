"""Recognising episodes that a candidate was learned from, whatever they are called now and whatever file they are in.

A learned policy records a sample of the hashes of the episodes it saw (`Seen`). Episodes that are to be certified are hashed the
same way, and more of them among those seen than chance explains refuse the certificate.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
from scipy.special import bdtrc

from aegis.certificate.candidate import Candidate
from aegis.errors import RefusedError
from aegis.problem import Batch, Hashes, Problem, Seen, content_digest, episode_hashes

ALPHA = 1e-4  # the chance that an honest candidate is refused


@dataclass(slots=True)
class Recognised:
    """Which of the episodes that a candidate has seen came again among those that were tested."""

    name: str
    seen: Seen
    tested: int = 0
    example: str | None = None
    met: npt.NDArray[np.bool_] = field(init=False)

    def __post_init__(self) -> None:
        self.met = np.zeros(self.seen.hashes.size, dtype=bool)

    def add(self, hashes: Hashes, batch: Batch, rows: npt.NDArray[np.int64]) -> None:
        """Add episodes by their hashes `[k]`; rows `[k]`: which episodes of the batch they are."""
        self.tested += hashes.size
        known = self.seen.hashes
        if not known.size or not hashes.size:
            return
        place = np.minimum(np.searchsorted(known, hashes), known.size - 1)
        hit = known[place] == hashes
        if not hit.any():
            return
        self.met[place[hit]] = True
        if self.example is None:
            value = batch.episode[rows[int(np.argmax(hit))]]
            self.example = ", ".join(map(str, value)) if batch.episode.dtype.names else str(value)

    @property
    def hits(self) -> int:
        """Return how many different episodes of those kept came again."""
        return int(self.met.sum())

    @property
    def beyond_chance(self) -> bool:
        """Say whether so many would come again by chance with probability below ALPHA only."""
        return self.hits > 0 and float(bdtrc(self.hits - 1, max(self.tested, self.hits), self.seen.chance)) < ALPHA

    def check(self) -> None:
        """Raise RefusedError if more came again than chance explains."""
        if self.beyond_chance:
            number = f"at least {self.hits}" if self.seen.sampled else f"{self.hits}"
            raise RefusedError(
                f"{number} of the certified episodes are among those that {self.name} was learned from, with the same contexts, "
                f"actions and rewards, for example episode {self.example}: a certificate needs units that the policy has not "
                "seen; certify on other data, or on the log it was learned from, with its ids as they were and without --fresh"
            )


def recognisers(problem: Problem, candidates: Sequence[Candidate]) -> tuple[list[Recognised], list[str]]:
    """Return one for each candidate that recorded what it has seen; and the names of those that did not, though learned."""
    found: list[Recognised] = []
    unknown: list[str] = []
    content = content_digest(problem)
    for candidate in candidates:
        seen = seen_by(candidate)
        if seen is not None and seen.content == content:
            found.append(Recognised(candidate.name, seen))
        elif candidate.record:
            unknown.append(candidate.name)
    return found, unknown


def seen_by(candidate: Candidate) -> Seen | None:
    """Return what a candidate recorded of the episodes it has seen; None if nothing."""
    plain = candidate.record.get("fingerprints")
    return None if plain is None else Seen.of(plain)


def recognise(found: Sequence[Recognised], batch: Batch, mask: npt.NDArray[np.bool_]) -> None:
    """Add the episodes of a batch that `mask` `[E]` names."""
    if not found or not mask.any():
        return
    rows = np.flatnonzero(mask)
    hashes = episode_hashes(batch)[rows]
    for item in found:
        item.add(hashes, batch, rows)
