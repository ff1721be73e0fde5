"""The table BOUNDS: every lower bound that `compare` and `validate` show beside a certificate, by name.

All are computed from one `UnitSample`: unit values of a gain or a value, rewards scaled to [0, 1]. A bound states which of its
conditions are met (`Bound.label`). It raises SettingError
or ModelError where it is not defined, for example for too few units. To add a bound, enter a `BoundMethod`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, MutableMapping
from dataclasses import dataclass, field, replace
from typing import Literal, TypeVar

import numpy as np

from aegis.errors import SettingError
from aegis.evidence.bounds.base import Bound, BoundPath
from aegis.evidence.bounds.confidence_sequence import lower_path
from aegis.evidence.bounds.mean_bounds import (
    RESAMPLES,
    anytime_bernstein,
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
    BoundOrigin,
    PublishedBound,
    Temperature,
    closed_form_lam,
    largest_observed,
    published_bound,
)
from aegis.evidence.grid import Array, value_centre, value_grid

# What an estimate or a bound is about.
Quantity = Literal["gain", "value"]


@dataclass(frozen=True, slots=True)
class PublishedSample:
    """Units as PRISM takes them.

    earned `[K]` or `[K, N]`: w r by unit, or by unit and particle. weights: Q over the particles `[N]`, equal if None. legacy
    `[K]`: what the comparator earns. peaks `[K]`: the largest importance weight of each unit. prior: `earned` of prior units,
    None without any. largest: B, infinite if it was not declared. kl: KL(Q || p0). origin: how the numbers came about.
    """

    earned: Array
    legacy: Array
    peaks: Array
    largest: float
    weights: Array | None = None
    prior: Array | None = None
    kl: float = 0.0
    origin: BoundOrigin = field(default_factory=BoundOrigin)

    def prior_lam(self, delta: float) -> float:
        """Return lam fixed before the certified units: the closed form on prior units, half of its limit without any."""
        if self.prior is None or not len(self.prior):
            return 0.5 / self.largest
        # K S^2 of the certified units is foreseen as K times the S^2 of the prior ones.
        cost = (self.kl + math.log(1.0 / delta)) * len(self.prior) / len(self.earned)
        return closed_form_lam(self.prior, self.largest, cost, self.weights)

    def observed(self, count: int) -> float:
        """Return B as the published experiments take it; SettingError if all weights are 0."""
        return largest_observed(self.peaks[:count])


@dataclass(frozen=True, slots=True)
class UnitSample:
    """K units of one quantity.

    values `[K]`: w r of a value, (w - u) r of a gain, u the comparator's ratio (1 if it is the logger). shift: makes them at
    least 0 if added. paired `[K]`: gains without a lower limit, for approximate bounds; `values` if None. particles `[K, N]`:
    `values` of every particle on its own, drawn with probabilities `shares` `[N]`. prior `[P]`: `values` of prior units, None
    without any. range: declared ends of `values`, None if there are none. rng, resamples: for bounds that draw. published: the
    same units as PRISM takes them. centre: the octave of the bet that is best on the prior units.
    """

    what: Quantity
    values: Array
    particles: Array
    shares: Array
    delta: float
    rng: np.random.Generator
    published: PublishedSample
    shift: float = 0.0
    prior: Array | None = None
    range: tuple[float, float] | None = None
    paired: Array | None = None
    resamples: int = RESAMPLES
    centre: int = field(init=False)

    def __post_init__(self) -> None:
        prior = None if self.prior is None else self.prior + self.shift
        object.__setattr__(self, "centre", bet_centre(prior, self.values.size, self.delta))

    @property
    def high(self) -> float:
        """Return the largest mean that values plus shift can have."""
        return 1.0 + self.shift

    def lifted(self, count: int) -> Array:
        """Return the first values, at least 0."""
        return self.values[:count] + self.shift

    def unlimited(self, count: int) -> Array:
        """Return the first values as approximate bounds take them."""
        return (self.values if self.paired is None else self.paired)[:count]

    @property
    def declared_range(self) -> tuple[float, float]:
        """Return the declared range; SettingError if there is none."""
        if self.range is None:
            raise SettingError("this bound needs a declared range of the unit values")
        return self.range


def bet_centre(prior: Array | None, units: int, delta: float) -> int:
    """Return the octave of the best bet on prior values from 0, for so many units; that of 1 without prior values."""
    return 0 if prior is None else value_centre(prior, units, delta)


# A declared range of the values, a declared largest weight B, or one observed weight above 0.
Requirement = Literal["range", "largest", "weights"]


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


def _smoothed(sample: UnitSample, count: int, lam: float | None = None) -> Bound:
    return _unshifted(sample, logarithmic_smoothing(sample.lifted(count), sample.delta, lam))


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


def _observed(sample: UnitSample, count: int) -> PublishedBound:
    """Return PRISM with lam* and the largest weight observed, as in the published experiments."""
    own = sample.published
    origin = replace(own.origin, largest_from="observed")
    return published_bound(own.earned[:count], sample.delta, "closed form", own.observed(count), own.kl, own.weights, origin)


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
    bound = published_bound(own.earned[:count], sample.delta, "closed form", own.observed(count), reading=origin)
    return bound.algorithm_2(own.legacy[:count])


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
    "LS, lambda fixed": BoundMethod(lambda sample, count: _smoothed(sample, count, 2.0**sample.centre), commands=_VALIDATE),
    "logarithmic smoothing": BoundMethod(_smoothed),
    "Hoeffding": _ranged(hoeffding),
    "empirical Bernstein": _ranged(empirical_bernstein),
    "anytime empirical Bernstein": replace(_ranged(anytime_bernstein), sequence=True),
    "PRISM: lam*, B observed": BoundMethod(_observed, ("value",), "weights"),
    "PRISM: lam*, B declared": BoundMethod(
        lambda sample, count: _declared(sample, count, "closed form"), ("value",), "largest", commands=_COMPARE
    ),
    "PRISM: gain, lam*, B observed": BoundMethod(
        lambda sample, count: _observed(sample, count).gain_over(sample.published.legacy[:count]), ("gain",), "weights"
    ),
    "PRISM: gain, prior lam, B declared": BoundMethod(
        lambda sample, count: _declared(sample, count, None).gain_over(sample.published.legacy[:count]),
        ("gain",),
        "largest",
        commands=_COMPARE,
    ),
    "PRISM: estimate of Algorithm 2": BoundMethod(
        lambda sample, count: _observed(sample, count).estimate_alone(), ("value",), "weights", commands=_COMPARE
    ),
    "PRISM, gate of Algorithm 2": BoundMethod(_algorithm_2, ("gain",), "weights", commands=_VALIDATE),
    "Student t": _approximate(student_t),
    "central limit": _approximate(central_limit),
    "bootstrap, percentile": _resampled(percentile_bootstrap),
    "bootstrap, BCa": _resampled(bca_bootstrap),
}
