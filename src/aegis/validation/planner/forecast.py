"""The forecast: from a study that could be made to a row of the plan, by simulated growth and paths of evidence.

Everything is scaled to rewards in [0, 1], 1 best. A forecast contains the luck of the prior units, on which bets are
placed, and that of the certified units.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from aegis.evidence import FLOOR, Grid, gain_bets, gain_stakes, place_gain_grid, water_levels
from aegis.problem import Array
from aegis.rng import stream
from aegis.validation.planner.plan_result import PlanRow

Pool = Callable[[Array], Array]


@dataclass(frozen=True, slots=True)
class HypotheticalStudy:
    """Decisions of one level, a logging policy, a candidate and the incumbent that it is compared with, and a world that answers.

    logging, candidate, comparator `[n, A]`: distributions. control `[n, A]`: the prediction in [0, 1] that the bets use. mean
    `[n, A]`: what an action earns in the world on average. residual `[n]`: by how much a reward differs from that, under every
    action. largest: T_max of the candidate. pool: from factors of decisions `[n, J]` to those of the units they belong to
    `[U, J]`; a unit in which nothing is at stake has the factor 1.
    """

    logging: Array
    candidate: Array
    control: Array
    mean: Array
    residual: Array
    largest: float
    pool: Pool
    comparator: Array

    @property
    def gain(self) -> float:
        """Return the candidate's gain in this world."""
        return self._over_units(self._gains())

    @property
    def moved(self) -> float:
        """Return the probability that the candidate moves from some actions to others, on average over units."""
        return self._over_units(np.maximum(self.comparator - self.candidate, 0.0).sum(axis=1))

    def factors(self, bets: Array, repeats: int, rng: np.random.Generator) -> Array:
        """Return the factors `[repeats U, J]` of simulated units: the same contexts, new actions, rewards kept within [0, 1].

        Units come in an order without meaning.
        """
        stakes, rows = gain_stakes(self.candidate, self.comparator, self.logging), np.arange(len(self.logging))
        up, down = np.maximum(stakes.weights, 0.0), np.maximum(-stakes.weights, 0.0)
        kappa = up * self.control + down * (1.0 - self.control)
        target = (1.0 - FLOOR) / bets - stakes.worst[:, None]
        # Levels do not depend on what is drawn: they are found once, and not as often as `water_filled_factors` would.
        level = np.where(target >= 0, water_levels(kappa, self.logging, target), np.nan)
        chances = np.cumsum(self.logging, axis=1)
        parts = []
        for _ in range(repeats):
            action = (chances <= rng.random(len(rows))[:, None] * chances[:, -1:]).sum(axis=1)
            reward = np.clip(self.mean[rows, action] + self.residual, 0.0, 1.0)
            earned = up[rows, action] * reward + down[rows, action] * (1.0 - reward)
            stake = np.maximum(level - kappa[rows, action][:, None], 0.0) + earned[:, None]
            parts.append(self.pool(FLOOR + bets * stake))
        return np.concatenate(parts)

    def expected(self, bets: Array) -> Array:
        """Return the mean `[J]` of a unit's factor under each bet, which needs no simulation: one plus bet times gain."""
        return np.asarray(self.pool(1.0 + self._gains()[:, None] * bets).mean(axis=0))

    @property
    def units(self) -> int:
        """Return how many units the decisions belong to."""
        return len(self.pool(np.ones((len(self.logging), 1))))

    def _gains(self) -> Array:
        return np.asarray(((self.candidate - self.comparator) * self.mean).sum(axis=1))

    def _over_units(self, values: Array) -> float:
        return float(self.pool(1.0 + values[:, None]).mean() - 1.0)


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


def simulate_growth(plays: tuple[HypotheticalStudy, ...], margin: float, prior: int, rng: np.random.Generator) -> Growth:
    """Return what the evidence of simulated units grows by; plays: the same study in worlds that are equally likely.

    prior: how many units bets are placed on.
    """
    grids = placed_grids(plays, margin, prior, rng)
    bets = max((grid.bets for grid in grids), key=len)  # all grids begin with the largest bet, in the same steps
    weights = np.full((len(grids), bets.size), -np.inf)
    for row, grid in zip(weights, grids, strict=True):
        row[: grid.bets.size] = grid.log_weights
    logs = []
    for play in plays:
        factors = play.factors(bets, _repeats(play, CELLS // (play.logging.shape[1] * bets.size)), rng)
        logs.append(np.log(factors) + _correction(factors, play.expected(bets)))
    return Growth(np.concatenate(logs) - np.log1p(bets * margin), bets, weights)


def placed_grids(plays: tuple[HypotheticalStudy, ...], margin: float, prior: int, rng: np.random.Generator) -> tuple[Grid, ...]:
    """Return the grids that some draws of so many prior units place, `PLACINGS` of them.

    A certificate widens the residuals of prior units, which its model may have seen. Those of a play are of units that its model
    has not seen, and are wide enough as they are.
    """
    largest = plays[0].largest
    parts = []
    for play in plays:
        repeats = min(-(-PLACING_UNITS // (len(plays) * play.units)), MOST_REPEATS)
        parts.append(play.factors(gain_bets(largest), repeats, rng))
    factors = np.concatenate(parts)
    draws = rng.integers(len(factors), size=(PLACINGS, min(prior, MOST_PRIOR)))
    return tuple(place_gain_grid(largest, factors[drawn], margin) for drawn in draws)


def _correction(factors: Array, mean: Array) -> Array:
    """Return what the logarithms `[J]` are off by because the factors `[U, J]` do not have their known mean `[J]`.

    Chance in the mean would otherwise be most of the error of a small growth. Where the mean rests on rare large factors that
    were not drawn, the others must not be lifted in their place: upwards it goes by two standard errors at most.
    """
    error = factors.std(axis=0) / np.sqrt(len(factors))
    return np.asarray(np.minimum(mean - factors.mean(axis=0), TRUSTED * error) / mean)


def _repeats(play: HypotheticalStudy, rows: int) -> int:
    least = -(-LEAST_UNITS // play.units)
    return int(min(max(rows // len(play.logging), least), MOST_REPEATS))


PATHS = 300

STATIONS = 200  # times at which a path is looked at until the crossing that is expected

AT_ONCE = 50  # of these held in memory together

LONGEST = 8.0  # paths are given up after so many times the crossing that is expected

SUMMED = 4  # up to so many units between stations are drawn one by one; sums of more are nearly normal


def crossing_times(growth: Growth, delta: float, rng: np.random.Generator, paths: int = PATHS) -> Array:
    """Return after how many units each of some simulated paths reaches 1/delta, `[paths]`; infinite if it does not.

    The grids take turns, so that each has its share of the paths.
    """
    alive = np.isfinite(growth.logs).all(axis=0)  # a bet that some unit kills is dead sooner or later
    logs, grids = growth.logs[:, alive], growth.log_weights[:, alive]
    times = np.full(paths, np.inf)
    expected = _expected(logs, grids, delta)
    if not math.isfinite(expected):
        return times
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
        times[open_paths[crossed]] = (done + 1 + np.argmax(reached[crossed], axis=1)) * step
        wealth[open_paths] = total[:, -1]
        open_paths = open_paths[~crossed]
        done += AT_ONCE
    return times


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


LIKELY = 0.9  # of all studies have their certificate by then

NOTHING = "candidate and comparator agree: there is nothing to certify"

NO_GAIN = "the candidate's gain does not exceed the margin"

NO_GROWTH = "evidence would not grow: this candidate moves too much for what it gains; take a smaller cap or explore more"


def forecast_row(
    plays: tuple[HypotheticalStudy, ...],
    explore: float | None,
    cap: float,
    margin: float,
    delta: float,
    width: float,
    prior: int,
    seed: int,
) -> PlanRow:
    """Return the row of a study, simulated; plays: the same study in equally likely worlds.

    width: of the reward's range. prior: how many units bets are placed on.
    """
    gain = float(np.mean([play.gain for play in plays]))
    if not any(play.moved > 0 for play in plays):
        return PlanRow(explore=explore, cap=cap, episodes=None, likely=None, gain=gain * width, why=NOTHING)
    if gain <= margin:
        return PlanRow(explore=explore, cap=cap, episodes=None, likely=None, gain=gain * width, why=NO_GAIN)
    # One stream for all rows: they differ by what is compared, not by luck.
    growth = simulate_growth(plays, margin, prior, stream(seed, "plan", "units"))
    reached = np.sort(crossing_times(growth, delta, stream(seed, "plan", "paths")))
    least = _least(growth.bets, gain, margin, delta)
    half, likely = (_at(reached, share, least) for share in (0.5, LIKELY))
    return PlanRow(
        explore=explore, cap=cap, episodes=half, likely=likely, gain=gain * width, why=NO_GROWTH if half is None else ""
    )


def _at(reached: np.ndarray, share: float, least: float) -> int | None:
    """Return by when a share of the sorted paths has crossed; None if they never do."""
    units = float(reached[min(math.ceil(share * reached.size), reached.size) - 1])
    return math.ceil(max(units, least)) if math.isfinite(units) else None


def _least(bets: np.ndarray, gain: float, margin: float, delta: float) -> float:
    """Return the units below which no bet gets there, were every unit's factor at its mean."""
    return float(np.min(math.log(1.0 / delta) / (np.log1p(bets * gain) - np.log1p(bets * margin))))
