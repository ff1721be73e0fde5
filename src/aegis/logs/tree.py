"""The tree of decisions behind the rows of a log: which rows belong to which decision of each level."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from aegis.logs.convert import plain
from aegis.logs.keys import joint_codes, ranks
from aegis.logs.places import Places, shown
from aegis.logs.schema import Column, column_key
from aegis.problem import AnyArray, Ints, Level, Problem

Longs = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Groups:
    """Rows in groups: episodes, or the decisions of a level, in the order in which a Batch holds them.

    of `i64[n]`: the group of each row. first `i64[m]`: the row of each group that comes first in the log.
    """

    of: Longs
    first: Longs


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


def build_tree(table: pa.Table, problem: Problem, places: Places) -> Tree:
    """Return the tree behind a table of whole episodes, rows in any order but those of an episode in the log's order.

    Episodes in the order in which they appear. Siblings by decision id where one is declared, else in the order in which
    they appear. Raises LogError if an innermost decision id comes twice below one parent.
    """
    above = joint_codes([plain(table[column_key("episode", name)]) for name in problem.episode])
    tree = Tree(Groups(above, _first_rows(above)), {})
    for level in problem.levels:
        if level is problem.innermost:
            tree.levels[level.name] = _single_rows(table, level, above, places)
        elif level.decision is None:
            tree.levels[level.name] = Groups(above, _first_rows(above))
        else:
            joint = _below(above, ranks(plain(table[column_key("decision", level.decision, level.name)])))
            _, first, of = np.unique(joint, return_index=True, return_inverse=True)
            tree.levels[level.name] = Groups(of.astype(np.int64), first.astype(np.int64))
        above = tree.levels[level.name].of
    return tree


def check_agreement(table: pa.Table, column: Column, groups: Groups, unit: str, places: Places, advice: str = "") -> None:
    """Raise LogError unless the rows of each group hold the same value; `unit` says what a group is."""
    values = _comparable(plain(table[column.key]))
    reference = groups.first[groups.of]
    wrong = np.flatnonzero(values != values[reference])
    if not wrong.size:
        return
    index = places.earliest(wrong)
    here, there = (shown(_original(table, column, row)) for row in (index, int(reference[index])))
    raise places.error(
        index,
        column.name,
        f"found {here}, but {there} at {places.at(int(reference[index]))}, in the same {unit}; "
        f"the {column.what} is the same in all rows of it{advice}",
    )


def _single_rows(table: pa.Table, level: Level, above: Longs, places: Places) -> Groups:
    if level.decision is None:
        order = np.argsort(above, kind="stable")
    else:
        column = plain(table[column_key("decision", level.decision, level.name)])
        joint = _below(above, ranks(column))
        order = np.argsort(joint, kind="stable")
        again = np.flatnonzero(joint[order][1:] == joint[order][:-1]) + 1
        if again.size:
            index = places.earliest(order[again])
            other = int(np.flatnonzero(joint == joint[index])[0])
            raise places.error(
                index,
                level.decision,
                f"found {shown(column[index].as_py())} again, after {places.at(other)}, below the same parent; the "
                f"decision id of level '{level.name}' is unique there: remove the repeated row, or name ids that tell "
                "the decisions (and the episodes) apart",
            )
    of = np.empty(order.size, dtype=np.int64)
    of[order] = np.arange(order.size)
    return Groups(of, order.astype(np.int64))


def _below(above: Longs, place: Longs) -> Longs:
    """Return one number for each pair of parent and place, in the order of parents, then places."""
    return above * (place.max(initial=0) + 1) + place


def _first_rows(of: Longs) -> Longs:
    return np.unique(of, return_index=True)[1].astype(np.int64)


def _comparable(column: pa.Array) -> AnyArray:
    """Return numbers that are equal where the values are; null is a value of its own."""
    if not column.null_count and (pa.types.is_primitive(column.type) or pa.types.is_boolean(column.type)):
        return column.to_numpy(zero_copy_only=False)
    return column.dictionary_encode(null_encoding="encode").indices.to_numpy(zero_copy_only=False)


def _original(table: pa.Table, column: Column, row: int) -> object:
    """Return the value as the log had it."""
    value = table[column.key][row].as_py()
    return column.values[value] if column.kind == "category" and value is not None else value
