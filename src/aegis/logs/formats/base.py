"""The protocol LogFile (column names, types, and rows in blocks), ranges of rows, and what the readers of all formats share.

The ranges, and the chunks made of them, depend on the log alone, not on the number of readers.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import pyarrow as pa

from aegis.errors import LogError
from aegis.logs.storage import StoredFile

CHUNK_ROWS = 2**20  # rows of a piece, or more: what one process reads at a time

MOST_CHUNKS = 1024  # about; the pieces of longer logs are larger, so that what is found in them can be put together in one place


@dataclass(frozen=True, slots=True)
class RowRange:
    """Rows of a file that can be read by themselves. groups: the row groups they are, None for the whole file.

    first: the number of the first row in the file, from 1. rows: how many, None if nobody has counted them.
    """

    groups: tuple[int, ...] | None = None
    first: int = 1
    rows: int | None = None


WHOLE_FILE = RowRange()


@dataclass(frozen=True, slots=True)
class FileRange:
    """A stretch of the file with this index."""

    file: int
    stretch: RowRange = WHOLE_FILE


def row_group_ranges(sizes: Sequence[int], least: int | None = None) -> tuple[RowRange, ...]:
    """Return stretches of row groups with so many rows each.

    Each has at least `least` rows, those of a piece if None; the last may have fewer.
    """
    least = CHUNK_ROWS if least is None else least
    found: list[RowRange] = []
    groups: list[int] = []
    first = rows = 0
    for number, size in enumerate(sizes):
        groups.append(number)
        rows += size
        if rows >= least or number == len(sizes) - 1:
            found.append(RowRange(tuple(groups), first + 1, rows))
            first, rows, groups = first + rows, 0, []
    return tuple(found) or (RowRange((), 1, 0),)


def bundle_ranges(spans: Iterable[tuple[FileRange, int]], total: int, least: int | None = None) -> list[tuple[FileRange, ...]]:
    """Return pieces: spans, each with its number of rows, put together in their order until there are enough rows."""
    enough = max(CHUNK_ROWS if least is None else least, -(-total // MOST_CHUNKS))
    pieces: list[tuple[FileRange, ...]] = []
    held: list[FileRange] = []
    rows = 0
    for span, count in spans:
        held.append(span)
        rows += count
        if rows >= enough:
            pieces.append(tuple(held))
            held, rows = [], 0
    return [*pieces, tuple(held)] if held else pieces


READ_ERRORS = (pa.ArrowException, OSError, EOFError, zlib.error, UnicodeError)


class LogFile(Protocol):
    """One file of a log, or a table in memory: what its columns are called, what they hold, and its rows in order."""

    @property
    def name(self) -> str:
        """Return what messages call it: the path, or `frame 1`."""
        ...

    @property
    def names(self) -> tuple[str, ...]:
        """Return the columns in the order of the file."""
        ...

    @property
    def types(self) -> Mapping[str, pa.DataType] | None:
        """Return the type of each column, or None if the file is text and its types are to be guessed."""
        ...

    @property
    def decimals(self) -> Mapping[str, str]:
        """Return the decimal mark of columns of text, see `decimal_marks`; a point where nothing is said."""
        ...

    @property
    def dialect(self) -> str:
        """Return in words how the file is read, where that had to be recognised; else an empty text."""
        ...

    def stretches(self) -> tuple[RowRange, ...]:
        """Return what can be read by itself, in the order of the rows; all of them together are the file."""
        ...

    def blocks(
        self, columns: Sequence[str], rows: int, repeated: Sequence[str] = (), stretch: RowRange = WHOLE_FILE
    ) -> Iterator[pa.Table]:
        """Yield the columns asked for in tables of at most `rows` rows, from the first row of a stretch to the last.

        Text in the columns `repeated` holds few values many times over and may come dictionary-encoded.
        """
        ...


def guard_reads(stream: Iterable[pa.RecordBatch], place: StoredFile, form: str, first: int = 1) -> Iterator[pa.RecordBatch]:
    """Yield from a reader, which begins with the row `first` of a file.

    What goes wrong in reading becomes a LogError that says after which row, what goes wrong in using does not.
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
    held: list[pa.RecordBatch] = []
    count = 0
    for block in blocks:
        rest = block.select(list(columns))
        while rest.num_rows:
            # A block is cut only if it is too long: pieces would have to be joined again.
            if count and count + rest.num_rows > rows and 2 * count > rows:
                yield pa.Table.from_batches(held)
                held, count = [], 0
            piece = rest.slice(0, rows - count)
            held.append(piece)
            count, rest = count + piece.num_rows, rest.slice(piece.num_rows)
            if count == rows:
                yield pa.Table.from_batches(held)
                held, count = [], 0
    if count:
        yield pa.Table.from_batches(held)


def unreadable_file(place: StoredFile, form: str, error: Exception, row: int = 0) -> LogError:
    """Return the error that says why a file cannot be reached or read, after a row if one was; the caller raises it."""
    unreached = place.fault(error)
    if unreached is not None:
        return unreached
    said = str(error).splitlines()[0] if str(error) else type(error).__name__
    hints = {
        "Empty CSV": "; it needs a header and rows",
        "Expected": "; every row has a field for each column: put fields that hold the separator in quotes",
    }
    hint = next((text for mark, text in hints.items() if mark in said), "")
    where = f" after row {row}" if row else ""
    return LogError(f"{place}: cannot be read as {form}{where} (truncated, damaged or something else?): {said}{hint}")
