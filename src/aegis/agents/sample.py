"""A sample of a stream of episodes, spread evenly over all of it, in bounded memory."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from aegis.errors import LogError
from aegis.problem import Batch, concat

MOST_EPISODES = 3000
MOST_ROWS = 2**17  # of innermost decisions


@dataclass(slots=True)
class Sample:
    """Every 2^k-th episode of a stream, k as small as the bounds allow: blocks of the stream do not change which they are."""

    stride: int = 1
    seen: int = 0
    parts: list[tuple[npt.NDArray[np.int64], Batch]] = field(default_factory=list)

    def watch(self, batches: Iterable[Batch]) -> Iterator[Batch]:
        """Pass the batches on, and keep some of their episodes."""
        for batch in batches:
            self.add(batch)
            yield batch

    def add(self, batch: Batch) -> None:
        """Take what the stride says of a batch; double the stride while there is too much."""
        places = np.arange(self.seen, self.seen + len(batch))
        self.seen += len(batch)
        self._keep(places, batch)
        while self._too_many():
            self.stride *= 2
            parts, self.parts = self.parts, []
            for kept, part in parts:
                self._keep(kept, part)

    def batch(self) -> Batch:
        """Return the sample as one batch."""
        if not self.parts:
            raise LogError("there are no episodes to take a sample of")
        return concat([part for _, part in self.parts])

    def _keep(self, places: npt.NDArray[np.int64], batch: Batch) -> None:
        chosen = places % self.stride == 0
        if chosen.any():
            self.parts.append((places[chosen], batch if chosen.all() else batch.take_episodes(chosen)))

    def _too_many(self) -> bool:
        episodes = sum(len(part) for _, part in self.parts)
        rows = sum(len(part.levels[list(part.levels)[-1]]) for _, part in self.parts)
        return episodes > MOST_EPISODES or (rows > MOST_ROWS and episodes > 1)
