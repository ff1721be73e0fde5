"""The order that the ids of episodes tell: numbers, dates, or a number after the same text, such as `day-17`.

Rows may be shuffled, or sorted by something else, while ids still count episodes as they came.
"""

from __future__ import annotations

import re

import numpy as np

from aegis.problem import AnyArray

_DATE = re.compile(r"\d{4}-\d{2}-\d{2}([T ][\d:.]+Z?)?")
_NUMBERED = re.compile(r"(\D*)(\d{1,15})")


def id_order(ids: AnyArray) -> AnyArray | None:
    """Return the places `[E]` of episodes in the order of their ids; None if ids tell none, or that in which they stand."""
    keys = _keys(ids)
    if keys is None:
        return None
    order: AnyArray = np.argsort(keys, kind="stable")
    return None if (order[1:] > order[:-1]).all() else order


def _keys(ids: AnyArray) -> AnyArray | None:
    """Return what ids `[E]` are sorted by; an id of several columns by the first, then the next."""
    if ids.dtype.names is not None:
        parts = [_keys(ids[name]) for name in ids.dtype.names]
        if any(part is None for part in parts):
            return None
        ranks = [np.unique(part, return_inverse=True)[1] for part in parts if part is not None]
        order = np.lexsort(ranks[::-1])
        place: AnyArray = np.empty(order.size, dtype=np.int64)
        place[order] = np.arange(order.size)
        return place
    if ids.dtype.kind in "iufMm":
        return ids
    if ids.dtype.kind not in "OUT" or not ids.size or not isinstance(ids[0], str):
        return None
    return _text_keys(ids.tolist())


def _text_keys(ids: list[object]) -> AnyArray | None:
    """Return dates as they are, or the number that follows the same text in all ids; None if they are neither."""
    if _DATE.fullmatch(str(ids[0])):
        return np.array(ids, dtype=str) if all(_DATE.fullmatch(str(value)) for value in ids) else None
    first = _NUMBERED.fullmatch(str(ids[0]))
    if first is None:
        return None
    found = [_NUMBERED.fullmatch(str(value)) for value in ids]
    numbers = [int(match[2]) for match in found if match is not None and match[1] == first[1]]
    return np.array(numbers, dtype=np.int64) if len(numbers) == len(ids) else None
