"""The dialect of a text file, recognised from its content: encoding, separator, header line and decimal marks."""

from __future__ import annotations

import codecs
import contextlib
import csv
import gzip
import io
import itertools
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from io import BufferedIOBase
from pathlib import Path

from aegis.errors import LogError, pluralise
from aegis.logs.column_values import COMMA, decimal_marks
from aegis.logs.object_store import locate
from aegis.logs.storage import StoredFile

_FEWEST = 3  # columns of a table below titles

_HEADER_SHARE = 0.9  # share of the rows from the header on that have as many fields


def header_line(tables: Mapping[str, Sequence[tuple[int, Sequence[str]]]]) -> tuple[str, int, int] | None:
    """Return separator, line of the header and number of its fields, if shorter lines stand above it; None if nothing says so.

    tables: by separator, rows with the line in which each ends, blank ones left out. Nothing is said if with one of them the
    first line has several fields, and as many as most.
    """
    widths = {mark: [len(row) for _, row in rows] for mark, rows in tables.items()}
    usually = {mark: Counter(counts).most_common(1)[0][0] for mark, counts in widths.items() if counts}
    if any(usual > 1 and widths[mark][0] == usual for mark, usual in usually.items()):
        return None
    found = []
    for mark, usual in usually.items():
        counts = widths[mark]
        if usual < _FEWEST:
            continue
        first = counts.index(usual)
        below = counts[first:]
        if first and len(below) > 1 and max(counts[:first]) < usual and below.count(usual) >= _HEADER_SHARE * len(below):
            found.append((mark, tables[mark][first][0], usual))
    return max(found, key=lambda one: one[2], default=None)


SEPARATORS = {",": "commas", ";": "semicolons", "\t": "tabs", "|": "vertical bars"}

SAVE_ADVICE = "save it as UTF-8 text, separated by commas, with decimal points"


_HEAD = 1 << 18  # bytes that separator and decimal marks are read off

_CHUNK = 1 << 22

_ROWS = 1000

_ZERO_SHARE = 0.7  # share of the letters of a table that are plain ones

_MARKS = ((codecs.BOM_UTF8, "utf-8-sig"), (codecs.BOM_UTF16_LE, "utf-16"), (codecs.BOM_UTF16_BE, "utf-16"))

_WIDE = (codecs.BOM_UTF32_LE, codecs.BOM_UTF32_BE)

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

    All bytes are looked at for the encoding, the first 256 kB for the rest. Raises LogError that says what was found, and how
    to save the file, if it cannot be decided; OSError, EOFError or zlib.error if the file cannot be read.
    """
    place = locate(file)
    encoding = _encoding(place)
    head, whole = _head(place, encoding)
    given = _EXCEL.match(head)  # spreadsheets write this line, and hide it when they read it
    text, marks = head[given.end() if given else 0 :], [given[1]] if given else list(SEPARATORS)
    numbered = {mark: _rows(text, mark, whole) for mark in marks}
    titled = header_line(numbered)
    if titled is not None:
        raise _titled(place, text, *titled, above=1 if given else 0)
    tables = {mark: [row for _, row in rows] for mark, rows in numbered.items()}
    separator = given[1] if given else _separator(tables, str(place))
    rows = tables[separator]
    decimals: dict[str, str] = {}
    if separator != "," and rows:
        fields = list(zip(*[row for row in rows[1:] if len(row) == len(rows[0])], strict=True)) or [()] * len(rows[0])
        decimals = decimal_marks({name.strip(): values for name, values in zip(rows[0], fields, strict=True)})
    return Dialect(encoding, separator, 1 if given else 0, decimals, _blank_rows(place, encoding, separator))


def _encoding(place: StoredFile) -> str:
    with _open(place) as file:
        start = file.read(4)
    if start in _WIDE:
        raise LogError(f"{place}: this is UTF-32 text; {_converted(place, 'UTF-32')}")
    for mark, name in _MARKS:
        if start.startswith(mark):
            return name
    decoder = codecs.getincrementaldecoder("utf-8")()
    try:
        for chunk in _chunks(place):
            if b"\0" in chunk:
                raise _not_text(place, chunk)
            if not chunk.isascii() or decoder.getstate()[0]:
                decoder.decode(chunk)
        decoder.decode(b"", final=True)
    except UnicodeDecodeError:
        return "latin-1" if any(byte in chunk for chunk in _chunks(place) for byte in _NOT_1252) else "cp1252"
    return "utf-8"


def _not_text(place: StoredFile, chunk: bytes) -> LogError:
    """Return the error about zero bytes, which says in which encoding they would be those of text; the caller raises it."""
    start = chunk[:_HEAD]
    zero = [start[place::4].count(0) * 4 / max(len(start), 1) > _ZERO_SHARE for place in range(4)]
    wide = {
        (False, True, True, True): "UTF-32LE",
        (True, True, True, False): "UTF-32BE",
        (False, True, False, True): "UTF-16LE",
        (True, False, True, False): "UTF-16BE",
    }
    name = wide.get((zero[0], zero[1], zero[2], zero[3]))
    if name is None:
        return LogError(f"{place}: this is not text (it has zero bytes); {SAVE_ADVICE}")
    return LogError(f"{place}: this is {name} text without a mark at its start that says so; {_converted(place, name)}")


def _converted(place: StoredFile, encoding: str) -> str:
    packed = place.name.lower().endswith(".gz")
    command = f"gunzip -c {place.name} | iconv -f {encoding} -t UTF-8" if packed else f"iconv -f {encoding} -t UTF-8 {place.name}"
    return f"{SAVE_ADVICE}, or convert it: {command} > utf8.csv"


def _head(place: StoredFile, encoding: str) -> tuple[str, bool]:
    """Return the start of the file, and whether that is all of it."""
    with _open(place) as file:
        content = file.read(_HEAD)
        whole = not file.read(1)
    return codecs.getincrementaldecoder(encoding)().decode(content), whole


def _blank_rows(place: StoredFile, encoding: str, separator: str) -> int:
    """Return how many rows at the end hold nothing but separators, as spreadsheets write them below a table."""
    size = _CHUNK // 64
    while True:
        text, whole = _end(place, encoding, size)
        lines = text.split("\n")[0 if whole else 1 :]
        found = 0
        for line in reversed(lines):
            left = line.rstrip("\r").replace('""', "")
            if left and separator in left and set(left) <= {separator, " "}:
                found += 1
            elif left:
                return found
        if whole or size >= _HEAD * 64:
            return found if not whole else 0
        size *= 16


def _end(place: StoredFile, encoding: str, size: int) -> tuple[str, bool]:
    """Return about the last `size` bytes of the file as text, and whether that is all of it."""
    with _open(place) as file:
        mark = file.read(2)
        if place.name.lower().endswith(".gz") or not file.seekable():
            kept = mark
            while chunk := file.read(_CHUNK):
                kept = (kept + chunk)[-(size + 2) :]
            whole = len(kept) < size + 2
        else:
            length = file.seek(0, io.SEEK_END)
            whole = length <= size
            file.seek(0 if whole else length - size)
            kept = file.read()
    wide = "utf-16-be" if mark == codecs.BOM_UTF16_BE else "utf-16-le"
    return kept.decode(wide if encoding == "utf-16" else encoding, errors="replace"), whole


def _separator(tables: Mapping[str, list[list[str]]], name: str) -> str:
    """Return what separates the fields: what gives every row as many as the header has, and the header most."""
    widths = {mark: [len(row) for row in rows] for mark, rows in tables.items()}
    several = {mark: found for mark, found in widths.items() if found and found[0] > 1}
    even = {mark: found for mark, found in several.items() if len(set(found)) == 1}
    candidates = even or several
    if not candidates:
        return ","  # one column; which is missing will be said where columns are looked for
    most = max(found[0] for found in candidates.values())
    best = [mark for mark, found in candidates.items() if found[0] == most]
    if len(best) > 1:
        words = " or by ".join(SEPARATORS[mark] for mark in best)
        raise LogError(f"{name}: its fields may be separated by {words}, each gives {most} columns; {SAVE_ADVICE}")
    return best[0]


def _titled(place: StoredFile, text: str, separator: str, line: int, fields: int, above: int) -> LogError:
    """Return the error about lines above the header; above: lines before the text. The caller raises it."""
    first = next(one for one in text.splitlines() if one.strip()).strip()
    shown = first if len(first) <= 60 else f"{first[:57]}..."
    return LogError(
        f"{place}: the header does not seem to be the first line, which is '{shown}': line {line + above} and those below it "
        f"have {fields} fields, separated by {SEPARATORS.get(separator, repr(separator))}; remove the lines above the header"
    )


def _rows(head: str, separator: str, whole: bool) -> list[tuple[int, list[str]]]:
    """Return the first rows that are not blank and that end within `head`, each with its last line, from 1.

    None of them if quotes are in disorder.
    """
    reader = csv.reader(io.StringIO(head, newline=""), delimiter=separator)
    try:
        rows = list(itertools.islice(((reader.line_num, row) for row in reader if row), _ROWS))
    except csv.Error:
        return []
    return rows if whole or len(rows) == _ROWS else rows[:-1]


def _chunks(place: StoredFile) -> Iterator[bytes]:
    with _open(place) as file:
        while chunk := file.read(_CHUNK):
            yield chunk


@contextlib.contextmanager
def _open(place: StoredFile) -> Iterator[BufferedIOBase]:
    with place.open() as file:
        if not place.name.lower().endswith(".gz"):
            yield file
            return
        with gzip.GzipFile(fileobj=file) as unpacked:
            yield unpacked
