"""A search for the length-scales and prior precision with which random Fourier features predicted their data best.

The marginal likelihood is in closed form but has many local optima: an input that matters only together with another looks
useless while that one is switched off, and many inputs at once drown the few that matter. The search therefore starts twice, with
all inputs alike and with all but the best pair switched off, and changes one coordinate at a time over a whole grid until nothing
improves: first on few rows and features, which is many times cheaper and enough to see which inputs matter, then on all of them
near the better end.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from aegis.errors import ModelError
from aegis.mechanisms.fourier import Fourier
from aegis.mechanisms.nig import NIG, Moments
from aegis.problem import Array

OFF = 64.0  # so long that a standardised input adds nothing but its linear term
LENGTHSCALES = (0.25, 0.35, 0.5, 0.7, 1.0, 1.4, 2.0, 3.0, 5.0, 10.0, OFF)
ON = LENGTHSCALES.index(1.0)
PRECISIONS = (0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0)
COARSE_ROWS, COARSE_FEATURES = 400, 64
NEAR = 1  # grid steps to either side that the fine search looks at
MOST_SWEEPS = 20
LEAST_GAIN = 1e-6  # nats: a smaller one is round-off, and a reason to stop


@dataclass(frozen=True, slots=True)
class Place:
    """A point of the search: the place in LENGTHSCALES of each group of inputs, and the place in PRECISIONS."""

    scales: tuple[int, ...]
    precision: int

    def moved(self, coordinate: int, value: int) -> Place:
        """Return the point with one coordinate changed; the precision comes after the groups."""
        if coordinate == len(self.scales):
            return replace(self, precision=value)
        return replace(self, scales=(*self.scales[:coordinate], value, *self.scales[coordinate + 1 :]))


@dataclass(frozen=True, slots=True)
class Found:
    """What the search found: a length-scale for each group of inputs, the prior precision, and the log evidence in nats.

    charge: log of the number of grid points, in nats. The evidence of a model that starts with equal weights on all of them is at
    least the best one's minus this: the fair figure to compare with models that were not searched for. linear: with linear terms
    alone, at a precision that suits them, the evidence is as large, up to what the search for length-scales is charged.
    """

    scales: tuple[float, ...]
    precision: float
    evidence: float
    charge: float
    linear: bool


@dataclass(frozen=True, slots=True)
class _Known(NIG):
    """A posterior whose moments are known already."""

    at: Moments

    def moments(self) -> Moments:
        """Return what is known."""
        return self.at


@dataclass(slots=True)
class Evidence:
    """The log evidence of rows inputs `[n, d]`, targets `[n, q]` by length-scales and precision.

    base: the features at length-scale 1. groups: the columns of each group of inputs that share a length-scale. shape, rate: the
    prior of the noise. The sums of the last length-scales are kept, so that another precision costs one factorisation; and what
    was found of a place and of each prior, since a search comes back to where it was.
    Trigonometry is in 32 bits, which is many times faster and moves the evidence far less than one step of the grid does.
    """

    base: Fourier
    groups: Sequence[slice]
    inputs: Array
    targets: Array
    shape: float
    rate: float
    _features: Array = field(init=False)
    _scales: tuple[int, ...] | None = None
    _sums: tuple[Array, Array] | None = None
    _found: dict[Place, float] = field(default_factory=dict)
    _priors: dict[int, NIG] = field(default_factory=dict)
    _square: Array = field(init=False)

    def __post_init__(self) -> None:
        self._square = np.square(self.targets).sum(axis=0)
        self._features = self.base(self.inputs)  # cosines first, then what no length-scale changes

    def __call__(self, place: Place) -> float:
        """Return the log evidence; minus infinity where the posterior cannot be computed."""
        if place not in self._found:
            self._found[place] = self._at(place)
        return self._found[place]

    def _at(self, place: Place) -> float:
        gram, shift = self._of(place.scales)
        prior = self._prior(place.precision, *shift.shape)
        state = NIG(gram + prior.precision, shift, self.shape + 0.5 * len(self.targets), prior.square + self._square)
        try:
            return state.log_evidence(prior)
        except ModelError:
            return -np.inf

    def _prior(self, precision: int, size: int, outputs: int) -> NIG:
        """Return the prior at a place in PRECISIONS."""
        if precision not in self._priors:
            prior = NIG.prior(size, outputs, PRECISIONS[precision], self.shape, self.rate)
            self._priors[precision] = _Known(prior.precision, prior.shift, prior.shape, prior.square, prior.moments())
        return self._priors[precision]

    def _of(self, scales: tuple[int, ...]) -> tuple[Array, Array]:
        """Return the sums of products of the features `[D, D]`, and of features and targets `[D, q]`."""
        if self._sums is None or scales != self._scales:
            base, features = self.base, self._features
            frequencies = base.frequencies / self._each(scales)[:, None]
            angles = (self.inputs @ frequencies + base.phases).astype(np.float32)
            features[:, : base.count] = np.sqrt(2.0 / base.count) * np.cos(angles)
            self._scales, self._sums = scales, (features.T @ features, features.T @ self.targets)
        return self._sums

    def _each(self, scales: tuple[int, ...]) -> Array:
        """Return the length-scale of each input `[d]`."""
        each = np.ones(len(self.base.frequencies))
        for group, place in zip(self.groups, scales, strict=True):
            each[group] = LENGTHSCALES[place]
        return each


def best_length_scales(base: Fourier, groups: Sequence[slice], inputs: Array, targets: Array, shape: float, rate: float) -> Found:
    """Return the length-scales of each group of inputs and the precision with the largest evidence that the search finds.

    base: the features at length-scale 1. inputs `[n, d]` and targets `[n, q]` are standardised, without missing values.
    """
    thin = slice(None, None, max(1, -(-len(inputs) // COARSE_ROWS)))
    few = replace(base, frequencies=base.frequencies[:, :COARSE_FEATURES], phases=base.phases[:COARSE_FEATURES])
    coarse = Evidence(few, groups, inputs[thin], targets[thin], shape, rate)
    middle = len(PRECISIONS) // 2
    equal = [Place((scale,) * len(groups), middle) for scale in range(len(LENGTHSCALES))]
    off = equal[-1]
    pairs = [off.moved(one, ON).moved(other, ON) for one, other in itertools.combinations(range(len(groups)), 2)]
    starts = [max(equal, key=coarse), max([off, *pairs], key=coarse)]
    grids = [range(len(LENGTHSCALES))] * len(groups) + [range(len(PRECISIONS))]
    ends = [_climbed(coarse, start, lambda place, coordinate: grids[coordinate]) for start in dict.fromkeys(starts)]
    fine = Evidence(base, groups, inputs, targets, shape, rate)

    def near(place: Place, coordinate: int) -> range:
        now = (*place.scales, place.precision)[coordinate]
        return range(max(0, now - NEAR), min(len(grids[coordinate]), now + NEAR + 1))

    best = _climbed(fine, max(ends, key=fine), near)
    evidence = fine(best)
    waves, charge = len(groups) * math.log(len(LENGTHSCALES)), math.log(len(PRECISIONS))
    without = max(fine(replace(off, precision=precision)) for precision in range(len(PRECISIONS)))
    linear = base.linear_terms and without >= evidence - waves
    scales = tuple(LENGTHSCALES[place] for place in best.scales)
    return Found(scales, PRECISIONS[best.precision], evidence, waves + charge, linear)


def _climbed(evidence: Evidence, start: Place, grid: Callable[[Place, int], range]) -> Place:
    """Return where changing one coordinate at a time, to the best of its grid, ends: nothing improves any more."""
    best, value = start, evidence(start)
    for _ in range(MOST_SWEEPS):
        before = value
        for coordinate in range(len(start.scales), -1, -1):  # the precision first: its sums are at hand
            for candidate in (best.moved(coordinate, place) for place in grid(best, coordinate)):
                found = evidence(candidate) if candidate != best else value
                if found > value + LEAST_GAIN:
                    best, value = candidate, found
        if value == before:
            return best
    return best
