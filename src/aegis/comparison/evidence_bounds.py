"""Bounds on unit values that are not PRISM: ours on a path, sharp PAC-Bayes over particles, and the classic ones."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from aegis.comparison.found import Findings, Found, lacking
from aegis.comparison.limits import Limit
from aegis.comparison.results import What
from aegis.comparison.series import Units
from aegis.evidence import (
    Bound,
    Grid,
    Particles,
    anytime_bernstein,
    bca_bootstrap,
    best_posterior,
    central_limit,
    empirical_bernstein,
    hoeffding,
    logarithmic_smoothing,
    lower_path,
    percentile_bootstrap,
    student_t,
    value_centre,
    value_grid,
)
from aegis.problem import Array
from aegis.rng import stream

STATIONS = 40  # points of a path that are kept
BETTING, SHARP = "betting, plain values", "sharp PAC-Bayes, Q = p0"
REWEIGHED = "sharp PAC-Bayes, best Q (another policy)"
RANGED: dict[str, Callable[[Array, float, tuple[float, float]], Bound]] = {
    "Hoeffding": hoeffding,
    "empirical Bernstein": empirical_bernstein,
    "anytime empirical Bernstein": anytime_bernstein,
}
APPROXIMATE: dict[str, Callable[[Array, float, np.random.Generator], Bound]] = {
    "Student t": lambda values, delta, _: student_t(values, delta),
    "central limit": lambda values, delta, _: central_limit(values, delta),
    "bootstrap, percentile": percentile_bootstrap,
    "bootstrap, BCa": bca_bootstrap,
}
SMOOTHING = "logarithmic smoothing"
NO_RATIO = (
    "it needs the largest ratio of incumbent to logger: declare 'max_ratio' or 'epsilon', and log the probabilities of all "
    "actions, which alone can show that it holds"
)


@dataclass(frozen=True, slots=True)
class Case:
    """What every bound is made from: certified and prior units, the particle weights `[N]` of the candidate, B, and the risk.

    split: in words, which units are prior ones. seed: of resamples. ratio: the largest mu / nu of the comparator, 1 if it is the
    logger, None if it is not known.
    """

    units: Units
    prior: Units | None
    weights: Array
    limit: Limit
    delta: float
    split: str
    seed: int
    ratio: float | None = 1.0

    def prior_series(self, name: str) -> Array | None:
        """Return a series of the prior units, if there are any."""
        return None if self.prior is None or not self.prior.count else self.prior[name]


@dataclass(frozen=True, slots=True)
class Quantity:
    """Unit values `[K]` of the value or the gain, the name of the particles' series, and what makes both at least 0."""

    what: What
    series: str
    particles: str
    shift: float


QUANTITIES = (Quantity("value", "value", "particles", 0.0), Quantity("gain", "lifted gain", "particle gains", 1.0))
PAIRED = {"lifted gain": "gain"}  # what approximate bounds, which need no range, are computed from


def evidence_bounds(case: Case, found: Findings) -> None:
    """Add the betting bound, the sharp PAC-Bayes bounds and the classic ones, of value and gain."""
    for quantity in QUANTITIES:
        _betting(case, quantity, found)
        _sharp(case, quantity, found)
        _classic(case, quantity, found)


def placed_grid(case: Case, quantity: Quantity) -> tuple[Grid, dict[str, Any]]:
    """Return the grid of bets, its centre chosen on prior units, and how."""
    values = case.prior_series(quantity.series)
    if values is None:
        return value_grid(0), {"bets": "a wide grid around 1"}
    centre = value_centre(values + quantity.shift, case.units.count, case.delta)
    return value_grid(centre), {"bets": f"a grid around 2^{centre}, placed on {values.size} prior units ({case.split})"}


def _betting(case: Case, quantity: Quantity, found: Findings) -> None:
    def compute() -> Found:
        grid, how = placed_grid(case, quantity)
        path = lower_path(case.units[quantity.series] + quantity.shift, grid, case.delta, 1.0 + quantity.shift)
        met = ("values are from 0", "bets did not see the certified units")
        bound = Bound(BETTING, float(path[-1]), case.delta, path.size, "anytime", met, ())
        stations = np.unique(np.geomspace(1, path.size, STATIONS).astype(np.int64))
        points = [[int(unit), float(path[unit - 1] - quantity.shift)] for unit in stations]
        return Found(BETTING, quantity.what, bound, quantity.shift, {**how, "path_scaled": points})

    found.take(BETTING, compute)


def _sharp(case: Case, quantity: Quantity, found: Findings) -> None:
    grid, how = placed_grid(case, quantity)
    values, high = case.units[quantity.particles] + quantity.shift, 1.0 + quantity.shift
    particles = Particles.empty(grid, case.weights.size, case.weights).add(values)
    bound = particles.lower(particles.prior, case.delta, high)
    origin = f"p0 = Q = the candidate, {case.weights.size} particles"
    found.bounds.append(Found(SHARP, quantity.what, bound, quantity.shift, {**how, "kl": bound.kl, "prior": origin}))
    if case.weights.size == 1:
        found.lacks(REWEIGHED, "the candidate is a single policy: there is nothing to weigh anew")
        return
    best = best_posterior(particles, case.delta, high)
    told = {
        **how,
        "kl": best.kl,
        "prior": "p0 = the candidate; Q chosen on the certified units",
        "weights": best.weights.tolist(),
    }
    claim = f"the {quantity.what} of the candidate with its particles weighed as Q, not as it is"
    found.bounds.append(Found(REWEIGHED, quantity.what, best, quantity.shift, told, claim))


def _classic(case: Case, quantity: Quantity, found: Findings) -> None:
    for method in RANGED:
        if quantity.what == "gain" and case.ratio is None:
            found.lacks(method, NO_RATIO)
        elif case.limit.known:
            found.take(method, partial(_ranged, case, quantity, method))
        else:
            found.lacks(method, f"it needs a declared largest weight: {case.limit.words}")
    found.take(SMOOTHING, partial(_smoothed, case, quantity))
    for method in APPROXIMATE:
        found.take(method, partial(_approximate, case, quantity, method))


def _ranged(case: Case, quantity: Quantity, method: str) -> Found:
    most = case.limit.weight if quantity.what == "value" else max(case.limit.weight, case.ratio or 1.0)
    span = (0.0 - quantity.shift, max(most - quantity.shift, 0.0))
    bound = lacking(RANGED[method](case.units[quantity.series], case.delta, span), case.limit.broken)
    return Found(method, quantity.what, bound, 0.0, {"range": list(span), "range_from": case.limit.words})


def _smoothed(case: Case, quantity: Quantity) -> Found:
    bound = logarithmic_smoothing(case.units[quantity.series] + quantity.shift, case.delta)
    told = {"lam": float(bound.units) ** -0.5, "lam_from": "1/sqrt(K)"}
    return Found(SMOOTHING, quantity.what, bound, quantity.shift, told)


def _approximate(case: Case, quantity: Quantity, method: str) -> Found:
    rng = stream(case.seed, "compare", method, quantity.what)
    series = PAIRED.get(quantity.series, quantity.series)
    return Found(method, quantity.what, APPROXIMATE[method](case.units[series], case.delta, rng))
