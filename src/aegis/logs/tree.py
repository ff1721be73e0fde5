"""The tree of decisions behind the rows of a log: which rows belong to which decision of each level."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from aegis.logs.convert import plain
from aegis.logs.findings import Findings
from aegis.logs.groups import Groups, Longs, agrees
from aegis.logs.keys import changes, codes_and_values, joint_codes, ranks, values_at
from aegis.logs.order import SiblingOrder
from aegis.logs.schema import Column, column_key
from aegis.problem import AnyArray, Ints, Level, Problem
from aegis.problem.places import shown

_FAR = 2**30  # whole numbers up to here can be joined with the row of a parent in 64 bits


@dataclass(frozen=True, slots=True)
class Tree:
    """Episodes, and the decisions of each level by name; innermost decisions are single rows."""

    episodes: Groups
    levels: dict[str, Groups]

    def parent(self, name: str) -> Ints:
        """Return the row of the next outer table `[m]` above each decision of a level."""
        names = list(self.levels)
        above = self.episodes if name == names[0] else self.levels[names[names.index(name) - 1]]
        return above.of[self.levels[name].first].astype(np.int32)


def build_tree(table: pa.Table, problem: Problem, findings: Findings) -> Tree:
    """Return the tree behind a table of whole episodes, rows in any order but those of an episode in the log's order.

    Episodes in the order in which they appear. Siblings by decision ids that are numbers or dates, else by times that differ
    within an episode, else by ids of text, else in the order in which they appear; but the last two are findings where the order
    counts. An innermost decision id that comes twice below one parent is a finding, too.
    """
    above = _episodes([table[column_key("episode", name)] for name in problem.episode])
    order = SiblingOrder.of(table, problem, above, findings)
    tree = Tree(above, {})
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


def check_agreement(table: pa.Table, column: Column, groups: Groups, unit: str, findings: Findings, advice: str = "") -> None:
    """Note rows that hold another value than the first row of their group; `unit` says what a group is."""
    values = comparable(table[column.key])
    if agrees(values, groups):
        return
    reference = groups.first[groups.of]

    def text(index: int) -> str:
        here, there = (shown(_original(table, column, row)) for row in (index, int(reference[index])))
        place = findings.places.at(int(reference[index]))
        return (
            f"found {here}, but {there} at {place}, in the same {unit}; the {column.what} is the same in all rows of it{advice}"
        )

    findings.add(np.flatnonzero(values != values[reference]), column.name, text)


def comparable(column: pa.ChunkedArray) -> AnyArray:
    """Return numbers `[n]` that are equal where the values are; null is a value of its own."""
    if not column.null_count:
        if pa.types.is_primitive(column.type) or pa.types.is_boolean(column.type):
            return column.to_numpy()
        return codes_and_values(column)[0]
    return plain(column).dictionary_encode(null_encoding="encode").indices.to_numpy(zero_copy_only=False)


def _episodes(ids: list[pa.ChunkedArray]) -> Groups:
    changed = changes(ids)
    starts = np.flatnonzero(changed)
    # Ids are compared run by run: far fewer than rows, and mostly no id has a second run.
    codes = joint_codes([values_at(column, starts) for column in ids])
    return _from_runs(changed, starts, codes)


def _decisions(column: pa.ChunkedArray, above: Groups) -> Groups:
    """Return the decisions of a level with ids: below each parent in the order of the ids."""
    place = _places(column)
    changed = np.ones(place.size, dtype=np.bool_)
    changed[1:] = (place[1:] != place[:-1]) | (above.of[1:] != above.of[:-1])
    starts = np.flatnonzero(changed)
    return _from_runs(changed, starts, _below(above.of[starts], place[starts]))


def _from_runs(changed: AnyArray, starts: Longs, keys: Longs) -> Groups:
    """Return groups of runs with equal keys, ordered by key; rows of a run follow each other."""
    run = np.cumsum(changed) - 1
    if _increasing(keys):
        return Groups(run, starts, True)
    _, first, of = np.unique(keys, return_index=True, return_inverse=True)
    return Groups(of.astype(np.int64)[run], starts[first], False)


def _single_rows(column: pa.ChunkedArray | None, level: Level, above: Groups, findings: Findings) -> Groups:
    if column is None or level.decision is None:
        if above.ordered:
            return _every_row(above.of.size)
        return _arranged(np.argsort(above.of, kind="stable"))
    joint = _below(above.of, _places(column))
    if _increasing(joint):
        return _every_row(joint.size)
    order = np.argsort(joint, kind="stable")
    again = np.flatnonzero(joint[order][1:] == joint[order][:-1]) + 1
    if again.size:

        def text(index: int) -> str:
            other = findings.places.at(int(np.flatnonzero(joint == joint[index])[0]))
            return (
                f"found {shown(column[index].as_py())} again, after {other}, below the same parent; the decision id of level "
                f"'{level.name}' is unique there: remove the repeated row, or name ids that tell the decisions (and the "
                "episodes) apart"
            )

        findings.add(order[again], level.decision, text)
    return _arranged(order)


def _every_row(count: int) -> Groups:
    rows = np.arange(count)
    return Groups(rows, rows, True)


def _arranged(order: AnyArray) -> Groups:
    of = np.empty(order.size, dtype=np.int64)
    of[order] = np.arange(order.size)
    return Groups(of, order.astype(np.int64), False)


def _places(column: pa.ChunkedArray) -> Longs:
    """Return numbers `i64[n]` from 0 in the order of the ids; the same where they are equal."""
    if pa.types.is_integer(column.type) and not column.null_count:
        numbers = column.to_numpy()
        if numbers.size and int(numbers.min()) > -_FAR and int(numbers.max()) < _FAR:
            return numbers.astype(np.int64) - int(numbers.min())  # already in order: there is no need to look for it
    codes, values = codes_and_values(column)
    return ranks(values)[codes]


def _below(above: Longs, place: Longs) -> Longs:
    """Return one number for each pair of parent and place, in the order of parents, then places."""
    return above * (place.max(initial=0) + 1) + place


def _increasing(keys: Longs) -> bool:
    return bool((keys[1:] > keys[:-1]).all())


def _original(table: pa.Table, column: Column, row: int) -> object:
    """Return the value as the log had it."""
    value = table[column.key][row].as_py()
    return column.values[value] if column.kind == "category" and value is not None else value
