"""From the columns of a file to columns of one type per role, checked entry by entry."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from aegis.logs.places import Places, shown
from aegis.logs.schema import Column
from aegis.logs.texts import TEXT, first_unreadable, parsed
from aegis.logs.values import match, suggestion
from aegis.problem import AnyArray

# The names of two further columns of a converted table; those of `Column.key` contain a slash.
FILE, ROW = "file", "row"

_MISSING = {
    "context": "fill in what the controller saw, or make the variable categorical with a value that stands for missing",
    "propensity": "log the probability with which the behaviour policy chose the action; it cannot be guessed",
    "action": "every row is a decision and needs its action",
    "episode": "every row belongs to an episode; give it an id",
}
_NOT_FINITE = {
    "context": "a context is a finite number; fill in what the controller saw",
    "propensity": "a propensity is a number above 0 and at most 1; log the probability the behaviour policy used",
    "reward": "a reward is a finite number; leave the field empty (null) if it was not observed",
}


def convert(raw: pa.Table, columns: Iterable[Column], types: Mapping[str, pa.DataType], places: Places) -> pa.Table:
    """Return a table with one column per role, by `Column.key`, and the columns FILE and ROW.

    number: float64, finite. category: int32 codes. flag: bool. key, time, any: the type in `types`, by key. Only optional
    columns have nulls. Raises LogError naming file, row, column and what was found.
    """
    done = {column.key: _CONVERTERS[column.kind](plain(raw[column.name]), column, types, places) for column in columns}
    done[FILE], done[ROW] = pa.array(places.file, pa.int32()), pa.array(places.row, pa.int64())
    return pa.table(done)


def plain(column: pa.ChunkedArray) -> pa.Array:
    """Return a column as one array without dictionaries, all kinds of text as one kind."""
    kind = column.type
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    if is_text(kind):
        kind = TEXT
    cast = column if column.type == kind else column.cast(kind)
    return pa.concat_arrays(cast.chunks) if cast.num_chunks else pa.array([], kind)


def is_text(kind: pa.DataType) -> bool:
    """Return whether a column of this type holds text; bytes count as text because some writers do not mark it."""
    tests = (pa.types.is_string, pa.types.is_large_string, pa.types.is_binary, pa.types.is_large_binary, pa.types.is_null)
    return any(test(kind) for test in tests) or str(kind) in ("string_view", "binary_view")


def _number(found: pa.Array, column: Column, types: Mapping[str, pa.DataType], places: Places) -> pa.Array:
    numbers = _cast(found, pa.float64(), column, places, "a number is needed")
    _refuse_missing(numbers, column, places)
    _refuse_infinite(numbers, column, places)
    return numbers


def _category(found: pa.Array, column: Column, types: Mapping[str, pa.DataType], places: Places) -> pa.Array:
    _refuse_missing(found, column, places)
    codes = match(found, column.values)
    unknown = np.flatnonzero((codes < 0) & _present(found))
    if unknown.size:
        index = int(unknown[0])
        value = found[index].as_py()
        text = f"found {shown(value)}, which is not a known {column.what}; {suggestion(value, column.values)}"
        raise places.error(index, column.name, text)
    return pa.array(codes, pa.int32(), mask=codes < 0)


def _flag(found: pa.Array, column: Column, types: Mapping[str, pa.DataType], places: Places) -> pa.Array:
    flags = _cast(found, pa.bool_(), column, places, "true or false (or 1 or 0) is needed")
    _refuse_missing(flags, column, places)
    return flags


def _as_typed(found: pa.Array, column: Column, types: Mapping[str, pa.DataType], places: Places) -> pa.Array:
    kind = types[column.key]
    needed = "ids are text, whole numbers or dates" if column.kind == "key" else f"the column holds {kind} elsewhere"
    cast = _cast(found, kind, column, places, needed)
    _refuse_missing(cast, column, places)
    if column.kind == "time" and pa.types.is_floating(kind):
        _refuse_infinite(cast, column, places)
    return cast


_CONVERTERS: dict[str, Callable[[pa.Array, Column, Mapping[str, pa.DataType], Places], pa.Array]] = {
    "number": _number,
    "category": _category,
    "flag": _flag,
    "key": _as_typed,
    "time": _as_typed,
    "any": _as_typed,
}


def _cast(found: pa.Array, kind: pa.DataType, column: Column, places: Places, needed: str) -> pa.Array:
    """Return the array as `kind`, reading text if it is text; names the first entry that does not fit."""

    def convert_all(part: pa.Array) -> pa.Array:
        if part.type == kind:
            return part
        if part.type == TEXT:
            return parsed(part, kind)
        if pa.types.is_boolean(kind):
            return _zero_or_one(part)
        if pa.types.is_temporal(part.type) and not (pa.types.is_temporal(kind) or kind == TEXT):
            raise pa.ArrowInvalid("a date is not a number")
        # Whole numbers beyond 2^53 lose digits as float64; as contexts or rewards that is round-off, not an error.
        return pc.cast(part, kind, safe=not pa.types.is_floating(kind))

    try:
        return convert_all(found)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        index = first_unreadable(found, convert_all)
        text = f"found {shown(found[index].as_py())} ({_kind_name(found.type)}) as {column.what}; {needed}"
        raise places.error(index, column.name, text) from None


def _zero_or_one(part: pa.Array) -> pa.Array:
    numbers = pc.cast(part, pa.float64(), safe=False)
    ones = pc.equal(numbers, 1.0)
    if pc.all(pc.or_(ones, pc.equal(numbers, 0.0))).as_py() is False:
        raise pa.ArrowInvalid("neither 0 nor 1")
    return ones


def _kind_name(kind: pa.DataType) -> str:
    return "text" if kind == TEXT else str(kind)


def _refuse_missing(values: pa.Array, column: Column, places: Places) -> None:
    if column.optional or not values.null_count:
        return
    index = int(np.flatnonzero(~_present(values))[0])
    advice = _MISSING.get(column.role, "every row needs it; fill it in")
    raise places.error(index, column.name, f"the {column.what} is missing (null); {advice}")


def _refuse_infinite(numbers: pa.Array, column: Column, places: Places) -> None:
    values = numbers.fill_null(0.0).to_numpy(zero_copy_only=False)
    wrong = np.flatnonzero(~np.isfinite(values))
    if wrong.size:
        index = int(wrong[0])
        advice = _NOT_FINITE.get(column.role, "a finite number is needed" + (", or an empty field" if column.optional else ""))
        raise places.error(index, column.name, f"found {values[index]} as {column.what}; {advice}")


def _present(values: pa.Array) -> AnyArray:
    return values.is_valid().to_numpy(zero_copy_only=False)
