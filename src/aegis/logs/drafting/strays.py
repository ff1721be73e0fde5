"""Entries that are no numbers in a column of numbers: units below the header, totals at the end, percent signs."""

from __future__ import annotations

import re

import numpy as np

from aegis.errors import counted
from aegis.logs.decimals import POINT, hint
from aegis.logs.drafting.sheet import Look, Sheet

_NUMBER = re.compile(r"\s*[+-]?(\d[\d.,' ]*|[.,]\d+)([eE][+-]?\d+)?\s*")
_FEWEST = 10  # rows, below which nothing is said
_MOST = 2  # rows that are odd: one at the start, one at the end


def first_no_number(look: Look) -> tuple[int, str] | None:
    """Return the first row, from 1, and the text there, that is no number; None in a column that is not text, or has none."""
    odd = _odd_rows(look)
    return None if not odd.size else (int(odd[0]) + 1, str(look.distinct[int(look.codes[odd[0]])].as_py()))


def in_words(look: Look) -> str:
    """Return where a column of text is no number, with what may mend it, for a message; empty if nothing can be said."""
    found = first_no_number(look)
    return "" if found is None else f" (row {found[0]}: '{found[1]}'{hint(found[1], POINT)})"


def nothing_in(look: Look) -> str:
    """Return in how many rows nothing stands, and the first of them, for a message."""
    return f"nothing in {counted(look.missing, 'rows')} ({'the first is ' if look.missing > 1 else ''}row {look.first_missing})"


def stray_rows(sheet: Sheet) -> list[str]:
    """Return questions about the first and the last row, where they hold text in a column of numbers."""
    ends = {0, sheet.rows - 1}
    found: dict[int, str] = {}
    for look in sheet.looks.values():
        odd = _odd_rows(look)
        if sheet.rows >= _FEWEST and 0 < odd.size <= _MOST and ends >= set(odd.tolist()):
            for row in odd.tolist():
                text = look.distinct[int(look.codes[row])].as_py()
                found.setdefault(
                    row,
                    f"Is row {row + 1} a decision? Column '{look.name}' holds '{text}' there and numbers in other rows. If it is "
                    "a row of units or of totals, remove it and draft again.",
                )
    return [found[row] for row in sorted(found)]


def _odd_rows(look: Look) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """Return the rows of a column of text that hold something which is no number."""
    if look.kind != "text":
        return np.zeros(0, dtype=np.int64)
    plain = np.array([_NUMBER.fullmatch(str(value)) is None for value in look.distinct.to_pylist()] + [False])
    return np.flatnonzero(plain[look.codes])
