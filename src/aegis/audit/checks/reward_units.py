"""Reward units: does a reward belong to larger units than the problem says? (theory section 1d)

A reward column may repeat one value for a whole episode or outer decision, or hold a value only in the last row of it. What
comes at the end may be the outcome of all decisions before it. Declared per decision it is weighted with the last one
alone, as if the others had no part in it. Under `carry_over: within` all earlier decisions are in its weight, which is
right.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from aegis.audit.batch_view import BatchView, group_starts, units_above_reward
from aegis.audit.checks.base import AuditSetting, Check, Known
from aegis.audit.finding import Finding, make_finding
from aegis.audit.slices import Mask
from aegis.audit.sums import Sums
from aegis.problem import AnyArray, Array

FEWEST_REPEATS = 10  # groups of several rows; two fair coins agree in ten groups once in a thousand
OTHERS = 3  # groups with another value than the first: a reward that is always the same is not a repeated one


@dataclass(slots=True)
class _Groups(Sums):
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


class RepeatedReward(Check):
    """Looks for a reward that belongs to larger units than the problem says."""

    adds = ("groups",)

    def __init__(self, setting: AuditSetting) -> None:
        super().__init__(setting)
        self.groups = {name: _Groups() for name in units_above_reward(self.problem)}

    def add(self, view: BatchView) -> None:
        """Add the rewards of a batch."""
        rows = np.flatnonzero(np.isfinite(view.reward))
        if not rows.size:
            return
        innermost = self.problem.innermost.name
        for name, groups in self.groups.items():
            if groups.equal < groups.several:
                continue  # not repeated, however the log goes on
            owner: AnyArray = (view.episodes[innermost] if name == "episode" else view.above[name])[rows]
            starts = group_starts(owner)
            values = view.reward[rows]
            low, high = np.minimum.reduceat(values, starts), np.maximum.reduceat(values, starts)
            several = np.diff(np.append(starts, owner.size)) > 1
            equal = several & (low == high)
            if equal.any() and np.isnan(groups.value):
                groups.value = float(low[equal][0])
            groups.several += int(several.sum())
            groups.equal += int(equal.sum())
            groups.unlike += int((low[equal] != groups.value).sum())

    def findings(self, known: Known) -> list[Finding]:
        """Return the largest unit within which the reward never changes, if there is one."""
        for name, groups in self.groups.items():
            if groups.several < FEWEST_REPEATS or groups.equal < groups.several or groups.unlike < OTHERS:
                continue
            column = self.problem.reward.column
            unit = "episodes" if name == "episode" else f"decisions of level '{name}'"
            message = (
                f"'{column}' never changes within {unit} ({groups.several} of them have several rewards), but is declared 'per: "
                f"{self.problem.reward.per}'; counted once for each row, a loss can look like a gain"
            )
            fix = f"declare 'per: {name}' under 'reward'"
            # At no level: the fault concerns every scope.
            return [make_finding("reward-repeated", "refused", message, None, column, fix, groups=float(groups.several))]
        return []


FEWEST_ENDS = 20  # groups of several rows
CHANCE = math.log(1000.0)  # how unlikely it has to be that what differs comes last by chance


@dataclass(slots=True)
class _Ends(Sums):
    """Groups of several rows: the extremes of the rewards before the last one and of the last ones, and what sets these apart.

    unlike: groups whose last reward is known and not the one value that comes before. chance: the sum over them of log(size),
    how unlikely it is that rows which could as well come in another order have it last.
    """

    several: int = 0
    low: float = np.inf
    high: float = -np.inf
    last_low: float = np.inf
    last_high: float = -np.inf
    unlike: int = 0
    chance: float = 0.0

    def add(self, values: Array, owner: AnyArray, open_rows: Mask) -> None:
        """Add values `[m]`, nan if missing, of owners `[m]` that never decrease; groups with an open row do not count."""
        if self.settled or not values.size:
            return
        starts = group_starts(owner)
        sizes = np.diff(np.append(starts, values.size))
        counts = (sizes > 1) & ~np.logical_or.reduceat(open_rows, starts)
        ends = (starts + sizes - 1)[counts]
        before = np.repeat(counts, sizes)
        before[ends] = False
        self.several += ends.size
        self.low, self.high = _extremes(values[before], self.low, self.high)
        last = values[ends]
        self.last_low, self.last_high = _extremes(last, self.last_low, self.last_high)
        unlike = np.isfinite(last) & (last != self.low)
        self.unlike += int(unlike.sum())
        self.chance += float(np.log(sizes[counts][unlike]).sum())

    def merge(self, other: _Ends) -> None:
        """Add later groups."""
        self.several += other.several
        self.low, self.high = min(self.low, other.low), max(self.high, other.high)
        self.last_low, self.last_high = min(self.last_low, other.last_low), max(self.last_high, other.last_high)
        self.unlike += other.unlike
        self.chance += other.chance

    @property
    def settled(self) -> bool:
        """Whether rewards before the last differ: no mere filling, however the log goes on."""
        return self.low < self.high

    @property
    def only_last(self) -> bool:
        """Whether rewards come with the last row only, beyond chance."""
        return not self.settled and self.several >= FEWEST_ENDS and self.last_low < self.last_high and self.chance >= CHANCE

    @property
    def filled_with(self) -> str:
        """What comes before the last row, in words."""
        return f"{self.low:g}" if np.isfinite(self.low) else "missing"


class FinalReward(Check):
    """Looks for a reward that is filled in at the end of larger units than the problem says."""

    adds = ("ends",)

    def __init__(self, setting: AuditSetting) -> None:
        super().__init__(setting)
        per = self.problem.reward.per
        self.declared = self.problem.innermost.name if per == "decision" else per
        units = () if self.problem.carry_over == "within" else units_above_reward(self.problem)
        self.ends = {name: _Ends() for name in units}

    def add(self, view: BatchView) -> None:
        """Add the rewards of a batch."""
        if all(ends.settled for ends in self.ends.values()):
            return
        values = view.mean_rewards(self.declared)
        open_rows = np.zeros(values.size, dtype=np.bool_)
        if not view.closed.all():
            open_rows[view.above[self.declared][~view.closed]] = True
        above = view.batch.ancestors(self.declared)
        for name, ends in self.ends.items():
            ends.add(values, view.episodes[self.declared] if name == "episode" else above[name], open_rows)

    def findings(self, known: Known) -> list[Finding]:
        """Return the largest unit whose reward comes with its last row only, if there is one."""
        for name, ends in self.ends.items():
            if not ends.only_last:
                continue
            reward = self.problem.reward
            unit = "episode" if name == "episode" else f"decision of level '{name}'"
            message = (
                f"'{reward.column}' is {ends.filled_with} in all but the last row of each {unit} ({ends.several} have several "
                f"rows), but is declared 'per: {reward.per}': each value counts for the last decision alone, though earlier ones "
                "may have brought it about; a loss can look like a gain"
            )
            fix = (
                f"copy the last value into all rows of the {unit} and declare 'per: {name}' under 'reward'; or declare "
                "'carry_over: within'"
            )
            figures = {"groups": float(ends.several), "unlike": float(ends.unlike)}
            return [make_finding("reward-at-end", "refused", message, None, reward.column, fix, figures)]
        return []


def _extremes(values: Array, low: float, high: float) -> tuple[float, float]:
    """Return the extremes of the known values `[k]` and of those so far."""
    known = values[np.isfinite(values)]
    return min(low, float(known.min(initial=np.inf))), max(high, float(known.max(initial=-np.inf)))
