"""Grids of bets: the stakes that a test spreads its wealth over, with the weight of each, placed on prior units."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from aegis.errors import SettingError
from aegis.files import json_digest

Array = npt.NDArray[np.float64]

REACH = 30  # a value grid spans 2^-30 .. 2^30 around its centre
SEARCH = 40  # how far from 1, in octaves, a centre may lie
OCTAVES = np.arange(-SEARCH, SEARCH + 1)
FLOOR = 0.05  # eta: the share of every bet that is never staked


@dataclass(frozen=True, slots=True)
class Grid:
    """Bets `[J]` above 0 and the logarithms `[J]` of their weights, which sum to one. `centre` says where the weight is."""

    bets: Array
    log_weights: Array
    centre: int

    @property
    def digest(self) -> str:
        """Return what tells two grids apart; only sketches on the same grid may be merged."""
        return json_digest([[float(bet).hex() for bet in self.bets], [float(w).hex() for w in self.log_weights]])


def value_grid(centre: int = 0) -> Grid:
    """Return bets 2^(centre + i), i = -30..30, with weights proportional to (|i| + 2)^-2 (theory section 2).

    The centre comes from prior data (`value_centre`), never from the data the grid is used on.
    """
    offset = np.arange(-REACH, REACH + 1)
    return _grid(np.exp2(centre + offset.astype(np.float64)), (np.abs(offset) + 2.0) ** -2.0, centre)


def gain_grid(largest: float, centre: int = 0) -> Grid:
    """Return bets (1 - floor) / (largest (1 + 1e-9)) 2^(-j/2), weights proportional to (1 + |j - centre|)^-3 (theory section 3).

    largest: T_max, the largest total variation between candidate and comparator: 1 - 1/W if the candidate is capped at W
    times the comparator, 1 if it is not. It exceeds 1 only where weights of other decisions multiply it. With T_max = 0 the two
    agree and there is nothing to test.
    """
    if not (math.isfinite(largest) and largest > 0):
        raise SettingError(f"the largest total variation is a finite number above 0, found {largest}")
    if not 0 <= centre <= SEARCH:
        raise SettingError(f"the centre of a gain grid lies between 0 and {SEARCH}, found {centre}")
    places = np.arange(max(13, centre + 6) + 1)
    bets = (1.0 - FLOOR) / (largest * (1.0 + 1e-9)) * np.exp2(-places / 2.0)
    return _grid(bets, (1.0 + np.abs(places - centre)) ** -3.0, centre)


def value_centre(prior_values: Array, units: int, delta: float) -> int:
    """Return the octave of the single bet whose projected lower bound is best on prior units `[k]`.

    units: how many units the certificate will have. With one bet g the bound is expm1(mean log1p(g L) - log(1/delta)/units) / g.
    """
    values = np.asarray(prior_values, dtype=np.float64)
    if values.size == 0 or units < 1:
        raise SettingError("placing a grid needs at least one prior unit and one unit to certify")
    growth = np.array([np.log1p(bet * values).mean() for bet in value_bets()]) - math.log(1.0 / delta) / units
    return int(OCTAVES[np.argmax(np.expm1(growth) / value_bets())])


def _grid(bets: Array, weights: Array, centre: int) -> Grid:
    return Grid(bets, np.log(weights / weights.sum()), centre)


def gain_bets(largest: float) -> Array:
    """Return every bet that may become the centre of a gain grid, `[SEARCH + 1]`."""
    return gain_grid(largest, SEARCH).bets[: SEARCH + 1]


def place_gain_grid(largest: float, prior_factors: Array, mean: float) -> Grid:
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
