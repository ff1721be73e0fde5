"""Values of columns: decimal marks, text read as numbers, dates or flags, and matching to the values that a problem allows.

The decimal mark, a point or a comma, is decided for each column from the first rows of its file.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from aegis.errors import LogError, did_you_mean
from aegis.problem import AnyArray, Array, Ints, Value

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
    evidence = {name: {mark: _evidence(fields, mark) for mark in (POINT, COMMA)} for name, fields in columns.items()}
    sure = {mark: any("sure" in marks[mark] for marks in evidence.values()) for mark in (POINT, COMMA)}
    return {name: _mark(marks, sure) for name, marks in evidence.items()}


def to_decimal_points(text: pa.Array, mark: str) -> pa.Array:
    """Return numbers in text with decimal points; raises ArrowInvalid if an entry does not go with the column's mark."""
    if mark == POINT:
        return text
    if pc.any(pc.match_substring_regex(text, "[.,]" if mark == UNSURE else "[.]")).as_py():
        raise pa.ArrowInvalid("decimals or thousands, or a point among decimal commas")
    return pc.replace_substring(text, COMMA, POINT)


def number_hint(text: str, mark: str) -> str:
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


def _mark(evidence: Mapping[str, set[str]], sure: Mapping[str, bool]) -> str:
    comma, point = evidence[COMMA], evidence[POINT]
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


TEXT_TYPE = pa.large_string()  # 64-bit offsets: many files joined may hold more than 2 GB of text
MISSING_WORDS = ("", "NA", "N/A", "#N/A", "nan", "NaN", "NAN", "null", "Null", "NULL", "None")
_MOST_TRIALS = 2000  # conversions in search of entries that cannot be read
# A whole number as a program prints it. "007" is text: as a number it would be mistaken for "7".
_WHOLE = r"^(0|-?[1-9][0-9]{0,17})$"
_DOTTED = r"^[0-9]{1,2}\.[0-9]{1,2}\.[0-9]{4}( |T|$)"
_MISSING = pa.array(MISSING_WORDS, TEXT_TYPE)
_ZONED = pa.timestamp("us", "UTC")


# What a column of text may hold, the most specific first.
TYPE_GUESSES: dict[str, tuple[pa.DataType, ...]] = {
    "key": (pa.int64(), TEXT_TYPE),
    "time": (pa.int64(), pa.float64(), pa.timestamp("us"), _ZONED, TEXT_TYPE),
    "any": (pa.int64(), pa.float64(), pa.bool_(), pa.timestamp("us"), _ZONED, TEXT_TYPE),
}


def is_text(kind: pa.DataType) -> bool:
    """Return whether a column of this type holds text; bytes count as text because some writers do not mark it."""
    tests = (pa.types.is_string, pa.types.is_large_string, pa.types.is_binary, pa.types.is_large_binary, pa.types.is_null)
    return any(test(kind) for test in tests) or str(kind) in ("string_view", "binary_view")


def parse_text(text: pa.Array, kind: pa.DataType, decimal: str = POINT) -> pa.Array:
    """Return text as another type; raises ArrowInvalid if an entry cannot be read.

    Numbers, flags and dates may be missing, written as one of MISSING_WORDS; text is taken as it stands. decimal: the mark of
    the column, see `decimal_marks`.
    """
    if pa.types.is_large_string(kind):
        return text
    # Whole numbers may be ids: " 5" is not trimmed to 5, so that equal numbers are always equal text.
    known = blank_missing_words(text if pa.types.is_integer(kind) else pc.utf8_trim_whitespace(text))
    if pa.types.is_integer(kind) and pc.all(pc.match_substring_regex(known, _WHOLE)).as_py() is False:
        raise pa.ArrowInvalid("not a whole number")
    if pa.types.is_boolean(kind):
        lower = pc.utf8_lower(known)
        if not pc.all(pc.is_in(lower, value_set=pa.array(["true", "false", "1", "0", None], TEXT_TYPE))).as_py():
            raise pa.ArrowInvalid("neither true nor false")
        return pc.if_else(pc.is_null(lower), None, pc.is_in(lower, value_set=pa.array(["true", "1"], TEXT_TYPE)))
    if pa.types.is_timestamp(kind):
        return pc.cast(_year_first(known), kind)
    return pc.cast(to_decimal_points(known, decimal) if pa.types.is_floating(kind) else known, kind)


def _year_first(text: pa.Array) -> pa.Array:
    """Return dates with the year first; where points stand between, as in 02.01.2025, the day comes before the month.

    Where strokes stand between (02/01/2025) either may come first: such dates are not read, and stay text.
    """
    if not pc.any(pc.match_substring_regex(text, _DOTTED)).as_py():
        return text
    padded = pc.replace_substring_regex(text, r"^([0-9])\.", r"0\1.")
    padded = pc.replace_substring_regex(padded, r"^([0-9]{2})\.([0-9])\.", r"\1.0\2.")
    return pc.replace_substring_regex(padded, r"^([0-9]{2})\.([0-9]{2})\.([0-9]{4})", r"\3-\2-\1")


def blank_missing_words(text: pa.Array) -> pa.Array:
    """Return text with null for the words that stand for a missing number."""
    return pc.if_else(pc.is_in(text, value_set=_MISSING), pa.scalar(None, TEXT_TYPE), text)


def narrow_types(kinds: Sequence[pa.DataType], text: pa.Array, decimal: str = POINT) -> list[pa.DataType]:
    """Return the types that a block of text does not rule out, the best guess first; text is never ruled out.

    Every type meets every block: a block of "0" and "1" leaves numbers and flags, a later "5" leaves numbers only.
    """
    return [kind for kind in kinds if can_parse(text, kind, decimal)]


def can_parse(text: pa.Array, kind: pa.DataType, decimal: str = POINT) -> bool:
    """Return whether every entry can be read as `kind`."""
    try:
        parse_text(text, kind, decimal)
    except pa.ArrowInvalid:
        return False
    return True


def find_unreadable(column: pa.Array, convert: Callable[[pa.Array], object]) -> tuple[npt.NDArray[np.int64], bool]:
    """Return the entries that `convert` cannot take, the first of them for certain, by bisection with the converter itself.

    Also returns whether the search was given up before it was complete.
    """
    rows: list[int] = []
    waiting = [(0, len(column))]
    trials = 0
    while waiting and (trials < _MOST_TRIALS or not rows):
        start, stop = waiting.pop()
        trials += 1
        try:
            convert(column.slice(start, stop - start))
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError):  # the two ways in which Arrow refuses a cast
            if stop - start == 1:
                rows.append(start)
            else:
                middle = (start + stop) // 2
                waiting += [(middle, stop), (start, middle)]  # the earlier half comes first
    return np.array(rows or [0], dtype=np.int64), bool(waiting)


# How far a number may be from an allowed one, relative to the span of the allowed ones: round-off of text files.
VALUE_TOLERANCE = 1e-9


def all_numeric(values: Sequence[Value]) -> bool:
    """Return whether all values are numbers (true and false are not)."""
    return not any(isinstance(value, str | bool) for value in values)


def match_values(column: pa.Array, values: Sequence[Value], decimal: str = POINT) -> Ints:
    """Return codes `i32[n]` into `values`, -1 where nothing matches and where the log is empty.

    Numbers match exactly or within 1e-9 of the span; text matches exactly; true and false in any of their spellings. decimal: the
    mark of numbers in text.
    """
    if all_numeric(values) and (pa.types.is_integer(column.type) or pa.types.is_floating(column.type)):
        exact = None if column.null_count else _on_even_grid(column, np.asarray(values, dtype=np.float64))
        return _nearest(column.to_numpy(zero_copy_only=False), values) if exact is None else exact
    encoded = column.dictionary_encode()
    distinct = encoded.dictionary
    if all_numeric(values):
        codes = _nearest(np.array([_number(value, decimal) for value in distinct.to_pylist()], dtype=np.float64), values)
    else:
        codes = _label_codes(distinct, values)
    index = encoded.indices.fill_null(len(codes)).to_numpy(zero_copy_only=False)
    return np.append(codes, np.int32(-1))[index].astype(np.int32)


def values_column(values: Sequence[Value], codes: AnyArray) -> pa.Array:
    """Return the values behind the codes as a column; -1 becomes null. `match_values` reads them back as the same codes.

    Text as text, true and false as such, whole numbers as int64, other numbers as float64; a mixture becomes text.
    """
    if all(isinstance(value, bool) for value in values):
        kind = pa.bool_()
    elif all_numeric(values):
        kind = pa.int64() if all(isinstance(value, int) for value in values) else pa.float64()
    else:
        kind = pa.string()
    listed = pa.array(_labels(values) if kind == pa.string() else list(values), kind)
    return listed.take(pa.array(codes, mask=np.asarray(codes) < 0))


def suggest_values(value: object, values: Sequence[Value], most: int = 12) -> str:
    """Return the allowed values and the one nearest to what was found, for a message."""
    listed = ", ".join(str(candidate) for candidate in values[:most])
    allowed = f"allowed: {listed}{f', ... ({len(values)} in all)' if len(values) > most else ''}"
    number = _number(value)
    if all_numeric(values) and math.isfinite(number):
        closest = min(values, key=lambda candidate: abs(float(candidate) - number))
        return f"{allowed}; the nearest is {closest}"
    return f"{allowed}{did_you_mean(str(value), values)}"


def _nearest(entries: AnyArray, values: Sequence[Value]) -> Ints:
    """Return the place of each number among the values, -1 where none is near."""
    numbers = np.asarray(values, dtype=np.float64)
    order = np.argsort(numbers)
    ascending = numbers[order]
    right = np.clip(np.searchsorted(ascending, entries), 1, max(ascending.size - 1, 1)) % ascending.size
    with np.errstate(invalid="ignore"):
        closest = np.where(entries - ascending[right - 1] <= ascending[right] - entries, right - 1, right)
        near = np.abs(ascending[closest] - entries) <= VALUE_TOLERANCE * (ascending[-1] - ascending[0])
    return np.where(near, order[closest], -1).astype(np.int32)


def _on_even_grid(column: pa.Array, values: Array) -> Ints | None:
    """Return the codes if the values are an even grid and every entry is one of them; a quick answer to the usual question."""
    if values.size < 2:
        return None
    entries = column.to_numpy(zero_copy_only=False)
    with np.errstate(all="ignore"):
        low, step = values[0], (values[-1] - values[0]) / (values.size - 1)
        if not np.allclose(np.diff(values), step, rtol=1e-6, atol=0):
            return None
        place = entries - low
        place = np.divide(place, step, out=place) if place.dtype == np.float64 else place / step
        np.rint(place, out=place)
    if not (place.min(initial=0.0) >= 0 and place.max(initial=0.0) < values.size):  # a nan is neither
        return None
    codes = place.astype(np.int32)
    gap = np.subtract(values[codes], entries, out=place)
    near = np.abs(gap, out=gap).max(initial=0.0) <= VALUE_TOLERANCE * abs(values[-1] - low)
    return codes if near else None


def _label_codes(distinct: pa.Array, values: Sequence[Value]) -> Ints:
    lookup = {label: code for code, label in enumerate(_labels(values))}
    for word, spellings in (("True", ("true", "TRUE", "1")), ("False", ("false", "FALSE", "0"))):
        for spelling in spellings if word in lookup else ():
            lookup.setdefault(spelling, lookup[word])
    floats = pa.types.is_floating(distinct.type)  # a column of whole numbers may have become floats on its way
    texts = [str(value) for value in distinct.to_pylist()]
    codes = [lookup.get(text, lookup.get(text.removesuffix(".0"), -1) if floats else -1) for text in texts]
    return np.array(codes, dtype=np.int32)


def _labels(values: Sequence[Value]) -> list[str]:
    """Return the values as text; raises LogError if two of them, 1 and "1", look the same in a log."""
    labels = [str(value) for value in values]
    for value, label in zip(values, labels, strict=True):
        if labels.count(label) > 1:
            raise LogError(
                f"two values, one of them {value!r}, both read '{label}' in a log; make them different: {list(values)}"
            )
    return labels


def _number(value: object, decimal: str = POINT) -> float:
    """Return a value as a number, nan if it is none; `1_000` is none although Python would read it."""
    if isinstance(value, str):
        marked = decimal != POINT and (POINT in value or COMMA in value)
        fits = "_" not in value and not (marked and (decimal == UNSURE or POINT in value))
        value = (value.replace(COMMA, POINT) if marked else value) if fits else None
    try:
        return float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        return math.nan


def decode_column(column: pa.ChunkedArray) -> pa.Array:
    """Return a column as one array without dictionaries, all kinds of text as one kind."""
    kind = column.type
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    if is_text(kind):
        kind = TEXT_TYPE
    cast = column if column.type == kind else column.cast(kind)
    if cast.num_chunks == 1:
        return cast.chunk(0)
    return pa.concat_arrays(cast.chunks) if cast.num_chunks else pa.array([], kind)
