"""What a piece of a log is to its readers: names, types and rows in blocks; and what the readers of all formats share."""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Protocol

import pyarrow as pa

from aegis.errors import LogError
from aegis.logs.spans import WHOLE, Stretch
from aegis.logs.stored import Stored

TROUBLE = (pa.ArrowException, OSError, EOFError, zlib.error, UnicodeError)


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

    def stretches(self) -> tuple[Stretch, ...]:
        """Return what can be read by itself, in the order of the rows; all of them together are the file."""
        ...

    def blocks(
        self, columns: Sequence[str], rows: int, repeated: Sequence[str] = (), stretch: Stretch = WHOLE
    ) -> Iterator[pa.Table]:
        """Yield the columns asked for in tables of at most `rows` rows, from the first row of a stretch to the last.

        Text in the columns `repeated` holds few values many times over and may come dictionary-encoded.
        """
        ...


def guarded(stream: Iterable[pa.RecordBatch], place: Stored, form: str, first: int = 1) -> Iterator[pa.RecordBatch]:
    """Yield from a reader, which begins with the row `first` of a file.

    What goes wrong in reading becomes a LogError that says after which row, what goes wrong in using does not.
    """
    blocks, row = iter(stream), first - 1
    while True:
        try:
            block = next(blocks)
        except StopIteration:
            return
        except TROUBLE as error:
            raise unreadable_file(place, form, error, row) from error
        row += block.num_rows
        yield block


def evenly(blocks: Iterable[pa.RecordBatch], columns: Sequence[str], rows: int) -> Iterator[pa.Table]:
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


def unreadable_file(place: Stored, form: str, error: Exception, row: int = 0) -> LogError:
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
