"""Where the bytes of a log are: in a file here or in an object store. Readers see this alone and need not know which."""

from __future__ import annotations

import contextlib
from collections.abc import Hashable
from io import BufferedIOBase
from pathlib import Path
from typing import Any, Protocol

from aegis.errors import LogError

Relative = tuple[str, ...]  # names that lead from a folder to a file


class Stored(Protocol):
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

    def below(self) -> list[tuple[Relative, Stored]]:
        """Return all files in a folder and the folders in it, with the names that lead there, sorted by path.

        What starts with a dot or an underscore is left out.
        """
        ...

    def matches(self) -> list[Stored]:
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
