"""Was a candidate learned from the episodes that are to be certified? AEGIS recognises them under other ids and file names.

A learned policy records a sample of the hashes of the episodes it has seen (`EpisodeFingerprints`). AEGIS hashes the certified
episodes in the same way. More matches than chance explains refuse the certificate. An honest candidate is refused with
probability CONTAMINATION_ALPHA at most.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
from scipy.special import bdtrc

from aegis.certificate.candidate import Candidate
from aegis.errors import RefusedError
from aegis.problem import Batch, EpisodeFingerprints, Hashes, Problem, content_digest, episode_hashes

CONTAMINATION_ALPHA = 1e-4  # the probability that an honest candidate is refused

UNSEEN_WORDS = (
    "a certificate needs units that the policy has not seen; certify on other data, or on the log it was learned from, with its "
    "ids as they were and without --fresh"
)


@dataclass(slots=True)
class SeenEpisodes:
    """Which of the episodes in the record of a candidate came again among those that were tested."""

    name: str
    record: EpisodeFingerprints
    tested: int = 0
    example: str | None = None
    met: npt.NDArray[np.bool_] = field(init=False)

    def __post_init__(self) -> None:
        self.met = np.zeros(self.record.hashes.size, dtype=bool)

    def add(self, hashes: Hashes, batch: Batch, rows: npt.NDArray[np.int64]) -> None:
        """Add episodes by their hashes `[k]`; rows `[k]`: which episodes of the batch they are."""
        self.tested += hashes.size
        known = self.record.hashes
        if not known.size or not hashes.size:
            return
        place = np.minimum(np.searchsorted(known, hashes), known.size - 1)
        hit = known[place] == hashes
        if hit.any():
            self.met[place[hit]] = True
            value = batch.episode[rows[int(np.argmax(hit))]]
            self.example = self.example or (", ".join(map(str, value)) if batch.episode.dtype.names else str(value))

    def merge(self, other: SeenEpisodes) -> None:
        """Add what came again elsewhere in the log."""
        self.tested += other.tested
        self.met |= other.met
        self.example = self.example or other.example

    @property
    def hits(self) -> int:
        """Return how many different episodes of those kept came again."""
        return int(self.met.sum())

    @property
    def beyond_chance(self) -> bool:
        """Say whether so many episodes would come again by chance with probability below CONTAMINATION_ALPHA only."""
        if not self.hits:
            return False
        return float(bdtrc(self.hits - 1, max(self.tested, self.hits), self.record.chance)) < CONTAMINATION_ALPHA

    def check(self) -> None:
        """Raise RefusedError if more came again than chance explains."""
        if self.beyond_chance:
            number = f"at least {self.hits}" if self.record.sampled else f"{self.hits}"
            verb = "is" if self.hits == 1 else "are"
            raise RefusedError(
                f"{number} of the certified episodes {verb} among those that {self.name} was learned from, with the same "
                f"contexts, actions and rewards, for example episode {self.example}: {UNSEEN_WORDS}"
            )


def start_recognition(
    problem: Problem, candidates: Sequence[Candidate], fresh: bool = False
) -> tuple[list[SeenEpisodes], list[str]]:
    """Return one for each candidate that recorded what it has seen; and the names of those that did not, though learned.

    fresh: you declare that the log is new to all of them. That has to be shown: RefusedError if there is nothing to compare.
    """
    recognised: list[SeenEpisodes] = []
    unknown: list[str] = []
    for candidate in candidates:
        prints = recorded_episodes(candidate)
        if prints is not None and prints.content == content_digest(problem):
            recognised.append(SeenEpisodes(candidate.name, prints))
        elif candidate.record:
            unknown.append(candidate.name)
            if fresh:
                raise RefusedError(_not_shown(candidate, prints))
    return recognised, unknown


def _not_shown(candidate: Candidate, prints: EpisodeFingerprints | None) -> str:
    reason = (
        "holds no fingerprints of the episodes it was learned from (an earlier version wrote it)"
        if prints is None
        else "holds fingerprints of other columns of contexts, actions or rewards than those of this problem"
    )
    return (
        f"the record of {candidate.name} {reason}, so that nothing shows that this log is new to it, as --fresh says; learn it "
        "again with this version and this problem file, or leave out --fresh, if the ids of the log are those of learning"
    )


def recorded_episodes(candidate: Candidate) -> EpisodeFingerprints | None:
    """Return what a candidate recorded of the episodes it has seen; None if nothing."""
    plain = candidate.record.get("fingerprints")
    return None if plain is None else EpisodeFingerprints.of(plain)


def add_to_recognition(recognised: Sequence[SeenEpisodes], batch: Batch, mask: npt.NDArray[np.bool_]) -> None:
    """Add the episodes of a batch that `mask` `[E]` names."""
    if recognised and mask.any():
        rows = np.flatnonzero(mask)
        hashes = episode_hashes(batch)[rows]
        for item in recognised:
            item.add(hashes, batch, rows)
