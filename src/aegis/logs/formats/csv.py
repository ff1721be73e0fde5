"""Logs in text files: fields separated by commas, semicolons, tabs or bars, with a header."""

from __future__ import annotations

import functools
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv

from aegis.errors import pluralise
from aegis.logs.column_values import TEXT_TYPE
from aegis.logs.formats.base import READ_ERRORS, WHOLE_FILE, LogFile, RowRange, even_blocks, guard_reads, unreadable_file
from aegis.logs.formats.csv_dialect import Dialect, recognise_dialect
from aegis.logs.storage import StoredFile

_BLOCK = 8 << 20  # bytes read at a time


@dataclass(frozen=True, slots=True)
class StrayValue:
    """A value in a column without a name, behind the last column with one. row, column: counted from 1."""

    row: int
    column: int
    value: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TextLog(LogFile):
    """A text file with a header; all columns come as text, empty fields as null. Blanks around names are dropped.

    The role of a column decides what a field means, so that a label `NA` or an id `007` stays as it is. header: the names as
    they are in the file, without empty columns at its right. stamp: the version of the file. stray: the first value in a column
    without a name at the right.
    """

    place: StoredFile
    header: tuple[str, ...]
    form: Dialect
    stamp: Hashable
    stray: StrayValue | None = None

    @classmethod
    def open(cls, place: StoredFile) -> TextLog:
        """Recognise the dialect and read the header; only once, as long as the file has not changed."""
        try:
            return _opened(place, place.stamp())
        except READ_ERRORS as error:
            raise unreadable_file(place, "CSV", error) from error

    def blocks(
        self, columns: Sequence[str], rows: int, repeated: Sequence[str] = (), row_range: RowRange = WHOLE_FILE
    ) -> Iterator[pa.Table]:
        """Yield blocks of rows."""
        wanted = list(columns) or list(self.names[:1])
        written = [self.header[self.names.index(name)] for name in wanted]
        with self.place.watched(self.stamp):
            try:
                reader = _reader(self.place, self.form, written)
            except READ_ERRORS as error:
                raise unreadable_file(self.place, "CSV", error) from error
            with reader:
                for table in even_blocks(_but_last(guard_reads(reader, self.place, "CSV"), self.form.blank), written, rows):
                    yield table.rename_columns(wanted)


def _but_last(blocks: Iterator[pa.RecordBatch], count: int) -> Iterator[pa.RecordBatch]:
    """Yield all rows but the last ones."""
    waiting: list[pa.RecordBatch] = []
    for block in blocks:
        waiting.append(block)
        while waiting and sum(later.num_rows for later in waiting[1:]) >= count:
            yield waiting.pop(0)
    left = sum(block.num_rows for block in waiting) - count
    for block in waiting:
        if left > 0:
            yield block.slice(0, left)
        left -= block.num_rows


@functools.lru_cache(maxsize=256)
def _opened(place: StoredFile, stamp: Hashable) -> TextLog:
    with place.watched(stamp):
        form = recognise_dialect(place)
        with _reader(place, form, None) as reader:
            header = tuple(reader.schema.names)
        named = max((count for count, name in enumerate(header, 1) if name.strip()), default=len(header))
        filled, stray = (named, None) if named == len(header) else _right_of(place, form, header, named)
        empty = len(header) - filled
        return TextLog(
            name=str(place),
            names=tuple(name.strip() for name in header[:filled]),
            types=None,
            decimals=form.decimals,
            dialect=str(form) + (f", without {pluralise(empty, 'empty columns')} at its right" if empty else ""),
            place=place,
            header=header[:filled],
            form=form,
            stamp=stamp,
            stray=stray,
        )


def _right_of(place: StoredFile, form: Dialect, header: Sequence[str], named: int) -> tuple[int, StrayValue | None]:
    """Return how many columns reach to the last one that holds anything, and the first value behind the first `named`."""
    filled, first, before = named, None, 0
    with _reader(place, form, header, every=True) as reader:
        for block in _but_last(guard_reads(reader, place, "CSV"), form.blank):
            for index in range(named, len(header)):
                text = pc.utf8_trim_whitespace(block.column(index).cast(pa.large_string()).fill_null(""))
                row = int(pc.index(pc.not_equal(text, ""), True).as_py())
                if row < 0:
                    continue
                filled = max(filled, index + 1)
                if first is None or before + row + 1 < first.row:
                    first = StrayValue(before + row + 1, index + 1, text[row].as_py())
            before += block.num_rows
    return filled, first


def _reader(place: StoredFile, form: Dialect, columns: Sequence[str] | None, every: bool = False) -> pa.csv.CSVStreamingReader:
    """Return a reader of some columns, as text; every: of all, in their order, where names may come twice."""
    return pa.csv.open_csv(
        place.unpacked(),
        read_options=pa.csv.ReadOptions(
            # One thread, so that the parser can name the row it fails at.
            block_size=_BLOCK,
            use_threads=False,
            skip_rows=form.skip,
            encoding="utf-8" if form.encoding == "utf-8-sig" else form.encoding,
        ),
        parse_options=pa.csv.ParseOptions(delimiter=form.separator, newlines_in_values=True),
        convert_options=pa.csv.ConvertOptions(
            column_types=None if columns is None else dict.fromkeys(columns, TEXT_TYPE),
            include_columns=None if every else columns,
            null_values=[""],
            strings_can_be_null=True,
            quoted_strings_can_be_null=False,
        ),
    )
