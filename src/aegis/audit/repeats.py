"""Does a reward column repeat one value for a whole episode, or for a whole outer decision? (theory section 1d)"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from aegis.audit.finding import Finding, finding
from aegis.audit.view import View
from aegis.problem import AnyArray, Problem

FEWEST = 10  # groups of several rows; two fair coins agree in ten groups once in a thousand
OTHERS = 3  # groups with another value than the first: a reward that is always the same is not a repeated one


@dataclass(slots=True)
class _Groups:
    """Groups with several known rewards: how many, in how many they are equal, in how many of these unlike the first."""

    several: int = 0
    equal: int = 0
    unlike: int = 0
    value: float = np.nan

    def merge(self, other: _Groups) -> None:
        """Add later groups. Of those that are unlike the first one there may be more than are counted where firsts differ."""
        same = other.value == self.value
        first = np.isnan(self.value)
        self.unlike += other.unlike if same or first else max(other.equal - other.unlike, 0)
        self.value = other.value if first else self.value
        self.several += other.several
        self.equal += other.equal


class RepeatedReward:
    """Looks for a reward that belongs to larger units than the problem says."""

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        innermost = problem.innermost.name
        declared = innermost if problem.reward.per == "decision" else problem.reward.per
        depth = 0 if declared == "episode" else 1 + problem.names.index(declared)
        # Units that are larger than the declared one, the largest first.
        self.groups = {name: _Groups() for name in ("episode", *problem.names)[:depth]}

    def add(self, view: View) -> None:
        """Add the rewards of a batch."""
        rows = np.flatnonzero(np.isfinite(view.reward))
        if not rows.size:
            return
        innermost = self.problem.innermost.name
        for name, groups in self.groups.items():
            if groups.equal < groups.several:
                continue  # not repeated, whatever comes
            owner: AnyArray = (view.episodes[innermost] if name == "episode" else view.above[name])[rows]
            starts = np.flatnonzero(np.concatenate([[True], owner[1:] != owner[:-1]]))
            values = view.reward[rows]
            low, high = np.minimum.reduceat(values, starts), np.maximum.reduceat(values, starts)
            several = np.diff(np.append(starts, owner.size)) > 1
            equal = several & (low == high)
            if equal.any() and np.isnan(groups.value):
                groups.value = float(low[equal][0])
            groups.several += int(several.sum())
            groups.equal += int(equal.sum())
            groups.unlike += int((low[equal] != groups.value).sum())

    def merge(self, other: RepeatedReward) -> None:
        """Add later rewards."""
        for name, groups in other.groups.items():
            self.groups[name].merge(groups)

    def findings(self) -> list[Finding]:
        """Return the largest unit within which the reward never changes, if there is one."""
        for name, groups in self.groups.items():
            if groups.several < FEWEST or groups.equal < groups.several or groups.unlike < OTHERS:
                continue
            column = self.problem.reward.column
            unit = "episodes" if name == "episode" else f"decisions of level '{name}'"
            message = (
                f"'{column}' never changes within {unit} ({groups.several} of them have several rewards), but is declared 'per: "
                f"{self.problem.reward.per}'; counted once for each row, a loss can look like a gain"
            )
            fix = f"declare 'per: {name}' under 'reward'"
            # At no level: what is weighed with too few decisions is so in every scope, above and below.
            return [finding("reward-repeated", "refused", message, None, column, fix, groups=float(groups.several))]
        return []
