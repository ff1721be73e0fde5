"""Neighbouring episodes, in the order of their start or of the log: what the tests between episodes look at.

Episodes of one cluster may depend on each other: of each cluster only the first takes part, because where a cluster ends may
depend on what happened in it. The last few episodes of a batch are kept for the next one.
Without a time the order of the log is taken for that of time, unless episodes turn out to be sorted by a result of theirs.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from aegis.audit.finding import Finding, finding
from aegis.audit.held import LAGS, Held
from aegis.audit.interference import Interference
from aegis.audit.thinning import Thinning
from aegis.audit.view import View
from aegis.problem import AnyArray, Array, Batch, Problem, Scope, concat

MOST_EPISODES = 2**14  # that are all looked at; then some batches only
MOST_AT_ONCE = 2**15  # in one batch
Pairs = tuple[int, AnyArray, AnyArray]


class Neighbours:
    """Hands pairs of episodes to the tests of held actions and of interference."""

    def __init__(self, problem: Problem, scope: Scope, alpha: float) -> None:
        self.problem = problem
        self.held = Held(problem, scope, alpha)
        self.interference = Interference(problem, alpha / 2.0)  # the other half is for carry-over within episodes
        self.thinning = Thinning(MOST_EPISODES)
        self.tail: Batch | None = None
        self.sorting = _Sorting(problem)
        self.in_time = False

    def add(self, view: View) -> None:
        """Add the episodes of a batch."""
        batch = view.batch
        self.in_time = batch.time is not None and batch.time.dtype.kind in "iufM"
        if not self.in_time:
            self.sorting.add(view)
        if not self.thinning.wants(len(batch), view.skimmed):
            self.tail = None
            return
        whole = self._order(batch)
        order = whole[:MOST_AT_ONCE]
        if self.tail is not None and batch.cluster is None:
            head = batch.take_episodes(order[: max(LAGS)])
            both = concat([self.tail, head])
            self._add(View.of(self.problem, both, view.cuts), self._order(both), len(self.tail))
        self._add(view, order, 0)
        last = whole[-max(LAGS) :]
        last = last[view.fresh[last]]  # those that placed the cuts are not bet on
        self.tail = batch.take_episodes(last) if last.size else None

    def merge(self, other: Neighbours) -> None:
        """Add what was found in later episodes; pairs of which one is here and one there are not looked at."""
        self.held.merge(other.held)
        self.interference.merge(other.interference)
        self.sorting.merge(other.sorting)
        self.in_time = self.in_time or other.in_time
        self.tail = None

    def findings(self, strongest: dict[str, float], wrong: set[str]) -> list[Finding]:
        """Return what was found.

        strongest: by level, log evidence that propensities are wrong in a slice. wrong: levels where they are refuted.
        """
        column = None if self.in_time else self.sorting.column()
        if column is not None:
            message = f"the episodes are sorted by '{column}', which follows from their actions; their order in time is not known"
            return [finding("order-unknown", "warning", message, column=column)]
        words = f"in the order of '{self.problem.time}'" if self.in_time else "in the order of the log"
        held = self.held.findings(words, strongest)
        return [*held, *self.interference.findings(words, wrong | {str(found.level) for found in held})]

    def _order(self, batch: Batch) -> AnyArray:
        """Return the episodes that are paired, in their order."""
        order = np.arange(len(batch)) if not self.in_time or batch.time is None else np.argsort(batch.time, kind="stable")
        if batch.cluster is None:
            return order
        _, first = np.unique(batch.cluster[order], return_index=True)
        return order[np.sort(first)]

    def _add(self, view: View, order: AnyArray, joint: int) -> None:
        for lag, before, now in _pairs(order, joint):
            self.held.add(view, lag, before, now)
            if lag == 1:
                self.interference.add(view, before, now)


def _pairs(order: AnyArray, joint: int) -> Iterator[Pairs]:
    """Yield pairs of episodes for each lag; if `joint` > 0, those of which one is before that row and the other is not."""
    for lag in LAGS:
        before, now = order[:-lag], order[lag:]
        if joint:
            kept = (before < joint) & (now >= joint)
            before, now = before[kept], now[kept]
        if now.size:
            yield lag, before, now


class _Sorting:
    """Whether the episodes of the log come sorted by their mean reward or by the first action of a level."""

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        columns = [problem.reward.column, *[level.actions.column for level in problem.levels]]
        # By column: may it still be rising, falling; does it change at all; its last value.
        self.state: dict[str, tuple[bool, bool, bool, float]] = dict.fromkeys(columns, (True, True, False, np.nan))

    def add(self, view: View) -> None:
        """Add the episodes of a batch."""
        for column, values in self._values(view):
            rising, falling, changing, last = self.state[column]
            steps = np.diff(np.concatenate([[last], values]))
            steps = steps[np.isfinite(steps)]
            rising, falling = rising and bool((steps >= 0).all()), falling and bool((steps <= 0).all())
            known = values[np.isfinite(values)]
            self.state[column] = rising, falling, changing or bool((steps != 0).any()), known[-1] if known.size else last

    def merge(self, other: _Sorting) -> None:
        """Add later episodes: if each part is sorted, their order is not that of time either."""
        for name, (rising, falling, changing, last) in other.state.items():
            up, down, moving, before = self.state[name]
            self.state[name] = up and rising, down and falling, moving or changing, before if np.isnan(last) else last

    def column(self) -> str | None:
        """Return the column by which the episodes are sorted, if there is one."""
        return next((name for name, (up, down, changing, _) in self.state.items() if changing and (up or down)), None)

    def _values(self, view: View) -> Iterator[tuple[str, Array]]:
        open_columns = {name for name, (up, down, _, _) in self.state.items() if up or down}
        if self.problem.reward.column in open_columns:
            with np.errstate(over="ignore"):
                yield self.problem.reward.column, view.episode_rewards()
        for level in self.problem.levels:
            if level.actions.column in open_columns and len(view.batch.levels[level.name]):
                first, some = view.first_decisions(level.name)
                yield level.actions.column, np.where(some, view.batch.levels[level.name].action[first], np.nan)
