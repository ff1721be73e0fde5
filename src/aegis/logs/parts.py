"""The parts of a log: from files, folders, patterns and frames as they were given to one list in a fixed order."""

from __future__ import annotations

import glob
import hashlib
import os
from collections.abc import Iterable, Iterator, Sequence
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

# A path, a folder, a pattern such as `logs/*.csv`, or a frame.
Given = Any
Keys = tuple[tuple[str, str | None], ...]


@dataclass(frozen=True, slots=True)
class Part:
    """One part of a log: a file with what the folders above it say (`day=7`), or a table in memory."""

    path: Path | None
    keys: Keys = ()
    number: int = 0
    table: pa.Table | None = field(default=None, repr=False)

    def __str__(self) -> str:
        return self.name if self.path is None else str(self.path)

    @property
    def name(self) -> str:
        """Return the name of the file without its folders, or `frame 1`."""
        return f"frame {self.number}" if self.path is None else self.path.name

    def open(self) -> LogFile:
        """Return the part, ready to be read; raises LogError if it cannot be."""
        if self.path is None:
            return FrameLog(self.name, self.table)
        file = open_log(self.path)
        return KeyedLog.of(file, dict(self.keys)) if self.keys else file

    def stamp(self) -> object:
        """Return what changes if the file is written again."""
        if self.path is None:
            return id(self.table)
        stat = self.path.stat()
        return str(self.path), self.keys, stat.st_size, stat.st_mtime_ns, stat.st_ino

    def digest(self) -> bytes:
        """Return a digest of the content; raises LogError if it cannot be read."""
        if self.path is None:
            return frame_digest(self.table)
        try:
            with self.path.open("rb") as file:
                content = hashlib.file_digest(file, "sha256").digest()
        except OSError as error:
            raise LogError(f"{self.path} cannot be read: {error.strerror or error}") from error
        # What folders say belongs to the content; a file that has no such folders keeps the digest of its bytes.
        return hashlib.sha256(content + repr(self.keys).encode()).digest() if self.keys else content


def taken_in(given: Given | Sequence[Given]) -> tuple[str | Path | Part, ...]:
    """Return what was given as a tuple, frames as parts (they can be streams, which are read but once), paths as they are.

    Raises LogError for anything that is neither.
    """
    single = isinstance(given, str | os.PathLike | Part) or is_frame(given) or not isinstance(given, Iterable)
    found: list[str | Path | Part] = []
    for number, item in enumerate([given] if single else given, start=1):
        if isinstance(item, str | Path | Part):
            found.append(item)
        elif isinstance(item, os.PathLike):
            found.append(Path(item))
        elif is_frame(item):
            found.append(Part(None, (), number, as_table(item, f"frame {number}")))
        else:
            raise LogError(
                f"a log is given as files, folders, patterns like 'logs/*.csv', or as data frames; found {type(item).__name__}"
            )
    return tuple(found)


def parts_of(given: Sequence[str | Path | Part]) -> tuple[Part, ...]:
    """Return the parts of a log in the order given; those of a folder or a pattern sorted by path.

    Raises LogError if there are none, if a pattern or a folder holds none, or if a file comes twice.
    """
    found = [part for item in given for part in _parts(item)]
    if not found:
        raise LogError("no log was given; name at least one file")
    seen: dict[Path, Part] = {}
    for part in found:
        if part.path is not None and seen.setdefault(part.path.resolve(), part) is not part:
            raise LogError(f"{part} is given twice; its rows would be counted twice: give each file once")
    return tuple(found)


def open_logs(given: Given | Sequence[Given]) -> tuple[LogFile, ...]:
    """Return all parts of a log, given as `Source` takes it, ready to be read; raises LogError if one cannot be."""
    return tuple(part.open() for part in parts_of(taken_in(given)))


def _parts(item: str | Path | Part) -> Iterator[Part]:
    if isinstance(item, Part):
        yield item
        return
    path = Path(item)
    if path.is_dir():
        yield from _in_folder(path)
    elif glob.has_magic(str(item)) and not path.exists():
        matches = sorted(match for match in map(Path, glob.glob(str(item), recursive=True)) if _asked_for(match, path))
        if not matches:
            raise LogError(f"no file matches '{item}'; check the folder and the pattern")
        for match in matches:
            yield from _in_folder(match) if match.is_dir() else [Part(match)]
    else:
        yield Part(path)


def _asked_for(match: Path, pattern: Path) -> bool:
    """Say whether a match is meant: as in folders, what starts with an underscore is not, unless the pattern says it."""
    return not any(part.startswith("_") and part not in pattern.parts for part in match.parts) or pattern.name.startswith("_")


def _in_folder(folder: Path) -> Iterator[Part]:
    """Yield the logs in a folder and the folders in it; what starts with a dot or an underscore is not a log."""
    paths = sorted(_walk(folder, set()))
    logs = [path for path in paths if is_log(path)]
    if not logs:
        others = f"; it has {', '.join(path.name for path in paths[:3])}" if paths else ""
        raise LogError(f"{folder}: no file in this folder ends in {', '.join(FORMATS)}{others}")
    for path in logs:
        yield Part(path, _keys(path.relative_to(folder).parts[:-1]))


def _walk(folder: Path, above: set[Path]) -> Iterator[Path]:
    here = folder.resolve()
    if here in above:
        return  # a link to a folder around it
    for entry in folder.iterdir():
        if entry.name.startswith((".", "_")):
            continue
        if entry.is_dir():
            yield from _walk(entry, above | {here})
        else:
            yield entry


def _keys(folders: Sequence[str]) -> Keys:
    """Return what folders like `day=7` say, as Hive and its heirs write it."""
    pairs = [folder.partition("=") for folder in folders]
    return tuple(
        (unquote(key), None if value == "__HIVE_DEFAULT_PARTITION__" else unquote(value))
        for key, mark, value in pairs
        if mark and key
    )
