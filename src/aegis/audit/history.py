"""Are propensities right given the earlier decisions of the episode, and if not, are they right on average over episodes?

A mixture that draws one policy for each episode may log its probabilities given the actions above only. Its decisions then
depend on each other beyond their propensities, and bets that multiply over them prove nothing. What is left is a comparison of
episode sums with their own spread between episodes, which holds for both kinds in large samples.
"""

from __future__ import annotations

import numpy as np

from aegis.audit.bets import Choices, set_count
from aegis.audit.cuts import Cut
from aegis.audit.same_again import SameAgain
from aegis.audit.sums import followed, upper_quantile
from aegis.audit.thinning import Thinning
from aegis.audit.view import Mask, View
from aegis.problem import AnyArray, Array, Level, LevelTable, Rows

MOST_DECISIONS = 2**16  # of a level that are all looked at; then some batches only
FEWEST = 50  # episodes, below which a standard score means little


class LevelHistory:
    """Evidence about one level: that an action depends on the sibling's before it, and standard scores over episodes."""

    def __init__(self, level: Level, cuts: tuple[Cut, ...]) -> None:
        self.level, self.cuts = level, cuts
        self.labels = ["", *[label for cut in cuts for label in cut.labels]]
        self.again = SameAgain()
        self.thinning = Thinning(MOST_DECISIONS)
        self.sums = np.zeros((3, len(self.labels), set_count(level)))  # episodes, sums, squares
        self.one_sided = False

    def part(self, view: View) -> View | None:
        """Return what to add of a batch, None if nothing; asked once for each batch."""
        return self.thinning.part(view, self.level.name)

    def add(self, table: LevelTable, rows: Rows, fresh: Mask, owner: AnyArray, count: int) -> None:
        """Add the decisions of `count` episodes; owner `[m]` is the episode of each, rows what they looked at."""
        before = np.flatnonzero(followed(table.parent))
        if before.size and (table.mu_taken > 0).all():  # a batch with holes says little about what follows what
            self.again.add(table, before, before + 1)
            self._add_episodes(table, rows, fresh, owner, count)

    def merge(self, other: LevelHistory) -> None:
        """Add what was found in other episodes, with the same cuts."""
        self.again.merge(other.again)
        self.sums = self.sums + other.sums
        self.one_sided |= other.one_sided

    def depends(self) -> float:
        """Return log evidence that actions repeat that of the sibling before them more or less often than propensities say."""
        return self.again.evidence()

    def scores(self) -> Array:
        """Return standard scores `[slices, sets]` of episode sums; 0 where there are too few.

        With the probability of the action taken only, weights below one may be missing overlap: only excess counts.
        """
        number, total, square = self.sums
        enough = number >= FEWEST
        spread = np.sqrt(np.maximum(square - total**2 / np.maximum(number, 1.0), 0.0))
        score = np.where(enough & (spread > 0), total / np.where(spread > 0, spread, 1.0), 0.0)
        return np.maximum(score, 0.0) if self.one_sided else score

    def limit(self, alpha: float) -> float:
        """Return the standard score that one of all slices and sets exceeds with probability alpha at most."""
        return upper_quantile(alpha / 2.0 / self.sums[0].size)

    def _add_episodes(self, table: LevelTable, rows: Rows, fresh: Mask, owner: AnyArray, count: int) -> None:
        choices = Choices.of(self.level, table)
        self.one_sided |= choices.chance is None
        masks = [np.ones(len(table), dtype=np.bool_)]
        for cut in self.cuts:
            codes = np.where(fresh, cut.codes(rows), -1)
            masks += [codes == place for place in range(cut.bins)]
        for place, mask in enumerate(masks):
            chosen = np.flatnonzero(mask)
            totals = choices.take(chosen).surprises(owner[chosen], count)
            self.sums[0, place] += np.count_nonzero(np.bincount(owner[chosen], minlength=count))
            self.sums[1, place] += totals.sum(axis=0)
            self.sums[2, place] += (totals * totals).sum(axis=0)
