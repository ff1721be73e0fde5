"""The first rows of a log as a table with a type for each column."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import PurePath

import pyarrow as pa
import pyarrow.compute as pc

from aegis.errors import LogError
from aegis.logs.column_values import POINT, TYPE_GUESSES, decode_column, parse_text
from aegis.logs.columns import duplicate_column_error, shorten
from aegis.logs.formats.base import LogFile
from aegis.logs.formats.csv import TextLog
from aegis.logs.log_files import LogPart

_BLOCK = 65536
_THOUSANDS_SEEN = 10  # numbers with a point before three digits, from which on that is no coincidence
_NAMED = 3  # parts that are named in the first line of a draft


@dataclass(frozen=True, slots=True)
class LogSample:
    """complete: the table is the whole log. origin: where it comes from, in words. left_out: columns of some parts only.

    read_as: how each text file is read, in words. grouped: columns whose numbers have a point before three digits, by an example.
    """

    table: pa.Table
    complete: bool
    origin: str
    left_out: tuple[tuple[str, str], ...] = ()
    read_as: tuple[str, ...] = ()
    grouped: Mapping[str, str] = field(default_factory=dict)


def read_sample(parts: Sequence[LogPart], rows: int) -> LogSample:
    """Return the first `rows` rows, with the columns that all parts have.

    Raises LogError if there are none, if a part has a column twice, or if the parts have no column in common.
    """
    files = [part.open() for part in parts]
    names = _common(files)
    heads: list[pa.Table] = []
    grouped: dict[str, str] = {}
    left, complete = rows, True
    for file in files:
        # One row more than wanted tells whether there are more.
        head = _first(file, names, left + 1, grouped)
        if head.num_rows:
            heads.append(head.slice(0, left))
        left -= head.num_rows
        if left < 0:
            complete = False
            break
    if not heads:
        raise LogError(f"{', '.join(map(str, parts))}: the log has no rows; there is nothing to draft from")
    table = pa.table({name: _joined([head[name] for head in heads]) for name in names})
    origin = ", ".join(part.name for part in parts[:_NAMED])
    origin += f" and {len(parts) - _NAMED} more" if len(parts) > _NAMED else ""
    read_as = [f"{PurePath(file.name).name} is read as text {file.dialect}" for file in files if file.dialect]
    many = f"{table.num_rows} rows" if complete else f"its first {table.num_rows} rows"
    return LogSample(
        table, complete, f"{origin} ({many}, {len(names)} columns)", _left_out(files, names), tuple(read_as), grouped
    )


def _common(files: Sequence[LogFile]) -> list[str]:
    for file in files:
        _refuse_stray(file)
        twice = sorted({name for name in file.names if file.names.count(name) > 1})
        if twice:
            raise duplicate_column_error(file.name, twice[0], file.names)
    common = [name for name in files[0].names if all(name in file.names for file in files)]
    if not common:
        raise LogError(f"{files[0].name}: has no column in common with the other files; give the files of one log")
    return common


def _refuse_stray(file: LogFile) -> None:
    """Raise LogError for a value to the right of the table: it has no name, and may have slipped there from its own column."""
    stray = file.stray if isinstance(file, TextLog) else None
    titled = 2 * file.names.count("") > len(file.names)  # the header stands further down
    if stray is not None and not titled:
        row, column, value = stray
        raise LogError(
            f"{file.name}, row {row}, column {column}: '{shorten(value, 30)}' stands in a column without a name, to the right of "
            "the table; give that column a name in the header, or empty it (a field that holds the separator goes in quotes)"
        )


def _left_out(files: Sequence[LogFile], names: Sequence[str]) -> tuple[tuple[str, str], ...]:
    """Return the columns that are not in every file, with a file that lacks each."""
    others = dict.fromkeys(name for file in files for name in file.names if name not in names)
    return tuple((name, f"not in every file: {next(f.name for f in files if name not in f.names)} lacks it") for name in others)


def _first(file: LogFile, names: Sequence[str], rows: int, grouped: dict[str, str]) -> pa.Table:
    """Return the first rows of one file, text read as what all of it can be read as; `grouped` gets what may be thousands."""
    blocks: list[pa.Table] = []
    for block in file.blocks(names, min(_BLOCK, rows)):
        blocks.append(block)
        if sum(one.num_rows for one in blocks) >= rows:
            break
    if not blocks:
        return pa.table({name: pa.array([], pa.null()) for name in names})
    table = pa.concat_tables(blocks).slice(0, rows)
    _refuse_blank(table, file.name)
    if file.types is not None:
        return table
    for name in names:
        if file.decimals.get(name, POINT) == POINT and (example := _grouped(decode_column(table[name]))):
            grouped.setdefault(name, example)
    return pa.table({name: _typed(decode_column(table[name]), file.decimals.get(name, POINT)) for name in names})


def _grouped(text: pa.Array) -> str:
    """Return the first number with a point, if each of them may mark thousands: 1.234 beside 873 may be 1234; else empty."""
    marked = pc.filter(text, pc.match_substring(text, "."))
    if len(marked) < _THOUSANDS_SEEN or not pc.all(pc.match_substring_regex(marked, r"^\s*-?[1-9]\d{0,2}(\.\d{3})+\s*$")).as_py():
        return ""
    return str(marked[0].as_py()).strip()


def _refuse_blank(table: pa.Table, name: str) -> None:
    """Raise LogError for a row in which nothing stands."""
    empty = functools.reduce(pc.and_, [pc.is_null(column) for column in table.columns])
    first = pc.index(empty, True).as_py()
    if first >= 0:
        more = int(pc.sum(empty).as_py()) - 1
        others = f" (and {more} more like it)" if more else ""
        raise LogError(f"{name}, row {first + 1}: the row is blank{others}, and every row is a decision; remove it")


def _typed(text: pa.Array, mark: str) -> pa.Array:
    """Return text as the most specific type that all of it can be read as."""
    if text.null_count == len(text):
        return text
    for kind in TYPE_GUESSES["any"]:
        try:
            return parse_text(text, kind, mark)
        except pa.ArrowInvalid:
            continue
    return text


def _joined(columns: Sequence[pa.ChunkedArray]) -> pa.ChunkedArray:
    """Return a column of several files as one: two kinds of numbers as numbers, other mixtures as text."""
    kinds = {column.type for column in columns}
    if len(kinds) > 1:
        numbers = all(pa.types.is_integer(kind) or pa.types.is_floating(kind) for kind in kinds)
        target = pa.float64() if numbers else pa.large_string()
        columns = [column.cast(target, safe=False) for column in columns]
    return pa.chunked_array([chunk for column in columns for chunk in column.chunks], type=columns[0].type)
