"""The order of episodes: the order that their ids imply, and whether episodes are sorted by a result instead of by time.

Ids may be numbers, dates, or a number after the same text, such as `day-17`. Rows may be shuffled, or sorted by something
else, while ids still count episodes as they came.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import numpy as np

from aegis.audit.batch_view import BatchView
from aegis.audit.sums import Sums, merged
from aegis.problem import AnyArray, Array, Problem

_DATE = re.compile(r"\d{4}-\d{2}-\d{2}([T ][\d:.]+Z?)?")
_NUMBERED = re.compile(r"(\D*)(\d{1,15})")


def id_order(ids: AnyArray) -> AnyArray | None:
    """Return the places `[E]` of episodes in the order of their ids; None if ids tell none, or that in which they stand."""
    keys = _keys(ids)
    if keys is None:
        return None
    order: AnyArray = np.argsort(keys, kind="stable")
    return None if (order[1:] > order[:-1]).all() else order


def _keys(ids: AnyArray) -> AnyArray | None:
    """Return what ids `[E]` are sorted by; an id of several columns by the first, then the next."""
    if ids.dtype.names is not None:
        parts = [_keys(ids[name]) for name in ids.dtype.names]
        if any(part is None for part in parts):
            return None
        ranks = [np.unique(part, return_inverse=True)[1] for part in parts if part is not None]
        order = np.lexsort(ranks[::-1])
        place: AnyArray = np.empty(order.size, dtype=np.int64)
        place[order] = np.arange(order.size)
        return place
    if ids.dtype.kind in "iufMm":
        return ids
    if ids.dtype.kind not in "OUT" or not ids.size or not isinstance(ids[0], str):
        return None
    return _text_keys(ids.tolist())


def _text_keys(ids: list[object]) -> AnyArray | None:
    """Return dates as they are, or the number that follows the same text in all ids; None if they are neither."""
    if _DATE.fullmatch(str(ids[0])):
        return np.array(ids, dtype=str) if all(_DATE.fullmatch(str(value)) for value in ids) else None
    first = _NUMBERED.fullmatch(str(ids[0]))
    if first is None:
        return None
    matches = [_NUMBERED.fullmatch(str(value)) for value in ids]
    numbers = [int(match[2]) for match in matches if match is not None and match[1] == first[1]]
    return np.array(numbers, dtype=np.int64) if len(numbers) == len(ids) else None


class ResultSorting(Sums):
    """Whether the episodes of the log come sorted by their mean reward or by the first action of a level."""

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        columns = [problem.reward.column, *[level.actions.column for level in problem.levels]]
        # By column: may it still be rising, falling; does it change at all; its last value.
        self.state: dict[str, tuple[bool, bool, bool, float]] = dict.fromkeys(columns, (True, True, False, np.nan))

    def add(self, view: BatchView, order: AnyArray | None = None) -> None:
        """Add the episodes of a batch; order: their places, if they are not to be taken as they stand."""
        for column, column_values in self._values(view):
            values = column_values if order is None else column_values[order]
            rising, falling, changing, last = self.state[column]
            steps = np.diff(np.concatenate([[last], values]))
            steps = steps[np.isfinite(steps)]
            rising, falling = rising and bool((steps >= 0).all()), falling and bool((steps <= 0).all())
            known = values[np.isfinite(values)]
            self.state[column] = rising, falling, changing or bool((steps != 0).any()), known[-1] if known.size else last

    def merge(self, other: ResultSorting) -> None:
        """Add later episodes: if each part is sorted, their order is not that of time either."""
        for name, (rising, falling, changing, last) in other.state.items():
            up, down, moving, before = self.state[name]
            self.state[name] = up and rising, down and falling, moving or changing, before if np.isnan(last) else last

    def column(self) -> str | None:
        """Return the column by which the episodes are sorted, if there is one."""
        return next((name for name, (up, down, changing, _) in self.state.items() if changing and (up or down)), None)

    def _values(self, view: BatchView) -> Iterator[tuple[str, Array]]:
        open_columns = {name for name, (up, down, _, _) in self.state.items() if up or down}
        if self.problem.reward.column in open_columns:
            with np.errstate(over="ignore"):
                yield self.problem.reward.column, view.mean_rewards()
        for level in self.problem.levels:
            if level.actions.column in open_columns and len(view.batch.levels[level.name]):
                first, some = view.first_decisions(level.name)
                yield level.actions.column, np.where(some, view.batch.levels[level.name].action[first], np.nan)


class IdArrangement(Sums):
    """Whether ids follow from the outcomes of episodes, each batch by itself: sorted, or one range of ids for each action."""

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        self.sorting: ResultSorting | None = None
        # By level: does every action have a range of its own in each batch; is there more than one action.
        self.ranges: dict[str, tuple[bool, bool]] = dict.fromkeys(problem.names, (True, False))

    def add(self, view: BatchView, order: AnyArray) -> None:
        """Add the episodes of a batch, in the order of their ids."""
        own = IdArrangement(self.problem)
        own.sorting = ResultSorting(self.problem)
        own.sorting.add(view, order)
        for name, table in view.batch.levels.items():
            first, some = view.first_decisions(name)
            taken = table.action[first[order[some[order]]]] if len(table) else table.action
            runs = 1 + int(np.count_nonzero(taken[1:] != taken[:-1]))
            own.ranges[name] = runs <= max(np.unique(taken).size, 1), runs > 1
        self.merge(own)

    def merge(self, other: IdArrangement) -> None:
        """Add other batches."""
        self.sorting = merged(self.sorting, other.sorting)
        for name, (apart, several) in other.ranges.items():
            self.ranges[name] = self.ranges[name][0] and apart, self.ranges[name][1] or several

    def by_result(self) -> bool:
        """Say whether ids follow from outcomes."""
        sorted_by = None if self.sorting is None else self.sorting.column()
        return sorted_by is not None or any(apart and several for apart, several in self.ranges.values())
