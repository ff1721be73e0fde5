"""Decimal marks in text: a point or a comma, decided for each column from the first rows of its file."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

import pyarrow as pa
import pyarrow.compute as pc

POINT, COMMA, UNSURE = ".", ",", "?"

_EXPONENT = r"(?:[eE][+-]?\d+)?"
_NUMBER = {mark: re.compile(rf"[+-]?\d*\{mark}\d+{_EXPONENT}") for mark in (POINT, COMMA)}
# One to three digits, then groups of three: 1,234 may be a number between one and two or more than a thousand.
_GROUPED = {mark: re.compile(rf"[+-]?[1-9]\d{{0,2}}(?:\{mark}\d{{3}})+") for mark in (POINT, COMMA)}
_THOUSANDS = re.compile(r"[+-]?\d{1,3}(?:[., '\u2019\u00a0\u202f]\d{3})+(?:[.,]\d+)?")


def decimal_marks(columns: Mapping[str, Sequence[str]]) -> dict[str, str]:
    """Return the decimal mark of each column, given the fields of its first rows; for files that are not separated by commas.

    A number that can only be read with one mark decides for its column, and for columns without decimals if no other column says
    otherwise. A column in which every number may also have thousands separators follows the others; where these do not settle it,
    it is UNSURE and its numbers are refused one by one.
    """
    seen = {name: {mark: _evidence(fields, mark) for mark in (POINT, COMMA)} for name, fields in columns.items()}
    sure = {mark: any("sure" in found[mark] for found in seen.values()) for mark in (POINT, COMMA)}
    return {name: _mark(found, sure) for name, found in seen.items()}


def with_points(text: pa.Array, mark: str) -> pa.Array:
    """Return numbers in text with decimal points; raises ArrowInvalid if an entry does not go with the column's mark."""
    if mark == POINT:
        return text
    if mark == UNSURE:
        _refuse(pc.match_substring_regex(text, "[.,]"), "decimals or thousands")
        return text
    _refuse(pc.match_substring(text, POINT), "a point among decimal commas")
    return pc.replace_substring(text, COMMA, POINT)


def with_point(text: str, mark: str) -> str | None:
    """Return one number in text with a decimal point, None if it does not go with the column's mark."""
    if mark == POINT or not (POINT in text or COMMA in text):
        return text
    return None if mark == UNSURE or POINT in text else text.replace(COMMA, POINT)


def hint(text: str, mark: str) -> str:
    """Return what may be wrong with a text that cannot be read as a number, for a message."""
    number = text.strip()
    if number.endswith("%"):
        return "; write the plain number, without the percent sign"
    if mark == UNSURE and (_GROUPED[COMMA].fullmatch(number) or _GROUPED[POINT].fullmatch(number)):
        return (
            f"; this may mean {re.sub('[.,]', '', number)}, or be a number with decimals, and the first rows of the file do not "
            "tell which: save it without thousands separators and with a decimal point"
        )
    if mark == COMMA and _NUMBER[POINT].fullmatch(number):
        return "; other numbers of this column have a decimal comma: write all of them alike, without thousands separators"
    if _THOUSANDS.fullmatch(number):
        return "; if these are thousands separators, save it without them"
    if mark == POINT and _NUMBER[COMMA].fullmatch(number):
        return "; write a decimal point, or separate the columns by semicolons and use decimal commas throughout"
    return ""


def _evidence(fields: Sequence[str], mark: str) -> set[str]:
    """Say whether a column has numbers that are `sure` to have this decimal mark, and such that may have (`grouped`)."""
    numbers = [field for field in map(str.strip, fields) if _NUMBER[mark].fullmatch(field)]
    return {"grouped" if _GROUPED[mark].fullmatch(number) else "sure" for number in numbers}


def _mark(found: Mapping[str, set[str]], sure: Mapping[str, bool]) -> str:
    comma, point = found[COMMA], found[POINT]
    only_commas = sure[COMMA] and not sure[POINT]
    if "sure" in comma or "sure" in point:
        return COMMA if "sure" in comma else POINT
    if comma and point:
        return UNSURE
    if comma:
        return COMMA if only_commas else UNSURE
    if point:
        return UNSURE if sure[COMMA] else POINT
    return COMMA if only_commas else POINT


def _refuse(wrong: pa.Array, text: str) -> None:
    if pc.any(wrong).as_py():
        raise pa.ArrowInvalid(text)
