"""Matching what a log holds to the values a problem allows, by distinct values."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from aegis.errors import LogError, nearest
from aegis.logs.decimals import POINT, with_point
from aegis.problem import AnyArray, Array, Ints, Value

# How far a number may be from an allowed one, relative to the span of the allowed ones: round-off of text files.
TOLERANCE = 1e-9


def numeric(values: Sequence[Value]) -> bool:
    """Return whether all values are numbers (true and false are not)."""
    return not any(isinstance(value, str | bool) for value in values)


def match(column: pa.Array, values: Sequence[Value], decimal: str = POINT) -> Ints:
    """Return codes `i32[n]` into `values`, -1 where nothing matches and where the log is empty.

    Numbers match exactly or within 1e-9 of the span; text matches exactly; true and false in any of their spellings. decimal: the
    mark of numbers in text.
    """
    if numeric(values) and (pa.types.is_integer(column.type) or pa.types.is_floating(column.type)) and not column.null_count:
        exact = _on_even_grid(column, np.asarray(values, dtype=np.float64))
        if exact is not None:
            return exact
    encoded = column.dictionary_encode()
    distinct = encoded.dictionary
    codes = _number_codes(distinct, values, decimal) if numeric(values) else _label_codes(distinct, values)
    index = encoded.indices.fill_null(len(codes)).to_numpy(zero_copy_only=False)
    return np.append(codes, np.int32(-1))[index].astype(np.int32)


def as_column(values: Sequence[Value], codes: AnyArray) -> pa.Array:
    """Return the values behind the codes as a column; -1 becomes null. What `match` reads back as the same codes.

    Text as text, true and false as such, whole numbers as int64, other numbers as float64; a mixture becomes text.
    """
    if all(isinstance(value, bool) for value in values):
        kind = pa.bool_()
    elif numeric(values):
        kind = pa.int64() if all(isinstance(value, int) for value in values) else pa.float64()
    else:
        kind = pa.string()
    listed = pa.array(_labels(values) if kind == pa.string() else list(values), kind)
    return listed.take(pa.array(codes, mask=np.asarray(codes) < 0))


def suggestion(found: object, values: Sequence[Value], most: int = 12) -> str:
    """Return the allowed values and the one nearest to what was found, for a message."""
    listed = ", ".join(str(value) for value in values[:most])
    allowed = f"allowed: {listed}{f', ... ({len(values)} in all)' if len(values) > most else ''}"
    number = _number(found)
    if numeric(values) and math.isfinite(number):
        closest = min(values, key=lambda value: abs(float(value) - number))
        return f"{allowed}; the nearest is {closest}"
    return f"{allowed}{nearest(str(found), values)}"


def _number_codes(distinct: pa.Array, values: Sequence[Value], decimal: str) -> Ints:
    numbers = np.asarray(values, dtype=np.float64)
    found = np.array([_number(value, decimal) for value in distinct.to_pylist()], dtype=np.float64)
    order = np.argsort(numbers)
    closest = _closest(numbers[order], found)
    tolerance = TOLERANCE * (numbers.max() - numbers.min())
    with np.errstate(invalid="ignore"):
        near = np.abs(numbers[order][closest] - found) <= tolerance
    return np.where(near, order[closest], -1).astype(np.int32)


def _on_even_grid(column: pa.Array, values: Array) -> Ints | None:
    """Return the codes if the values are an even grid and every entry is one of them; a quick answer to the usual question."""
    if values.size < 2:
        return None
    found = column.to_numpy(zero_copy_only=False)
    with np.errstate(all="ignore"):
        low, step = values[0], (values[-1] - values[0]) / (values.size - 1)
        if not np.allclose(np.diff(values), step, rtol=1e-6, atol=0):
            return None
        place = found - low
        place = np.divide(place, step, out=place) if place.dtype == np.float64 else place / step
        np.rint(place, out=place)
    if not (place.min(initial=0.0) >= 0 and place.max(initial=0.0) < values.size):  # a nan is neither
        return None
    codes = place.astype(np.int32)
    gap = np.subtract(values[codes], found, out=place)
    near = np.abs(gap, out=gap).max(initial=0.0) <= TOLERANCE * abs(values[-1] - low)
    return codes if near else None


def _closest(ascending: Array, found: Array) -> AnyArray:
    right = np.clip(np.searchsorted(ascending, found), 1, ascending.size - 1)
    with np.errstate(invalid="ignore"):
        return np.where(found - ascending[right - 1] <= ascending[right] - found, right - 1, right)


def _label_codes(distinct: pa.Array, values: Sequence[Value]) -> Ints:
    lookup = {label: code for code, label in enumerate(_labels(values))}
    for word, spellings in (("True", ("true", "TRUE", "1")), ("False", ("false", "FALSE", "0"))):
        for spelling in spellings if word in lookup else ():
            lookup.setdefault(spelling, lookup[word])
    return np.array([_label_code(value, lookup) for value in distinct.to_pylist()], dtype=np.int32)


def _labels(values: Sequence[Value]) -> list[str]:
    """Return the values as text; raises LogError if two of them, 1 and "1", look the same in a log."""
    labels = [str(value) for value in values]
    for value, label in zip(values, labels, strict=True):
        if labels.count(label) > 1:
            raise LogError(
                f"two values, one of them {value!r}, both read '{label}' in a log; make them different: {list(values)}"
            )
    return labels


def _label_code(value: object, lookup: dict[str, int]) -> int:
    code = lookup.get(str(value), -1)
    if code < 0 and isinstance(value, float) and value.is_integer():
        return lookup.get(str(int(value)), -1)  # a column of whole numbers that became floats on its way
    return code


def _number(value: object, decimal: str = POINT) -> float:
    """Return a value as a number, nan if it is none; `1_000` is none although Python would read it."""
    if isinstance(value, str):
        value = None if "_" in value else with_point(value, decimal)
    try:
        return float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        return math.nan
