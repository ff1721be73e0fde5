"""Recognising decisions that a candidate was learned from, by contexts and actions to about three digits.

Contexts alone prove nothing: they come again in honest data too, as products or hours of the day do. But the action was drawn.
Where the contexts of a certified decision are those of one that was learned from, it takes the same action with the logged
probability p of that action, so that a bet which pays 1 / p if it does is fair. In a copy of the log it always does. So nothing
has to be supposed of how often contexts repeat: an honest candidate is refused with probability ALPHA at most (Markov's
inequality on the wealth of the bets). Where actions are an interval the bet is on numbers near the exact one: `repeats`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from aegis.certificate.repeating import repeats
from aegis.problem import OFFSETS, Actions, Array, Batch, Hashes, LevelTable, Traces, coarse_path_hashes

ALPHA = 1e-4  # the chance that an honest candidate is refused
STAKES = np.array([1 / 32, 1 / 16, 1 / 8, 1 / 4, 1 / 2, 0.9])  # shares of the wealth; the average over them is what counts

Mask = npt.NDArray[np.bool_]


@dataclass(slots=True)
class Retraced:
    """Bets on the actions of certified decisions whose contexts were seen. wealth `f64[stakes]`: logarithms, 0 at the start.

    compared: decisions whose contexts were seen; same: those of them with the same action. wrong_by: by level, the factor by
    which logged probabilities may be wrong; the bet then pays for the largest that is possible, which is fair or worse.
    actions: by level, needed where they are an interval.
    """

    traces: Traces
    wrong_by: Mapping[str, float] = field(default_factory=dict)
    actions: Mapping[str, Actions] = field(default_factory=dict)
    compared: int = 0
    same: int = 0
    wealth: Array = field(default_factory=lambda: np.zeros(STAKES.size))

    def add(self, batch: Batch, mask: Mask) -> int | None:
        """Add the decisions of the episodes that `mask` `[E]` names; return an episode where an action is the same, or None."""
        example: int | None = None
        paths = [coarse_path_hashes(batch, self.traces.steps, offset) for offset in OFFSETS]
        for name, table in batch.levels.items():
            owner = batch.episode_of(name)
            seen, exact = self._seen_actions(name, [found[name] for found in paths])
            known = np.flatnonzero((seen >= 0) & mask[owner] & _drawn(table))
            own = None if exact is None else exact[known]
            found = repeats(_rows(table, known), self.actions.get(name), seen[known], own, self.wrong_by.get(name, 1.0))
            self.wealth += np.log1p(STAKES[:, None] * (found.pays - 1.0)).sum(axis=1)
            self.compared += known.size
            self.same += int(found.same.sum())
            if example is None and found.same.any():
                example = int(owner[known[int(np.argmax(found.same))]])
        return example

    def merge(self, other: Retraced) -> None:
        """Add the decisions of another part of the log."""
        self.compared += other.compared
        self.same += other.same
        self.wealth = self.wealth + other.wealth

    def _seen_actions(self, level: str, paths: list[Hashes]) -> tuple[npt.NDArray[np.int64], Array | None]:
        """Return the action `[n]` that was seen in the same contexts, on the first grid that knows them, and its exact number.

        -1 for none; None in place of the numbers if only points are known.
        """
        found, grids = np.full(paths[0].size, -1, dtype=np.int64), self.traces.levels[level]
        exact = None if any(kept.values is None for kept in grids) else np.full(found.size, np.nan)
        for hashes, kept in zip(paths, grids, strict=True):
            if kept.hashes.size and hashes.size:
                near = np.flatnonzero(hashes <= kept.hashes[-1])  # the smallest hashes are kept: of a long log that is a few
                place = np.searchsorted(kept.hashes, hashes[near])
                same = (kept.hashes[place] == hashes[near]) & (found[near] < 0)
                hit, place = near[same], place[same]
                found[hit] = kept.actions[place]
                if exact is not None and kept.values is not None:
                    exact[hit] = kept.values[place]
        return found, exact

    @property
    def beyond_chance(self) -> bool:
        """Say whether so many actions would be the same by chance with probability below ALPHA only."""
        return bool(np.logaddexp.reduce(self.wealth) - np.log(STAKES.size) >= -np.log(ALPHA))


def _drawn(table: LevelTable) -> Mask:
    """Return which decisions `[n]` have a logged probability: without one there is nothing to bet at."""
    with np.errstate(invalid="ignore"):
        found: Mask = table.mu_taken > 0
    return found


def _rows(table: LevelTable, rows: npt.NDArray[np.int64]) -> LevelTable:
    """Return what bets look at, of some rows: actions, exact ones, and their propensities."""
    value = None if table.value is None else table.value[rows]
    return LevelTable(table.parent[rows], {}, table.action[rows], table.mu_taken[rows], value=value)
