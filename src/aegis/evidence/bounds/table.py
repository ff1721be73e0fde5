"""The table BOUNDS: every lower bound that `compare` and `validate` show beside a certificate, by name.

All are computed from one `UnitSample`. A bound states which of its conditions are met (`Bound.label`). It raises SettingError
or ModelError where it is not defined, for example for too few units. To add a bound, enter a `BoundMethod`.
"""

from __future__ import annotations

from collections.abc import Callable, MutableMapping
from dataclasses import dataclass, fields, replace
from typing import Literal, TypeVar

import numpy as np

from aegis.errors import SettingError
from aegis.evidence.bounds.base import Bound
from aegis.evidence.bounds.confidence_sequence import lower_path
from aegis.evidence.bounds.mean_bounds import (
    anytime_bernstein,
    anytime_bernstein_path,
    bca_bootstrap,
    central_limit,
    empirical_bernstein,
    hoeffding,
    logarithmic_smoothing,
    percentile_bootstrap,
    student_t,
)
from aegis.evidence.bounds.pac_bayes import PacBayesBound, Particles, best_posterior, matching_bet, sharp_bound
from aegis.evidence.bounds.prism import (
    NO_LEGACY_BOUND,
    PublishedBound,
    Temperature,
    algorithm_2_gate,
    published_bound,
    published_estimate,
    published_gain,
)
from aegis.evidence.bounds.sample import Quantity, UnitSample
from aegis.evidence.grid import Array, value_grid

# A declared range of the values, a declared largest weight B, or one observed weight above 0.
Requirement = Literal["range", "largest", "weights"]


@dataclass(frozen=True, slots=True)
class BoundPath(Bound):
    """A bound that is computed after every unit: path `[K]`."""

    path: Array


@dataclass(frozen=True, slots=True)
class BoundMethod:
    """A bound of the table.

    at: from a sample, the bound of its first `count` units. claims: what it can bound. needs: what the sample must have; B and
    weights belong to PRISM, which reads `sample.published`. sequence: whether `at` returns a `BoundPath`. commands: which of
    `compare` and `validate` show it.
    """

    at: Callable[[UnitSample, int], Bound]
    claims: tuple[Quantity, ...] = ("value", "gain")
    needs: Requirement | None = None
    sequence: bool = False
    commands: tuple[str, ...] = ("compare", "validate")

    @property
    def published(self) -> bool:
        """Say whether it is PRISM, or built on its lam and B."""
        return self.needs in ("largest", "weights")


def _betting(sample: UnitSample, count: int) -> BoundPath:
    path = lower_path(sample.lifted(count), value_grid(sample.centre), sample.delta, sample.high) - sample.shift
    met = ("values are from 0", "bets did not see the certified units")
    return BoundPath(
        method="betting",
        value=float(path[-1]),
        delta=sample.delta,
        units=path.size,
        validity="anytime",
        met=met,
        unmet=(),
        path=path,
    )


def _particles(sample: UnitSample, count: int) -> Particles:
    empty = Particles.empty(value_grid(sample.centre), sample.shares.size, sample.shares)
    return empty.add(sample.particles[:count] + sample.shift)


def _sharp(sample: UnitSample, count: int) -> PacBayesBound:
    particles = _particles(sample, count)
    return _unshifted(sample, particles.lower(particles.prior, sample.delta, sample.high))


def _reweighed(sample: UnitSample, count: int) -> PacBayesBound:
    if sample.shares.size == 1:
        raise SettingError("the candidate is a single policy: there is nothing to weigh anew")
    return _unshifted(sample, best_posterior(_particles(sample, count), sample.delta, sample.high))


def _anytime_bernstein(sample: UnitSample, count: int) -> BoundPath:
    values = sample.values[:count]
    bound = anytime_bernstein(values, sample.delta, sample.declared_range)
    path = anytime_bernstein_path(values, sample.delta, sample.declared_range)
    return BoundPath(**{part.name: getattr(bound, part.name) for part in fields(bound)}, path=path)


def _smoothed(sample: UnitSample, count: int) -> Bound:
    return _unshifted(sample, logarithmic_smoothing(sample.lifted(count), sample.delta))


def _smoothed_prior(sample: UnitSample, count: int) -> Bound:
    return _unshifted(sample, logarithmic_smoothing(sample.lifted(count), sample.delta, 2.0**sample.centre))


AnyBound = TypeVar("AnyBound", bound=Bound)


def _unshifted(sample: UnitSample, bound: AnyBound) -> AnyBound:
    return replace(bound, value=bound.value - sample.shift)


def _ranged(bound: Callable[[Array, float, tuple[float, float]], Bound]) -> BoundMethod:
    return BoundMethod(lambda sample, count: bound(sample.values[:count], sample.delta, sample.declared_range), needs="range")


def _approximate(bound: Callable[[Array, float], Bound]) -> BoundMethod:
    return BoundMethod(lambda sample, count: bound(sample.unlimited(count), sample.delta))


def _resampled(bound: Callable[[Array, float, np.random.Generator, int], Bound]) -> BoundMethod:
    return BoundMethod(lambda sample, count: bound(sample.unlimited(count), sample.delta, sample.rng, sample.resamples))


def _declared(sample: UnitSample, count: int, lam: Temperature | None) -> PublishedBound:
    """Return PRISM with B as it was declared. lam: None for the one of the prior units."""
    own = sample.published
    used = own.prior_lam(sample.delta) if lam is None else lam
    return published_bound(own.earned[:count], sample.delta, used, own.largest, own.kl, own.weights, own.origin)


def _observed(sample: UnitSample, count: int, bound: Callable[..., PublishedBound] = published_bound) -> PublishedBound:
    """Return PRISM with lam* and the largest weight observed, as in the published experiments."""
    own = sample.published
    origin = replace(own.origin, largest_from="observed")
    return bound(own.earned[:count], sample.delta, "closed form", own.observed(count), own.kl, own.weights, origin)


def _gain_observed(sample: UnitSample, count: int) -> PublishedBound:
    own = sample.published
    return _observed(sample, count, lambda earned, *rest: published_gain(earned, own.legacy[:count], *rest))


def _gain_declared(sample: UnitSample, count: int) -> PublishedBound:
    own = sample.published
    shared = (sample.delta, own.prior_lam(sample.delta), own.largest, own.kl, own.weights, own.origin)
    return published_gain(own.earned[:count], own.legacy[:count], *shared)


def _matched(sample: UnitSample, count: int) -> PacBayesBound:
    """Return the sharp bound at the bet that goes with PRISM's lam and B: the same conditions, never below PRISM."""
    own = sample.published
    bet = matching_bet(own.prior_lam(sample.delta), own.largest)
    draws = own.origin.particles == "draws"
    return sharp_bound(own.earned[:count], bet, sample.delta, own.kl, own.weights, own.origin.prior_fixed, draws)


def _algorithm_2(sample: UnitSample, count: int) -> PublishedBound:
    """Return the estimate of Algorithm 2 less the legacy's mean: what its gate compares with the margin."""
    own = sample.published
    origin = replace(own.origin, largest_from="observed")
    gate = algorithm_2_gate(own.earned[:count], own.legacy[:count], sample.delta, own.observed(count), reading=origin)
    estimate = gate.estimate
    return replace(estimate, value=estimate.value - gate.legacy_mean, unmet=(*estimate.unmet, NO_LEGACY_BOUND))


# The names of bounds that others refer to.
BETTING = "betting, plain values"
# PAC-Bayes bounds of all particles: of the candidate itself, and of the best posterior.
SHARP, REWEIGHED = "sharp PAC-Bayes, Q = p0", "sharp PAC-Bayes, best Q (another policy)"
# The sharp bound under the conditions of PRISM.
MATCHED = "sharp PAC-Bayes, lam and B of PRISM"
_COMPARE, _VALIDATE = ("compare",), ("validate",)

BOUNDS: MutableMapping[str, BoundMethod] = {
    BETTING: BoundMethod(_betting, sequence=True),
    SHARP: BoundMethod(_sharp),
    REWEIGHED: BoundMethod(_reweighed, commands=_COMPARE),
    "PRISM: prior lam, B declared": BoundMethod(lambda sample, count: _declared(sample, count, None), ("value",), "largest"),
    "PRISM: 1/sqrt(K), B declared": BoundMethod(lambda sample, count: _declared(sample, count, "root"), ("value",), "largest"),
    MATCHED: BoundMethod(_matched, ("value",), "largest", commands=_COMPARE),
    "LS, lambda fixed": BoundMethod(_smoothed_prior, commands=_VALIDATE),
    "logarithmic smoothing": BoundMethod(_smoothed),
    "Hoeffding": _ranged(hoeffding),
    "empirical Bernstein": _ranged(empirical_bernstein),
    "anytime empirical Bernstein": BoundMethod(_anytime_bernstein, needs="range", sequence=True),
    "PRISM: lam*, B observed": BoundMethod(_observed, ("value",), "weights"),
    "PRISM: lam*, B declared": BoundMethod(
        lambda sample, count: _declared(sample, count, "closed form"), ("value",), "largest", commands=_COMPARE
    ),
    "PRISM: gain, lam*, B observed": BoundMethod(_gain_observed, ("gain",), "weights"),
    "PRISM: gain, prior lam, B declared": BoundMethod(_gain_declared, ("gain",), "largest", commands=_COMPARE),
    "PRISM: estimate of Algorithm 2": BoundMethod(
        lambda sample, count: _observed(sample, count, published_estimate), ("value",), "weights", commands=_COMPARE
    ),
    "PRISM, gate of Algorithm 2": BoundMethod(_algorithm_2, ("gain",), "weights", commands=_VALIDATE),
    "Student t": _approximate(student_t),
    "central limit": _approximate(central_limit),
    "bootstrap, percentile": _resampled(percentile_bootstrap),
    "bootstrap, BCa": _resampled(bca_bootstrap),
}
