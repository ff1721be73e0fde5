"""What the evidence of a study grows by: simulated units under the bets that a certificate would place.

A certificate places its bets on prior units, and few of them place bets badly now and then: with weights that may be large, on
units that did not show the large ones. Both kinds of luck are in a forecast, that of the prior units and that of the certified.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from aegis.evidence import Grid, gain_bets, placed_gain_grid
from aegis.problem import Array
from aegis.validation.planner.play import Play

PLACINGS = 20  # times that bets are placed, on prior units of their own
PLACING_UNITS = 1000  # simulated units that prior units are drawn from
MOST_PRIOR = 2000  # drawn of them at most: bets are well placed by then
CELLS = 2**21  # decisions x actions x bets simulated for one row of the plan
LEAST_UNITS = 200
MOST_REPEATS = 100
TRUSTED = 2.0  # standard errors by which a simulated mean is corrected upwards at most


@dataclass(frozen=True, slots=True)
class Growth:
    """Logarithms `[U, J]` of simulated factors against a margin under bets `[J]`.

    log_weights `[G, J]`: of the bets in each of some grids that prior units may place, equally likely; -inf where a grid has no
    such bet.
    """

    logs: Array
    bets: Array
    log_weights: Array


def growth(plays: tuple[Play, ...], margin: float, prior: int, rng: np.random.Generator) -> Growth:
    """Return what the evidence of simulated units grows by; plays: the same study in worlds that are equally likely.

    prior: how many units bets are placed on.
    """
    grids = placed_grids(plays, margin, prior, rng)
    bets = max((grid.bets for grid in grids), key=len)  # all grids begin with the largest bet, in the same steps
    weights = np.full((len(grids), bets.size), -np.inf)
    for row, grid in zip(weights, grids, strict=True):
        row[: grid.bets.size] = grid.log_weights
    found = []
    for play in plays:
        factors = play.factors(bets, _repeats(play, CELLS // (play.logging.shape[1] * bets.size)), rng)
        found.append(np.log(factors) + _correction(factors, play.expected(bets)))
    return Growth(np.concatenate(found) - np.log1p(bets * margin), bets, weights)


def placed_grids(plays: tuple[Play, ...], margin: float, prior: int, rng: np.random.Generator) -> tuple[Grid, ...]:
    """Return the grids that some draws of so many prior units place, `PLACINGS` of them.

    A certificate widens the residuals of prior units, which its model may have seen. Those of a play are of units that its model
    has not seen, and are wide enough as they are.
    """
    largest = plays[0].largest
    found = []
    for play in plays:
        repeats = min(-(-PLACING_UNITS // (len(plays) * play.units)), MOST_REPEATS)
        found.append(play.factors(gain_bets(largest), repeats, rng))
    factors = np.concatenate(found)
    draws = rng.integers(len(factors), size=(PLACINGS, min(prior, MOST_PRIOR)))
    return tuple(placed_gain_grid(largest, factors[drawn], margin) for drawn in draws)


def _correction(factors: Array, mean: Array) -> Array:
    """Return what the logarithms `[J]` are off by because the factors `[U, J]` do not have their known mean `[J]`.

    Chance in the mean would otherwise be most of the error of a small growth. Where the mean rests on rare large factors that
    were not drawn, the others must not be lifted in their place: upwards it goes by two standard errors at most.
    """
    error = factors.std(axis=0) / np.sqrt(len(factors))
    return np.asarray(np.minimum(mean - factors.mean(axis=0), TRUSTED * error) / mean)


def _repeats(play: Play, rows: int) -> int:
    least = -(-LEAST_UNITS // play.units)
    return int(min(max(rows // len(play.logging), least), MOST_REPEATS))
