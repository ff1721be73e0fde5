"""Logs in text files with a header: encoding, separator and decimal marks are recognised from the content."""

from __future__ import annotations

import codecs
import csv
import functools
import io
import itertools
import re
from collections import Counter, deque
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv

from aegis.errors import LogError, pluralise
from aegis.logs.column_values import COMMA, TEXT_TYPE, decimal_marks
from aegis.logs.columns import shorten
from aegis.logs.formats.base import (
    READ_ERRORS,
    WHOLE_FILE,
    LogFile,
    RowRange,
    StoredFile,
    even_blocks,
    guard_reads,
    locate,
    unreadable_file,
)

SEPARATORS = {",": "commas", ";": "semicolons", "\t": "tabs", "|": "vertical bars"}
SAVE_ADVICE = "save it as UTF-8 text, separated by commas, with decimal points"
_FEWEST = 3  # columns of a table below titles
_HEADER_SHARE = 0.9  # share of the rows from the header on that have as many fields
_HEAD = 1 << 18  # bytes that separator and decimal marks are read off
_CHUNK = 1 << 22  # bytes read at a time
_TAIL_CHUNKS = 4  # in which blank rows at the end are counted
_ROWS = 1000  # that separator and decimal marks are read off
_MARKS = {
    codecs.BOM_UTF32_LE: "utf-32",
    codecs.BOM_UTF32_BE: "utf-32",
    codecs.BOM_UTF8: "utf-8-sig",
    codecs.BOM_UTF16_LE: "utf-16-le",
    codecs.BOM_UTF16_BE: "utf-16-be",
}
_NOT_1252 = bytes((0x81, 0x8D, 0x8F, 0x90, 0x9D))  # bytes that mean nothing in cp1252
_EXCEL = re.compile(r'"?sep=(.)"?\r?\n')


@dataclass(frozen=True, slots=True)
class Dialect:
    """How a text file is to be read. skip: lines above the header. decimals: by column, see `decimal_marks`.

    blank: rows at the end that hold separators and nothing else, which are not read.
    """

    encoding: str
    separator: str
    skip: int
    decimals: Mapping[str, str]
    blank: int = 0

    def __str__(self) -> str:
        parts = [f"separated by {SEPARATORS.get(self.separator, repr(self.separator))}", f"encoded in {self.encoding}"]
        if self.encoding in ("cp1252", "latin-1"):
            parts[1] += " (it is not UTF-8; letters beyond a to z may be others than meant)"
        commas = [name for name, mark in self.decimals.items() if mark == COMMA]
        if commas:
            parts.append("with decimal commas" + ("" if len(commas) == len(self.decimals) else f" in {', '.join(commas)}"))
        if self.blank:
            parts.append(f"without {pluralise(self.blank, 'blank rows')} at its end")
        return ", ".join(parts)


def recognise_dialect(file: Path | StoredFile) -> Dialect:
    """Return the dialect of a text file, which may be compressed with gzip.

    The encoding depends on all bytes, the rest on the first 256 kB. Raises LogError, which says how to save the file, if it
    cannot be decided; OSError, EOFError or zlib.error if the file cannot be read.
    """
    place = locate(file)
    exact, tail = _scan(place)
    encoding = exact if not exact.startswith("utf-16") else "utf-16"  # which takes the mark at the start for what it is
    with place.unpacked() as stream:
        content, whole = stream.read(_HEAD), not stream.read(1)
    head = codecs.getincrementaldecoder(encoding)().decode(content)
    declared = _EXCEL.match(head)  # spreadsheets write this line, and hide it when they read it
    skip = 1 if declared else 0
    text, marks = head[declared.end() if declared else 0 :], [declared[1]] if declared else list(SEPARATORS)
    numbered = {mark: _rows(text, mark, whole) for mark in marks}
    _refuse_titles(place, text, header_line(numbered), skip)
    tables = {mark: [row for _, row in rows] for mark, rows in numbered.items()}
    separator = declared[1] if declared else _separator(tables, str(place))
    rows = tables[separator]
    decimals: dict[str, str] = {}
    if separator != "," and rows:
        fields = list(zip(*[row for row in rows[1:] if len(row) == len(rows[0])], strict=True)) or [()] * len(rows[0])
        decimals = decimal_marks({name.strip(): values for name, values in zip(rows[0], fields, strict=True)})
    return Dialect(
        encoding=encoding,
        separator=separator,
        skip=skip,
        decimals=decimals,
        blank=_blank_rows(tail.decode(exact, errors="replace"), separator),
    )


def header_line(tables: Mapping[str, Sequence[tuple[int, Sequence[str]]]]) -> tuple[str, int, int] | None:
    """Return separator, line of the header and number of its fields, if shorter lines stand above it; else None.

    tables: by separator, rows with the line in which each ends, blank ones left out. None if with one of them the first line
    has several fields, and as many as most.
    """
    widths = {mark: [len(row) for _, row in rows] for mark, rows in tables.items()}
    usually = {mark: Counter(counts).most_common(1)[0][0] for mark, counts in widths.items() if counts}
    if any(usual > 1 and widths[mark][0] == usual for mark, usual in usually.items()):
        return None
    headers = []
    for mark, usual in usually.items():
        counts = widths[mark]
        first = counts.index(usual)
        below = counts[first:]
        titled = first and len(below) > 1 and max(counts[:first]) < usual
        if usual >= _FEWEST and titled and below.count(usual) >= _HEADER_SHARE * len(below):
            headers.append((mark, tables[mark][first][0], usual))
    return max(headers, key=lambda header: header[2], default=None)


def _scan(place: StoredFile) -> tuple[str, bytes]:
    """Return the encoding of a file and its last bytes; raises LogError if it is no text, or none that can be read."""
    decoder = codecs.getincrementaldecoder("utf-8")()
    encoding, is_utf8, is_1252 = "", True, True
    tail: deque[bytes] = deque(maxlen=_TAIL_CHUNKS)
    with place.unpacked() as stream:
        while chunk := stream.read(_CHUNK):
            if not tail:
                encoding = next((name for mark, name in _MARKS.items() if chunk.startswith(mark)), "")
            tail.append(chunk)
            if encoding == "utf-32" or (not encoding and b"\0" in chunk):
                raise LogError(
                    f"{place}: this is no text, or UTF-32, or UTF-16 without a mark at its start (it has zero bytes); "
                    f"{SAVE_ADVICE}, or convert it, for example with iconv -f UTF-16LE -t UTF-8"
                )
            if encoding or (chunk.isascii() and not decoder.getstate()[0]):
                continue
            is_1252 = is_1252 and not any(byte in chunk for byte in _NOT_1252)
            try:
                decoder.decode(chunk)
            except UnicodeDecodeError:
                is_utf8 = False
                decoder.reset()
    is_utf8 = is_utf8 and not decoder.getstate()[0]  # a letter that is cut off at the end
    return encoding or ("utf-8" if is_utf8 else "cp1252" if is_1252 else "latin-1"), b"".join(tail)


def _blank_rows(tail: str, separator: str) -> int:
    """Return how many rows at the end hold nothing but separators, as spreadsheets write them below a table."""
    table = tail.rstrip(f'{separator} "\r\n')
    count = 0
    for line in reversed(tail[len(table) :].split("\n")[1:] if table else []):
        content = line.rstrip("\r").replace('""', "")
        if separator in content and set(content) <= {separator, " "}:
            count += 1
        elif content:
            break
    return count


def _separator(tables: Mapping[str, list[list[str]]], name: str) -> str:
    """Return the separator that gives every row as many fields as the header has, and the header most."""
    widths = {mark: [len(row) for row in rows] for mark, rows in tables.items()}
    several = {mark: counts for mark, counts in widths.items() if counts and counts[0] > 1}
    candidates = {mark: counts for mark, counts in several.items() if len(set(counts)) == 1} or several
    if not candidates:
        return ","  # one column; the check of the columns says which are missing
    most = max(counts[0] for counts in candidates.values())
    best = [mark for mark, counts in candidates.items() if counts[0] == most]
    if len(best) > 1:
        words = " or by ".join(SEPARATORS[mark] for mark in best)
        raise LogError(f"{name}: its fields may be separated by {words}, each gives {most} columns; {SAVE_ADVICE}")
    return best[0]


def _refuse_titles(place: StoredFile, text: str, header: tuple[str, int, int] | None, skip: int) -> None:
    """Raise LogError if lines stand above the header. skip: lines before the text."""
    if header is None:
        return
    separator, line, fields = header
    first = next(one for one in text.splitlines() if one.strip()).strip()
    raise LogError(
        f"{place}: the header does not seem to be the first line, which is '{shorten(first, 60)}': line {line + skip} and those "
        f"below it have {fields} fields, separated by {SEPARATORS.get(separator, repr(separator))}; remove the lines above the "
        "header"
    )


def _rows(head: str, separator: str, whole: bool) -> list[tuple[int, list[str]]]:
    """Return the first rows that are not blank and that end within `head`, each with its last line, from 1.

    The list is empty if quotes are in disorder.
    """
    reader = csv.reader(io.StringIO(head, newline=""), delimiter=separator)
    try:
        rows = list(itertools.islice(((reader.line_num, row) for row in reader if row), _ROWS))
    except csv.Error:
        return []
    return rows if whole or len(rows) == _ROWS else rows[:-1]


_BLOCK = 8 << 20  # bytes that the parser takes at a time


@dataclass(frozen=True, slots=True, kw_only=True)
class TextLog(LogFile):
    """A text file with a header; all columns come as text, empty fields as null. Blanks around names are dropped.

    The role of a column decides what a field means, so that a label `NA` or an id `007` stays as it is. header: the names as
    they are in the file, without empty columns at its right. stamp: the version of the file. stray: row and column, from 1,
    and text of the first value in a column without a name at the right.
    """

    place: StoredFile
    header: tuple[str, ...]
    form: Dialect
    stamp: Hashable
    stray: tuple[int, int, str] | None = None

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


def _right_of(place: StoredFile, form: Dialect, header: Sequence[str], named: int) -> tuple[int, tuple[int, int, str] | None]:
    """Return how many columns reach to the last one that holds anything, and the first value behind the first `named`."""
    filled, before = named, 0
    values: list[tuple[int, int, str]] = []
    with _reader(place, form, header, every=True) as reader:
        for block in _but_last(guard_reads(reader, place, "CSV"), form.blank):
            for index in range(named, len(header)):
                text = pc.utf8_trim_whitespace(block.column(index).cast(pa.large_string()).fill_null(""))
                row = int(pc.index(pc.not_equal(text, ""), True).as_py())
                if row >= 0:
                    filled = max(filled, index + 1)
                    values.append((before + row + 1, index + 1, text[row].as_py()))
            before += block.num_rows
    return filled, min(values, default=None)


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
