"""Columns of a sample one by one: kind, distinct values, and the groups of rows in which a column is constant.

Also text that was meant as numbers or dates: thousands separators, percent signs, unclear day and month.
"""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from aegis.errors import pluralise
from aegis.logs.column_values import is_text
from aegis.problem import AnyArray, Array, Value

CodeArray = npt.NDArray[np.int64]
ProfileKind = Literal["number", "flag", "text", "date", "other"]
_MOST_WHOLE = 2.0**53
_SEVERAL = 100  # rows that are more than two episodes
_COUNTED = 10  # rows that can be seen to be numbered

_YES_OR_NO = tuple(
    map(frozenset, ("yn", "jn", "tf", ("yes", "no"), ("ja", "nein"), ("true", "false"), ("oui", "non"), ("si", "no")))
)

_FEW, _OFTEN = 20, 5  # an id rarely has so few values, each in so many rows
_GAPS = 1.5  # the last number of a row, less the first, per row: some rows may have been removed


@dataclass(frozen=True, slots=True)
class ColumnProfile:
    """One column. codes `i64[n]`: which of the distinct values, -1 where missing. numbers `f64[n]` (nan where missing) or None.

    `integral`: the file itself holds whole numbers, so that they can be ids. Not-a-number and infinity count as missing.
    """

    name: str
    position: int
    kind: ProfileKind
    codes: CodeArray
    distinct: pa.Array
    numbers: Array | None
    integral: bool

    @property
    def missing(self) -> int:
        """How many rows have no value."""
        return int(np.count_nonzero(self.codes < 0))

    @property
    def count(self) -> int:
        """How many distinct values there are."""
        return len(self.distinct)

    @property
    def whole(self) -> bool:
        """Whether every number is a whole one."""
        if self.numbers is None:
            return False
        known = self.numbers[self.codes >= 0]
        return bool(np.all((known == np.floor(known)) & (np.abs(known) <= _MOST_WHOLE)))

    @property
    def key(self) -> bool:
        """Whether the column can be an id: text or whole numbers, never missing."""
        return not self.missing and (self.kind == "text" or (self.kind == "number" and (self.integral or self.whole)))

    @property
    def binary(self) -> bool:
        """Whether the column holds 0 and 1, or yes and no, many of them or in turns: an outcome or a flag, never a unit."""
        if self.count != 2:
            return False
        if self.kind == "text":
            either = frozenset(str(value).strip().lower() for value in self.distinct.to_pylist()) in _YES_OR_NO
        else:
            either = self.kind == "number" and self.within(0, 1) and self.whole
        return either and (self.codes.size >= _SEVERAL or self.runs > 2)

    @property
    def runs(self) -> int:
        """How many runs of equal values follow each other; as many as there are distinct values if equal ones are together."""
        return 1 + int(np.count_nonzero(self.codes[1:] != self.codes[:-1]))

    @property
    def few(self) -> bool:
        """Whether there are few values, each in many rows: of an outcome or a count rather than of an id."""
        return self.count <= _FEW and self.codes.size >= _OFTEN * self.count

    @property
    def running(self) -> bool:
        """Whether the column numbers the rows: whole numbers that grow from row to row, with hardly a gap, or all of 1 to n."""
        if self.numbers is None or self.kind != "number" or not self.whole or self.count < max(self.codes.size, _COUNTED):
            return False
        span = float(self.numbers.max() - self.numbers.min()) + 1
        return span == self.count or (span <= _GAPS * self.count and bool(np.all(np.diff(self.numbers) > 0)))

    @property
    def values(self) -> tuple[Value, ...]:
        """Return the distinct values in ascending order, whole numbers as such."""
        if self.kind == "number":
            numbers = np.sort(self.distinct.to_numpy(zero_copy_only=False).astype(np.float64))
            return tuple(int(v) if self.whole else float(v) for v in numbers)
        return tuple(sorted(self.distinct.to_pylist()))

    def within(self, low: float, high: float) -> bool:
        """Say whether the column holds a number from `low` to `high` in every row; a little round-off is allowed."""
        if self.numbers is None or self.missing or not self.codes.size:
            return False
        return bool(self.numbers.min() >= low - 1e-9 and self.numbers.max() <= high + 1e-9)


@dataclass(frozen=True, slots=True)
class SampleGroups:
    """Rows in groups. of `i64[n]`: the group of each row, from 0. first `i64[m]`: one row of each group."""

    of: CodeArray
    first: CodeArray

    @classmethod
    def by(cls, codes: AnyArray) -> SampleGroups:
        """Return the groups of rows with equal codes."""
        _, first, of = np.unique(codes, return_index=True, return_inverse=True)
        return cls(of.reshape(-1).astype(np.int64), first.astype(np.int64))

    def __len__(self) -> int:
        return int(self.first.size)

    @property
    def single(self) -> bool:
        """Whether every row is a group of its own."""
        return len(self) == self.of.size

    def split_by(self, look: ColumnProfile) -> SampleGroups:
        """Return the finer groups in which a column has one value as well."""
        return SampleGroups.by(self.of * (look.codes.max(initial=0) + 2) + look.codes + 1)

    def constant(self, look: ColumnProfile) -> bool:
        """Say whether a column has one value in each group."""
        return bool(np.array_equal(look.codes, look.codes[self.first][self.of]))

    def holds(self, finer: SampleGroups) -> bool:
        """Say whether every group of the other lies in one of these."""
        return bool(np.array_equal(self.of, self.of[finer.first][finer.of]))


@dataclass(frozen=True, slots=True)
class LogProfile:
    """The columns of the rows that were looked at."""

    looks: dict[str, ColumnProfile]
    rows: int

    @classmethod
    def of(cls, table: pa.Table) -> LogProfile:
        """Look at every column of a table."""
        looks = [_profile(name, position, table.column(position)) for position, name in enumerate(table.column_names)]
        return cls({look.name: look for look in looks}, table.num_rows)

    def but(self, used: Iterable[str]) -> list[ColumnProfile]:
        """Return the columns that are not among `used`, in the order of the file."""
        taken = set(used)
        return [look for look in self.looks.values() if look.name not in taken]

    def without(self, names: Collection[str]) -> LogProfile:
        """Return the sheet without some columns."""
        return LogProfile({name: look for name, look in self.looks.items() if name not in names}, self.rows)

    @property
    def every_row(self) -> SampleGroups:
        """Return each row as a group of its own."""
        rows = np.arange(self.rows, dtype=np.int64)
        return SampleGroups(rows, rows)


def repeats_needed(look: ColumnProfile) -> float:
    """Return how many rows must repeat an earlier one's action before that is no coincidence (one in a million)."""
    shares = np.bincount(look.codes) / look.codes.size
    alike = float(np.sum(shares**2))
    return math.log(1e6) / -math.log(min(alike, 1 - 1e-9))


def stack_numbers(looks: Sequence[ColumnProfile]) -> Array:
    """Return columns of numbers or flags side by side, `[n, columns]`."""
    return np.column_stack([look.numbers for look in looks if look.numbers is not None])


def _profile(name: str, position: int, column: pa.ChunkedArray) -> ColumnProfile:
    array = pa.concat_arrays(column.chunks) if column.num_chunks else pa.array([], column.type)
    if pa.types.is_dictionary(array.type):
        array = array.cast(array.type.value_type)
    integral = pa.types.is_integer(array.type)
    if pa.types.is_null(array.type):
        array = array.cast(pa.string())
    if pa.types.is_boolean(array.type):
        kind: ProfileKind = "flag"
    elif is_text(array.type):
        kind, array = "text", array.cast(pa.large_string())
    elif integral or pa.types.is_floating(array.type) or pa.types.is_decimal(array.type):
        kind = "number"
        if not integral:
            array = array.cast(pa.float64())
            array = pc.if_else(pc.is_finite(array), array, pa.scalar(None, pa.float64()))
    else:
        # Dates are compared by their text and never computed with; so is what no role allows (durations, lists, structs).
        dated = pa.types.is_timestamp(array.type) or pa.types.is_date(array.type)
        kind, array = "date" if dated else "other", _as_text(array)
    encoded = array.dictionary_encode()
    codes = encoded.indices.fill_null(-1).to_numpy(zero_copy_only=False).astype(np.int64)
    numbers: Array | None = None
    if kind in ("number", "flag"):
        plain = array.cast(pa.float64(), safe=False) if kind == "number" else array.cast(pa.int8()).cast(pa.float64())
        numbers = plain.fill_null(np.nan).to_numpy(zero_copy_only=False).astype(np.float64)
    return ColumnProfile(name, position, kind, codes, encoded.dictionary, numbers, integral)


def _as_text(array: pa.Array) -> pa.Array:
    try:
        return array.cast(pa.large_string())
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):  # lists and the like, for which Arrow has no such cast
        return pa.nulls(len(array), pa.large_string())


_DATE = re.compile(r"\s*\d{1,2}([/.-])\d{1,2}\1(?:\d{4}|\d{2})(?:[ T].*)?\s*")


def describe_unclear_dates(look: ColumnProfile) -> str:
    """Return an example of the dates in a column of text, of which day and month are not clear; empty if it holds none."""
    texts = look.distinct.to_pylist() if look.kind == "text" else []
    if not texts or not all(_DATE.fullmatch(text) for text in texts):
        return ""
    return f"dates such as {texts[0].strip()} (day or month first, or a short year)"


_PERCENT = re.compile(r"[+-]?\d+(?:[.,]\d+)?\s*%")
_POINTS = re.compile(r"[+-]?\d{1,3}(?:\.\d{3})+(?:,\d+)?")  # 1.663,77
_COMMAS = re.compile(r"[+-]?\d{1,3}(?:,\d{3})+(?:\.\d+)?")  # 1,663.77
_SPACES = re.compile(r"[+-]?\d{1,3}(?:[\s']\d{3})+(?:[.,]\d+)?")  # 1 663,77 and 1'663.77
_PLAIN = re.compile(r"[+-]?\d+(?:[.,]\d+)?")
_MARKS = (("thousands points", _POINTS, r"\."), ("thousands commas", _COMMAS, ","), ("gaps between thousands", _SPACES, r"[\s']"))


def describe_formatted_numbers(look: ColumnProfile) -> str:
    """Say, with an example, which numbers a column of text seems to hold and how to write them; an empty text if none."""
    if look.kind != "text" or not look.count:
        return ""
    texts = [text.strip() for text in look.distinct.to_pylist() if text.strip()]
    if texts and all(_PERCENT.fullmatch(text) for text in texts):
        example = texts[0]
        share = float(example.rstrip("% \t").replace(",", ".")) / 100.0
        return f"looks like numbers with percent signs ({example}): write them without, as shares ({share:.10g})"
    for what, pattern, mark in _MARKS:
        marked = [text for text in texts if pattern.fullmatch(text)]
        if marked and all(_PLAIN.fullmatch(text) for text in texts if not pattern.fullmatch(text)):
            return f"looks like numbers with {what} ({marked[0]}): write them without ({re.sub(mark, '', marked[0])})"
    return ""


def describe_missing(look: ColumnProfile) -> str:
    """Return in how many rows nothing stands, and the first of them, for a message."""
    first = int(np.argmax(look.codes < 0)) + 1
    return f"nothing in {pluralise(look.missing, 'rows')} ({'the first is ' if look.missing > 1 else ''}row {first})"


_NUMBER = re.compile(r"\s*[+-]?(\d[\d.,' ]*|[.,]\d+)([eE][+-]?\d+)?\s*")
_FEWEST = 10  # rows, below which nothing is asked


def text_entries(look: ColumnProfile) -> dict[int, str]:
    """Return the entries of a column of text that are no numbers, by row."""
    texts = look.distinct.to_pylist() if look.kind == "text" else []
    odd = np.array([_NUMBER.fullmatch(text) is None for text in texts] + [False])
    return {int(row): texts[look.codes[row]] for row in np.flatnonzero(odd[look.codes])} if texts else {}


def stray_row_questions(sheet: LogProfile) -> list[str]:
    """Return questions about the first and the last row, where only they hold text in a column of numbers."""
    questions: dict[int, str] = {}
    for look in sheet.looks.values() if sheet.rows >= _FEWEST else ():
        odd = text_entries(look)
        for row, text in odd.items() if set(odd) <= {0, sheet.rows - 1} else ():
            questions.setdefault(
                row,
                f"Is row {row + 1} a decision? Column '{look.name}' holds '{text}' there and numbers in other rows. If it is "
                "a row of units or of totals, remove it and draft again.",
            )
    return [questions[row] for row in sorted(questions)]
