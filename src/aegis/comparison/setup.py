"""The certified units of a log and the prior units beside them, told apart exactly as `certify` does."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from aegis.certificate.candidate import Candidate
from aegis.certificate.data import DataDigest
from aegis.certificate.head import head_of, prior_units, with_placing
from aegis.certificate.sides import Earliest, Sides, first_open, gap_columns, learned_splits, placing_in_time
from aegis.errors import RefusedError, SettingError
from aegis.logs import Source, Split
from aegis.problem import Batch, Problem


@dataclass(frozen=True, slots=True)
class CertifiedLog:
    """A log whose sides are known. prior: some units that no bound speaks of; sample: a few episodes, to ask policies."""

    source: Source
    columns: tuple[str, ...]
    sides: Sides
    prior: Batch | None
    sample: Batch

    @classmethod
    def of(cls, source: Source, candidates: Sequence[Candidate], fresh: bool, moving: int | None = None) -> CertifiedLog:
        """Return the log with the sides that the candidates leave; reads the head of the log.

        moving: how many units the log has, if its propensities move or follow rewards: the earliest ones then place bets.
        """
        if any(candidate.frozen is not None for candidate in candidates):
            raise SettingError("the tests of a challenge were fixed when it was frozen: certify it, there is nothing to compare")
        columns = (*dict.fromkeys(column for candidate in candidates for column in candidate.columns), *gap_columns(source))
        splits: tuple[Split | Earliest, ...] = learned_splits(source, candidates, fresh, DataDigest.of(source))
        if not splits and moving is not None:
            splits = (placing_in_time(source, moving),)
        sides = Sides(splits, first_open(source))
        head, rest, whole = head_of(source.batches(columns))
        close = getattr(rest, "close", None)
        if close is not None:
            close()
        if not head:
            raise RefusedError("the log has no episodes: there is nothing to compare on")
        sides = with_placing(sides, head, whole)
        sample = head[0].take_episodes(np.arange(min(2, len(head[0]))))
        problem = source.problem
        return cls(source, columns, sides, prior_units(problem, sides, head), sample)

    @property
    def problem(self) -> Problem:
        """Return the problem."""
        return self.source.problem

    @property
    def split(self) -> Split | Earliest:
        """Return the split whose prior side may be learned from."""
        return next(split for split in self.sides.splits if isinstance(split, Split | Earliest))

    def batches(self) -> Iterator[Batch]:
        """Yield the certified episodes, in the order of the log."""
        for batch in self.source.batches(self.columns):
            kept = self.sides.certified(self.problem, batch)
            if kept.all():
                yield batch
            elif kept.any():
                yield batch.take_episodes(kept)
