"""Stretches of a log: rows that follow each other in one file, and pieces of about equal size made of them.

Which pieces a log has depends on the log alone, not on who reads them or how many do.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

PIECE = 2**20  # rows of a piece, or more: what one process reads at a time
MOST_PIECES = 1024  # about; the pieces of longer logs are larger, so that what is found in them can be put together in one place


@dataclass(frozen=True, slots=True)
class Stretch:
    """Rows of a file that can be read by themselves. groups: the row groups they are, None for the whole file.

    first: the number of the first row in the file, from 1. rows: how many, None if nobody has counted them.
    """

    groups: tuple[int, ...] | None = None
    first: int = 1
    rows: int | None = None


WHOLE = Stretch()


@dataclass(frozen=True, slots=True)
class Span:
    """A stretch of the file with this index."""

    file: int
    stretch: Stretch = WHOLE


def stretches(sizes: Sequence[int], least: int | None = None) -> tuple[Stretch, ...]:
    """Return stretches of row groups with so many rows each.

    Each has at least `least` rows, those of a piece if None; the last may have fewer.
    """
    least = PIECE if least is None else least
    found: list[Stretch] = []
    groups: list[int] = []
    first = rows = 0
    for number, size in enumerate(sizes):
        groups.append(number)
        rows += size
        if rows >= least or number == len(sizes) - 1:
            found.append(Stretch(tuple(groups), first + 1, rows))
            first, rows, groups = first + rows, 0, []
    return tuple(found) or (Stretch((), 1, 0),)


def bundled(spans: Iterable[tuple[Span, int]], total: int, least: int | None = None) -> list[tuple[Span, ...]]:
    """Return pieces: spans, each with its number of rows, put together in their order until there are enough rows."""
    enough = max(PIECE if least is None else least, -(-total // MOST_PIECES))
    pieces: list[tuple[Span, ...]] = []
    held: list[Span] = []
    rows = 0
    for span, count in spans:
        held.append(span)
        rows += count
        if rows >= enough:
            pieces.append(tuple(held))
            held, rows = [], 0
    return [*pieces, tuple(held)] if held else pieces
