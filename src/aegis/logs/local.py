"""Files, folders and patterns on this machine."""

from __future__ import annotations

import contextlib
import glob
from collections.abc import Hashable, Iterator
from dataclasses import dataclass, field
from io import BufferedIOBase
from pathlib import Path
from typing import Any

import pyarrow as pa

from aegis.errors import LogError, nearest
from aegis.logs.stored import Relative, Stored
from aegis.logs.wildcards import asked_for

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

    def below(self) -> list[tuple[Relative, Stored]]:
        """Return all files in a folder; see Stored."""
        return [(path.relative_to(self.path).parts, LocalFile(path)) for path in sorted(_walk(self.path, set()))]

    def matches(self) -> list[Stored]:
        """Return what fits a pattern; see Stored."""
        found = map(Path, glob.glob(self.written or str(self.path), recursive=True))
        return [LocalFile(path) for path in sorted(path for path in found if asked_for(path.parts, self.path.parts))]

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
    from aegis.logs.formats import is_log

    folder, tables = missing.parent, []
    if not folder.is_dir():
        return f", nor does its folder {folder}; check the path"
    with contextlib.suppress(OSError):  # a folder that may not be listed
        tables = sorted(entry.name for entry in folder.iterdir() if is_log(entry.name))
    if tables:
        return f"{nearest(missing.name, tables)}; in that folder: {', '.join(tables[:_SHOWN])}{' ...' if tables[_SHOWN:] else ''}"
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
