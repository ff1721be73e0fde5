"""The parts of a log: from files, folders, patterns and frames as they were given to one list in a fixed order."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pyarrow as pa

from aegis.errors import LogError
from aegis.logs.blocks import LogFile
from aegis.logs.formats import FORMATS, is_log, open_log
from aegis.logs.frames import FrameLog, as_table, frame_digest, is_frame
from aegis.logs.keyed_log import KeyedLog
from aegis.logs.local import LocalFile
from aegis.logs.places import stored
from aegis.logs.remote import RemoteFile
from aegis.logs.stored import Stored

# A path, a folder, a pattern such as `logs/*.csv`, an address such as `s3://bucket/key`, or a frame.
Given = Any
Keys = tuple[tuple[str, str | None], ...]


@dataclass(frozen=True, slots=True)
class Part:
    """One part of a log: a file with what the folders above it say (`day=7`), or a table in memory."""

    place: Stored | None
    keys: Keys = ()
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
            return FrameLog(self.name, self.table)
        file = open_log(self.place)
        return KeyedLog.of(file, dict(self.keys)) if self.keys else file

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
            said = self.place.fault(error) or LogError(f"{self.place} cannot be read: {error.strerror or error}")
            raise said from error
        # What folders say belongs to the content; a file that has no such folders keeps the digest of its bytes.
        return hashlib.sha256(content + repr(self.keys).encode()).digest() if self.keys else content


_SINGLE = (str, os.PathLike, Part, LocalFile, RemoteFile)


def taken_in(given: Given | Sequence[Given]) -> tuple[str | Path | Stored | Part, ...]:
    """Return what was given as a tuple: paths as they are, addresses taken apart (what is secret in them is not shown from here
    on), frames as parts (they can be streams, which are read but once).

    Raises LogError for anything else.
    """
    single = isinstance(given, _SINGLE) or is_frame(given) or not isinstance(given, Iterable)
    found: list[str | Path | Stored | Part] = []
    for number, item in enumerate([given] if single else given, start=1):
        if isinstance(item, str | os.PathLike):
            path = item if isinstance(item, str | Path) else Path(item)
            place = stored(path)
            found.append(path if isinstance(place, LocalFile) else place)
        elif isinstance(item, Part | LocalFile | RemoteFile):
            found.append(item)
        elif is_frame(item):
            found.append(Part(None, (), number, as_table(item, f"frame {number}")))
        else:
            raise LogError(
                f"a log is given as files, folders, patterns like 'logs/*.csv', or as data frames; found {type(item).__name__}"
            )
    return tuple(found)


def parts_of(given: Sequence[str | Path | Stored | Part]) -> tuple[Part, ...]:
    """Return the parts of a log in the order given; those of a folder or a pattern sorted by path.

    Raises LogError if there are none, if a pattern or a folder holds none, or if a file comes twice.
    """
    found = [part for item in given for part in _parts(item)]
    if not found:
        raise LogError("no log was given; name at least one file")
    seen: dict[Hashable, Part] = {}
    for part in found:
        if part.place is not None and seen.setdefault(part.place.identity(), part) is not part:
            raise LogError(f"{part} is given twice; its rows would be counted twice: give each file once")
    return tuple(found)


def open_logs(given: Given | Sequence[Given]) -> tuple[LogFile, ...]:
    """Return all parts of a log, given as `Source` takes it, ready to be read; raises LogError if one cannot be."""
    return tuple(part.open() for part in parts_of(taken_in(given)))


def _parts(item: str | Path | Stored | Part) -> Iterator[Part]:
    if isinstance(item, Part):
        yield item
        return
    place = stored(item)
    if place.is_folder():
        yield from _in_folder(place)
    elif place.is_pattern():
        matches = place.matches()
        if not matches:
            raise LogError(f"no file matches '{item}'; check the folder and the pattern")
        for match in matches:
            yield from _in_folder(match) if match.is_folder() else [Part(match)]
    else:
        yield Part(place)


def _in_folder(folder: Stored) -> Iterator[Part]:
    """Yield the logs in a folder and the folders in it; what starts with a dot or an underscore is not a log."""
    found = folder.below()
    logs = [(names, place) for names, place in found if is_log(place.name)]
    if not logs:
        others = f"; it has {', '.join(place.name for _, place in found[:3])}" if found else ""
        raise LogError(f"{folder}: no file in this folder ends in {', '.join(FORMATS)}{others}")
    for names, place in logs:
        yield Part(place, _keys(names[:-1]))


def _keys(folders: Sequence[str]) -> Keys:
    """Return what folders like `day=7` say, as Hive and its heirs write it."""
    pairs = [folder.partition("=") for folder in folders]
    return tuple(
        (unquote(key), None if value == "__HIVE_DEFAULT_PARTITION__" else unquote(value))
        for key, mark, value in pairs
        if mark and key
    )
