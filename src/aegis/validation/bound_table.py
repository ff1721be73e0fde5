"""The table BOUNDS of published and classic lower bounds by name, each on the same plain unit values.

A bound states itself whether it is a certificate (`Bound.label`). None means that it is not defined for so few units, or
for this claim.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from aegis.certificate import Candidate
from aegis.errors import ModelError
from aegis.evidence import (
    NO_LEGACY_BOUND,
    Bound,
    BoundOrigin,
    Particles,
    algorithm_2_gate,
    anytime_bernstein,
    anytime_bernstein_path,
    bca_bootstrap,
    central_limit,
    closed_form_lam,
    empirical_bernstein,
    hoeffding,
    largest_observed,
    logarithmic_smoothing,
    lower_path,
    percentile_bootstrap,
    published_bound,
    published_gain,
    student_t,
    value_centre,
    value_grid,
)
from aegis.policies import TargetColumns, problem_of
from aegis.problem import Array, Batch
from aegis.validation.bound_traces import Counts, LookTrace, Trace


@dataclass(frozen=True, slots=True)
class BoundSample:
    """Units of one claim, scaled to rewards in [0, 1].

    values `[U]`: what is bounded, w r of a 'value' and (w - u) r of a 'gain', u = 1 where the comparator is the logger.
    shift: added to make them at least 0. earned `[U]`:
    w r. weights `[U]`: the largest weight in each unit. particles `[U, N]`: `values` of each particle by itself, which act with
    probabilities `shares` `[N]`. prior `[P]`, prior_earned `[P]`: the same of units that were set apart. largest: B, a limit of
    the weights that is known beforehand. counts: the numbers of units to look at. rng: for bounds that draw. centre: the octave
    of the bet that is best on the prior units, for as many units as there will be. ratio: the largest u.
    """

    what: str
    values: Array
    earned: Array
    weights: Array
    particles: Array
    shares: Array
    prior: Array
    prior_earned: Array
    largest: float
    delta: float
    counts: Counts
    rng: np.random.Generator
    ratio: float = 1.0
    centre: int = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "centre", value_centre(self.prior + self.shift, self.values.size, self.delta))

    @property
    def shift(self) -> float:
        """Return what makes values at least 0 if added."""
        return self.ratio if self.what == "gain" else 0.0

    @property
    def high(self) -> float:
        """Return the largest mean that values plus shift can have."""
        return 1.0 + self.shift

    @property
    def range(self) -> tuple[float, float]:
        """Return the declared range of the values. Without exploration u = 1; with it u may be as small as 0."""
        least = 1.0 if self.what == "gain" and self.ratio == 1.0 else 0.0
        return -self.shift, self.largest - least

    @property
    def legacy(self) -> Array:
        """Return what each unit says the comparator earns, `[U]`; only of a gain."""
        return self.earned - self.values


def declared_largest(candidate: Candidate, scope: Sequence[str], prior: Batch) -> float:
    """Return B, a limit of the weights, fixed without the certified units.

    By level the candidate's cap, or one over the smallest probability the legacy gave to anything in the prior log if that is
    less; the product over the levels of the scope. It is a limit for certain where caps decide, and where exploration puts a
    floor under the legacy's probabilities that the prior log has met. Where actions are an interval, a smoothed candidate has a
    density of at most one over the bandwidth, the length of the shortest window.
    """
    limits = []
    for name in scope:
        table = prior.levels[name]
        chances = table.mu_taken if table.mu_full is None else table.mu_full
        most = 1.0 if table.value is None else _largest_density(candidate, name)
        limits.append(min(candidate.cap(name), most * (1.0 + 1e-9) / float(chances[chances > 0].min())))
    return math.prod(limits)


def _largest_density(candidate: Candidate, level: str) -> float:
    """Return the largest density of a smoothed candidate at a level; infinite if it is known by columns."""
    if isinstance(candidate.policy, TargetColumns):
        return math.inf
    return 1.0 / float(problem_of(candidate.policy).level(level).actions.bandwidth or 0.0)


RESAMPLES = 1000

OBSERVED = BoundOrigin(largest_from="observed")

At = Callable[[BoundSample, int], Bound | None]  # the bound from the first units


@dataclass(frozen=True, slots=True)
class BoundEntry:
    """A bound of the table. claims: what it can bound. trace: None if it is not defined on the sample."""

    claims: tuple[str, ...]
    trace: Callable[[BoundSample], Trace | None]


def entry_at_looks(at: At, *claims: str) -> BoundEntry:
    """Return the entry of a bound that is computed anew at each number of units looked at."""

    def trace(sample: BoundSample) -> Trace | None:
        found = [(int(count), at(sample, int(count))) for count in sample.counts]
        known = [(count, bound) for count, bound in found if bound is not None]
        if not known or known[-1][0] != sample.counts[-1]:
            return None
        return LookTrace(
            known[-1][1], np.array([count for count, _ in known]), np.array([bound.value for _, bound in known], dtype=np.float64)
        )

    return BoundEntry(claims or ("gain", "value"), trace)


def _published_given(sample: BoundSample, count: int) -> Bound:
    prior, cost = sample.prior_earned, math.log(1.0 / sample.delta)
    # The closed form for as many units as there will be, with their spread as in the prior ones.
    lam = closed_form_lam(prior, sample.largest, cost * prior.size / sample.values.size)
    return published_bound(sample.earned[:count], sample.delta, lam, sample.largest)


def _published_root(sample: BoundSample, count: int) -> Bound | None:
    enough = count > sample.largest**2
    return published_bound(sample.earned[:count], sample.delta, "root", sample.largest) if enough else None


def _published_closed(sample: BoundSample, count: int) -> Bound | None:
    largest = _observed(sample, count)
    if largest is None:
        return None
    return published_bound(sample.earned[:count], sample.delta, "closed form", largest, reading=OBSERVED)


def _published_gain(sample: BoundSample, count: int) -> Bound | None:
    largest = _observed(sample, count)
    if largest is None:
        return None
    earned, legacy = sample.earned[:count], sample.legacy[:count]
    return published_gain(earned, legacy, sample.delta, "closed form", largest, reading=OBSERVED)


def _algorithm_2(sample: BoundSample, count: int) -> Bound | None:
    largest = _observed(sample, count)
    if largest is None:
        return None
    gate = algorithm_2_gate(sample.earned[:count], sample.legacy[:count], sample.delta, largest, reading=OBSERVED)
    estimate = gate.estimate
    return replace(estimate, value=estimate.value - gate.legacy_mean, unmet=(*estimate.unmet, NO_LEGACY_BOUND))


def _observed(sample: BoundSample, count: int) -> float | None:
    """Return B as the published experiments take it; None if no weight is above 0 yet."""
    weights = sample.weights[:count]
    return largest_observed(weights) if weights.max() > 0 else None


def _smoothed(sample: BoundSample, count: int) -> Bound:
    return _unshifted(sample, logarithmic_smoothing(sample.values[:count] + sample.shift, sample.delta))


def _smoothed_given(sample: BoundSample, count: int) -> Bound:
    lam = 2.0**sample.centre
    return _unshifted(sample, logarithmic_smoothing(sample.values[:count] + sample.shift, sample.delta, lam))


def _particles(sample: BoundSample, count: int) -> Bound:
    grid = value_grid(sample.centre)
    found = Particles.empty(grid, sample.shares.size, sample.shares).add(sample.particles[:count] + sample.shift)
    return _unshifted(sample, found.lower(sample.shares, sample.delta, sample.high))


def _betting_path(sample: BoundSample) -> Trace:
    path = lower_path(sample.values + sample.shift, value_grid(sample.centre), sample.delta, sample.high) - sample.shift
    met = ("values are from 0", "bets were placed on prior units")
    last = Bound("betting path", float(path[-1]), sample.delta, path.size, "anytime", met, ())
    return LookTrace(last, np.arange(1, path.size + 1), path)


def _bca(sample: BoundSample, count: int) -> Bound | None:
    try:
        return bca_bootstrap(sample.values[:count], sample.delta, sample.rng, RESAMPLES)
    except ModelError:  # too few units that differ
        return None


def _anytime_bernstein(sample: BoundSample) -> Trace:
    path = anytime_bernstein_path(sample.values, sample.delta, sample.range)
    return LookTrace(anytime_bernstein(sample.values, sample.delta, sample.range), np.arange(1, path.size + 1), path)


def _unshifted(sample: BoundSample, bound: Bound) -> Bound:
    return replace(bound, value=bound.value - sample.shift)


BOUNDS: Mapping[str, BoundEntry] = {
    "betting path": BoundEntry(("gain", "value"), _betting_path),
    "PAC-Bayes, particles": entry_at_looks(_particles),
    "PRISM, lambda fixed": entry_at_looks(_published_given, "value"),
    "PRISM, lambda 1/sqrt(K)": entry_at_looks(_published_root, "value"),
    "LS, lambda fixed": entry_at_looks(_smoothed_given),
    "LS, lambda 1/sqrt(K)": entry_at_looks(_smoothed),
    "Hoeffding": entry_at_looks(lambda sample, count: hoeffding(sample.values[:count], sample.delta, sample.range)),
    "empirical Bernstein": entry_at_looks(
        lambda sample, count: empirical_bernstein(sample.values[:count], sample.delta, sample.range)
    ),
    "empirical Bernstein, anytime": BoundEntry(("gain", "value"), _anytime_bernstein),
    "PRISM, lambda* and largest weight": entry_at_looks(_published_closed, "value"),
    "PRISM, gain as published": entry_at_looks(_published_gain, "gain"),
    "PRISM, gate of Algorithm 2": entry_at_looks(_algorithm_2, "gain"),
    "Student t": entry_at_looks(lambda sample, count: student_t(sample.values[:count], sample.delta)),
    "central limit": entry_at_looks(lambda sample, count: central_limit(sample.values[:count], sample.delta)),
    "bootstrap, percentile": entry_at_looks(
        lambda sample, count: percentile_bootstrap(sample.values[:count], sample.delta, sample.rng, RESAMPLES)
    ),
    "bootstrap, BCa": entry_at_looks(_bca),
}
