"""Wildcards in the paths of objects, with the meaning that they have in paths of files."""

from __future__ import annotations

import fnmatch
import functools
import glob
from collections.abc import Sequence

ANY = "**"  # any number of folders, also none


def has_wildcards(text: str) -> bool:
    """Say whether a text has wildcards."""
    return glob.has_magic(text)


def split_pattern(path: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the names before the first one with wildcards, and the names from there on."""
    names = path.split("/")
    first = next((place for place, name in enumerate(names) if has_wildcards(name)), len(names))
    return tuple(names[:first]), tuple(names[first:])


def fits(names: Sequence[str], pattern: Sequence[str]) -> bool:
    """Say whether names of folders and a file fit a pattern; what starts with a dot only if the pattern does."""
    names, pattern = tuple(names), tuple(pattern)

    @functools.cache
    def rest(at: int, of: int) -> bool:
        if of == len(pattern):
            return at == len(names)
        if pattern[of] == ANY:
            more = at < len(names) and not names[at].startswith(".")
            return rest(at, of + 1) or (more and rest(at + 1, of))
        return at < len(names) and _one(names[at], pattern[of]) and rest(at + 1, of + 1)

    return rest(0, 0)


def asked_for(match: Sequence[str], pattern: Sequence[str]) -> bool:
    """Say whether a match is meant: as in folders, what starts with an underscore is not, unless the pattern says it."""
    return not any(part.startswith("_") and part not in pattern for part in match) or pattern[-1].startswith("_")


def _one(name: str, pattern: str) -> bool:
    if name.startswith(".") and not pattern.startswith("."):
        return False
    return fnmatch.fnmatchcase(name, pattern)
