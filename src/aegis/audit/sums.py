"""Partial results of an audit that add up, so that parts of a long log are checked apart and merged."""

from __future__ import annotations

from typing import Any, ClassVar, Self


class Sums:
    """A partial result. adds: the attributes that make up the result; the others are settings, equal in all parts."""

    adds: ClassVar[tuple[str, ...]] = ()

    def merge(self, other: Self) -> None:
        """Add the result of a later part of the log."""
        for name in self.adds:
            setattr(self, name, merged(getattr(self, name), getattr(other, name)))


def merged(own: Any, other: Any) -> Any:
    """Return two partial results as one: the sum of numbers, arrays and lists, the union of sets, and mappings key by key.

    None gives way to the other result. Keys that only the other mapping has come last.
    """
    if own is None or other is None:
        return other if own is None else own
    if isinstance(own, dict):
        return {key: merged(own.get(key), other.get(key)) for key in {**own, **other}}
    if isinstance(own, Sums):
        own.merge(other)
        return own
    return own | other if isinstance(own, set | bool) else own + other
