"""Writing files so that a reader never sees half of one: write aside, flush, rename."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

from aegis.errors import OutputError


@contextlib.contextmanager
def written_aside(path: str | Path) -> Iterator[Path]:
    """Yield a temporary path beside `path`; on success it takes `path`'s place, on any error it is removed.

    Raises OutputError, with what the system said, if the place cannot be written or the disk is full.
    """
    target = Path(path)
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(prefix=f".{target.name}.", suffix=".part", dir=target.parent)
        os.close(handle)
    except OSError as error:
        raise OutputError(f"cannot write {target}: {error.strerror or error}") from error
    aside = Path(name)
    try:
        aside.chmod(0o666 & ~_umask())
        yield aside
        with aside.open("rb+") as file:
            os.fsync(file.fileno())
        os.replace(aside, target)
        _sync_folder(target.parent)
    except OSError as error:
        raise OutputError(f"cannot write {target}: {error.strerror or error}") from error
    finally:
        aside.unlink(missing_ok=True)


def write_text(path: str | Path, text: str) -> None:
    """Write a text file in one step."""
    with written_aside(path) as aside:
        aside.write_text(text, encoding="utf-8", newline="\n")  # the same bytes, and digest, on every system


def digest_of(value: object) -> str:
    """Return a hex digest of a JSON-like value, the same on every machine."""
    canonical = json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=True)
    return hashlib.sha256(canonical.encode()).hexdigest()


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def _sync_folder(folder: Path) -> None:
    """Make the rename itself durable, where the system allows a folder to be flushed."""
    with contextlib.suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
