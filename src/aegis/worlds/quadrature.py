"""Exact pieces of the oracle: Gaussian nodes, a latent behind a Gaussian, and a clipped mean."""

from __future__ import annotations

import numpy as np
from scipy.special import expit, logit, ndtr

from aegis.problem import Array

REACH = 5.0  # beyond this many standard deviations lies less than a millionth of the mass


def gaussian_nodes(count: int, edge: float = 0.0) -> tuple[Array, Array]:
    """Return an even number of equally spaced nodes of a standard normal, and weights `[k]` that sum to one.

    Nodes are midpoints of cells, and `edge` is an edge between two cells. The error falls faster than any power of the
    spacing for smooth functions, with its square for kinks and for jumps at an edge, and with the spacing for jumps elsewhere.
    """
    half = count // 2
    width = REACH / half
    nodes = width * (np.arange(-half, half, dtype=np.float64) + 0.5) + (edge - width * round(edge / width))
    weights = np.exp(-nodes * nodes / 2)
    return nodes, np.asarray(weights / weights.sum())


def latent_nodes(centre: Array, lift: float, spread: Array | float, chance: float, count: int) -> tuple[Array, Array]:
    """Return nodes `[n, 2k]` and weights `[n, 2k]` of `centre + lift U + spread N` with U ~ Bernoulli(chance), N standard normal.

    `count` nodes for each value of U; centre `[n]`, spread `[n]` or a number, which may be 0.
    """
    nodes, weights = gaussian_nodes(count)
    noise = np.broadcast_to(np.asarray(spread, dtype=np.float64), centre.shape)[:, None] * nodes
    values = np.concatenate([centre[:, None] + noise, centre[:, None] + lift + noise], axis=1)
    both = np.concatenate([(1 - chance) * weights, chance * weights])
    return values, np.broadcast_to(both, values.shape)


def latent_chance(value: Array, centre: Array, lift: float, spread: Array | float, chance: float) -> Array:
    """Return P(U = 1 | value) `[n]` for `value = centre + lift U + spread N`: Bayes' rule, also in the limit of spread 0."""
    width = np.asarray(spread, dtype=np.float64)
    # The log likelihood ratio is lift (value - centre - lift / 2) / spread^2; at spread 0 only its sign counts.
    tilt = lift * (value - centre - lift / 2)
    if lift == 0:
        return np.full(value.shape, float(chance))
    with np.errstate(divide="ignore", over="ignore"):
        ratio = np.where(width > 0, tilt / np.where(width > 0, width, 1.0) ** 2, np.where(tilt > 0, np.inf, -np.inf))
    if chance in (0.0, 1.0):
        return np.full(value.shape, float(chance))
    return np.asarray(expit(logit(chance) + ratio))


def clipped_mean(mean: Array, spread: float, low: float, high: float) -> Array:
    """Return E[min(max(X, low), high)] `[n]` for X normal with the given mean and standard deviation, in closed form."""
    if spread == 0:
        return np.clip(mean, low, high)
    below, above = (low - mean) / spread, (high - mean) / spread
    inside = ndtr(above) - ndtr(below)
    bend = (np.exp(-below * below / 2) - np.exp(-above * above / 2)) / np.sqrt(2 * np.pi)
    return np.asarray(low * ndtr(below) + high * ndtr(-above) + mean * inside + spread * bend)
