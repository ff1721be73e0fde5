"""Where a grid of bets has its weight, found on prior units: never on the units it is then used on."""

from __future__ import annotations

import math

import numpy as np

from aegis.errors import SettingError
from aegis.evidence.grid import SEARCH, Array, Grid, gain_grid

OCTAVES = np.arange(-SEARCH, SEARCH + 1)


def gain_bets(largest: float) -> Array:
    """Return every bet that may become the centre of a gain grid, `[SEARCH + 1]`."""
    return gain_grid(largest, SEARCH).bets[: SEARCH + 1]


def placed_gain_grid(largest: float, prior_factors: Array, mean: float) -> Grid:
    """Return the gain grid around the bet of `gain_bets` whose evidence against `mean` grew fastest on prior units.

    prior_factors `[k, SEARCH + 1]`, the factors of prior units under `gain_bets`; none at all places it at the largest bet.
    """
    if not len(prior_factors):
        return gain_grid(largest, 0)
    bets = gain_bets(largest)
    with np.errstate(divide="ignore", invalid="ignore"):
        growth = np.log(prior_factors).mean(axis=0) - np.log1p(bets * mean)
    growth = np.where(np.isnan(growth), -np.inf, growth)  # a bet that a prior unit killed is no place to start from
    return gain_grid(largest, int(np.argmax(growth)))


def value_bets() -> Array:
    """Return every bet that may become the centre of a value grid, `[2 SEARCH + 1]`."""
    return np.exp2(OCTAVES.astype(np.float64))


def factor_centre(prior_factors: Array, units: int, delta: float) -> int:
    """Return the octave whose single bet projects the best lower bound of a value, from factors `[k, 2 SEARCH + 1]`.

    units: how many units the certificate will have. With one bet g the bound is expm1(mean log factor - log(1/delta)/units) / g.
    """
    if not len(prior_factors) or units < 1:
        raise SettingError("placing a grid needs at least one prior unit and one unit to certify")
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        growth = np.log(prior_factors).mean(axis=0) - math.log(1.0 / delta) / units
        bounds = np.expm1(growth) / value_bets()
    return int(OCTAVES[np.argmax(np.where(np.isnan(bounds), -np.inf, bounds))])
