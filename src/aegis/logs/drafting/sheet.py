"""The rows a draft looks at, column by column: kinds, distinct values, and which columns are constant within which groups."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from aegis.logs.texts import is_text
from aegis.problem import AnyArray, Array, Value

Longs = npt.NDArray[np.int64]
Kind = Literal["number", "flag", "text", "date", "other"]
_MOST_WHOLE = 2.0**53
_SEVERAL = 100  # rows that are more than two episodes
_COUNTED = 10  # rows that can be seen to be numbered
_YES_OR_NO = tuple(
    map(frozenset, ("yn", "jn", "tf", ("yes", "no"), ("ja", "nein"), ("true", "false"), ("oui", "non"), ("si", "no")))
)
_FEW, _OFTEN = 20, 5  # an id rarely has so few values, each in so many rows
_GAPS = 1.5  # the last number of a row, less the first, per row: some rows may have been removed


@dataclass(frozen=True, slots=True)
class Look:
    """One column. codes `i64[n]`: which of the distinct values, -1 where missing. numbers `f64[n]` (nan where missing) or None.

    `integral`: the file itself holds whole numbers, so that they can be ids. Not-a-number and infinity count as missing.
    """

    name: str
    position: int
    kind: Kind
    codes: Longs
    distinct: pa.Array
    numbers: Array | None
    integral: bool

    @property
    def missing(self) -> int:
        """How many rows have no value."""
        return int(np.count_nonzero(self.codes < 0))

    @property
    def first_missing(self) -> int:
        """The first row, from 1, that has no value; 0 if all have one."""
        return int(np.argmax(self.codes < 0)) + 1 if self.missing else 0

    @property
    def count(self) -> int:
        """How many distinct values there are."""
        return len(self.distinct)

    @property
    def whole(self) -> bool:
        """Whether every number is a whole one."""
        return self.numbers is not None and bool(np.all(_is_whole(self.numbers[self.codes >= 0])))

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
class Groups:
    """Rows in groups. of `i64[n]`: the group of each row, from 0. first `i64[m]`: one row of each group."""

    of: Longs
    first: Longs

    @classmethod
    def by(cls, codes: AnyArray) -> Groups:
        """Return the groups of rows with equal codes."""
        _, first, of = np.unique(codes, return_index=True, return_inverse=True)
        return cls(of.reshape(-1).astype(np.int64), first.astype(np.int64))

    def __len__(self) -> int:
        return int(self.first.size)

    @property
    def single(self) -> bool:
        """Whether every row is a group of its own."""
        return len(self) == self.of.size

    def split_by(self, look: Look) -> Groups:
        """Return the finer groups in which a column has one value as well."""
        return Groups.by(self.of * (look.codes.max(initial=0) + 2) + look.codes + 1)

    def constant(self, look: Look) -> bool:
        """Say whether a column has one value in each group."""
        return bool(np.array_equal(look.codes, look.codes[self.first][self.of]))


@dataclass(frozen=True, slots=True)
class Sheet:
    """The columns of the rows that were looked at."""

    looks: dict[str, Look]
    rows: int

    @classmethod
    def of(cls, table: pa.Table) -> Sheet:
        """Look at every column of a table."""
        looks = [_look(name, position, table.column(position)) for position, name in enumerate(table.column_names)]
        return cls({look.name: look for look in looks}, table.num_rows)

    def but(self, used: Iterable[str]) -> list[Look]:
        """Return the columns that are not among `used`, in the order of the file."""
        taken = set(used)
        return [look for look in self.looks.values() if look.name not in taken]

    def without(self, names: Collection[str]) -> Sheet:
        """Return the sheet without some columns."""
        return Sheet({name: look for name, look in self.looks.items() if name not in names}, self.rows)

    @property
    def every_row(self) -> Groups:
        """Return each row as a group of its own."""
        rows = np.arange(self.rows, dtype=np.int64)
        return Groups(rows, rows)


def repeats_needed(look: Look) -> float:
    """Return how many rows must repeat an earlier one's action before that is no coincidence (one in a million)."""
    shares = np.bincount(look.codes) / look.codes.size
    alike = float(np.sum(shares**2))
    return math.log(1e6) / -math.log(min(alike, 1 - 1e-9))


def side_by_side(looks: Sequence[Look]) -> Array:
    """Return columns of numbers or flags side by side, `[n, columns]`."""
    return np.column_stack([look.numbers for look in looks if look.numbers is not None])


def _look(name: str, position: int, column: pa.ChunkedArray) -> Look:
    array = pa.concat_arrays(column.chunks) if column.num_chunks else pa.array([], column.type)
    if pa.types.is_dictionary(array.type):
        array = array.cast(array.type.value_type)
    integral = pa.types.is_integer(array.type)
    if pa.types.is_null(array.type):
        array = array.cast(pa.string())
    if pa.types.is_boolean(array.type):
        kind: Kind = "flag"
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
    return Look(name, position, kind, codes, encoded.dictionary, numbers, integral)


def _as_text(array: pa.Array) -> pa.Array:
    try:
        return array.cast(pa.large_string())
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):  # lists and the like, for which Arrow has no such cast
        return pa.nulls(len(array), pa.large_string())


def _is_whole(numbers: Array) -> npt.NDArray[np.bool_]:
    return (numbers == np.floor(numbers)) & (np.abs(numbers) <= _MOST_WHOLE)
