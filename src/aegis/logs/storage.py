"""Stored files: the base class StoredFile (a file, folder or pattern, here or in an object store), wildcards, and local files."""

from __future__ import annotations

import contextlib
import fnmatch
import functools
import glob
from abc import ABC, abstractmethod
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass, field
from io import BufferedIOBase
from pathlib import Path
from typing import Any

import pyarrow as pa

from aegis.errors import LogError, did_you_mean

RelativePath = tuple[str, ...]  # names that lead from a folder to a file
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
        return [(path.relative_to(self.path).parts, LocalFile(path)) for path in sorted(_walk(self.path, set()))]

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
