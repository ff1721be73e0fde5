"""Reading text as numbers, dates or flags, and guessing which of them a column of text holds."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from aegis.logs.decimals import POINT, with_points

TEXT = pa.large_string()  # 64-bit offsets: many files joined may hold more than 2 GB of text
MISSING_WORDS = ("", "NA", "N/A", "#N/A", "nan", "NaN", "NAN", "null", "Null", "NULL", "None")
_MOST_TRIALS = 2000  # conversions in search of entries that cannot be read

# A whole number as a program prints it. "007" is text: as a number it would be mistaken for "7".
_WHOLE = r"^(0|-?[1-9][0-9]{0,17})$"
_DOTTED = r"^[0-9]{1,2}\.[0-9]{1,2}\.[0-9]{4}( |T|$)"
_MISSING = pa.array(MISSING_WORDS, TEXT)
_ZONED = pa.timestamp("us", "UTC")

# What a column of text may hold, the most specific first.
GUESSES: dict[str, tuple[pa.DataType, ...]] = {
    "key": (pa.int64(), TEXT),
    "time": (pa.int64(), pa.float64(), pa.timestamp("us"), _ZONED, TEXT),
    "any": (pa.int64(), pa.float64(), pa.bool_(), pa.timestamp("us"), _ZONED, TEXT),
}


def is_text(kind: pa.DataType) -> bool:
    """Return whether a column of this type holds text; bytes count as text because some writers do not mark it."""
    tests = (pa.types.is_string, pa.types.is_large_string, pa.types.is_binary, pa.types.is_large_binary, pa.types.is_null)
    return any(test(kind) for test in tests) or str(kind) in ("string_view", "binary_view")


def parsed(text: pa.Array, kind: pa.DataType, decimal: str = POINT) -> pa.Array:
    """Return text as another type; raises ArrowInvalid if an entry cannot be read.

    Numbers, flags and dates may be missing, written as one of MISSING_WORDS; text is taken as it stands. decimal: the mark of
    the column, see `decimal_marks`.
    """
    if pa.types.is_large_string(kind):
        return text
    # Whole numbers may be ids: " 5" is not trimmed to 5, so that equal numbers are always equal text.
    known = known_numbers(text if pa.types.is_integer(kind) else pc.utf8_trim_whitespace(text))
    if pa.types.is_integer(kind) and not _all(pc.match_substring_regex(known, _WHOLE)):
        raise pa.ArrowInvalid("not a whole number")
    if pa.types.is_boolean(kind):
        lower = pc.utf8_lower(known)
        if not _all(pc.is_in(lower, value_set=pa.array(["true", "false", "1", "0"], TEXT)), known):
            raise pa.ArrowInvalid("neither true nor false")
        return pc.if_else(pc.is_null(lower), None, pc.is_in(lower, value_set=pa.array(["true", "1"], TEXT)))
    if pa.types.is_timestamp(kind):
        return pc.cast(_year_first(known), kind)
    return pc.cast(with_points(known, decimal) if pa.types.is_floating(kind) else known, kind)


def _year_first(text: pa.Array) -> pa.Array:
    """Return dates with the year first; where points stand between, as in 02.01.2025, the day comes before the month.

    Where strokes stand between (02/01/2025) either may come first: such dates are not read, and stay text.
    """
    if not pc.any(pc.match_substring_regex(text, _DOTTED)).as_py():
        return text
    padded = pc.replace_substring_regex(text, r"^([0-9])\.", r"0\1.")
    padded = pc.replace_substring_regex(padded, r"^([0-9]{2})\.([0-9])\.", r"\1.0\2.")
    return pc.replace_substring_regex(padded, r"^([0-9]{2})\.([0-9]{2})\.([0-9]{4})", r"\3-\2-\1")


def known_numbers(text: pa.Array) -> pa.Array:
    """Return text with null for the words that stand for a missing number."""
    return pc.if_else(pc.is_in(text, value_set=_MISSING), pa.scalar(None, TEXT), text)


@dataclass(slots=True)
class Guess:
    """What a column of text may still hold after the blocks seen so far; `left[0]` is the best guess."""

    left: list[pa.DataType] = field(default_factory=list)

    @classmethod
    def start(cls, kind: str) -> Guess:
        """Return a guess that has seen nothing yet."""
        return cls(list(GUESSES[kind]))

    def see(self, text: pa.Array, decimal: str = POINT) -> None:
        """Give up the guesses that this block rules out; text is never ruled out.

        Every guess meets every block: a block of "0" and "1" leaves numbers and flags, a later "5" leaves numbers only.
        """
        self.left = [kind for kind in self.left if readable(text, kind, decimal)]


def readable(text: pa.Array, kind: pa.DataType, decimal: str = POINT) -> bool:
    """Return whether every entry can be read as `kind`."""
    try:
        parsed(text, kind, decimal)
    except pa.ArrowInvalid:
        return False
    return True


def unreadable(column: pa.Array, convert: Callable[[pa.Array], object]) -> tuple[npt.NDArray[np.int64], bool]:
    """Return the entries that `convert` cannot take, the first of them for certain, by bisection with the converter itself.

    Also returns whether the search was given up before it was complete.
    """
    found: list[int] = []
    waiting = [(0, len(column))]
    trials = 0
    while waiting and (trials < _MOST_TRIALS or not found):
        start, stop = waiting.pop()
        trials += 1
        try:
            convert(column.slice(start, stop - start))
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError):  # the two ways in which Arrow refuses a cast
            if stop - start == 1:
                found.append(start)
            else:
                middle = (start + stop) // 2
                waiting += [(middle, stop), (start, middle)]  # the earlier half comes first
    return np.array(found or [0], dtype=np.int64), bool(waiting)


def _all(mask: pa.Array, known: pa.Array | None = None) -> bool:
    """Return whether the mask holds everywhere that something is known."""
    held = mask if known is None else pc.or_(mask, pc.is_null(known))
    return pc.all(held).as_py() is not False
