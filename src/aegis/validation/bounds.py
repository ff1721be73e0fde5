"""Published and classic lower bounds by name, each on the same plain unit values: what our own bounds are compared with.

A bound says by itself whether it is a certificate (`Bound.label`). None stands for: not defined for so few units, or not a bound
of this claim. LS is the logarithmic smoothing of Sakhi and others, PRISM the bound of the paper.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import numpy as np

from aegis.errors import ModelError
from aegis.evidence import (
    Bound,
    Particles,
    Reading,
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
    value_grid,
)
from aegis.evidence.published_gain import NO_UPPER
from aegis.validation.sample import Sample
from aegis.validation.traces import Looks, Trace

RESAMPLES = 1000
OBSERVED = Reading(largest_from="observed")
At = Callable[[Sample, int], Bound | None]  # the bound from the first units


@dataclass(frozen=True, slots=True)
class Entry:
    """A bound of the table. claims: what it can bound. trace: None if it is not defined on the sample."""

    claims: tuple[str, ...]
    trace: Callable[[Sample], Trace | None]


def looked(at: At, *claims: str) -> Entry:
    """Return the entry of a bound that is computed anew at each number of units looked at."""

    def trace(sample: Sample) -> Trace | None:
        found = [(int(count), at(sample, int(count))) for count in sample.counts]
        known = [(count, bound) for count, bound in found if bound is not None]
        if not known or known[-1][0] != sample.counts[-1]:
            return None
        return Looks(
            known[-1][1], np.array([count for count, _ in known]), np.array([bound.value for _, bound in known], dtype=np.float64)
        )

    return Entry(claims or ("gain", "value"), trace)


def _published_given(sample: Sample, count: int) -> Bound:
    prior, cost = sample.prior_earned, math.log(1.0 / sample.delta)
    # The closed form for as many units as there will be, with their spread as in the prior ones.
    lam = closed_form_lam(prior, sample.largest, cost * prior.size / sample.values.size)
    return published_bound(sample.earned[:count], sample.delta, lam, sample.largest)


def _published_root(sample: Sample, count: int) -> Bound | None:
    enough = count > sample.largest**2
    return published_bound(sample.earned[:count], sample.delta, "root", sample.largest) if enough else None


def _published_closed(sample: Sample, count: int) -> Bound | None:
    largest = _observed(sample, count)
    if largest is None:
        return None
    return published_bound(sample.earned[:count], sample.delta, "closed form", largest, reading=OBSERVED)


def _published_gain(sample: Sample, count: int) -> Bound | None:
    largest = _observed(sample, count)
    if largest is None:
        return None
    earned, legacy = sample.earned[:count], sample.legacy[:count]
    return published_gain(earned, legacy, sample.delta, "closed form", largest, reading=OBSERVED)


def _algorithm_2(sample: Sample, count: int) -> Bound | None:
    largest = _observed(sample, count)
    if largest is None:
        return None
    gate = algorithm_2_gate(sample.earned[:count], sample.legacy[:count], sample.delta, largest, reading=OBSERVED)
    estimate = gate.estimate
    return replace(estimate, value=estimate.value - gate.legacy_mean, unmet=(*estimate.unmet, NO_UPPER))


def _observed(sample: Sample, count: int) -> float | None:
    """Return B as the published experiments take it; None if no weight is above 0 yet."""
    weights = sample.weights[:count]
    return largest_observed(weights) if weights.max() > 0 else None


def _smoothed(sample: Sample, count: int) -> Bound:
    return _unshifted(sample, logarithmic_smoothing(sample.values[:count] + sample.shift, sample.delta))


def _smoothed_given(sample: Sample, count: int) -> Bound:
    lam = 2.0**sample.centre
    return _unshifted(sample, logarithmic_smoothing(sample.values[:count] + sample.shift, sample.delta, lam))


def _particles(sample: Sample, count: int) -> Bound:
    grid = value_grid(sample.centre)
    found = Particles.empty(grid, sample.shares.size, sample.shares).add(sample.particles[:count] + sample.shift)
    return _unshifted(sample, found.lower(sample.shares, sample.delta, sample.high))


def _betting_path(sample: Sample) -> Trace:
    path = lower_path(sample.values + sample.shift, value_grid(sample.centre), sample.delta, sample.high) - sample.shift
    met = ("values are from 0", "bets were placed on prior units")
    last = Bound("betting path", float(path[-1]), sample.delta, path.size, "anytime", met, ())
    return Looks(last, np.arange(1, path.size + 1), path)


def _bca(sample: Sample, count: int) -> Bound | None:
    try:
        return bca_bootstrap(sample.values[:count], sample.delta, sample.rng, RESAMPLES)
    except ModelError:  # too few units that differ
        return None


def _anytime_bernstein(sample: Sample) -> Trace:
    path = anytime_bernstein_path(sample.values, sample.delta, sample.range)
    return Looks(anytime_bernstein(sample.values, sample.delta, sample.range), np.arange(1, path.size + 1), path)


def _unshifted(sample: Sample, bound: Bound) -> Bound:
    return replace(bound, value=bound.value - sample.shift)


BOUNDS: Mapping[str, Entry] = {
    "betting path": Entry(("gain", "value"), _betting_path),
    "PAC-Bayes, particles": looked(_particles),
    "PRISM, lambda fixed": looked(_published_given, "value"),
    "PRISM, lambda 1/sqrt(K)": looked(_published_root, "value"),
    "LS, lambda fixed": looked(_smoothed_given),
    "LS, lambda 1/sqrt(K)": looked(_smoothed),
    "Hoeffding": looked(lambda sample, count: hoeffding(sample.values[:count], sample.delta, sample.range)),
    "empirical Bernstein": looked(lambda sample, count: empirical_bernstein(sample.values[:count], sample.delta, sample.range)),
    "empirical Bernstein, anytime": Entry(("gain", "value"), _anytime_bernstein),
    "PRISM, lambda* and largest weight": looked(_published_closed, "value"),
    "PRISM, gain as published": looked(_published_gain, "gain"),
    "PRISM, gate of Algorithm 2": looked(_algorithm_2, "gain"),
    "Student t": looked(lambda sample, count: student_t(sample.values[:count], sample.delta)),
    "central limit": looked(lambda sample, count: central_limit(sample.values[:count], sample.delta)),
    "bootstrap, percentile": looked(
        lambda sample, count: percentile_bootstrap(sample.values[:count], sample.delta, sample.rng, RESAMPLES)
    ),
    "bootstrap, BCa": looked(_bca),
}
