"""Are actions taken as often as their propensities say, over the whole log? A fixed-sample test: it warns and never refuses.

Rows that were left out after their outcome was known change how often each action is there. Betting needs a long log to be sure;
a standard score notices sooner, at the price of a warning in one of twenty logs that are in order.
"""

from __future__ import annotations

import numpy as np

from aegis.audit.bets import Choices, set_count
from aegis.audit.cells import summed
from aegis.audit.finding import Finding, finding
from aegis.audit.sums import upper_quantile
from aegis.audit.thinning import Thinning
from aegis.audit.view import View
from aegis.problem import Level, Problem, Scope

LEVEL = 0.05  # share of logs in order that are warned of
MOST_DECISIONS = 2**16  # of a level that are all looked at; then some batches only
FEWEST = 10.0  # variance of the number of draws of a set, below which its score says little


class ActionShares:
    """Standard scores of how often each set of actions is taken, by level, all levels together at 5 %."""

    def __init__(self, problem: Problem, scope: Scope) -> None:
        self.problem = problem
        self.levels = [level for level in problem.levels if level.propensity is not None and level.name in scope]
        self.thinning = {level.name: Thinning(MOST_DECISIONS) for level in self.levels}
        # By level: taken, expected, squares of sums over units, variance by the propensities.
        self.sums = {level.name: np.zeros((4, set_count(level))) for level in self.levels}

    def add(self, view: View) -> None:
        """Add the decisions of a batch; those without the whole distribution say nothing, because overlap may be missing."""
        for level in self.levels:
            part = self.thinning[level.name].part(view, level.name)
            table = None if part is None else part.batch.levels[level.name]
            if part is None or table is None or table.mu_full is None:
                continue
            choices = Choices.of(level, table)
            chance = np.asarray(choices.chance)
            taken = (np.arange(choices.sets) == choices.chosen[:, None]).astype(np.float64)
            owner, count = part.episodes[level.name], len(part.batch)
            if part.batch.cluster is not None:  # the episodes of a cluster may share a draw
                _, unit = np.unique(part.batch.cluster, return_inverse=True)
                owner, count = np.ravel(unit)[owner], int(unit.max()) + 1
            episodes = summed(taken - chance, owner, count)
            self.sums[level.name] += np.stack(
                [taken.sum(axis=0), chance.sum(axis=0), (episodes**2).sum(axis=0), (chance * (1.0 - chance)).sum(axis=0)]
            )

    def merge(self, other: ActionShares) -> None:
        """Add what was found in other episodes."""
        for name, sums in other.sums.items():
            self.sums[name] = self.sums[name] + sums

    def findings(self) -> list[Finding]:
        """Return the level and set of actions that stand out most, if one does."""
        numbers = [int(np.count_nonzero(sums[3] >= FEWEST)) for sums in self.sums.values()]
        tests = sum(1 if number == 2 else number for number in numbers)  # of two sets one is the rest of the other
        if not tests:
            return []
        best = max(self.levels, key=lambda level: float(np.abs(self._scores(level)).max()))
        scores = self._scores(best)
        place = int(np.argmax(np.abs(scores)))
        if abs(scores[place]) < upper_quantile(LEVEL / 2.0 / tests):
            return []
        taken, expected, _, _ = self.sums[best.name][:, place]
        message = (
            f"level '{best.name}': {_actions(best, place)} taken {taken:.0f} times, expected {expected:.1f} by the propensities "
            f"(standard score {scores[place]:.1f}); a fixed-sample test: it warns of one in twenty logs that are in order, and "
            "never refuses"
        )
        return [finding("action-shares", "warning", message, best.name, score=float(scores[place]), taken=float(taken))]

    def _scores(self, level: Level) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
        taken, expected, square, variance = self.sums[level.name]
        spread = np.sqrt(np.maximum(np.maximum(square, variance), 1e-300))
        return np.where(variance >= FEWEST, (taken - expected) / spread, 0.0)


def _actions(level: Level, place: int) -> str:
    """Return the actions of a set in words."""
    sets = set_count(level)
    members = [level.actions.values[a] for a in range(level.actions.count) if a * sets // level.actions.count == place]
    if len(members) == 1:
        return f"action {members[0]} was"
    return f"actions {members[0]} to {members[-1]} were"
