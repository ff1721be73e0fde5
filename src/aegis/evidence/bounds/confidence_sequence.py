"""Confidence sequences: the anytime lower bound after every unit, from a grid of bets.

The log wealth after k units, as a function of the mean v, is convex and falls. A tangent of it therefore never lies above
it: the point where a tangent reaches log(1/delta) is at most the bound, wherever the tangent was drawn. So the bound is
solved for only at some units, about 190 each time the number of units quadruples. In between, the wealth at a fixed v is a
running product (no logarithm), and one tangent gives the bound of each unit; where a tangent is not close enough, units are
solved for. Bets that hold almost no wealth are left out, which can only lower a bound. The log wealth at a bound never
falls short of log(1/delta) and exceeds it by less than a hundredth as a rule, as if delta were one per cent smaller.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from aegis.errors import RefusedError, SettingError
from aegis.evidence.bounds.base import unit_values
from aegis.evidence.grid import Array, Grid
from aegis.evidence.sketch import check_delta

Bools = npt.NDArray[np.bool_]

Counts = npt.NDArray[np.int64]


FIRST = 64  # units in the first part; every further part quadruples the number of units
SCREENED = 12  # places in a part that decide which bets matter
IDLE = 0.003  # share of the wealth that bets which are left out of a part hold together
DEAD = 1e-12  # share of the wealth below which a bet is left out for good
ENOUGH = 1e-4  # nats: how close to log(1/delta) a solved bound comes
GROUP = 16  # factors multiplied before a logarithm is taken
CLOSE = 0.05  # nats: a tangent that may miss log(1/delta) by more is replaced by solving
PATH_NEWTON_STEPS = 100
AT_ONCE = 2**17  # factors held in memory at once


def lower_path(values: Array, grid: Grid, delta: float, high: float = 1.0) -> Array:
    """Return the lower bound in [0, high] after each unit, `[K]`, of values `[K]` from 0.

    All hold at once with probability 1 - delta. It is no running maximum: that would assume that the mean does not drift.
    RefusedError if a mean of `high` is certified to be exceeded.
    """
    units = unit_values(values, least=0.0)
    if not high > 0:
        raise SettingError(f"the largest mean possible is above 0, found {high}")
    threshold = math.log(1.0 / check_delta(delta)) + 1e-9 + 1e-15 * units.size  # covers the rounding of sums
    path, last = np.empty(units.size), 0.0
    bets, logs = grid.bets, grid.log_weights  # logs: of weight times wealth at a mean of 0
    for start, stop in _parts(units.size):
        size = max(1, start // FIRST)
        blocks = np.zeros((-(-(stop - start) // size), size))  # units that are not there have value 0 and change nothing
        blocks.reshape(-1)[: stop - start] = units[start:stop]
        counts = np.minimum(start + size * np.arange(1, len(blocks) + 1), stop)
        ends = logs + np.cumsum(_block_logs(blocks, bets), axis=0)  # [blocks, J]
        share = _shares(ends, bets, counts, threshold, blocks.max(axis=1))
        used = _used(share)
        solved = _solve(ends[:, used], bets[used], counts, threshold)
        if size == 1:
            path[start:stop] = solved
        else:
            begins = np.concatenate([logs[None], ends[:-1]])
            around = 0.5 * (np.concatenate([[last], solved[:-1]]) + solved)
            bounds, missed = _tangents(blocks, begins[:, used], bets[used], start, around, threshold)
            rough = np.flatnonzero(missed > CLOSE)
            bounds[rough] = _one_by_one(blocks[rough], begins[rough], bets, start + size * rough, threshold)
            bounds = bounds.reshape(-1)[: stop - start]
            bounds[counts - start - 1] = solved
            path[start:stop] = bounds
        alive = share > DEAD
        bets, logs, last = bets[alive], ends[-1, alive], float(solved[-1])
    if (path >= high).any():
        unit = int(np.argmax(path >= high))
        raise RefusedError(
            f"after {unit + 1} units the data certify a mean above {high}, the largest possible: weights or the range are wrong"
        )
    return path


def _parts(units: int) -> Iterator[tuple[int, int]]:
    start, stop = 0, FIRST
    while start < units:
        yield start, min(stop, units)
        start, stop = stop, 4 * stop


def _block_logs(blocks: Array, bets: Array) -> Array:
    """Return `sum log(1 + g x)` over each block, `[blocks, J]`, of values `[blocks, size]`."""
    number, size = blocks.shape
    if size == 1:
        return np.log1p(blocks * bets)
    group = math.gcd(size, GROUP) if bets.max() * blocks.max() < 2.0**60 else 1  # products must not overflow
    grouped = blocks.reshape(number, size // group, group, 1)
    sums = np.empty((number, bets.size))
    for rows in _slices(number, size // group * bets.size):
        product = grouped[rows, :, 0] * bets
        product += 1.0
        factor = np.empty_like(product)
        for place in range(1, group):
            np.multiply(grouped[rows, :, place], bets, out=factor)
            factor += 1.0
            product *= factor
        sums[rows] = np.log(product, out=product).sum(axis=1)
    return sums


def _shares(logs: Array, bets: Array, counts: Counts, threshold: float, peaks: Array) -> Array:
    """Return the largest share of the wealth `[J]` that each bet holds at the bound, over some of the rows of logs `[R, J]`.

    The rows are spread evenly, together with those that have the highest peaks `[R]`: after those the wealth moves most.
    """
    even = np.linspace(0, len(counts) - 1, min(SCREENED, len(counts))).astype(np.int64)
    rows = np.unique(np.concatenate([even, np.argsort(peaks)[-SCREENED:]]))
    number = counts[rows, None].astype(np.float64)
    means = _single(logs[rows], bets, number, threshold)
    terms = logs[rows] - number * np.log1p(bets * means[:, None])
    wealth = np.exp(terms - terms.max(axis=1, keepdims=True))
    return np.asarray((wealth / wealth.sum(axis=1, keepdims=True)).max(axis=0))


def _used(share: Array) -> Bools:
    """Return which bets `[J]` are used: all but those that hold next to nothing together."""
    order = np.argsort(share)
    used = np.ones(share.size, dtype=bool)
    used[order[np.cumsum(share[order]) < IDLE]] = False
    return used


def _single(logs: Array, bets: Array, number: Array, threshold: float) -> Array:
    """Return the bounds `[R]` from 0 of the best single bet; logs `[R, J]`, number of units `[R, 1]`."""
    return np.maximum((np.expm1((logs - threshold) / number) / bets).max(axis=1), 0.0)


def _solve(logs: Array, bets: Array, counts: Counts, threshold: float) -> Array:
    """Return the means `[R]` from 0 at which log wealth, from logs `[R, J]`, falls to the threshold: Newton from below.

    It starts at the bound of the best single bet, where the wealth of all is at least as large. 0 if 0 is not certified.
    """
    number = counts[:, None].astype(np.float64)
    means = _single(logs, bets, number, threshold)
    for _ in range(PATH_NEWTON_STEPS):
        ratio = bets * means[:, None]
        ratio += 1.0
        wealth = logs - number * np.log(ratio)
        best = wealth.max(axis=1)
        wealth -= best[:, None]
        np.exp(wealth, out=wealth)
        total = wealth.sum(axis=1)
        excess = best + np.log(total) - threshold
        if excess.max() <= ENOUGH:
            break
        slope = counts * np.einsum("rj,rj->r", wealth, bets / ratio) / total
        means = np.maximum(means + excess / slope, 0.0)
    return means


def _tangents(blocks: Array, logs: Array, bets: Array, start: int, around: Array, threshold: float) -> tuple[Array, Array]:
    """Return the bounds `[blocks, size]` of every unit from a tangent at one mean per block, `around` `[blocks]`.

    logs `[blocks, J]`: log weights and sums before each block. Also return how far the log wealth at these bounds may lie above
    the threshold, at most in each block `[blocks]`: half the second derivative times the squared step.
    """
    number, size = blocks.shape
    before, places = start + size * np.arange(number), np.arange(1, size + 1)[:, None]
    bounds, missed = np.empty((number, size)), np.empty(number)
    for rows in _slices(number, size * bets.size):
        ratio = 1.0 / (1.0 + bets * around[rows, None])
        pull = bets * ratio
        wealth = blocks[rows].T[:, :, None] * pull  # (1 + g x) / (1 + g v) = g x / (1 + g v) + 1 / (1 + g v)
        wealth += ratio
        wealth[0] *= np.exp(logs[rows] + before[rows, None] * np.log(ratio))
        for place in range(1, size):
            wealth[place] *= wealth[place - 1]
        units = before[rows] + places
        with np.errstate(divide="ignore", invalid="ignore"):
            total = wealth @ np.ones(bets.size)
            slope = np.einsum("prj,rj->pr", wealth, pull) / total
            step = (np.log(total) - threshold) / (slope * units)
            second = np.einsum("prj,rj->pr", wealth, pull * pull) / total * (units + 1.0) - slope * slope * units
            error = 0.5 * units * second * np.square(step)
        bounds[rows] = np.where(total > 0, np.maximum(around[rows] + step, 0.0), 0.0).T
        missed[rows] = np.where(total > 0, error, np.inf).max(axis=0)
    return bounds, missed


def _one_by_one(blocks: Array, logs: Array, bets: Array, before: Counts, threshold: float) -> Array:
    """Return the bounds `[blocks, size]` of every unit, each solved for; before: number of units ahead of each block."""
    size = blocks.shape[1]
    bounds = np.empty(blocks.shape)
    for rows in _slices(len(blocks), size * bets.size):
        sums = logs[rows, None] + np.cumsum(np.log1p(blocks[rows, :, None] * bets), axis=1)
        units = before[rows, None] + np.arange(1, size + 1)
        bounds[rows] = _solve(sums.reshape(-1, bets.size), bets, units.reshape(-1), threshold).reshape(units.shape)
    return bounds


def _slices(number: int, each: int) -> Iterator[slice]:
    """Yield slices of `number` rows of `each` numbers, so that memory stays small."""
    step = max(1, AT_ONCE // each)
    for start in range(0, number, step):
        yield slice(start, start + step)
