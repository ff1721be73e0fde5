"""Which episodes somebody has seen: a sample of their hashes, to tell later whether they come again under other names.

Only episodes that occurred once are kept, the ones with the smallest hashes: what occurs often in one log occurs in another one
by chance. How likely chance is follows from the episodes that occurred twice (Good and Turing): the share of all further
episodes that equal one of those seen once is about `2 double / episodes`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from aegis.errors import PolicyError
from aegis.problem.hashing import Hashes

MOST = 4096  # hashes that are kept


@dataclass(frozen=True, slots=True)
class Seen:
    """How many episodes were seen, how many of their hashes occurred, once and twice; `[k]` of the first, sorted, the smallest.

    content: what was hashed (`content_digest`).
    """

    episodes: int
    distinct: int
    single: int
    double: int
    hashes: Hashes
    content: str

    @classmethod
    def among(cls, found: Sequence[Hashes], content: str) -> Seen:
        """Return what is kept of the hashes of episodes, given in parts."""
        values, counts = np.unique(np.concatenate([np.zeros(0, dtype=np.uint64), *found]), return_counts=True)
        single = values[counts == 1]
        return cls(int(counts.sum()), values.size, single.size, int((counts == 2).sum()), single[:MOST], content)

    @property
    def chance(self) -> float:
        """Return the chance that one further episode equals one of those kept; estimated a little too high."""
        if not self.single:
            return 1.0
        return min(1.0, 2.0 * (self.double + 1) / self.episodes) * self.hashes.size / self.single

    @property
    def sampled(self) -> bool:
        """Say whether some hashes were left out."""
        return self.hashes.size < self.single

    def plain(self) -> dict[str, Any]:
        """Return plain data, for the record of a policy; the threshold is the largest hash kept, as all below it were."""
        return {
            "episodes": self.episodes,
            "distinct": self.distinct,
            "single": self.single,
            "double": self.double,
            "threshold": f"{int(self.hashes[-1]):016x}" if self.sampled else None,
            "hashes": self.hashes.astype(">u8").tobytes().hex(),
            "content": self.content,
        }

    @classmethod
    def of(cls, plain: Mapping[str, Any]) -> Seen:
        """Return what `plain` gave; PolicyError for anything else."""
        try:
            hashes = np.frombuffer(bytes.fromhex(plain["hashes"]), dtype=">u8").astype(np.uint64)
            episodes, distinct, single, double = (int(plain[name]) for name in ("episodes", "distinct", "single", "double"))
            return cls(episodes, distinct, single, double, hashes, str(plain["content"]))
        except (KeyError, TypeError, ValueError) as error:
            raise PolicyError(
                f"the record of a policy: its fingerprints cannot be read ({type(error).__name__}: {error}); learn it again"
            ) from error
