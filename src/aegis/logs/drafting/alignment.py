"""Which values counted probability columns stand for, where some actions were never taken.

With the true assignment the actions taken are, on average, likelier than with any other (Gibbs' inequality).
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from aegis.logs.drafting.sheet import Longs, Look
from aegis.problem import Array, Value

_CLEAR = 6.0  # how much larger the log-likelihood of the best assignment must be than that of the next: 400 to 1
_REPEATED = 50  # rows over which a decision may be repeated, where the distribution does not tell decisions apart
_FINER = (1, 2, 3)  # the grid may have so many points between two neighbours that were taken


def aligned(look: Look, chances: Array) -> tuple[Value, ...] | None:
    """Return the values of the actions, one per column of `chances` `[n, A]`; None if the log does not tell.

    The values are points of an even grid on which those of the column `look` lie; what is sought is where on it they lie.
    """
    if look.kind != "number" or look.count < 2:
        return None
    values = np.asarray(look.values, dtype=np.float64)
    ascending = np.argsort(np.argsort(look.distinct.to_numpy(zero_copy_only=False)))
    codes = ascending[look.codes].astype(np.int64)
    different = _different(codes, chances)
    scored: list[tuple[float, float, tuple[Value, ...]]] = []
    for places, grid in _assignments(values, chances.shape[1], look.whole):
        with np.errstate(divide="ignore"):
            each = np.log(chances[np.arange(codes.size), places[codes]])
        scored.append((float(each.sum()), float(each[different].sum()), grid))
    best, *others = sorted(scored, key=lambda entry: -entry[0]) or [(-np.inf, 0.0, ())]
    if not np.isfinite(best[0]):
        return None
    clear = all(best[0] - other[0] > _CLEAR * _REPEATED or best[1] - other[1] > _CLEAR for other in others)
    return best[2] if clear else None


def _assignments(values: Array, count: int, whole: bool) -> Iterator[tuple[Longs, tuple[Value, ...]]]:
    """Yield for each grid of `count` points the places of the values on it, and its points."""
    for finer in _FINER:
        step = float(np.diff(values).min()) / finer
        places = np.rint((values - values[0]) / step).astype(np.int64)
        uneven = np.any(np.abs(values[0] + places * step - values) > 1e-9 * (values[-1] - values[0]))
        if uneven or (whole and not step.is_integer()):
            continue
        for before in range(count - int(places[-1])):
            points = values[0] + (np.arange(count) - before) * step
            yield places + before, tuple(_tidy(float(point), whole) for point in points)


def _tidy(point: float, whole: bool) -> Value:
    """Return a point without the digits that rounding left behind."""
    return round(point) if whole else float(f"{point:.12g}") + 0.0


def _different(codes: Longs, chances: Array) -> Longs:
    """Return one row of each pair of action and distribution: rows may repeat a decision of an outer level."""
    # A fixed direction in which no two distributions that occur look the same, but for coincidence.
    mixed = chances @ np.sqrt(np.arange(2, chances.shape[1] + 2))
    return np.unique(np.column_stack([codes, mixed]), axis=0, return_index=True)[1].astype(np.int64)
