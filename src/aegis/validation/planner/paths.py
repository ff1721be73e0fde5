"""When does evidence reach its threshold? Simulated paths of wealth, cumulated from the growth of single units."""

from __future__ import annotations

import math

import numpy as np

from aegis.problem import Array
from aegis.validation.planner.growth import Growth

PATHS = 300
STATIONS = 200  # times at which a path is looked at until the crossing that is expected
AT_ONCE = 50  # of these held in memory together
LONGEST = 8.0  # paths are given up after so many times the crossing that is expected
SUMMED = 4  # up to so many units between stations are drawn one by one; sums of more are nearly normal


def crossings(growth: Growth, delta: float, rng: np.random.Generator, paths: int = PATHS) -> Array:
    """Return after how many units each of some simulated paths reaches 1/delta, `[paths]`; infinite if it does not.

    The grids take turns, so that each has its share of the paths.
    """
    alive = np.isfinite(growth.logs).all(axis=0)  # a bet that some unit kills is dead sooner or later
    logs, grids = growth.logs[:, alive], growth.log_weights[:, alive]
    found = np.full(paths, np.inf)
    expected = _expected(logs, grids, delta)
    if not math.isfinite(expected):
        return found
    step = max(1, math.ceil(expected / STATIONS))
    threshold = math.log(1.0 / delta)
    wealth = np.zeros((paths, logs.shape[1]))
    open_paths = np.arange(paths)
    weights = grids[open_paths % len(grids)]
    root = _root(logs) if step > SUMMED else None
    done = 0
    while open_paths.size and done * step < LONGEST * expected:
        grown = _grown(logs, root, (open_paths.size, AT_ONCE, step), rng)
        total = wealth[open_paths, None, :] + np.cumsum(grown, axis=1)
        reached = _log_wealth(total + weights[open_paths, None, :]) >= threshold
        crossed = reached.any(axis=1)
        found[open_paths[crossed]] = (done + 1 + np.argmax(reached[crossed], axis=1)) * step
        wealth[open_paths] = total[:, -1]
        open_paths = open_paths[~crossed]
        done += AT_ONCE
    return found


def _log_wealth(logs: Array) -> Array:
    """Return the logarithm of the sum over the last axis of numbers given by their logarithms `[.., J]`."""
    best = logs.max(axis=-1)
    return np.asarray(best + np.log(np.exp(logs - best[..., None]).sum(axis=-1)))


def _expected(logs: Array, grids: Array, delta: float) -> float:
    """Return the units after which the best single bet of each grid gets there if it grows as on average.

    Of the slowest grid that gets there; infinite if no bet grows.
    """
    rate = logs.mean(axis=0)
    good = rate > 0
    if not good.any():
        return math.inf
    needed = ((math.log(1.0 / delta) - grids[:, good]) / rate[good]).min(axis=1)
    return float(needed[np.isfinite(needed)].max(initial=0.0)) or math.inf


def _grown(logs: Array, root: Array | None, shape: tuple[int, int, int], rng: np.random.Generator) -> Array:
    """Return the growth `[paths, stations, J]` between stations of so many units."""
    paths, stations, step = shape
    if root is None:
        return np.asarray(logs[rng.integers(len(logs), size=shape)].sum(axis=2))
    noise = rng.standard_normal((paths, stations, root.shape[0])) @ root
    return np.asarray(step * logs.mean(axis=0) + math.sqrt(step) * noise)


def _root(logs: Array) -> Array:
    """Return a matrix `[J, J]` that turns independent normal numbers into ones with the covariance of the logs."""
    values, vectors = np.linalg.eigh(np.atleast_2d(np.cov(logs, rowvar=False)))
    return np.asarray((vectors * np.sqrt(np.maximum(values, 0.0))).T)
