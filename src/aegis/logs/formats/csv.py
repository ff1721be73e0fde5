"""Logs in text files: fields separated by commas, semicolons, tabs or bars, with a header."""

from __future__ import annotations

import functools
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv

from aegis.errors import pluralise
from aegis.logs.column_values import TEXT_TYPE
from aegis.logs.formats.base import READ_ERRORS, WHOLE_FILE, RowRange, even_blocks, guard_reads, unreadable_file
from aegis.logs.formats.csv_dialect import Dialect, recognise_dialect
from aegis.logs.storage import StoredFile

_BLOCK = 8 << 20  # bytes read at a time


@dataclass(frozen=True, slots=True)
class StrayValue:
    """A value in a column without a name, behind the last column with one. row, column: counted from 1."""

    row: int
    column: int
    value: str


@dataclass(frozen=True, slots=True)
class TextLog:
    """A text file with a header; all columns come as text, empty fields as null. Blanks around names are dropped.

    What a field means is decided where its role is known, so that a label `NA` or an id `007` stays what it is. header: the
    names as they are in the file, without empty columns at its right, of which there are `empty`. stamp: which version of the
    file it is. stray: the first value in a column without a name at the right.
    """

    place: StoredFile
    header: tuple[str, ...]
    form: Dialect
    stamp: Hashable
    empty: int = 0
    stray: StrayValue | None = None
    types: Mapping[str, pa.DataType] | None = None

    @classmethod
    def open(cls, place: StoredFile) -> TextLog:
        """Recognise the dialect and read the header; a file that has not changed is looked at only once."""
        try:
            return _opened(place, place.stamp())
        except READ_ERRORS as error:
            raise unreadable_file(place, "CSV", error) from error

    @property
    def name(self) -> str:
        """Return the path; see LogFile."""
        return str(self.place)

    @property
    def names(self) -> tuple[str, ...]:
        """Return the names without blanks around them; see LogFile."""
        return tuple(name.strip() for name in self.header)

    @property
    def decimals(self) -> Mapping[str, str]:
        """Return decimal marks by column; see LogFile."""
        return self.form.decimals

    @property
    def dialect(self) -> str:
        """Return how the file is read; see LogFile."""
        return f"{self.form}, without {pluralise(self.empty, 'empty columns')} at its right" if self.empty else str(self.form)

    def stretches(self) -> tuple[RowRange, ...]:
        """Return the whole file, which is read from its first row on; see LogFile."""
        return (WHOLE_FILE,)

    def blocks(
        self, columns: Sequence[str], rows: int, repeated: Sequence[str] = (), stretch: RowRange = WHOLE_FILE
    ) -> Iterator[pa.Table]:
        """Yield blocks of rows; see LogFile."""
        names = self.names
        wanted = list(columns) or list(names[:1])
        written = [self.header[names.index(name)] for name in wanted]
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
    held: list[pa.RecordBatch] = []
    for block in blocks:
        held.append(block)
        while held and sum(later.num_rows for later in held[1:]) >= count:
            yield held.pop(0)
    left = sum(block.num_rows for block in held) - count
    for block in held:
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
        if named == len(header):
            return TextLog(place, header, form, stamp)
        filled, stray = _right_of(place, form, header, named)
        return TextLog(place, header[:filled], form, stamp, len(header) - filled, stray)


def _right_of(place: StoredFile, form: Dialect, header: Sequence[str], named: int) -> tuple[int, StrayValue | None]:
    """Return how many columns reach to the last one that holds anything, and the first value behind the first `named`."""
    filled, first, before = named, None, 0
    with _reader(place, form, header, every=True) as reader:
        for block in _but_last(guard_reads(reader, place, "CSV"), form.blank):
            for index in range(named, len(header)):
                column = block.column(index)
                text = pc.utf8_trim_whitespace(column.cast(pa.large_string()).fill_null(""))
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
            # One thread, so that the parser knows and tells the row it stumbles over.
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
