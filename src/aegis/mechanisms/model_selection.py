"""Model selection by marginal likelihood: the likeliest model of each mechanism, length-scales and prior precision.

Give prior data only. Hyper-parameters chosen on rows that are certified later would let these rows choose the model.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from aegis.errors import ModelError, SettingError
from aegis.mechanisms.belief import Belief, ModelSettings, Scale, Tuned, build_belief
from aegis.mechanisms.encoding import Encoder, Scaling, mechanism_rows
from aegis.mechanisms.fourier import Fourier
from aegis.mechanisms.regression import NIG, Regression, SolvedNIG
from aegis.mechanisms.reward_models import LevelRewards
from aegis.problem import AnyArray, Array, Batch, Problem, Rows, augmented_context, subtree_means

SWITCHED_OFF = 64.0  # so long that a standardised input adds nothing but its linear term

LENGTHSCALES = (0.25, 0.35, 0.5, 0.7, 1.0, 1.4, 2.0, 3.0, 5.0, 10.0, SWITCHED_OFF)

UNIT_SCALE = LENGTHSCALES.index(1.0)

PRECISIONS = (0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0)

COARSE_ROWS, COARSE_FEATURES = 400, 64

FINE_STEPS = 1  # grid steps to either side that the fine search looks at

MOST_SWEEPS = 20

LEAST_GAIN = 1e-6  # nats: a smaller one is round-off, and a reason to stop


@dataclass(frozen=True, slots=True)
class GridPoint:
    """A point of the search: the place in LENGTHSCALES of each group of inputs, and the place in PRECISIONS."""

    scales: tuple[int, ...]
    precision: int

    def moved(self, coordinate: int, value: int) -> GridPoint:
        """Return the point with one coordinate changed; the precision comes after the groups."""
        if coordinate == len(self.scales):
            return replace(self, precision=value)
        return replace(self, scales=(*self.scales[:coordinate], value, *self.scales[coordinate + 1 :]))


@dataclass(frozen=True, slots=True)
class LengthScaleFit:
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


@dataclass(slots=True)
class LogEvidence:
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
    _found: dict[GridPoint, float] = field(default_factory=dict)
    _priors: dict[int, NIG] = field(default_factory=dict)
    _square: Array = field(init=False)

    def __post_init__(self) -> None:
        self._square = np.square(self.targets).sum(axis=0)
        self._features = self.base(self.inputs)  # cosines first, then what no length-scale changes

    def __call__(self, place: GridPoint) -> float:
        """Return the log evidence; minus infinity where the posterior cannot be computed."""
        if place not in self._found:
            self._found[place] = self._at(place)
        return self._found[place]

    def _at(self, place: GridPoint) -> float:
        gram, shift = self._of(place.scales)
        prior = self._prior(place.precision, *shift.shape)
        state = NIG(
            precision=gram + prior.precision,
            shift=shift,
            shape=self.shape + 0.5 * len(self.targets),
            square=prior.square + self._square,
        )
        try:
            return state.log_evidence(prior)
        except ModelError:
            return -np.inf

    def _prior(self, precision: int, size: int, outputs: int) -> NIG:
        """Return the prior at a place in PRECISIONS."""
        if precision not in self._priors:
            prior = NIG.prior(size, outputs, PRECISIONS[precision], self.shape, self.rate)
            self._priors[precision] = SolvedNIG(
                precision=prior.precision, shift=prior.shift, shape=prior.shape, square=prior.square, at=prior.moments()
            )
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


def best_length_scales(
    base: Fourier, groups: Sequence[slice], inputs: Array, targets: Array, shape: float, rate: float
) -> LengthScaleFit:
    """Return the length-scales of each group of inputs and the precision with the largest evidence that the search finds.

    base: the features at length-scale 1. inputs `[n, d]` and targets `[n, q]` are standardised, without missing values.
    """
    thin = slice(None, None, max(1, -(-len(inputs) // COARSE_ROWS)))
    few = replace(base, frequencies=base.frequencies[:, :COARSE_FEATURES], phases=base.phases[:COARSE_FEATURES])
    coarse = LogEvidence(base=few, groups=groups, inputs=inputs[thin], targets=targets[thin], shape=shape, rate=rate)
    middle = len(PRECISIONS) // 2
    equal = [GridPoint((scale,) * len(groups), middle) for scale in range(len(LENGTHSCALES))]
    off = equal[-1]
    pairs = [off.moved(one, UNIT_SCALE).moved(other, UNIT_SCALE) for one, other in itertools.combinations(range(len(groups)), 2)]
    starts = [max(equal, key=coarse), max([off, *pairs], key=coarse)]
    grids = [range(len(LENGTHSCALES))] * len(groups) + [range(len(PRECISIONS))]
    ends = [_climb(coarse, start, lambda place, coordinate: grids[coordinate]) for start in dict.fromkeys(starts)]
    fine = LogEvidence(base=base, groups=groups, inputs=inputs, targets=targets, shape=shape, rate=rate)

    def near(place: GridPoint, coordinate: int) -> range:
        now = (*place.scales, place.precision)[coordinate]
        return range(max(0, now - FINE_STEPS), min(len(grids[coordinate]), now + FINE_STEPS + 1))

    best = _climb(fine, max(ends, key=fine), near)
    evidence = fine(best)
    waves, charge = len(groups) * math.log(len(LENGTHSCALES)), math.log(len(PRECISIONS))
    without = max(fine(replace(off, precision=precision)) for precision in range(len(PRECISIONS)))
    linear = base.linear_terms and without >= evidence - waves
    scales = tuple(LENGTHSCALES[place] for place in best.scales)
    return LengthScaleFit(
        scales=scales, precision=PRECISIONS[best.precision], evidence=evidence, charge=waves + charge, linear=linear
    )


def _climb(evidence: LogEvidence, start: GridPoint, grid: Callable[[GridPoint, int], range]) -> GridPoint:
    """Return where changing one coordinate at a time, to the best of its grid, ends: nothing improves any more."""
    best, value = start, evidence(start)
    for _ in range(MOST_SWEEPS):
        before = value
        for coordinate in range(len(start.scales), -1, -1):  # the precision first: its sums are at hand
            for candidate in (best.moved(coordinate, place) for place in grid(best, coordinate)):
                candidate_value = evidence(candidate) if candidate != best else value
                if candidate_value > value + LEAST_GAIN:
                    best, value = candidate, candidate_value
        if value == before:
            return best
    return best


MOST_ROWS = 1000  # evidence is compared on so many rows, evenly spread; more would not change the choice

MOST_GROUPS = 20  # with more inputs than this they share one length-scale: each of its own would be noise, and slow


def tune(
    problem: Problem,
    batch: Batch,
    settings: ModelSettings,
    scope: Iterable[str] | None = None,
    scalings: Mapping[str, Scaling] | None = None,
) -> ModelSettings:
    """Return settings whose `tuned` maximises the evidence of prior data; only mechanisms with fourier features are tuned.

    Tempering plays no part in the choice: evidence is that of the untempered likelihood.
    """
    if settings.features != "fourier":
        return settings
    plain = replace(settings, lengthscale=1.0, tuned={})
    belief = build_belief(problem, plain, scope, scalings)
    tuned: dict[str, Tuned] = {}
    for name, mechanism in belief.mechanisms.items():
        if name in problem.mechanisms(scope) and isinstance(mechanism, Regression):
            hyper = _tune_regression(mechanism, *mechanism_rows(problem, batch, (name,))[name])
            if hyper is not None:
                tuned[name] = hyper
    return replace(settings, tuned=tuned)


def tune_rewards(
    problem: Problem,
    batch: Batch,
    settings: ModelSettings,
    scalings: Mapping[str, Scaling] | None = None,
) -> tuple[LevelRewards, dict[str, Tuned]]:
    """Return reward models before any data, each level's with the hyper-parameters that maximise its evidence of prior data.

    The second part says by level what was found; a level that has nothing to tune is not in it.
    """
    plain = replace(settings, lengthscale=1.0, tuned={})
    start = LevelRewards.prior(problem, plain, scalings)
    if settings.features != "fourier":
        return start, {}
    targets = subtree_means(batch)
    regressions: dict[str, Regression] = {}
    tuned: dict[str, Tuned] = {}
    for name, regression in start.regressions.items():
        hyper = _tune_regression(regression, augmented_context(problem, batch, name, with_action=True), targets[name])
        if hyper is not None:
            tuned[name] = hyper
        own = plain if hyper is None else replace(plain, tuned={problem.reward.column: hyper})
        regressions[name] = LevelRewards.prior(problem, own, scalings, [name]).regressions[name]
    return LevelRewards(problem, regressions, {name: regression.prior() for name, regression in regressions.items()}), tuned


def _tune_regression(regression: Regression, rows: Rows, values: AnyArray) -> Tuned | None:
    """Return the best hyper-parameters of a regression whose features are at length-scale 1; None if it has nothing to tune."""
    features = regression.features
    if not isinstance(features, Fourier) or not regression.parents:
        return None
    inputs, targets = regression.complete_rows(rows, values)
    if not len(targets):
        return None
    spread = slice(None, None, -(-len(targets) // MOST_ROWS))
    groups = _groups(regression.encoder)
    shared = len(groups) > MOST_GROUPS
    searched = [slice(0, inputs.shape[1])] if shared else groups
    best = best_length_scales(features, searched, inputs[spread], targets[spread], regression.shape, regression.rate)
    scales = best.scales * len(groups) if shared else best.scales
    return Tuned(
        lengthscale=_by_name(regression.encoder, scales), precision=best.precision, charge=best.charge, linear=best.linear
    )


def _groups(encoder: Encoder) -> list[slice]:
    """Return the columns with a length-scale of their own: a number, a coordinate of a vector, all indicators of a category."""
    blocks = [(parent, encoder.block(parent.name)) for parent in encoder.parents]
    return [
        slice(start, block.stop if parent.kind == "categorical" else start + 1)
        for parent, block in blocks
        for start in range(block.start, block.start + 1 if parent.kind == "categorical" else block.stop)
    ]


def _by_name(encoder: Encoder, scales: tuple[float, ...]) -> dict[str, Scale]:
    """Return the length-scales of the groups by input name, one number for each coordinate of a vector."""
    left = iter(scales)
    return {
        parent.name: tuple(itertools.islice(left, parent.width)) if parent.kind == "vector" else next(left)
        for parent in encoder.parents
    }


def select_models(
    beliefs: Sequence[Belief], charges: Sequence[Mapping[str, float]] | None = None
) -> tuple[Belief, dict[str, int]]:
    """Return a belief with the likeliest model of each mechanism, and which of the beliefs it came from, by mechanism.

    The beliefs are of one problem and have seen the same data; of two equally likely models the first one is taken. A
    mechanism that a belief lacks is not chosen from it. charges: for each belief, nats by mechanism that are taken off its
    evidence, for hyper-parameters that were searched for on the same data. Raises SettingError if a mechanism has no evidence (a
    table).
    """
    if not beliefs:
        raise SettingError("there are no beliefs to choose from; give at least one")
    pairs = list(zip(beliefs, charges or [{}] * len(beliefs), strict=True))
    chosen = {
        name: int(np.argmax([_evidence(belief, name) - owed.get(name, 0.0) for belief, owed in pairs]))
        for name in beliefs[0].mechanisms
    }
    parts: dict[str, Any] = {
        part: {name: getattr(beliefs[index], part)[name] for name, index in chosen.items()}
        for part in ("mechanisms", "prior", "states")
    }
    return replace(beliefs[0], **parts), chosen


def _evidence(belief: Belief, name: str) -> float:
    if name not in belief.mechanisms:
        return -math.inf
    prior, state = belief.prior[name], belief.states[name]
    if not isinstance(prior, NIG) or not isinstance(state, NIG):
        raise SettingError(f"mechanism '{name}' is not a regression and has no evidence to compare; choose its model yourself")
    return state.log_evidence(prior)
