"""Digests of the parts of a log, so that a record can say which data it speaks of."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

from aegis.engine import usable_cores
from aegis.logs.parts import Given, Part, parts_of, taken_in


def log_digest(paths: Given | Sequence[Given]) -> str:
    """Return a digest of the contents of files, folders, patterns and frames, in the order given; names do not matter.

    What folders like `day=7` say does. Frames are digested by their values, whatever their chunks. Raises LogError if a file
    cannot be read.
    """
    return total_digest(part_digests(parts_of(taken_in(paths)))).hex()


def part_digests(parts: Sequence[Part]) -> list[bytes]:
    """Return the digest of each part, several at a time; raises the LogError of the first that cannot be read."""
    if len(parts) <= 1:
        return [part.digest() for part in parts]
    with ThreadPoolExecutor(usable_cores(), thread_name_prefix="aegis-digest") as pool:
        return list(pool.map(Part.digest, parts))


def total_digest(digests: Sequence[bytes]) -> bytes:
    """Return the digest of all parts from those of each, in their order."""
    return hashlib.sha256(b"".join(digests)).digest()
