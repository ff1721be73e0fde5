"""A digest of the parts of a log, so that a record can say which data it speaks of."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

from aegis.logs.parts import Given, parts_of, taken_in


def log_digest(paths: Given | Sequence[Given]) -> str:
    """Return a digest of the contents of files, folders, patterns and frames, in the order given; names do not matter.

    What folders like `day=7` say does. Frames are digested by their values, whatever their chunks. Raises LogError if a file
    cannot be read.
    """
    total = hashlib.sha256()
    for part in parts_of(taken_in(paths)):
        total.update(part.digest())
    return total.hexdigest()
