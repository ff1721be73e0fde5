"""Is the first line of a text file its header, or do titles stand above it?"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

_FEWEST = 3  # columns of a table below titles
_MOSTLY = 0.9  # share of the rows from the header on that have as many fields


def header_line(tables: Mapping[str, Sequence[tuple[int, Sequence[str]]]]) -> tuple[str, int, int] | None:
    """Return separator, line of the header and number of its fields, if shorter lines stand above it; None if nothing says so.

    tables: by separator, rows with the line in which each ends, blank ones left out. Nothing is said if with one of them the
    first line has several fields, and as many as most.
    """
    widths = {mark: [len(row) for _, row in rows] for mark, rows in tables.items()}
    usually = {mark: Counter(counts).most_common(1)[0][0] for mark, counts in widths.items() if counts}
    if any(usual > 1 and widths[mark][0] == usual for mark, usual in usually.items()):
        return None
    found = []
    for mark, usual in usually.items():
        counts = widths[mark]
        if usual < _FEWEST:
            continue
        first = counts.index(usual)
        below = counts[first:]
        if first and len(below) > 1 and max(counts[:first]) < usual and below.count(usual) >= _MOSTLY * len(below):
            found.append((mark, tables[mark][first][0], usual))
    return max(found, key=lambda one: one[2], default=None)
