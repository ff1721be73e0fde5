"""A file, a folder or a pattern of files in an object store, through Arrow's file systems."""

from __future__ import annotations

import contextlib
from collections.abc import Hashable, Iterator
from dataclasses import dataclass
from io import BufferedIOBase
from pathlib import Path
from typing import Any, cast

import pyarrow as pa
import pyarrow.fs

from aegis.errors import LogError
from aegis.logs.address import Address
from aegis.logs.faults import fault
from aegis.logs.filesystems import filesystem
from aegis.logs.stored import Relative, Stored
from aegis.logs.wildcards import asked_for, fits, has_wildcards, split_pattern

_BUFFER = 8 << 20  # bytes asked for at a time where a file is read from its first byte to its last
# What a store says of the version of an object, under the names that stores have for it.
_VERSIONS = ("etag", "generation", "last-modified")
_UNREACHED = (pa.ArrowException, OSError)


@dataclass(frozen=True, slots=True)
class RemoteFile:
    """What an address leads to; see Stored."""

    address: Address

    def __str__(self) -> str:
        return str(self.address)

    @property
    def name(self) -> str:
        """Return the name without its folders; see Stored."""
        return self.address.path.rpartition("/")[2] or self.address.bucket

    @property
    def local(self) -> Path | None:
        """Return None: it is not on this machine; see Stored."""
        return None

    def is_folder(self) -> bool:
        """Say whether objects are below it; see Stored."""
        return self._kind() == pa.fs.FileType.Directory

    def is_pattern(self) -> bool:
        """Say whether it has wildcards and is no object; see Stored."""
        return has_wildcards(self.address.path) and self._kind() == pa.fs.FileType.NotFound

    def require(self) -> None:
        """Ask nothing: opening the object tells; see Stored."""

    def below(self) -> list[tuple[Relative, Stored]]:
        """Return all objects below a folder; see Stored."""
        found = [(names, item) for names, item, folder in self._listed(self.address.path, recursive=True) if not folder]
        return [(names, item) for names, item in found if not any(name.startswith((".", "_")) for name in names)]

    def matches(self) -> list[Stored]:
        """Return what fits a pattern; see Stored."""
        before, pattern = split_pattern(self.address.path)
        # One listing of all that is below takes fewer requests than one for each folder.
        found = self._listed("/".join(before), recursive=len(pattern) > 1 or pattern == ("**",))
        asked = tuple(self.address.path.split("/"))
        return [item for names, item, _ in found if fits(names, pattern) and asked_for((*before, *names), asked)]

    def identity(self) -> Hashable:
        """Return the address without user and options; see Stored."""
        return str(self.address)

    def stamp(self) -> Hashable:
        """Return size and version as the store tells them; see Stored."""
        with self._reached() as (files, path), files.open_input_file(path) as handle:
            said = {name.lower(): value for name, value in (handle.metadata() or {}).items()}
            versions = tuple(said[name] for name in _VERSIONS if name in said)
            return str(self.address), handle.size(), versions or (files.get_file_info(path).mtime_ns,)

    def open(self) -> BufferedIOBase:
        """Return the bytes; see Stored."""
        with self._reached() as (files, path):
            return cast(BufferedIOBase, files.open_input_stream(path, compression=None, buffer_size=_BUFFER))

    def seekable(self) -> Any:
        """Return a handle; see Stored."""
        with self._reached() as (files, path):
            return files.open_input_file(path)

    def unpacked(self) -> Any:
        """Return a stream; see Stored."""
        packed = "gzip" if self.name.lower().endswith(".gz") else None
        with self._reached() as (files, path):
            return files.open_input_stream(path, compression=packed, buffer_size=_BUFFER)

    @contextlib.contextmanager
    def watched(self, stamp: Hashable = None) -> Iterator[None]:
        """Watch over the version of the object: each request gets the one of its moment; see Stored."""
        before = self.stamp()
        if stamp is not None and before != stamp:
            raise self._changed()
        try:
            yield
        except Exception as error:
            # Pieces of two versions look like a damaged file, to each reader in another way.
            if self._is_other_than(before):
                raise self._changed() from error
            raise
        if self.stamp() != before:
            raise self._changed()

    def fault(self, error: Exception) -> LogError | None:
        """Return what went wrong in reaching the object; see Stored."""
        return fault(self.address, error)

    def _kind(self) -> Any:
        with self._reached() as (files, path):
            return files.get_file_info(path).type

    def _listed(self, folder: str, recursive: bool) -> list[tuple[Relative, RemoteFile, bool]]:
        """Return what is in a folder, by the names that lead there, sorted by them, and whether it is a folder itself."""
        with RemoteFile(self.address.at(folder))._reached() as (files, base):
            infos = files.get_file_info(pa.fs.FileSelector(base, allow_not_found=True, recursive=recursive))
        found = []
        for info in infos:
            names = tuple(info.path[len(base) :].strip("/").split("/"))
            place = RemoteFile(self.address.at("/".join(filter(None, (folder, *names)))))
            found.append((names, place, info.type == pa.fs.FileType.Directory))
        return sorted(found, key=lambda entry: entry[0])

    @contextlib.contextmanager
    def _reached(self) -> Iterator[tuple[Any, str]]:
        """Yield the file system and what it calls this place; what goes wrong becomes a LogError."""
        files, base = filesystem(self.address)
        path = f"{base.rstrip('/')}/{self.address.path}" if base else self.address.path
        try:
            yield files, path.rstrip("/") or "/"
        except _UNREACHED as error:
            said = str(error).splitlines()[0] if str(error) else type(error).__name__
            raise self.fault(error) or LogError(f"{self} cannot be read: {said}") from error

    def _is_other_than(self, stamp: Hashable) -> bool:
        try:
            return self.stamp() != stamp
        except LogError:
            return False  # what went wrong first is what is to be said

    def _changed(self) -> LogError:
        return LogError(f"{self} was written again while it was read; start again once nobody writes to it")
