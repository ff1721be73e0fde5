"""The certified units on which it is found out how wrong the logged probabilities may be.

They are chosen by hashes of their ids and numbers of rows alone, never by what happened in them, so that a test on them is as
valid as one on all; and so few that a long log takes no longer for it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from aegis.certificate.head import id_hashes
from aegis.certificate.sides import Sides
from aegis.problem import Batch, Problem, concat

MOST_ROWS = 65_536  # innermost decisions


@dataclass(frozen=True, slots=True)
class Held:
    """Units held back from the head of a log, and what placed the grids.

    units: certified ones; None if there are none. whole: they are whole units, which clusters are not if they may go on
    behind the head. prior, foreseen: as for all other claims.
    """

    units: Batch | None
    whole: bool
    prior: Batch | None
    foreseen: int


def held_units(problem: Problem, sides: Sides, head: Sequence[Batch], most: int) -> Batch | None:
    """Return certified units of the head in the order of hashes of their ids until `most` innermost rows are reached.

    All of them if there are fewer rows. The unit that reaches `most` is the last, and every unit is taken with all its rows.
    """
    found = []
    for batch in head:
        mask = sides.certified(problem, batch)
        if mask.any():
            rows = np.bincount(batch.episode_of(problem.innermost.name), minlength=len(batch))
            found.append((batch, mask, id_hashes(batch.episode if batch.cluster is None else batch.cluster), rows))
    if not found:
        return None
    keys = np.concatenate([hashes[mask] for _, mask, hashes, _ in found])
    order = np.argsort(keys, kind="stable")
    total = np.cumsum(np.concatenate([rows[mask] for _, mask, _, rows in found])[order])
    last = keys[order[min(int(np.searchsorted(total, most)), keys.size - 1)]]
    kept = [(batch, mask & (hashes <= last)) for batch, mask, hashes, _ in found]
    return concat([batch.take_episodes(mask) for batch, mask in kept if mask.any()])
