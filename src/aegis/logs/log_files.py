"""The files of a log: from paths, folders, patterns and frames to one list in a fixed order, each opened by its format.

Also the columns that a file does not hold itself (of folders like `day=7`, and row numbers) and digests of the content.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path, PurePath
from typing import Any
from urllib.parse import unquote

import numpy as np
import pyarrow as pa

from aegis.engine import usable_cores
from aegis.errors import LogError
from aegis.logs.column_values import TEXT_TYPE, can_parse
from aegis.logs.formats.base import WHOLE_FILE, LocalFile, LogFile, RowRange, StoredFile, locate
from aegis.logs.formats.csv import TextLog
from aegis.logs.formats.frames import FrameLog, as_table, frame_digest, is_frame
from aegis.logs.formats.parquet import ParquetLog

FORMATS: dict[str, type[ParquetLog] | type[TextLog]] = {
    ".parquet": ParquetLog,
    ".pq": ParquetLog,
    ".csv": TextLog,
    ".tsv": TextLog,
    ".txt": TextLog,
    ".csv.gz": TextLog,
    ".tsv.gz": TextLog,
    ".txt.gz": TextLog,
}


def is_log(name: str) -> bool:
    """Say whether the name of a file ends like that of a log."""
    return _ending(name) is not None


def open_log(place: StoredFile) -> LogFile:
    """Return the file as a log of the format its name ends in; raises LogError if it cannot be one."""
    place.require()
    ending = _ending(place.name)
    if ending is None:
        place.stamp()  # raises if the address leads to nothing
        suffix = PurePath(place.name).suffix
        raise LogError(f"{place}: a log ends in {', '.join(FORMATS)}; found '{suffix}'. Save it as one of these")
    return FORMATS[ending].open(place)


def _ending(name: str) -> str | None:
    name = name.lower()
    return next((ending for ending in FORMATS if name.endswith(ending) and name != ending), None)


ROW_COLUMN = "row"  # an episode id of this name counts rows, unless the log has such a column
_FILE = 10**12  # more than the rows of a file: rows of the second file are counted from here


@dataclass(frozen=True, slots=True, kw_only=True)
class ExtendedLog(LogFile):
    """A file with columns that it does not hold itself. added: their values by name, of rows from a first one on."""

    file: LogFile
    added: Mapping[str, Callable[[int, int], pa.Array]]

    @classmethod
    def of(cls, file: LogFile, added: Mapping[str, Callable[[int, int], pa.Array]]) -> ExtendedLog:
        """Return the file with further columns."""
        types = None if file.types is None else {**file.types, **{name: values(1, 0).type for name, values in added.items()}}
        names = (*file.names, *added)
        return cls(name=file.name, names=names, types=types, decimals=file.decimals, dialect=file.dialect, file=file, added=added)

    def row_ranges(self) -> tuple[RowRange, ...]:
        """Return those of the file."""
        return self.file.row_ranges()

    def blocks(
        self, columns: Sequence[str], rows: int, repeated: Sequence[str] = (), row_range: RowRange = WHOLE_FILE
    ) -> Iterator[pa.Table]:
        """Yield blocks of rows."""
        own = [name for name in columns if name not in self.added]
        first = row_range.first
        for table in self.file.blocks(own, rows, [name for name in repeated if name in own], row_range):
            added = {name: values(first, table.num_rows) for name, values in self.added.items() if name in columns}
            if self.types is None:
                added = {name: values.cast(TEXT_TYPE) for name, values in added.items()}
            yield pa.table({name: added[name] if name in added else table[name] for name in columns or table.column_names})
            first += table.num_rows


def with_row_numbers(files: Sequence[LogFile], episode: Iterable[str]) -> tuple[LogFile, ...]:
    """Return the files, with numbered rows if the episode is the row and no file has a column of that name."""
    if tuple(episode) != (ROW_COLUMN,) or any(ROW_COLUMN in file.names for file in files):
        return tuple(files)
    return tuple(ExtendedLog.of(file, {ROW_COLUMN: partial(_row_numbers, index)}) for index, file in enumerate(files))


def _row_numbers(file: int, first: int, count: int) -> pa.Array:
    """Return the numbers of rows, different in each file of a log."""
    start = file * _FILE + first
    return pa.array(np.arange(start, start + count))


def _repeated(value: str | None, first: int, count: int) -> pa.Array:
    """Return what a folder says of each row: whole numbers where it looks like it, else text."""
    if value is None:
        return pa.nulls(count, TEXT_TYPE)
    whole = can_parse(pa.array([value], TEXT_TYPE), pa.int64())
    return pa.repeat(pa.scalar(int(value)) if whole else pa.scalar(value, TEXT_TYPE), count)


# A path, a folder, a pattern such as `logs/*.csv`, an address such as `s3://bucket/key`, or a frame.
LogInput = Any
PartitionKeys = tuple[tuple[str, str | None], ...]


@dataclass(frozen=True, slots=True)
class LogPart:
    """One part of a log: a file with what the folders above it say (`day=7`), or a table in memory."""

    place: StoredFile | None
    keys: PartitionKeys = ()
    number: int = 0
    table: pa.Table | None = field(default=None, repr=False)

    def __str__(self) -> str:
        return self.name if self.place is None else str(self.place)

    @property
    def name(self) -> str:
        """Return the name of the file without its folders, or `frame 1`."""
        return f"frame {self.number}" if self.place is None else self.place.name

    @property
    def path(self) -> Path | None:
        """Return the path of a file on this machine; None for objects in a store and tables in memory."""
        return None if self.place is None else self.place.local

    def open(self) -> LogFile:
        """Return the part, ready to be read; raises LogError if it cannot be."""
        if self.place is None:
            return FrameLog.of(self.name, self.table)
        file = open_log(self.place)
        added = {key: partial(_repeated, value) for key, value in self.keys if key not in file.names}
        return ExtendedLog.of(file, added) if added else file

    def stamp(self) -> object:
        """Return what changes if the file is written again."""
        return id(self.table) if self.place is None else (self.place.stamp(), self.keys)

    def digest(self) -> bytes:
        """Return a digest of the content; raises LogError if it cannot be read."""
        if self.place is None:
            return frame_digest(self.table)
        try:
            with self.place.watched(), self.place.open() as file:
                content = hashlib.file_digest(file, "sha256").digest()
        except OSError as error:
            raise self.place.fault(error) or LogError(f"{self.place} cannot be read: {error.strerror or error}") from error
        # What folders say belongs to the content; a file that has no such folders keeps the digest of its bytes.
        return hashlib.sha256(content + repr(self.keys).encode()).digest() if self.keys else content


def normalise_inputs(inputs: LogInput | Sequence[LogInput]) -> tuple[str | Path | StoredFile | LogPart, ...]:
    """Return the inputs as a tuple: paths as they are, addresses taken apart, so that their secrets are not shown from here on,
    frames as parts, because streams are read but once.

    Raises LogError for anything else.
    """
    several = isinstance(inputs, list | tuple) or (isinstance(inputs, Iterable) and not _is_single(inputs))
    items: list[str | Path | StoredFile | LogPart] = []
    for number, item in enumerate(inputs if several else [inputs], start=1):
        if isinstance(item, str | os.PathLike):
            path = item if isinstance(item, str | Path) else Path(item)
            place = locate(path)
            items.append(path if isinstance(place, LocalFile) else place)
        elif isinstance(item, LogPart | StoredFile):
            items.append(item)
        elif is_frame(item):
            items.append(LogPart(None, (), number, as_table(item, f"frame {number}")))
        else:
            raise LogError(
                f"a log is given as files, folders, patterns like 'logs/*.csv', or as data frames; found {type(item).__name__}"
            )
    return tuple(items)


def _is_single(value: object) -> bool:
    return isinstance(value, str | os.PathLike | LogPart | StoredFile) or is_frame(value)


def resolve_parts(items: Sequence[str | Path | StoredFile | LogPart]) -> tuple[LogPart, ...]:
    """Return the parts of a log in the order given; those of a folder or a pattern sorted by path.

    Raises LogError if there are none, if a pattern or a folder holds none, or if a file comes twice.
    """
    parts = [part for item in items for part in _parts(item)]
    if not parts:
        raise LogError("no log was given; name at least one file")
    known: dict[Hashable, LogPart] = {}
    for part in parts:
        if part.place is not None and known.setdefault(part.place.identity(), part) is not part:
            raise LogError(f"{part} is given twice; its rows would be counted twice: give each file once")
    return tuple(parts)


def _parts(item: str | Path | StoredFile | LogPart) -> Iterator[LogPart]:
    if isinstance(item, LogPart):
        yield item
        return
    place = locate(item)
    if place.is_folder():
        yield from _in_folder(place)
    elif place.is_pattern():
        matches = place.matches()
        if not matches:
            raise LogError(f"no file matches '{item}'; check the folder and the pattern")
        for match in matches:
            yield from _in_folder(match) if match.is_folder() else [LogPart(match)]
    else:
        yield LogPart(place)


def _in_folder(folder: StoredFile) -> Iterator[LogPart]:
    """Yield the logs in a folder and the folders in it; what starts with a dot or an underscore is not a log."""
    files = folder.below()
    logs = [(names, place) for names, place in files if is_log(place.name)]
    if not logs:
        others = f"; it has {', '.join(place.name for _, place in files[:3])}" if files else ""
        raise LogError(f"{folder}: no file in this folder ends in {', '.join(FORMATS)}{others}")
    for names, place in logs:
        yield LogPart(place, _keys(names[:-1]))


def _keys(folders: Sequence[str]) -> PartitionKeys:
    """Return what folders like `day=7` say, as Hive and its heirs write it."""
    pairs = [folder.partition("=") for folder in folders]
    return tuple(
        (unquote(key), None if value == "__HIVE_DEFAULT_PARTITION__" else unquote(value))
        for key, mark, value in pairs
        if mark and key
    )


def log_digest(paths: LogInput | Sequence[LogInput]) -> str:
    """Return a digest of the contents of files, folders, patterns and frames, in the order given; names do not matter.

    The values of folders like `day=7` do. Frames are digested by their values, not by their chunks. Raises LogError if a file
    cannot be read.
    """
    return total_digest(part_digests(resolve_parts(normalise_inputs(paths)))).hex()


def part_digests(parts: Sequence[LogPart]) -> list[bytes]:
    """Return the digest of each part, several at a time; raises the LogError of the first that cannot be read."""
    if len(parts) <= 1:
        return [part.digest() for part in parts]
    with ThreadPoolExecutor(usable_cores(), thread_name_prefix="aegis-digest") as pool:
        return list(pool.map(LogPart.digest, parts))


def total_digest(digests: Sequence[bytes]) -> bytes:
    """Return the digest of all parts from those of each, in their order."""
    return hashlib.sha256(b"".join(digests)).digest()
