"""The samples that bounds are computed from: unit values of a gain or a value, rewards scaled to [0, 1]."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from aegis.errors import SettingError
from aegis.evidence.bounds.mean_bounds import RESAMPLES
from aegis.evidence.bounds.prism import BoundOrigin, closed_form_lam, largest_observed
from aegis.evidence.grid import Array, value_centre

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
        peaks = self.peaks[:count]
        if not peaks.max() > 0:
            raise SettingError("all weights are 0: there is no largest one to take for B")
        return largest_observed(peaks)


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
