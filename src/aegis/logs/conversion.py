"""Conversion of a file's columns to one type per role, checked entry by entry."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from aegis.logs.column_values import (
    POINT,
    TEXT_TYPE,
    all_numeric,
    blank_missing_words,
    can_parse,
    decode_column,
    find_unreadable,
    is_text,
    match_values,
    number_hint,
    parse_text,
    suggest_values,
)
from aegis.logs.columns import PROBABILITY_ADVICE as _PROBABILITY
from aegis.logs.columns import ROUND_OFF, Column, Findings, note_rows, show_value
from aegis.logs.ids import one_dictionary
from aegis.problem import AnyArray, RowOrigins

# The names of two further columns of a converted table; those of `Column.key` contain a slash.
FILE, ROW = "file", "row"


_MISSING = {
    "context": "fill in what the controller saw, or make the variable categorical with a value that stands for missing",
    "propensity": "log the probability with which the behaviour policy chose the action; it cannot be guessed",
    "action": "every row is a decision and needs its action",
    "episode": "every row belongs to an episode; give it an id",
    "closed": "write true where the reward is final (also if it will stay missing), false where it is still awaited",
}

_DENSITY = "a density is the probability per unit of the action, a finite number above 0; it may exceed 1"
_MOST_LISTED = 12  # categories that a message lists

_NOT_FINITE = {
    "context": "a context is a finite number; fill in what the controller saw",
    "propensity": "a propensity is a number above 0 and at most 1; log the probability the behaviour policy used",
    "reward": "a reward is a finite number; leave the field empty (null) if it was not observed",
}


def convert_table(
    raw: pa.Table,
    columns: Iterable[Column],
    types: Mapping[str, pa.DataType],
    places: RowOrigins,
    decimals: Mapping[str, str] | None = None,
) -> pa.Table:
    """Return a table with one column per role, by `Column.key`, and the columns FILE and ROW.

    number: float64, finite. category: int32 codes. flag: bool. key, time, any: the type in `types`, by key; text that is
    `repeated` as a dictionary, ids of episodes only if they come so. Only optional columns have nulls. decimals: the mark of
    columns of text, a point where none is given. Raises LogError that names file, row, column and what was found, for the
    first row of each kind.
    """
    findings = Findings(places)
    marks = decimals or {}
    done: dict[str, pa.Array | pa.ChunkedArray] = {}
    for column in columns:
        if column.role == "episode" and _kept(raw[column.name], types[column.key]):
            done[column.key] = raw[column.name]
            continue
        values = encode_column(raw[column.name]) if column.repeated else decode_column(raw[column.name])
        kind = types.get(column.key)
        entries = _Entries(values, column, findings, marks.get(column.name, POINT), kind)
        done[column.key] = _CONVERTERS[column.kind](entries)
    findings.settle()
    done[FILE], done[ROW] = pa.array(places.file, pa.int32()), pa.array(places.row, pa.int64())
    return pa.table(done)


def encode_column(column: pa.ChunkedArray) -> pa.Array:
    """Return a column as `decode_column` does, but dictionary-encoded text as one dictionary of text."""
    if not (pa.types.is_dictionary(column.type) and is_text(column.type.value_type)):
        return decode_column(column)
    encoded = one_dictionary(column)
    if encoded.dictionary.type == TEXT_TYPE:
        return encoded
    return pa.DictionaryArray.from_arrays(encoded.indices, encoded.dictionary.cast(TEXT_TYPE))


@dataclass(frozen=True, slots=True)
class _Entries:
    """One column of a block, in one role, as the file has it. kind: the type it gets, of keys, times and extra columns."""

    values: pa.Array
    column: Column
    findings: Findings
    decimal: str
    kind: pa.DataType | None

    def cast(self, kind: pa.DataType, needed: str) -> pa.Array | None:
        """Return the entries as `kind`, reading text if they are text; None, with a finding, if some do not fit."""

        def convert_all(part: pa.Array) -> pa.Array:
            if part.type == kind:
                return part
            if part.type == TEXT_TYPE:
                return parse_text(part, kind, self.decimal)
            if pa.types.is_boolean(kind):
                return _zero_or_one(part)
            if pa.types.is_temporal(part.type) and not (pa.types.is_temporal(kind) or kind == TEXT_TYPE):
                raise pa.ArrowInvalid("a date is not a number")
            # Whole numbers beyond 2^53 lose digits as float64; as contexts or rewards that is round-off, not an error.
            return pc.cast(part, kind, safe=not pa.types.is_floating(kind))

        def text(index: int) -> str:
            value = self.values[index].as_py()
            message = f"found {show_value(value)} ({_kind_name(self.values.type)}) as {self.column.what}; {needed}"
            if not (pa.types.is_floating(kind) and isinstance(value, str)):
                return message
            mend = number_hint(value, self.decimal)
            return message + (mend or self._categories() if self.column.role in ("context", "outcome") else mend)

        try:
            return convert_all(self.values)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError):  # a bad value, or a type for which Arrow has no such cast
            wrong, more = find_unreadable(self.values, convert_all)
            self.findings.add(wrong, self.column.name, text, more)
            return None

    def _categories(self) -> str:
        """Say how a column of categories is declared, with the values here if they are few; empty if some are numbers."""
        texts = sorted({value.as_py() for value in pc.unique(self.values) if value.is_valid})
        if any(can_parse(pa.array([text], TEXT_TYPE), pa.float64(), self.decimal) for text in texts[:1000]):
            return ""
        values = ", ".join(map(str, texts)) if len(texts) <= _MOST_LISTED else f"{texts[0]}, {texts[1]}, ..."
        return (
            f". If '{self.column.name}' holds categories, list every value that may occur in the problem file: "
            f"{{column: {self.column.name}, values: [{values}]}}"
        )

    def refuse_missing(self, values: pa.Array) -> None:
        """Note a missing entry unless the column may have some."""
        if self.column.optional or not values.null_count:
            return
        advice = _MISSING.get(self.column.role, "every row needs it; fill it in")
        text = f"the {self.column.what} is missing (null); {advice}"
        self.findings.add(np.flatnonzero(~_present(values)), self.column.name, lambda _: text)

    def refuse_infinite(self, numbers: pa.Array) -> None:
        """Note numbers that are not finite."""
        values = (numbers.fill_null(0.0) if numbers.null_count else numbers).to_numpy(zero_copy_only=False)
        with np.errstate(all="ignore"):
            if np.isfinite(values.sum()):
                return
        wrong = np.flatnonzero(~np.isfinite(values))
        if wrong.size:
            default = "a finite number is needed" + (", or an empty field" if self.column.optional else "")
            advice = _NOT_FINITE.get(self.column.role, default)
            what = self.column.what
            self.findings.add(wrong, self.column.name, lambda index: f"found {values[index]} as {what}; {advice}")


def _number(entries: _Entries) -> pa.Array | None:
    numbers = entries.cast(pa.float64(), "a number is needed")
    if numbers is None:
        return None
    entries.refuse_missing(numbers)
    entries.refuse_infinite(numbers)
    _check_range(entries, numbers)
    return numbers


def _check_range(entries: _Entries, numbers: pa.Array) -> None:
    """Note what cannot be a probability, a density or an action; what it may be instead is read off all the values."""
    column, limits = entries.column, entries.column.limits
    chance = column.role in ("propensity", "incumbent")
    if not chance and limits is None:
        return
    instead = 1.0 if limits is None else limits[0]  # of what is missing or not finite, which has been noted
    values = (numbers.fill_null(instead) if numbers.null_count else numbers).to_numpy(zero_copy_only=False)
    values = np.where(np.isfinite(values), values, instead) if entries.findings else values
    low, high = values.min(initial=1.0), values.max(initial=0.0)
    what, advice = ("density", _DENSITY) if column.density else ("probability", _PROBABILITY)

    def note(wrong: AnyArray, text: Callable[[int], str]) -> None:
        note_rows(entries.findings.add, wrong, column.name, text)

    if limits is not None:
        slack, allowed = ROUND_OFF * (limits[1] - limits[0]), f"[{limits[0]:g}, {limits[1]:g}]"
        outside = (values < limits[0] - slack) | (values > limits[1] + slack)
        note(
            outside, lambda row: f"found {values[row]:.9g}, outside the interval {allowed}; widen 'interval', or correct the log"
        )
        return
    if low <= 0 and column.positive:
        note(values == 0, lambda row: f"found 0: an action that was taken had a {what if column.density else 'chance'}; {advice}")
    if low < 0:
        logged = f"is it a log-{what} (then write exp of it)?"
        if high <= 0:
            logged = f"no value is above 0, so each looks like a log-{what} (then write exp of it);"
        note(values < 0, lambda row: f"found {values[row]:g}, below 0: {logged} {advice}")
    if high > 1 and not column.density:
        above = values > 1 + ROUND_OFF
        meant = "is it a percentage (then divide by 100), or a density (of a continuous action; then give the action an "
        meant += "'interval' with a 'bandwidth', and its propensity 'density: true')?"
        if high <= 100 and low >= 0 and 2 * np.count_nonzero(above) > values.size:
            meant = "most values are, and none is above 100, so these look like percentages (then divide by 100);"
        note(above, lambda row: f"found {values[row]:.9g}, above 1: {meant} {advice}")


def _category(entries: _Entries) -> pa.Array | None:
    column = entries.column
    values = entries.values
    if all_numeric(column.values) and _kind_name(values.type) == "text":
        values = blank_missing_words(decode_column(pa.chunked_array([values])))  # these may be missing in words
    entries.refuse_missing(values)
    codes = match_values(values, column.values, entries.decimal)
    unknown = np.flatnonzero((codes < 0) & _present(values)) if codes.min(initial=0) < 0 else codes[:0]
    if unknown.size:

        def text(index: int) -> str:
            value = values[index].as_py()
            return f"found {show_value(value)}, which is not a known {column.what}; {suggest_values(value, column.values)}"

        entries.findings.add(unknown, column.name, text)
        return None
    return pa.array(codes, pa.int32(), mask=codes < 0 if values.null_count else None)


def _flag(entries: _Entries) -> pa.Array | None:
    flags = entries.cast(pa.bool_(), "true or false (or 1 or 0) is needed")
    if flags is not None:
        entries.refuse_missing(flags)
    return flags


def _as_typed(entries: _Entries) -> pa.Array | None:
    kind = entries.kind
    needed = "ids are text, whole numbers or dates" if entries.column.kind == "key" else f"the column holds {kind} elsewhere"
    cast = entries.values if kind == TEXT_TYPE and pa.types.is_dictionary(entries.values.type) else entries.cast(kind, needed)
    if cast is None:
        return None
    entries.refuse_missing(cast)
    if entries.column.repeated and entries.column.role != "episode" and cast.type == TEXT_TYPE:
        return cast.dictionary_encode()
    if entries.column.kind == "time" and pa.types.is_floating(kind):
        entries.refuse_infinite(cast)
    return cast


def _zero_or_one(part: pa.Array) -> pa.Array:
    numbers = pc.cast(part, pa.float64(), safe=False)
    ones = pc.equal(numbers, 1.0)
    if pc.all(pc.or_(ones, pc.equal(numbers, 0.0))).as_py() is False:
        raise pa.ArrowInvalid("neither 0 nor 1")
    return ones


def _kind_name(kind: pa.DataType) -> str:
    return "text" if TEXT_TYPE in (kind, getattr(kind, "value_type", None)) else str(kind)


def _present(values: pa.Array) -> AnyArray:
    return values.is_valid().to_numpy(zero_copy_only=False)


_CONVERTERS: dict[str, Callable[[_Entries], pa.Array | None]] = {
    "number": _number,
    "category": _category,
    "flag": _flag,
    "key": _as_typed,
    "time": _as_typed,
    "any": _as_typed,
}


def _kept(column: pa.ChunkedArray, kind: pa.DataType) -> bool:
    """Say whether ids can stay as they come: text in dictionaries, every block with its own, and none missing."""
    return kind == TEXT_TYPE and pa.types.is_dictionary(column.type) and is_text(column.type.value_type) and not column.null_count
