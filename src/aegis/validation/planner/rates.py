"""Every exploration rate with every cap, and the smallest rate that is enough."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from aegis.validation.planner.results import Row

REFINED = 4  # halvings of the interval in which the smallest rate that is enough lies
TENTH = 0.1  # where nothing below the first rate was looked at, a tenth of it is the other end

Evaluate = Callable[[float | None, float], Row]


def all_rows(evaluate: Evaluate, rates: Sequence[float | None], caps: Sequence[float]) -> tuple[Row, ...]:
    """Return a row for each rate and cap."""
    return tuple(evaluate(rate, cap) for rate in rates for cap in caps)


def enough(evaluate: Evaluate, rows: Sequence[Row], wanted: int, caps: Sequence[float]) -> Row | None:
    """Return the row of the smallest rate that has a certificate within so many episodes in nine of ten studies.

    The rates of the rows are looked at first, then rates between the last that is not enough and the first that is. A legacy that
    explores enough as it is needs no other rate: its row is returned.
    """
    good = [row for row in rows if _within(row, wanted)]
    if not good:
        return None
    best = min(good, key=lambda row: (row.explore or 0.0, row.likely))
    if best.explore is None:
        return best
    below = [row.explore for row in rows if row.explore is not None and row.explore < best.explore]
    low, high = max(below) if below else TENTH * best.explore, best.explore
    for _ in range(REFINED):
        rate = math.sqrt(low * high)
        found = [row for row in all_rows(evaluate, [rate], caps) if _within(row, wanted)]
        if found:
            best, high = min(found, key=lambda row: row.likely or 0), rate
        else:
            low = rate
    return best


def _within(row: Row, wanted: int) -> bool:
    return row.likely is not None and row.likely <= wanted
