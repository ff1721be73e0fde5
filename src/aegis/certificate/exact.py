"""Sums that do not depend on the order of what is added, nor on the blocks it comes in.

A sum of floats depends on their order in its last digit; a sum of whole numbers does not. What is added is rounded to a grid that
depends on nothing but the values that belong together, so fine that nobody would notice.
"""

from __future__ import annotations

import numpy as np

from aegis.problem import AnyArray, Array

SAFE = 2.0**53  # floats hold whole numbers up to here
HALF = 32
ROOM = 11  # values that add up to less than 2^11 are rounded to multiples of 2^-40


def whole_sum(values: Array, bits: int) -> int | None:
    """Return the sum of values `[n]` in units of 2^-bits, each rounded to the nearest; None if one of them is not finite."""
    if not values.size:
        return 0
    most = max(float(values.max()), -float(values.min()))
    if not most < np.inf:
        return None
    if most < 2.0 ** (62 - bits) / values.size:
        return int(np.rint(values * 2.0**bits).astype(np.int64).sum())
    whole = np.abs(values) >= SAFE  # as all floats beyond are
    small = _sum_of_whole(np.rint(np.where(whole, 0.0, values) * 2.0**bits))
    return small + (_sum_of_whole(np.where(whole, values, 0.0)) << bits)


def _sum_of_whole(values: Array) -> int:
    """Return the sum of whole numbers `[n]` of any size: their upper and lower halves are added apart."""
    most = float(np.abs(values).max())
    if most * values.size < SAFE:
        return int(values.sum())
    upper = np.floor(values * 2.0**-HALF)
    lower = values - upper * 2.0**HALF
    return (_sum_of_whole(upper) << HALF) + int(lower.astype(np.int64).sum())


def settled(values: Array, starts: AnyArray, counts: AnyArray) -> Array:
    """Return values `[n]` or `[n, J]` rounded so that sums over groups are exact in any order.

    starts, counts `[m]`: where each group of values that follow each other starts, and how many there are. The grid is 2^-40
    where the values of a group add up to less than 2^11, coarser in proportion beyond; it depends on the group alone.
    """
    if not values.size:
        return values
    most = max(float(values.max()), -float(values.min()))
    if most * float(counts.max()) < 2.0**ROOM:
        lifted = values + 3.0 * 2.0**ROOM  # the last digit of a number between 2^12 and 2^13 is 2^-40
        lifted -= 3.0 * 2.0**ROOM
        return lifted
    shape = (-1, *(1,) * (values.ndim - 1))
    height = np.maximum.reduceat(np.abs(values), starts, axis=0) * counts.reshape(shape)
    exponent = np.clip(np.frexp(height)[1], ROOM, 1020)
    lift = np.repeat(np.ldexp(3.0, exponent), counts, axis=0)
    with np.errstate(over="ignore", invalid="ignore"):
        found: Array = (values + lift) - lift
    return found
