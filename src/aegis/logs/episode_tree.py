"""The tree of decisions behind the rows of a log: which rows form each decision, and in which order siblings were decided.

Under `carry_over: within` the importance weight of a reward holds all earlier decisions of its episode. Numbered or dated
decision ids tell which are earlier, or a time that differs between rows. The order of the rows in a file does not, nor do
ids of text ('10' comes before '9'). Where nothing carries over, the order only serves tests, and any order is accepted.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from aegis.logs.column_values import decode_column
from aegis.logs.columns import Column, Findings, column_key, show_value
from aegis.logs.ids import codes_and_values, id_changes, joint_codes, value_ranks, values_at
from aegis.problem import AnyArray, Ints, Level, Problem

Longs = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class RowGroups:
    """Rows in groups: episodes, or the decisions of a level, in the order in which a Batch holds them.

    of `i64[n]`: the group of each row. first `i64[m]`: the row of each group that comes first in the log. ordered: `of` never
    decreases, so that the rows of a group are next to each other.
    """

    of: Longs
    first: Longs
    ordered: bool

    @property
    def single(self) -> bool:
        """Whether each row is a group of its own, in the order of the rows."""
        return self.ordered and self.first.size == self.of.size

    def earliest(self, values: AnyArray) -> AnyArray:
        """Return the smallest of the values `[n]` in each group `[m]`."""
        if self.first.size == self.of.size:
            return values[self.first]
        if self.ordered:
            smallest: AnyArray = np.minimum.reduceat(values, self.first)
            return smallest
        order = np.lexsort((values, self.of))
        return values[order[np.searchsorted(self.of[order], np.arange(self.first.size))]]

    def rearranged(self, order: AnyArray) -> RowGroups:
        """Return the groups in another order: `order[i]` is the group that comes at place i."""
        if bool((order[1:] > order[:-1]).all()):
            return self
        place = np.empty(order.size, dtype=np.int64)
        place[order] = np.arange(order.size)
        of = place[self.of]
        return RowGroups(of, self.first[order], bool((of[1:] >= of[:-1]).all()))


def agree_within(values: AnyArray, groups: RowGroups) -> bool:
    """Say whether all rows of each group hold the same value."""
    if groups.single:
        return True
    if groups.ordered:
        return not bool(((values[1:] != values[:-1]) & (groups.of[1:] == groups.of[:-1])).any())
    return not bool((values != values[groups.first[groups.of]]).any())


def order_matters(problem: Problem, level: str) -> bool:
    """Say whether a certificate depends on the order of the decisions of a level below one parent.

    It does where decisions carry over, down to the level that the reward belongs to: all decisions below that are in its weight.
    """
    if problem.carry_over != "within" or problem.reward.per == "episode":
        return False
    return problem.reward.per == "decision" or problem.index(level) >= problem.index(problem.reward.per)


def describe_order(problem: Problem, level: str) -> str:
    """Say what tells the order of the decisions of a level below one parent."""
    known = problem.level(level).decision
    if known is not None:
        return f"in the order of '{known}'" + (f" (of '{problem.time}' if it holds text)" if problem.time else "")
    return f"in the order of '{problem.time}', else of the log" if problem.time else "in the order of the log"


@dataclass(frozen=True, slots=True)
class SiblingOrder:
    """What a table says about the order of its rows. times `[n]`: None unless they can tell an order within an episode."""

    problem: Problem
    findings: Findings
    times: AnyArray | None

    @classmethod
    def of(cls, table: pa.Table, problem: Problem, episodes: RowGroups, findings: Findings) -> SiblingOrder:
        """Return the order of a table of whole episodes."""
        times = None if problem.time is None else table[column_key("time", problem.time)].to_numpy()
        usable = times is not None and times.dtype.kind in "iufM" and not agree_within(times, episodes)
        return cls(problem, findings, times if usable else None)

    def arranged(self, groups: RowGroups, above: RowGroups, level: Level, ids: pa.ChunkedArray | None) -> RowGroups:
        """Return the decisions of a level with siblings in their order; notes a finding if it counts and nothing tells it."""
        numbered = ids is not None and (pa.types.is_integer(ids.type) or pa.types.is_temporal(ids.type))
        needed = order_matters(self.problem, level.name)
        if numbered or not (needed or self.times is not None):
            return groups
        parent, times = above.of[groups.first], self.times
        if (parent[1:] != parent[:-1]).all():
            return groups

        def unknown(index: int) -> str:
            shown = f"with ids of text such as {show_value(ids[index].as_py())}" if ids is not None else "without decision ids"
            return (
                f"level '{level.name}' has several decisions below one parent, {shown} and without a time that differs between "
                "them; under 'carry_over: within' their order counts, and neither rows nor text tell it ('10' comes before '9'): "
                "name a 'decision' column that numbers (or dates) them as they were taken, or a 'time' column whose numbers or "
                "dates differ between them"
            )

        if times is None:
            later = groups.first[np.flatnonzero(parent[1:] == parent[:-1]) + 1]
            self.findings.add(later, level.decision or level.actions.column, unknown)
            return groups
        start = groups.earliest(times)
        order = np.lexsort((start, parent))
        tied = np.flatnonzero((parent[order][1:] == parent[order][:-1]) & (start[order][1:] == start[order][:-1])) + 1

        def twice(index: int) -> str:
            return (
                f"found {times[index]} twice: two decisions of level '{level.name}' below one parent have the same time; under "
                "'carry_over: within' their order counts: name a 'decision' column that numbers them as they were taken, or log "
                "finer times"
            )

        if needed and tied.size:
            self.findings.add(groups.first[order[tied]], str(self.problem.time), twice)
        return groups.rearranged(order)

    def check(self, episodes: RowGroups, nodes: RowGroups) -> None:
        """Note decisions that start earlier than the one before them in the episode; nodes: those that rewards belong to."""
        if self.times is None or self.problem.carry_over != "within":
            return
        times, owner = nodes.earliest(self.times), episodes.of[nodes.first]
        back = np.flatnonzero((owner[1:] == owner[:-1]) & (times[1:] < times[:-1])) + 1

        def text(index: int) -> str:
            row = int(nodes.of[index])
            return (
                f"found {times[row]}, but {times[row - 1]} at {self.findings.places.at(int(nodes.first[row - 1]))}, which comes "
                "before it by decision ids; under 'carry_over: within' the order of decisions counts: correct the ids or the "
                "times, or leave out 'time' if it means another one"
            )

        if back.size:
            self.findings.add(nodes.first[back], str(self.problem.time), text)


_LARGEST_ID = 2**30  # whole numbers up to here can be joined with the row of a parent in 64 bits


@dataclass(frozen=True, slots=True)
class EpisodeTree:
    """Episodes, and the decisions of each level by name; innermost decisions are single rows."""

    episodes: RowGroups
    levels: dict[str, RowGroups]

    def parent(self, name: str) -> Ints:
        """Return the row of the next outer table `[m]` above each decision of a level."""
        names = list(self.levels)
        above = self.episodes if name == names[0] else self.levels[names[names.index(name) - 1]]
        return above.of[self.levels[name].first].astype(np.int32)


def build_tree(table: pa.Table, problem: Problem, findings: Findings) -> EpisodeTree:
    """Return the tree behind a table of whole episodes, rows in any order but those of an episode in the log's order.

    Episodes in the order in which they appear. Siblings by decision ids that are numbers or dates, else by times that differ
    within an episode, else by ids of text, else in the order in which they appear; but the last two are findings where the order
    counts. An innermost decision id that comes twice below one parent is a finding, too.
    """
    above = _episodes([table[column_key("episode", name)] for name in problem.episode])
    order = SiblingOrder.of(table, problem, above, findings)
    tree = EpisodeTree(above, {})
    for level in problem.levels:
        ids = None if level.decision is None else table[column_key("decision", level.decision, level.name)]
        if level is problem.innermost:
            above = order.arranged(_single_rows(ids, level, above, findings), above, level, ids)
        elif ids is not None:
            above = order.arranged(_decisions(ids, above), above, level, ids)
        tree.levels[level.name] = above
    if problem.reward.per != "episode":
        order.check(tree.episodes, above if problem.reward.per == "decision" else tree.levels[problem.reward.per])
    return tree


def check_agreement(table: pa.Table, column: Column, groups: RowGroups, unit: str, findings: Findings, advice: str = "") -> None:
    """Note rows that hold another value than the first row of their group; `unit` says what a group is."""
    values = comparable_codes(table[column.key])
    if agree_within(values, groups):
        return
    reference = groups.first[groups.of]

    def text(index: int) -> str:
        here, there = (show_value(_original(table, column, row)) for row in (index, int(reference[index])))
        place = findings.places.at(int(reference[index]))
        return (
            f"found {here}, but {there} at {place}, in the same {unit}; the {column.what} is the same in all rows of it{advice}"
        )

    findings.add(np.flatnonzero(values != values[reference]), column.name, text)


def comparable_codes(column: pa.ChunkedArray) -> AnyArray:
    """Return numbers `[n]` that are equal where the values are; null is a value of its own."""
    if not column.null_count:
        if pa.types.is_primitive(column.type) or pa.types.is_boolean(column.type):
            return column.to_numpy()
        return codes_and_values(column)[0]
    return decode_column(column).dictionary_encode(null_encoding="encode").indices.to_numpy(zero_copy_only=False)


def _episodes(ids: list[pa.ChunkedArray]) -> RowGroups:
    changed = id_changes(ids)
    starts = np.flatnonzero(changed)
    # Ids are compared run by run: far fewer than rows, and mostly no id has a second run.
    codes = joint_codes([values_at(column, starts) for column in ids])
    return _from_runs(changed, starts, codes)


def _decisions(column: pa.ChunkedArray, above: RowGroups) -> RowGroups:
    """Return the decisions of a level with ids: below each parent in the order of the ids."""
    place = _places(column)
    changed = np.ones(place.size, dtype=np.bool_)
    changed[1:] = (place[1:] != place[:-1]) | (above.of[1:] != above.of[:-1])
    starts = np.flatnonzero(changed)
    return _from_runs(changed, starts, _below(above.of[starts], place[starts]))


def _from_runs(changed: AnyArray, starts: Longs, keys: Longs) -> RowGroups:
    """Return groups of runs with equal keys, ordered by key; rows of a run follow each other."""
    run = np.cumsum(changed) - 1
    if _increasing(keys):
        return RowGroups(run, starts, True)
    _, first, of = np.unique(keys, return_index=True, return_inverse=True)
    return RowGroups(of.astype(np.int64)[run], starts[first], False)


def _single_rows(column: pa.ChunkedArray | None, level: Level, above: RowGroups, findings: Findings) -> RowGroups:
    if column is None or level.decision is None:
        return every_row(above.of.size).rearranged(np.argsort(above.of, kind="stable"))
    joint = _below(above.of, _places(column))
    if _increasing(joint):
        return every_row(joint.size)
    order = np.argsort(joint, kind="stable")
    again = np.flatnonzero(joint[order][1:] == joint[order][:-1]) + 1
    if again.size:

        def text(index: int) -> str:
            other = findings.places.at(int(np.flatnonzero(joint == joint[index])[0]))
            return (
                f"found {show_value(column[index].as_py())} again, after {other}, below the same parent; the id of level "
                f"'{level.name}' is unique there: remove the repeated row, or name ids that tell the decisions (and the "
                "episodes) apart"
            )

        findings.add(order[again], level.decision, text)
    return every_row(joint.size).rearranged(order)


def every_row(count: int) -> RowGroups:
    """Return each row as a group of its own."""
    rows = np.arange(count)
    return RowGroups(rows, rows, True)


def _places(column: pa.ChunkedArray) -> Longs:
    """Return numbers `i64[n]` from 0 in the order of the ids; the same where they are equal."""
    if pa.types.is_integer(column.type) and not column.null_count:
        numbers = column.to_numpy()
        if numbers.size and int(numbers.min()) > -_LARGEST_ID and int(numbers.max()) < _LARGEST_ID:
            return numbers.astype(np.int64) - int(numbers.min())  # already in order: there is no need to look for it
    codes, values = codes_and_values(column)
    return value_ranks(values)[codes]


def _below(above: Longs, place: Longs) -> Longs:
    """Return one number for each pair of parent and place, in the order of parents, then places."""
    return above * (place.max(initial=0) + 1) + place


def _increasing(keys: Longs) -> bool:
    return bool((keys[1:] > keys[:-1]).all())


def _original(table: pa.Table, column: Column, row: int) -> object:
    """Return the value as the log had it."""
    value = table[column.key][row].as_py()
    return column.values[value] if column.kind == "category" and value is not None else value
