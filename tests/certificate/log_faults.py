"""Faults of a log, one at a time: each with what must come of it.

A fault of a cell has to be told with its column and row, a fault of a column with the column or its level. What cannot be told
from the log at all is listed as such (`hidden`): then a candidate that is truly worse must still not be certified.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
from small_logs import replaced

Change = Callable[[pa.Table], pa.Table]
ROWS = (0, 4, 100, 179)  # of the small log, from 0
OUTER = ("task", "setting", "p_a", "p_b", "p_setting")


@dataclass(frozen=True)
class CellFault:
    """A cell of a text file with another content; `full` says which form of the log reads it. hidden: nobody can know."""

    column: str
    row: int
    text: str
    full: bool
    expected: str  # "error", "refused" or "hidden"

    @property
    def words(self) -> tuple[str, ...]:
        """Return the columns one of which a message has to name: a distribution, and what an id ties together, is one thing."""
        if self.column == "batch" and self.text:
            return "'task'", "'setting'", "'step'", "'p_"
        return ("'p_1'", "'p_3'") if self.column in ("p_1", "p_3") else (f"'{self.column}'",)

    @property
    def name(self) -> str:
        return f"{self.column}[{self.row}] = {self.text!r}, {'full' if self.full else 'taken'}"


@dataclass(frozen=True)
class ColumnFault:
    """A log with a column, or all rows, changed; words: one of them has to be in the message."""

    name: str
    change: Change
    full: bool
    expected: str
    words: tuple[str, ...] = ()
    target: bool = False  # the candidate is given by columns of the log

    @property
    def level(self) -> str:
        """Return the level that is concerned."""
        return "recipe" if self.words[:1] == ("'recipe'",) else "dose"


NUMBERS = ("abc", "1;2", "--3", "0x1F")
BAD_CELLS: dict[str, tuple[tuple[str, ...], str, str]] = {
    # column: contents, form of the log (full, taken or both), what must come of it
    "temperature": ((*NUMBERS, "", "nan", "inf"), "both", "error"),
    "dose": (("4", "x", "", "1.5", "-1"), "both", "error"),
    "setting": (("c", "", "A"), "both", "error"),
    "task": (("other", ""), "both", "error"),
    "margin": ((*NUMBERS, "inf", "-inf"), "both", "error"),
    "p_dose": ((*NUMBERS, "0", "1.2", "-0.7", "30", "", "nan", "inf"), "taken", "error"),
    "p_setting": (("abc", "0", "1.2", "-0.7", "60", "", "0.123"), "taken", "error"),
    "p_1": (("abc", "", "-0.1", "1.3", "nan", "0.9", "0"), "full", "error"),
    "p_3": (("abc", "", "-0.1", "1.3", "0.001"), "full", "error"),
    "p_a": (("abc", "", "0.9", "-1"), "full", "error"),
    "step": (("",), "both", "error"),
    "batch": (("", "b00002"), "both", "error"),
}
OUTSIDE = ("1.7", "-0.3", "1e120", "-0.0001")  # a number as any other, but not a reward of this plant
HIDDEN_CELLS = {"margin": ("", "0.9"), "temperature": ("0.7",), "p_dose": ("0.31",), "batch": ("new",), "step": ("9",)}


def cell_faults() -> Iterator[CellFault]:
    """Yield single cells with a wrong content, the same in several rows."""
    for column, (contents, form, expected) in BAD_CELLS.items():
        for number, text in enumerate(contents):
            for full in (True, False):
                if form in ("both", "full" if full else "taken"):
                    yield CellFault(column, ROWS[number % len(ROWS)], text, full, expected)
                    yield CellFault(column, ROWS[(number + 2) % len(ROWS)], text, full, expected)
    for number, text in enumerate(OUTSIDE):
        for full in (True, False):
            yield CellFault("margin", ROWS[number], text, full, "refused")
    for column, contents in HIDDEN_CELLS.items():
        for text in contents:
            yield CellFault(column, 100, text, False, "hidden")


def with_cell(table: pa.Table, fault: CellFault) -> str:
    """Return the log as text with the fault."""
    rows = lines(table)
    rows[fault.row + 1][rows[0].index(fault.column)] = fault.text
    return written(rows)


def lines(table: pa.Table) -> list[list[str]]:
    """Return header and rows as text."""
    buffer = io.BytesIO()
    pyarrow.csv.write_csv(table, buffer)
    return list(csv.reader(io.StringIO(buffer.getvalue().decode())))


def written(rows: list[list[str]]) -> str:
    buffer = io.StringIO()
    csv.writer(buffer, lineterminator="\n").writerows(rows)
    return buffer.getvalue()


def values(table: pa.Table, column: str) -> Any:
    return table[column].to_numpy(zero_copy_only=False).copy()


def changed(column: str, by: Callable[[Any], Any]) -> Change:
    return lambda table: replaced(table, column, by(values(table, column)))


def swapped(one: str, other: str) -> Change:
    names = {one: other, other: one}
    return lambda table: table.rename_columns([names.get(name, name) for name in table.column_names])


def dropped(column: str) -> Change:
    return lambda table: table.drop_columns([column])


def renamed(column: str) -> Change:
    return lambda table: table.rename_columns([f"{name}_x" if name == column else name for name in table.column_names])


def rows_kept(choose: Callable[[int], Any]) -> Change:
    return lambda table: table.take(pa.array(choose(table.num_rows)))


def at(row: int, value: Any) -> Callable[[Any], Any]:
    def alter(found: Any) -> Any:
        found[row] = value
        return found

    return alter


def each_episode(column: str, by: Callable[[Any], Any]) -> Change:
    """Change a column that belongs to whole episodes of three rows."""
    return lambda table: replaced(table, column, np.repeat(by(values(table, column)[::3]), 3))


def column_faults() -> Iterator[ColumnFault]:
    """Yield faults of whole columns, of the order of rows, and of what belongs to what."""
    shared = ("batch", "step", "task", "setting", "temperature", "dose", "margin")
    for full, own in ((True, ("p_a", "p_b", "p_1", "p_2", "p_3")), (False, ("p_setting", "p_dose"))):
        form = "full" if full else "taken"
        for column in (*shared, *own):
            yield ColumnFault(f"{column} dropped, {form}", dropped(column), full, "error", (f"'{column}'",))
            yield ColumnFault(f"{column} renamed, {form}", renamed(column), full, "error", (f"'{column}'",))
        for row in (5, 300):
            twice = rows_kept(lambda n, row=row: np.insert(np.arange(n), row, row))
            yield ColumnFault(f"row {row} twice, {form}", twice, full, "error", ("'step'",))
        everything = rows_kept(lambda n: np.tile(np.arange(n), 2))
        yield ColumnFault(f"everything twice, {form}", everything, full, "error", ("'step'",))
        yield ColumnFault(f"steps all the same, {form}", changed("step", lambda s: 0 * s), full, "error", ("'step'",))
        mixed = changed("setting", lambda s: np.roll(s, 1))
        yield ColumnFault(f"settings one row too late, {form}", mixed, full, "error", ("'setting'",))
        mixed = changed("task", lambda s: np.roll(s, 1))
        yield ColumnFault(f"tasks one row too late, {form}", mixed, full, "error", ("'task'",))
        merged = changed("batch", lambda s: np.repeat(s[::6], 6)[: s.size])
        yield ColumnFault(f"two batches under one id, {form}", merged, full, "error", ("'step'", "'setting'", "'task'"))
        shuffled = changed("batch", lambda s: np.roll(s, 1))
        yield ColumnFault(f"ids one row too late, {form}", shuffled, full, "error", ("'task'", "'setting'", "'step'"))
        repeated = changed("margin", lambda r: np.repeat(r[::3], 3))
        yield ColumnFault(f"one reward for the episode, {form}", repeated, full, "refused", ("'margin'",))
        percent = changed("margin", lambda r: 100 * r)
        yield ColumnFault(f"rewards in percent, {form}", percent, full, "refused", ("'margin'",))
        negative = changed("margin", lambda r: -r)
        yield ColumnFault(f"rewards with the other sign, {form}", negative, full, "refused", ("'margin'",))
        yield ColumnFault(
            f"rewards and temperatures swapped, {form}", swapped("margin", "temperature"), full, "refused", ("'margin'",)
        )
        yield ColumnFault(f"no rewards, {form}", changed("margin", lambda r: pa.nulls(r.size, pa.float64())), full, "hidden")
        for name, change in (
            ("rewards sorted", changed("margin", np.sort)),
            ("rewards one row too late", changed("margin", lambda r: np.roll(r, 1))),
            ("rewards constant", changed("margin", lambda r: 0 * r + 0.5)),
            ("rows sorted by reward", lambda t: t.sort_by("margin")),
            ("rows reversed", rows_kept(lambda n: np.arange(n)[::-1])),
            ("every fifth row lost", rows_kept(lambda n: np.flatnonzero(np.arange(n) % 5 != 2))),
            ("good rewards lost", changed("margin", lambda r: pa.array(np.where(r > 0.6, np.nan, r), from_pandas=True))),
            ("bad rewards lost", changed("margin", lambda r: pa.array(np.where(r < 0.3, np.nan, r), from_pandas=True))),
        ):
            yield ColumnFault(f"{name}, {form}", change, full, "hidden")
    yield from _full_propensities()
    yield from _taken_propensities()
    yield from _targets()


def _full_propensities() -> Iterator[ColumnFault]:
    dose, recipe = ("'dose'", "p_1", "p_2", "p_3"), ("'recipe'", "p_a", "p_b")
    for factor in (0.5, 0.9, 1.1, 100.0):
        for column in ("p_1", "p_a"):
            words = dose if column == "p_1" else recipe
            yield ColumnFault(f"{column} times {factor}", changed(column, lambda p, f=factor: f * p), True, "error", words)
    for one, other in (("p_1", "p_2"), ("p_2", "p_3"), ("p_1", "p_3")):
        yield ColumnFault(f"{one} and {other} swapped", swapped(one, other), True, "refused", dose)
    yield ColumnFault("p_a and p_b swapped", swapped("p_a", "p_b"), True, "refused", recipe)
    yield ColumnFault("p_1 and margin swapped", swapped("p_1", "margin"), True, "error", dose)
    yield ColumnFault("p_a and p_1 swapped", swapped("p_a", "p_1"), True, "error", (*recipe, *dose))
    for column in ("p_1", "p_2", "p_3"):
        yield ColumnFault(f"{column} one row too late", changed(column, lambda p: np.roll(p, 1)), True, "error", dose)

    def all_late(table: pa.Table) -> pa.Table:
        for column in ("p_1", "p_2", "p_3"):
            table = changed(column, lambda p: np.roll(p, 1))(table)
        return table

    yield ColumnFault("all propensities of doses one row too late", all_late, True, "refused", dose)

    def wrong_labels(table: pa.Table) -> pa.Table:
        return changed("dose", lambda a: np.where(a == 1, 3, np.where(a == 3, 1, 2)))(table)

    yield ColumnFault("doses 1 and 3 under each other's name", wrong_labels, True, "refused", dose)

    def uniform(table: pa.Table) -> pa.Table:
        for column in ("p_1", "p_2", "p_3"):
            table = changed(column, lambda p: 0 * p + 1 / 3)(table)
        return table

    yield ColumnFault("doses as if chosen uniformly", uniform, True, "refused", dose)

    def certain(table: pa.Table) -> pa.Table:
        for number, column in enumerate(("p_1", "p_2", "p_3"), 1):
            table = replaced(table, column, (values(table, "dose") == number).astype(float))
        return table

    yield ColumnFault("doses as if chosen for certain", certain, True, "refused", dose)


def _taken_propensities() -> Iterator[ColumnFault]:
    dose, recipe = ("'dose'", "p_dose"), ("'recipe'", "p_setting")
    for column, words in (("p_dose", dose), ("p_setting", recipe)):
        yield ColumnFault(f"{column} in percent", changed(column, lambda p: 100 * p), False, "error", words)
        yield ColumnFault(f"{column} as logarithms", changed(column, np.log), False, "error", words)
        yield ColumnFault(f"{column} inverted", changed(column, lambda p: 1 / p), False, "error", words)
        yield ColumnFault(f"{column} of other actions", changed(column, lambda p: 1 - p), False, "hidden", words)
        yield ColumnFault(f"{column} halved", changed(column, lambda p: 0.5 * p), False, "refused", words)
        yield ColumnFault(f"{column} times 0.7", changed(column, lambda p: 0.7 * p), False, "refused", words)
        yield ColumnFault(f"{column} times 0.95", changed(column, lambda p: 0.95 * p), False, "hidden", words)
        yield ColumnFault(f"{column} times 1.6", changed(column, lambda p: 1.6 * p), False, "hidden", words)
        yield ColumnFault(f"{column} all one", changed(column, lambda p: 0 * p + 1), False, "refused", words)
        yield ColumnFault(f"{column} all zero", changed(column, lambda p: 0 * p), False, "error", words)
    yield ColumnFault("p_setting one row too late", changed("p_setting", lambda p: np.roll(p, 1)), False, "error", recipe)
    late = each_episode("p_setting", lambda p: np.roll(p, 1))
    yield ColumnFault("p_setting one episode too late", late, False, "hidden", recipe)
    yield ColumnFault("p_dose one row too late", changed("p_dose", lambda p: np.roll(p, 1)), False, "refused", dose)
    yield ColumnFault("p_dose and p_setting swapped", swapped("p_dose", "p_setting"), False, "error", (*dose, *recipe))
    yield ColumnFault("p_dose and margin swapped", swapped("p_dose", "margin"), False, "refused", dose)
    yield ColumnFault("p_dose and temperature swapped", swapped("p_dose", "temperature"), False, "error", dose)
    yield ColumnFault("p_dose rounded", changed("p_dose", lambda p: np.round(p, 1)), False, "refused", dose)
    yield ColumnFault("p_dose as if uniform", changed("p_dose", lambda p: 0 * p + 1 / 3), False, "refused", dose)


def _targets() -> Iterator[ColumnFault]:
    dose = ("new_dose",)
    for name, change, expected in (
        ("times 1.5", changed("new_dose", lambda p: np.minimum(1.5 * p, 1.0)), "refused"),
        ("doubled", changed("new_dose", lambda p: np.minimum(2.0 * p, 1.0)), "refused"),
        ("all one", changed("new_dose", lambda p: 0 * p + 1), "refused"),
        ("one row too late", changed("new_dose", lambda p: np.roll(p, 1)), "refused"),
        ("in percent", changed("new_dose", lambda p: 100 * p), "error"),
        ("as logarithms", changed("new_dose", np.log), "error"),
        ("with a gap", changed("new_dose", at(50, np.nan)), "error"),
        ("with one above one", changed("new_dose", at(50, 1.01)), "error"),
        ("with one below zero", changed("new_dose", at(50, -0.01)), "error"),
        ("dropped", dropped("new_dose"), "error"),
        ("all zero", changed("new_dose", lambda p: 0 * p), "hidden"),
        ("halved", changed("new_dose", lambda p: 0.5 * p), "hidden"),
    ):
        yield ColumnFault(f"target probabilities {name}", change, False, expected, dose, target=True)
