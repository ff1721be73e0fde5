"""The protocol StoredFile (a file, folder or pattern, local or in an object store), wildcards, and local files."""

from __future__ import annotations

import contextlib
import fnmatch
import functools
import glob
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass, field
from io import BufferedIOBase
from pathlib import Path
from typing import Any, Protocol

import pyarrow as pa

from aegis.errors import LogError, did_you_mean

RelativePath = tuple[str, ...]  # names that lead from a folder to a file


class StoredFile(Protocol):
    """A file, a folder or a pattern of files; `str` is what messages call it, without anything secret."""

    @property
    def name(self) -> str:
        """Return the name without its folders."""
        ...

    @property
    def local(self) -> Path | None:
        """Return the path of a file on this machine, None for all others."""
        ...

    def __hash__(self) -> int: ...

    def is_folder(self) -> bool:
        """Say whether it is a folder, of which all files below are meant."""
        ...

    def is_pattern(self) -> bool:
        """Say whether it is no file of that name, but has wildcards in it."""
        ...

    def require(self) -> None:
        """Raise LogError if it is known to be no file, without asking far away: opening it tells as well."""
        ...

    def below(self) -> list[tuple[RelativePath, StoredFile]]:
        """Return all files in a folder and the folders in it, with the names that lead there, sorted by path.

        What starts with a dot or an underscore is left out.
        """
        ...

    def matches(self) -> list[StoredFile]:
        """Return what fits a pattern, sorted by path; as in folders, what starts with an underscore only if the pattern does."""
        ...

    def identity(self) -> Hashable:
        """Return what is the same for two ways of naming one file."""
        ...

    def stamp(self) -> Hashable:
        """Return what changes if the file is written again."""
        ...

    def open(self) -> BufferedIOBase:
        """Return the bytes from the first on."""
        ...

    def seekable(self) -> Any:
        """Return what Arrow's reader of Parquet takes."""
        ...

    def unpacked(self) -> Any:
        """Return what Arrow's reader of text takes, which unpacks what ends in .gz."""
        ...

    def watched(self, stamp: Hashable = None) -> contextlib.AbstractContextManager[None]:
        """Watch over what is inside, which reads: raise LogError if somebody wrote meanwhile, or since it had that stamp.

        Only where a reader would not notice: on this machine it holds on to the file that it opened.
        """
        ...

    def fault(self, error: Exception) -> LogError | None:
        """Return what went wrong in reaching the file, in words; None if it was reached and its content is what is wrong."""
        ...


ANY_FOLDERS = "**"  # any number of folders, also none


def has_wildcards(text: str) -> bool:
    """Say whether a text has wildcards."""
    return glob.has_magic(text)


def split_pattern(path: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the names before the first one with wildcards, and the names from there on."""
    names = path.split("/")
    first = next((place for place, name in enumerate(names) if has_wildcards(name)), len(names))
    return tuple(names[:first]), tuple(names[first:])


def matches_pattern(names: Sequence[str], pattern: Sequence[str]) -> bool:
    """Say whether names of folders and a file fit a pattern; what starts with a dot only if the pattern does."""
    names, pattern = tuple(names), tuple(pattern)

    @functools.cache
    def rest(at: int, of: int) -> bool:
        if of == len(pattern):
            return at == len(names)
        if pattern[of] == ANY_FOLDERS:
            more = at < len(names) and not names[at].startswith(".")
            return rest(at, of + 1) or (more and rest(at + 1, of))
        return at < len(names) and _matches_name(names[at], pattern[of]) and rest(at + 1, of + 1)

    return rest(0, 0)


def is_requested(match: Sequence[str], pattern: Sequence[str]) -> bool:
    """Say whether a match is meant: as in folders, what starts with an underscore is not, unless the pattern says it."""
    return not any(part.startswith("_") and part not in pattern for part in match) or pattern[-1].startswith("_")


def _matches_name(name: str, pattern: str) -> bool:
    if name.startswith(".") and not pattern.startswith("."):
        return False
    return fnmatch.fnmatchcase(name, pattern)


_SHOWN = 5  # so many files that may be meant instead are named


@dataclass(frozen=True, slots=True)
class LocalFile:
    """A file on this machine. written: the text it was given as, where a slash at the end of a pattern says something."""

    path: Path
    written: str = field(default="", compare=False, repr=False)

    def __str__(self) -> str:
        return str(self.path)

    def __reduce__(self) -> tuple[type[LocalFile], tuple[Path, str]]:
        """Send the whole path: another process may be in another folder, with another file of this name."""
        return LocalFile, (self.path.absolute(), self.written)

    @property
    def name(self) -> str:
        """Return the name without its folders; see Stored."""
        return self.path.name

    @property
    def local(self) -> Path | None:
        """Return the path; see Stored."""
        return self.path

    def is_folder(self) -> bool:
        """Say whether it is a folder; see Stored."""
        return self.path.is_dir()

    def is_pattern(self) -> bool:
        """Say whether it has wildcards and is no file; see Stored."""
        return glob.has_magic(self.written or str(self.path)) and not self.path.exists()

    def require(self) -> None:
        """Raise LogError unless it is a file; see Stored."""
        if self.path.is_dir():
            raise LogError(f"{self.path} is a folder; give the files in it")
        if not self.path.exists():
            raise LogError(f"{self.path} does not exist{_instead(self.path)}")

    def below(self) -> list[tuple[RelativePath, StoredFile]]:
        """Return all files in a folder; see Stored."""
        return [(path.relative_to(self.path).parts, LocalFile(path)) for path in sorted(_walk(self.path, set()))]

    def matches(self) -> list[StoredFile]:
        """Return what fits a pattern; see Stored."""
        found = map(Path, glob.glob(self.written or str(self.path), recursive=True))
        return [LocalFile(path) for path in sorted(path for path in found if is_requested(path.parts, self.path.parts))]

    def identity(self) -> Hashable:
        """Return the path without links; see Stored."""
        return self.path.resolve()

    def stamp(self) -> Hashable:
        """Return path, size, time and inode; see Stored."""
        stat = self.path.stat()
        return str(self.path), stat.st_size, stat.st_mtime_ns, stat.st_ino

    def open(self) -> BufferedIOBase:
        """Return the bytes; see Stored."""
        return self.path.open("rb")

    def seekable(self) -> Any:
        """Return the path, which Arrow opens itself; see Stored."""
        return self.path

    def unpacked(self) -> Any:
        """Return the path, of which Arrow looks at the ending; but it knows .gz only in small letters; see Stored."""
        known = self.path.suffix.lower() != ".gz" or self.path.suffix == ".gz"
        return self.path if known else pa.input_stream(str(self.path), compression="gzip")

    def watched(self, stamp: Hashable = None) -> contextlib.AbstractContextManager[None]:
        """Watch over nothing; see Stored."""
        return contextlib.nullcontext()

    def fault(self, error: Exception) -> LogError | None:
        """Return None: a file here is reached or it is not there; see Stored."""
        return None


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
