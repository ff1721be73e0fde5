"""Bounds on unit values: those of the certificate, ours on a path, sharp PAC-Bayes over particles, and the classic ones.

The largest weight that a classic bound needs comes from what was declared beforehand, never from the weights that were seen.
Weights that were seen, and the candidate's own caps, can contradict a declaration; a bound that relies on it then is no
certificate. The values of units do not show it: the mean of an episode may stay below the limit while its weights do not.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np

from aegis.certificate import Candidate, LevelResult
from aegis.comparison.comparison import LowerBound, MissingMethod, Quantity
from aegis.comparison.unit_series import UnitSeries
from aegis.errors import ModelError, SettingError
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
from aegis.ope import Measure, reward_level
from aegis.problem import Array, Level, Problem, Scope
from aegis.rng import stream

LIMIT_ROUNDING = 1.0 + 1e-9  # weights are quotients


@dataclass(frozen=True, slots=True)
class WeightLimit:
    """A bound on the weight of every reward, infinite if nothing was promised; words say who promised it.

    broken: what contradicts it, in words; a bound that relies on the limit does not meet its conditions then.
    """

    weight: float
    words: str
    broken: tuple[str, ...] = ()

    @property
    def known(self) -> bool:
        """Say whether there is one."""
        return math.isfinite(self.weight)

    def against(self, observed: float) -> WeightLimit:
        """Return the limit held against the largest weight that was observed."""
        if observed <= self.weight * LIMIT_ROUNDING:
            return self
        seen = f"a weight of {observed:.4g} was observed, above the largest that was declared, {self.weight:.4g}"
        return replace(self, broken=(*self.broken, seen))


def declared_weight_limit(problem: Problem, candidate: Candidate, scope: Scope, asked: float | None = None) -> WeightLimit:
    """Return the product over the levels in scope of the smaller of the candidate's cap and one over the least propensity.

    asked: what the user declares, which goes before all else, and which the candidate's caps may contradict. Where several
    decisions of one level lead to one reward the product has no end, and nothing is known.
    """
    if asked is not None:
        return WeightLimit(asked, "declared by the user", _above(problem, candidate, scope, asked))
    per = reward_level(problem)
    if problem.carry_over != "none" or per is None or any(problem.index(per) > problem.index(name) for name in scope):
        return WeightLimit(
            math.inf, "several decisions of one level lead to a reward, and the product of their ratios has no known end"
        )
    found = [_level_limit(candidate, problem.level(name)) for name in problem.names if name in scope]
    unknown = [limit.words for limit in found if not limit.known]
    if unknown:
        return WeightLimit(math.inf, "; ".join(unknown))
    return WeightLimit(math.prod(limit.weight for limit in found), "; ".join(limit.words for limit in found))


def _above(problem: Problem, candidate: Candidate, scope: Scope, asked: float) -> tuple[str, ...]:
    """Return that the candidate may have larger weights than was declared, if all its levels in scope are capped."""
    if not all(math.isfinite(candidate.cap(name)) for name in scope):
        return ()
    own = math.prod(_level_limit(candidate, problem.level(name)).weight for name in scope)
    if own <= asked * LIMIT_ROUNDING:
        return ()
    return (f"the candidate's own caps let its weights reach {own:.4g}, above the largest that was declared, {asked:.4g}",)


def _level_limit(candidate: Candidate, level: Level) -> WeightLimit:
    cap, (least, source) = candidate.cap(level.name), _least(level)
    if cap <= least and math.isfinite(cap):
        return WeightLimit(cap, f"'{level.name}': the candidate is capped at {cap:g} times the logged probability")
    if math.isfinite(least):
        return WeightLimit(least, f"'{level.name}': {source}")
    return WeightLimit(math.inf, f"'{level.name}': the candidate has no cap, and the problem file promises no least propensity")


def _least(level: Level) -> tuple[float, str]:
    """Return one over the least probability that the problem file promises every action, and in which words."""
    propensity, count = level.propensity, level.actions.count
    if propensity is None:
        return math.inf, ""
    if propensity.least is not None:
        return 1.0 / propensity.least, f"every action is promised a probability of {propensity.least:g}"
    if propensity.policy == "uniform":
        return float(count), f"the legacy is uniform over at most {count} actions"
    if propensity.shares:
        return 1.0 / min(propensity.shares), f"the legacy takes the rarest action with the fixed share {min(propensity.shares):g}"
    if propensity.epsilon is not None:
        return count / propensity.epsilon, f"the legacy explores {count} actions at rate {propensity.epsilon:g}"
    return math.inf, ""


CLAIM_WORDS = {"value": "the value of the candidate", "gain": "the gain of the candidate over its comparator"}


@dataclass(frozen=True, slots=True)
class ScaledBound:
    """A bound by one method. shift: what was added to the unit values before, and is taken off the bound again."""

    method: str
    what: Quantity
    bound: Bound
    shift: float = 0.0
    provenance: Mapping[str, Any] = field(default_factory=dict)
    claim: str = ""

    def shown(self, measure: Measure) -> LowerBound:
        """Return it in the user's units; whether it is a certificate is what the bound itself says, nothing else."""
        scaled = self.bound.value - self.shift
        return LowerBound(
            self.method,
            self.what,
            measure.gain(scaled) if self.what == "gain" else measure.value(scaled),
            self.bound.delta,
            self.bound.units,
            self.bound.validity,
            self.bound.certificate,
            self.bound.label,
            self.claim or CLAIM_WORDS[self.what],
            self.bound.met,
            self.bound.unmet,
            self.provenance,
        )


def unmet_by_estimates(problem: Problem, scope: Scope) -> tuple[str, ...]:
    """Return which condition of every method that takes propensities as exact is not met at a scope; empty if it is."""
    levels = [level for level in problem.levels if level.name in scope and level.propensity is not None]
    estimated = [f"'{level.name}'" for level in levels if level.propensity is not None and level.propensity.estimated]
    return (f"the propensities at {', '.join(estimated)} are estimated, and taken as exact here",) if estimated else ()


def with_unmet(bound: Bound, words: tuple[str, ...]) -> Bound:
    """Return the bound with further conditions that it does not meet."""
    return replace(bound, unmet=(*bound.unmet, *words)) if words else bound


@dataclass(slots=True)
class BoundCollection:
    """Bounds found so far, and what could not be computed."""

    bounds: list[ScaledBound] = field(default_factory=list)
    missing: list[MissingMethod] = field(default_factory=list)

    def unmet(self, words: tuple[str, ...]) -> None:
        """Add conditions that none of the bounds so far meets."""
        self.bounds = [replace(item, bound=with_unmet(item.bound, words)) for item in self.bounds]

    def lacks(self, method: str, reason: str) -> None:
        """Note that a method has no number, once."""
        if all(item.method != method for item in self.missing):
            self.missing.append(MissingMethod(method, reason))

    def take(self, method: str, compute: Callable[[], ScaledBound]) -> None:
        """Add what is computed under a name, or say why it cannot be; what data refute (RefusedError) ends the comparison."""
        try:
            self.bounds.append(replace(compute(), method=method))
        except (SettingError, ModelError) as error:
            self.lacks(method, str(error))


CERTIFICATE_METHOD = "AEGIS certificate"

CERTIFIED_QUANTITIES: tuple[Quantity, ...] = ("value", "gain")

CERTIFICATE_CONDITIONS = (
    "candidate, bets and models were fixed without the certified units",
    "the assumptions that the certificate lists",
)


def certified_bounds(result: LevelResult, found: BoundCollection) -> list[ScaledBound]:
    """Return value and gain of a certificate at one scope; what is refused has no number, which is noted."""
    bounds = []
    for what in CERTIFIED_QUANTITIES:
        test = next((item for item in result.tests if item.what == what), None)
        if test is None or test.lower_scaled is None:
            found.lacks(CERTIFICATE_METHOD, f"no {what}: {result.reason}")
            continue
        bound = Bound(CERTIFICATE_METHOD, test.lower_scaled, test.delta, test.units, "anytime", CERTIFICATE_CONDITIONS, ())
        told = {"evidence": list(test.method), "centres": list(test.centres), "verdict": result.verdict}
        bounds.append(ScaledBound(CERTIFICATE_METHOD, what, bound, 0.0, told))
    return bounds


PATH_STATIONS = 40  # points of a path that are kept

BETTING_METHOD, SHARP_METHOD = "betting, plain values", "sharp PAC-Bayes, Q = p0"

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
class BoundCase:
    """What every bound is made from: certified and prior units, the particle weights `[N]` of the candidate, B, and the risk.

    split: in words, which units are prior ones. seed: of resamples. ratio: the largest mu / nu of the comparator, 1 if it is the
    logger, None if it is not known.
    """

    units: UnitSeries
    prior: UnitSeries | None
    weights: Array
    limit: WeightLimit
    delta: float
    split: str
    seed: int
    ratio: float | None = 1.0

    def prior_series(self, name: str) -> Array | None:
        """Return a series of the prior units, if there are any."""
        return None if self.prior is None or not self.prior.count else self.prior[name]


@dataclass(frozen=True, slots=True)
class BoundQuantity:
    """Unit values `[K]` of the value or the gain, the name of the particles' series, and what makes both at least 0."""

    what: Quantity
    series: str
    particles: str
    shift: float


BOUND_QUANTITIES = (
    BoundQuantity("value", "value", "particles", 0.0),
    BoundQuantity("gain", "lifted gain", "particle gains", 1.0),
)

APPROXIMATE_SERIES = {"lifted gain": "gain"}  # what approximate bounds, which need no range, are computed from


def evidence_bounds(case: BoundCase, found: BoundCollection) -> None:
    """Add the betting bound, the sharp PAC-Bayes bounds and the classic ones, of value and gain."""
    for quantity in BOUND_QUANTITIES:
        _betting(case, quantity, found)
        _sharp(case, quantity, found)
        _classic(case, quantity, found)


def placed_grid(case: BoundCase, quantity: BoundQuantity) -> tuple[Grid, dict[str, Any]]:
    """Return the grid of bets, its centre chosen on prior units, and how."""
    values = case.prior_series(quantity.series)
    if values is None:
        return value_grid(0), {"bets": "a wide grid around 1"}
    centre = value_centre(values + quantity.shift, case.units.count, case.delta)
    return value_grid(centre), {"bets": f"a grid around 2^{centre}, placed on {values.size} prior units ({case.split})"}


def _betting(case: BoundCase, quantity: BoundQuantity, found: BoundCollection) -> None:
    def compute() -> ScaledBound:
        grid, how = placed_grid(case, quantity)
        path = lower_path(case.units[quantity.series] + quantity.shift, grid, case.delta, 1.0 + quantity.shift)
        met = ("values are from 0", "bets did not see the certified units")
        bound = Bound(BETTING_METHOD, float(path[-1]), case.delta, path.size, "anytime", met, ())
        stations = np.unique(np.geomspace(1, path.size, PATH_STATIONS).astype(np.int64))
        points = [[int(unit), float(path[unit - 1] - quantity.shift)] for unit in stations]
        return ScaledBound(BETTING_METHOD, quantity.what, bound, quantity.shift, {**how, "path_scaled": points})

    found.take(BETTING_METHOD, compute)


def _sharp(case: BoundCase, quantity: BoundQuantity, found: BoundCollection) -> None:
    grid, how = placed_grid(case, quantity)
    values, high = case.units[quantity.particles] + quantity.shift, 1.0 + quantity.shift
    particles = Particles.empty(grid, case.weights.size, case.weights).add(values)
    bound = particles.lower(particles.prior, case.delta, high)
    origin = f"p0 = Q = the candidate, {case.weights.size} particles"
    found.bounds.append(ScaledBound(SHARP_METHOD, quantity.what, bound, quantity.shift, {**how, "kl": bound.kl, "prior": origin}))
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
    found.bounds.append(ScaledBound(REWEIGHED, quantity.what, best, quantity.shift, told, claim))


def _classic(case: BoundCase, quantity: BoundQuantity, found: BoundCollection) -> None:
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


def _ranged(case: BoundCase, quantity: BoundQuantity, method: str) -> ScaledBound:
    most = case.limit.weight if quantity.what == "value" else max(case.limit.weight, case.ratio or 1.0)
    span = (0.0 - quantity.shift, max(most - quantity.shift, 0.0))
    bound = with_unmet(RANGED[method](case.units[quantity.series], case.delta, span), case.limit.broken)
    return ScaledBound(method, quantity.what, bound, 0.0, {"range": list(span), "range_from": case.limit.words})


def _smoothed(case: BoundCase, quantity: BoundQuantity) -> ScaledBound:
    bound = logarithmic_smoothing(case.units[quantity.series] + quantity.shift, case.delta)
    told = {"lam": float(bound.units) ** -0.5, "lam_from": "1/sqrt(K)"}
    return ScaledBound(SMOOTHING, quantity.what, bound, quantity.shift, told)


def _approximate(case: BoundCase, quantity: BoundQuantity, method: str) -> ScaledBound:
    rng = stream(case.seed, "compare", method, quantity.what)
    series = APPROXIMATE_SERIES.get(quantity.series, quantity.series)
    return ScaledBound(method, quantity.what, APPROXIMATE[method](case.units[series], case.delta, rng))
