"""What a bound may look at: the values of the certified units, and what was fixed or measured before them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from aegis.certificate import Candidate
from aegis.evidence import value_centre
from aegis.policies import TargetColumns
from aegis.policies.state import problem_of
from aegis.problem import Array, Batch
from aegis.validation.traces import Counts


@dataclass(frozen=True, slots=True)
class Sample:
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
        most = 1.0 if table.value is None else _densest(candidate, name)
        limits.append(min(candidate.cap(name), most * (1.0 + 1e-9) / float(chances[chances > 0].min())))
    return math.prod(limits)


def _densest(candidate: Candidate, level: str) -> float:
    """Return the largest density of a smoothed candidate at a level; infinite if it is known by columns."""
    if isinstance(candidate.policy, TargetColumns):
        return math.inf
    return 1.0 / float(problem_of(candidate.policy).level(level).actions.bandwidth or 0.0)
