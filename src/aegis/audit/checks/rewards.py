"""Rewards and guards: inside their declared range, known, final, and in a range that is not much too wide."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from aegis.audit.batch_view import BatchView, id_words
from aegis.audit.checks.base import AuditSetting, Check, Known
from aegis.audit.finding import Finding, make_finding
from aegis.audit.sums import Sums
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
        own = self.ends
        ends = [
            (count if value == end else 0) + (mine if reached == end else 0)
            for value, count, mine, reached, end in (
                (low, counts[0], own[0], self.low, min(self.low, low)),
                (high, counts[1], own[1], self.high, max(self.high, high)),
            )
        ]
        self.low, self.high = min(self.low, low), max(self.high, high)
        self.ends = (ends[0], ends[1])

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
                outside = float(extent.outside)
                findings.append(make_finding("guard-outside-range", "refused", message, column=guard.column, outside=outside))
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
            figures: dict[str, float | str] = {
                "outside": float(extent.outside),
                "share": extent.outside / extent.known,
                "first_episode": extent.first,
            }
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
