"""The base class LogFile (column names, types, and rows in blocks), ranges of rows, and helpers for the readers of all formats.

The ranges, and the chunks built from them, depend on the log alone, not on the number of readers.
"""

from __future__ import annotations

import zlib
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import pyarrow as pa

from aegis.errors import LogError
from aegis.logs.storage import StoredFile, first_line

CHUNK_ROWS = 2**20  # fewest rows of a chunk, which one process reads at a time
MOST_CHUNKS = 1024  # about; longer logs have larger chunks, so that one process can join the results
READ_ERRORS = (pa.ArrowException, OSError, EOFError, zlib.error, UnicodeError)


@dataclass(frozen=True, slots=True)
class RowRange:
    """Rows of a file that can be read by themselves. groups: their row groups, None for the whole file.

    first: the number of the first row in the file, from 1. rows: their number, None if it is not known yet.
    """

    groups: tuple[int, ...] | None = None
    first: int = 1
    rows: int | None = None


WHOLE_FILE = RowRange()


@dataclass(frozen=True, slots=True)
class FileRange:
    """A row range of the file with this index."""

    file: int
    row_range: RowRange = WHOLE_FILE


def row_group_ranges(sizes: Sequence[int], least: int | None = None) -> tuple[RowRange, ...]:
    """Return ranges of whole row groups, given the rows of each group.

    Each range has at least `least` rows, those of a chunk if None; the last may have fewer.
    """
    least = CHUNK_ROWS if least is None else least
    ranges: list[RowRange] = []
    groups: list[int] = []
    first = rows = 0
    for number, size in enumerate(sizes):
        groups.append(number)
        rows += size
        if rows >= least or number == len(sizes) - 1:
            ranges.append(RowRange(tuple(groups), first + 1, rows))
            first, rows, groups = first + rows, 0, []
    return tuple(ranges) or (RowRange((), 1, 0),)


def bundle_ranges(ranges: Iterable[tuple[FileRange, int]], total: int, least: int | None = None) -> list[tuple[FileRange, ...]]:
    """Return chunks: ranges, each with its number of rows, joined in their order until there are enough rows."""
    enough = max(CHUNK_ROWS if least is None else least, -(-total // MOST_CHUNKS))
    chunks: list[tuple[FileRange, ...]] = []
    bundle: list[FileRange] = []
    rows = 0
    for file_range, count in ranges:
        bundle.append(file_range)
        rows += count
        if rows >= enough:
            chunks.append(tuple(bundle))
            bundle, rows = [], 0
    return [*chunks, tuple(bundle)] if bundle else chunks


@dataclass(frozen=True, slots=True)
class LogFile(ABC):
    """One file of a log, or a table in memory.

    name: in messages, the path or `frame 1`. names: the columns in the order of the file. types: by column, None if the file is
    text and its types are to be guessed. decimals: the decimal mark of columns of text, see `decimal_marks`; a point where a
    column is not listed. dialect: how the file is read, in words, where that had to be recognised.
    """

    name: str
    names: tuple[str, ...]
    types: Mapping[str, pa.DataType] | None
    decimals: Mapping[str, str] = field(default_factory=dict)
    dialect: str = ""

    def row_ranges(self) -> tuple[RowRange, ...]:
        """Return the ranges that can be read by themselves, in the order of the rows; together they are the file."""
        return (WHOLE_FILE,)

    @abstractmethod
    def blocks(
        self, columns: Sequence[str], rows: int, repeated: Sequence[str] = (), row_range: RowRange = WHOLE_FILE
    ) -> Iterator[pa.Table]:
        """Yield some columns in tables of at most `rows` rows, from the first row of a range to the last.

        Text in the columns `repeated` holds few values many times over and may come dictionary-encoded. Without columns the
        tables have one column, which tells the number of rows.
        """


def guard_reads(stream: Iterable[pa.RecordBatch], place: StoredFile, form: str, first: int = 1) -> Iterator[pa.RecordBatch]:
    """Yield from a reader, which begins with the row `first` of a file.

    An error of the reader becomes a LogError that says after which row; an error of the caller does not.
    """
    blocks, row = iter(stream), first - 1
    while True:
        try:
            block = next(blocks)
        except StopIteration:
            return
        except READ_ERRORS as error:
            raise unreadable_file(place, form, error, row) from error
        row += block.num_rows
        yield block


def even_blocks(blocks: Iterable[pa.RecordBatch], columns: Sequence[str], rows: int) -> Iterator[pa.Table]:
    """Yield tables of at most `rows` rows, and of more than half as many except for the last, from blocks of any size."""
    slices: list[pa.RecordBatch] = []
    count = 0
    for block in blocks:
        rest = block.select(list(columns))
        while rest.num_rows:
            # A block is cut only if it is too long: its slices would have to be joined again.
            if count and count + rest.num_rows > rows and 2 * count > rows:
                yield pa.Table.from_batches(slices)
                slices, count = [], 0
            slices.append(rest.slice(0, rows - count))
            rest = rest.slice(rows - count)
            count += slices[-1].num_rows
            if count == rows:
                yield pa.Table.from_batches(slices)
                slices, count = [], 0
    if count:
        yield pa.Table.from_batches(slices)


def unreadable_file(place: StoredFile, form: str, error: Exception, row: int = 0) -> LogError:
    """Return the error that says why a file cannot be reached or read, after a row if one was; the caller raises it."""
    unreached = place.fault(error)
    if unreached is not None:
        return unreached
    reason = first_line(error)
    hints = {
        "Empty CSV": "; it needs a header and rows",
        "Expected": "; every row has a field for each column: put fields that hold the separator in quotes",
    }
    hint = next((text for mark, text in hints.items() if mark in reason), "")
    where = f" after row {row}" if row else ""
    return LogError(f"{place}: cannot be read as {form}{where} (truncated, damaged or something else?): {reason}{hint}")
