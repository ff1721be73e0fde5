"""A digest of the files of a log, so that a record can say which data it speaks of."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from pathlib import Path

from aegis.errors import LogError


def log_digest(paths: Iterable[str | Path]) -> str:
    """Return a digest of the contents of the files, in the order given; names and places do not matter.

    Raises LogError if a file cannot be read.
    """
    total = hashlib.sha256()
    for path in paths:
        try:
            with Path(path).open("rb") as file:
                total.update(hashlib.file_digest(file, "sha256").digest())
        except OSError as error:
            raise LogError(f"{path} cannot be read: {error.strerror or error}") from error
    return total.hexdigest()
