"""A file of a log: where it is stored (StoredFile, LocalFile), and its columns and rows in blocks (LogFile).

Row ranges, and the chunks built from them, depend on the log alone, not on the number of readers.
"""

from __future__ import annotations

import contextlib
import fnmatch
import functools
import glob
import os
import re
import zlib
from abc import ABC, abstractmethod
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from io import BufferedIOBase
from pathlib import Path
from typing import Any, TypeVar

import pyarrow as pa

from aegis.errors import LogError, did_you_mean

RelativePath = tuple[str, ...]  # names that lead from a folder to a file
_LIKE_ADDRESS = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:/")  # two letters at least: C:/ is a drive
_SHOWN = 5  # files that a message names instead of a missing one


class StoredFile(ABC):
    """A file, a folder or a pattern of files; `str` is its name in messages, without anything secret."""

    @property
    @abstractmethod
    def name(self) -> str:
        """Return the name without its folders."""

    @property
    def local(self) -> Path | None:
        """Return the path of a file on this machine, None for all others."""
        return None

    @property
    def packed(self) -> bool:
        """Whether the file is compressed with gzip, by its name."""
        return self.name.lower().endswith(".gz")

    @abstractmethod
    def is_folder(self) -> bool:
        """Say whether it is a folder: then it means all files below."""

    @abstractmethod
    def is_pattern(self) -> bool:
        """Say whether it has wildcards and no file has that name."""

    def require(self) -> None:  # noqa: B027  (opening an object of a store tells as well)
        """Raise LogError if it is known to be no file, without a request to a store."""

    @abstractmethod
    def below(self) -> list[tuple[RelativePath, StoredFile]]:
        """Return all files in a folder and its folders, with the names that lead there, sorted by path.

        Names that start with a dot or an underscore are left out.
        """

    @abstractmethod
    def matches(self) -> list[StoredFile]:
        """Return the matches of a pattern, sorted by path; names with an underscore in front only if the pattern has one."""

    @abstractmethod
    def identity(self) -> Hashable:
        """Return a value that is the same for two ways of naming one file."""

    @abstractmethod
    def stamp(self) -> Hashable:
        """Return a value that changes if the file is written again."""

    @abstractmethod
    def open(self) -> BufferedIOBase:
        """Return the bytes from the first on."""

    @abstractmethod
    def seekable(self) -> Any:
        """Return a source for Arrow's reader of Parquet."""

    @abstractmethod
    def unpacked(self) -> pa.NativeFile:
        """Return a stream of the bytes, decompressed if the name ends in .gz."""

    def watched(self, stamp: Hashable = None) -> contextlib.AbstractContextManager[None]:
        """Raise LogError if the file is written again while the context reads it, or has been since it had that stamp.

        A local reader holds on to the file that it opened, and needs no watch.
        """
        return contextlib.nullcontext()

    def fault(self, error: Exception) -> LogError | None:
        """Return an error in plain words if the file could not be reached; None if its content is wrong."""
        return None


def first_line(error: Exception) -> str:
    """Return the first line of an error's message, for another message."""
    return str(error).splitlines()[0] if str(error) else type(error).__name__


def matches_pattern(names: Sequence[str], pattern: Sequence[str]) -> bool:
    """Say whether names of folders and a file fit a pattern; names with a dot in front only if the pattern has one."""
    names, pattern = tuple(names), tuple(pattern)

    @functools.cache
    def rest(at: int, of: int) -> bool:
        if of == len(pattern):
            return at == len(names)
        hidden = at < len(names) and names[at].startswith(".") and not pattern[of].startswith(".")
        if pattern[of] == "**":  # any number of folders, also none
            return rest(at, of + 1) or (at < len(names) and not hidden and rest(at + 1, of))
        return at < len(names) and not hidden and fnmatch.fnmatchcase(names[at], pattern[of]) and rest(at + 1, of + 1)

    return rest(0, 0)


def is_requested(match: Sequence[str], pattern: Sequence[str]) -> bool:
    """Say whether a match is meant: a name with an underscore in front is not, unless the pattern has it."""
    return not any(part.startswith("_") and part not in pattern for part in match) or pattern[-1].startswith("_")


@dataclass(frozen=True, slots=True)
class LocalFile(StoredFile):
    """A file on this machine. written: its path as the user wrote it; a slash at the end of a pattern counts."""

    path: Path
    written: str = field(default="", compare=False, repr=False)

    def __str__(self) -> str:
        return str(self.path)

    def __reduce__(self) -> tuple[type[LocalFile], tuple[Path, str]]:
        """Send the whole path: another process may be in another folder, with another file of this name."""
        return LocalFile, (self.path.absolute(), self.written)

    @property
    def name(self) -> str:
        """Return the name without its folders."""
        return self.path.name

    @property
    def local(self) -> Path | None:
        """Return the path."""
        return self.path

    def is_folder(self) -> bool:
        """Say whether it is a folder."""
        return self.path.is_dir()

    def is_pattern(self) -> bool:
        """Say whether it has wildcards and is no file."""
        return glob.has_magic(self.written or str(self.path)) and not self.path.exists()

    def require(self) -> None:
        """Raise LogError unless it is a file."""
        if self.path.is_dir():
            raise LogError(f"{self.path} is a folder; give the files in it")
        if not self.path.exists():
            raise LogError(f"{self.path} does not exist{_instead(self.path)}")

    def below(self) -> list[tuple[RelativePath, StoredFile]]:
        """Return all files in a folder."""
        paths: list[Path] = []
        for folder, folders, names in os.walk(self.path, followlinks=True):
            above = [Path(folder).resolve(), *Path(folder).resolve().parents]
            folders[:] = [
                name for name in folders if not name.startswith((".", "_")) and Path(folder, name).resolve() not in above
            ]
            paths += [Path(folder, name) for name in names if not name.startswith((".", "_"))]
        return [(path.relative_to(self.path).parts, LocalFile(path)) for path in sorted(paths)]

    def matches(self) -> list[StoredFile]:
        """Return the matches of a pattern."""
        paths = map(Path, glob.glob(self.written or str(self.path), recursive=True))
        return [LocalFile(path) for path in sorted(path for path in paths if is_requested(path.parts, self.path.parts))]

    def identity(self) -> Hashable:
        """Return the path without links."""
        return self.path.resolve()

    def stamp(self) -> Hashable:
        """Return path, size, time and inode."""
        stat = self.path.stat()
        return str(self.path), stat.st_size, stat.st_mtime_ns, stat.st_ino

    def open(self) -> BufferedIOBase:
        """Return the bytes."""
        return self.path.open("rb")

    def seekable(self) -> Any:
        """Return the path, which Arrow opens itself."""
        return self.path

    def unpacked(self) -> pa.NativeFile:
        """Return a stream."""
        return pa.input_stream(str(self.path), compression="gzip" if self.packed else None)


def _instead(missing: Path) -> str:
    """Return what to do about a file that is not there, for a message."""
    from aegis.logs.log_files import is_log

    folder, tables = missing.parent, []
    if not folder.is_dir():
        return f", nor does its folder {folder}; check the path"
    with contextlib.suppress(OSError):  # a folder that may not be listed
        tables = sorted(entry.name for entry in folder.iterdir() if is_log(entry.name))
    if tables:
        more = " ..." if tables[_SHOWN:] else ""
        return f"{did_you_mean(missing.name, tables)}; in that folder: {', '.join(tables[:_SHOWN])}{more}"
    return (
        f", and {folder.resolve()} has no table; check the path, or try things on a log that `aegis simulate --out log/` writes"
    )


def locate(path: str | Path | StoredFile) -> StoredFile:
    """Return where a path or an address such as `s3://bucket/key` leads; LogError, with nothing secret in it, if it is none."""
    if not isinstance(path, str | Path):
        return path
    if not _LIKE_ADDRESS.match(str(path)):
        return LocalFile(Path(path), str(path))
    from aegis.logs.object_store import locate_address

    return locate_address(str(path))


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
Item = TypeVar("Item")


@dataclass(frozen=True, slots=True)
class FileRange:
    """A row range of the file with this index."""

    file: int
    row_range: RowRange = WHOLE_FILE


def row_group_ranges(sizes: Sequence[int]) -> tuple[RowRange, ...]:
    """Return ranges of whole row groups, each with at least the rows of a chunk but the last, given the rows of each group."""
    ranges: list[RowRange] = []
    first = 1
    for groups, rows in _bundled(enumerate(sizes), CHUNK_ROWS):
        ranges.append(RowRange(tuple(groups), first, rows))
        first += rows
    return tuple(ranges) or (RowRange((), 1, 0),)


def bundle_ranges(ranges: Iterable[tuple[FileRange, int]], total: int) -> list[tuple[FileRange, ...]]:
    """Return chunks: ranges, each with its number of rows, joined in their order until there are enough rows."""
    return [tuple(bundle) for bundle, _ in _bundled(ranges, max(CHUNK_ROWS, -(-total // MOST_CHUNKS)))]


def _bundled(items: Iterable[tuple[Item, int]], enough: int) -> Iterator[tuple[list[Item], int]]:
    """Yield items, each with its number of rows, together until there are enough rows, and these rows."""
    bundle: list[Item] = []
    rows = 0
    for item, count in items:
        bundle.append(item)
        rows += count
        if rows >= enough:
            yield bundle, rows
            bundle, rows = [], 0
    if bundle:
        yield bundle, rows


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
