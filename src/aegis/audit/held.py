"""Are actions held from one episode to the next, although their propensities claim a fresh draw each time?

A machine that keeps its setting for many episodes, and logs how often it takes each setting, has propensities that are right on
average: no slice shows anything. But its episodes are not the independent draws that a certificate counts.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np

from aegis.audit.bets import mean_log
from aegis.audit.finding import Finding, finding
from aegis.audit.same_again import SameAgain
from aegis.audit.view import View
from aegis.problem import AnyArray, Problem, Scope

LAGS = (1, 2, 3, 4, 5, 6, 8, 12)  # episodes back; a few machines that take turns come again after as many


class Held:
    """The test of actions that come again across episodes, all levels and lags together at level alpha."""

    def __init__(self, problem: Problem, scope: Scope, alpha: float) -> None:
        self.problem, self.scope, self.alpha = problem, scope, alpha
        declared = [level.name for level in problem.levels if level.propensity is not None]
        self.bets = {(name, lag): SameAgain() for name in declared for lag in LAGS}

    def add(self, view: View, lag: int, before: AnyArray, now: AnyArray) -> None:
        """Add pairs `[p]` of episodes, `lag` apart: the first decisions of each level are compared."""
        for level in self.problem.levels:
            bets = self.bets.get((level.name, lag))
            table = view.batch.levels[level.name]
            if bets is None or not len(table):
                continue
            first, some = view.first_decisions(level.name)
            pairs = some[before] & some[now]
            earlier, later = first[before[pairs]], first[now[pairs]]
            if later.size and (table.mu_taken[later] > 0).all():
                bets.add(table, earlier, later)

    def merge(self, other: Held) -> None:
        """Add what was found in other episodes."""
        for key, bets in other.bets.items():
            self.bets[key].merge(bets)

    @property
    def pairs(self) -> int:
        """How many pairs were added."""
        return sum(bets.pairs for bets in self.bets.values())

    def findings(self, order: str, strongest: Mapping[str, float], orders: int = 1) -> list[Finding]:
        """Return what was found. order: of the episodes, in words. orders: in how many they are looked at, which share alpha.

        strongest: log evidence that the propensities of a level are wrong in a slice; what is explained by that is not held.
        """
        alpha = self.alpha / orders
        found = {key: bets.evidence() for key, bets in self.bets.items() if bets.pairs}
        every = np.array(list(found.values()))
        if not every.size or mean_log(every) < math.log(1.0 / alpha):
            return []
        limit = math.log(every.size / alpha)
        grave: list[Finding] = []
        for name in self.problem.names:
            own = {lag: log for (level, lag), log in found.items() if level == name}
            lag = max(own, key=lambda key: own[key], default=0)
            strong = bool(own) and (own[lag] >= limit or own[lag] >= float(every.max()))
            if strong and own[lag] > strongest.get(name, -math.inf):
                grave.append(self._finding(name, lag, own[lag], order))
        return grave

    def _finding(self, level: str, lag: int, log: float, order: str) -> Finding:
        bets = self.bets[level, lag]
        back = "the episode before" if lag == 1 else f"{lag} episodes before"
        given = self.problem.level(level).propensity
        return finding(
            "actions-held",
            "refused" if level in self.scope else "warning",
            f"level '{level}': {bets.same} of {bets.pairs} episodes take the action of {back} ({order}), not as often as their "
            "propensities say: an action is held over several episodes, or alternates, while each is logged as a fresh draw",
            level,
            None if given is None or not given.log_columns else given.log_columns[0],
            log10_evidence=log / math.log(10),
            lag=float(lag),
            share=bets.same / bets.pairs,
            pairs=float(bets.pairs),
        )
