"""Rewards and guards: inside their declared range, known, final, and of the units that the problem says?

Units (theory section 1, A4). A reward column may repeat one value for a whole episode or outer decision, or hold a value only
in the last row of it. What comes at the end may be the outcome of all decisions before it. Declared per decision it is
weighted with the last one alone, as if the others had no part in it. Under `carry_over: within` all earlier decisions are
in its weight, which is right.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from aegis.audit.batch_view import BatchView, group_starts, id_words, units_above_reward
from aegis.audit.check import AuditSetting, Check, Finding, Known, Sums, make_finding
from aegis.audit.slices import Mask
from aegis.errors import pluralise
from aegis.problem import AnyArray, Array, Batch

WIDE = 5.0  # times the rewards' own spread
SCALES = ((0.0, 1.0), (0.0, 100.0))  # usual scales of rewards, which a log may fill to both ends
ENDS = 0.001  # share of rewards at an end of the range up to which the end looks like the largest reward of the log
MISSING = 0.01  # share from which missing rewards are more than a note


@dataclass(slots=True)
class _Extent(Sums):
    """How far the known values of one column reach, and which are outside a declared range."""

    low: float = np.inf
    high: float = -np.inf
    known: int = 0
    outside: int = 0
    first: str = ""
    ends: tuple[int, int] = (0, 0)  # how many values are equal to the smallest, and to the largest

    def add(self, values: Array, limits: tuple[float, float] | None, batch: Batch, rows: AnyArray) -> None:
        """Add values `[n]`, nan where unknown; rows `[n]` are their episodes."""
        known = np.isfinite(values)
        if not known.any():
            return
        self.known += int(known.sum())
        low, high = float(np.nanmin(values)), float(np.nanmax(values))
        counts = int(np.count_nonzero(values == low)), int(np.count_nonzero(values == high))
        self._reach(low, high, counts if high > low else (counts[0], 0))
        if limits is None or (limits[0] <= low and high <= limits[1]):
            return
        wrong = np.flatnonzero(known & ((values < limits[0]) | (values > limits[1])))
        self.first = self.first or id_words(batch.episode, int(rows[wrong[0]]))
        self.outside += wrong.size

    def _reach(self, low: float, high: float, counts: tuple[int, int]) -> None:
        """Move the ends outward, and count how many values lie on them."""
        least, most = min(self.low, low), max(self.high, high)
        self.ends = (
            counts[0] * (low == least) + self.ends[0] * (self.low == least),
            counts[1] * (high == most) + self.ends[1] * (self.high == most),
        )
        self.low, self.high = least, most

    def merge(self, other: _Extent) -> None:
        """Add later values of the same column."""
        self._reach(other.low, other.high, other.ends)
        self.known += other.known
        self.outside += other.outside
        self.first = self.first or other.first


class RewardRanges(Check):
    """Counts about rewards and guards."""

    adds = ("extent", "guards", "rows", "missing", "open", "episodes")

    def __init__(self, setting: AuditSetting) -> None:
        super().__init__(setting)
        self.extent = _Extent()
        self.guards = {guard.column: _Extent() for guard in self.problem.guards}
        self.rows = 0
        self.missing = 0
        self.open = 0
        self.episodes = 0

    def add(self, view: BatchView) -> None:
        """Add the rewards of a batch."""
        rows = view.episodes[self.problem.innermost.name]
        self.rows += view.reward.size
        self.episodes += len(view.batch)
        self.missing += int((view.closed & ~np.isfinite(view.reward)).sum())
        self.open += int(view.open_episodes().sum())
        self.extent.add(view.reward, self.problem.reward.range, view.batch, rows)
        for guard in self.problem.guards:
            if guard.column in view.batch.guards:
                self.guards[guard.column].add(view.batch.guards[guard.column], guard.range, view.batch, rows)

    def findings(self, known: Known) -> list[Finding]:
        """Return the findings."""
        findings = [*self._range(), *self._missing()]
        for guard in self.problem.guards:
            extent = self.guards[guard.column]
            if extent.outside:
                message = _outside("guard", guard.column, extent, guard.range)
                findings.append(
                    make_finding("guard-outside-range", "refused", message, column=guard.column, outside=extent.outside)
                )
        if self.open:
            waits = "waits" if self.open == 1 else "wait"
            message = f"{self.open} of {pluralise(self.episodes, 'episodes')} still {waits} for a reward"
            column = self.problem.reward.closed
            findings.append(make_finding("open-units", "note", message, column=column, open=float(self.open)))
        return findings

    def figures(self) -> dict[str, float | str]:
        """Return figures about the rewards."""
        if not self.extent.known:
            return {}
        return {"smallest_reward": self.extent.low, "largest_reward": self.extent.high}

    def _range(self) -> list[Finding]:
        declared, extent = self.problem.reward, self.extent
        column, limits = declared.column, declared.range
        if limits is None:
            message = f"no range is declared for the reward '{column}'; the certificate's price is in units of it"
            return [make_finding("no-reward-range", "refused", message, column=column)]
        if extent.outside:
            message = _outside("reward", column, extent, limits)
            figures: dict[str, float | str] = {"outside": extent.outside, "share": extent.outside / extent.known}
            figures["first_episode"] = extent.first
            if declared.clip:
                message += "; they are clipped, as asked"
                return [make_finding("reward-clipped", "warning", message, column=column, figures=figures)]
            return [make_finding("reward-outside-range", "refused", message, column=column, figures=figures)]
        if (extent.low, extent.high) == limits not in SCALES and min(extent.ends) <= max(1, ENDS * extent.known):
            message = (
                f"the declared range [{limits[0]:g}, {limits[1]:g}] of '{column}' ends exactly at the smallest and the largest "
                "reward of the log, as a range that was taken from the data would: then larger losses were never ruled out"
            )
            return [make_finding("range-from-data", "warning", message, column=column)]
        spread = extent.high - extent.low
        if extent.known < 2 or spread <= 0 or limits[1] - limits[0] <= WIDE * spread:
            return []
        ratio = (limits[1] - limits[0]) / spread
        message = (
            f"the declared range [{limits[0]:g}, {limits[1]:g}] of '{column}' is {ratio:.1f} times as wide as the rewards, "
            f"{extent.low:g} to {extent.high:g}: certificates need up to {ratio:.1f} times as many units as need be"
        )
        return [make_finding("range-too-wide", "warning", message, column=column, ratio=ratio)]

    def _missing(self) -> list[Finding]:
        if not self.missing:
            return []
        column, share = self.problem.reward.column, self.missing / self.rows
        if not self.extent.known:
            every = "the only row" if self.rows == 1 else f"all {self.rows} rows"
            message = f"no reward was observed: column '{column}' is empty in {every}; nothing can be learned or certified"
            fix = (
                "see that the reward's column is the one named and that it was exported; if rewards are only late, name a flag "
                "under 'closed'"
            )
            return [make_finding("missing-rewards", "refused", message, column=column, fix=fix, share=1.0)]
        count = "is missing; it counts" if self.missing == 1 else "are missing; they count"
        message = f"{self.missing} of {pluralise(self.rows, 'rewards')} ({share:.2%}) {count} as the worst possible"
        return [make_finding("missing-rewards", "warning" if share >= MISSING else "note", message, column=column, share=share)]


def _outside(what: str, column: str, extent: _Extent, limits: tuple[float, float]) -> str:
    return (
        f"{extent.outside} of {pluralise(extent.known, 'values')} of the {what} '{column}' "
        f"{'lies' if extent.outside == 1 else 'lie'} outside [{limits[0]:g}, {limits[1]:g}], "
        f"between {extent.low:g} and {extent.high:g}; the first in episode {extent.first}"
    )


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

    adds = ("several", "unlike", "chance")
    lowest = ("low", "last_low")
    highest = ("high", "last_high")

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
            return [
                make_finding(
                    "reward-at-end", "refused", message, None, reward.column, fix, groups=ends.several, unlike=ends.unlike
                )
            ]
        return []


def _extremes(values: Array, low: float, high: float) -> tuple[float, float]:
    """Return the extremes of the known values `[k]` and of those so far."""
    known = values[np.isfinite(values)]
    return min(low, float(known.min(initial=np.inf))), max(high, float(known.max(initial=-np.inf)))
