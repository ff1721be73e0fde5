"""Regressions of several runs side by side: the same mechanism, with the data, random features and scalings of G runs.

Runs that differ in their seed alone take the same small steps on different numbers. Stacked along a first axis, one call
serves them all. A run's numbers are those it would have had alone, bit for bit: numpy takes products run by run, and feature
maps, which may look at all points of a call to choose how to evaluate them, are asked for each run on its own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from aegis.errors import ModelError
from aegis.mechanisms.encoding import Encoder
from aegis.mechanisms.nig import NIG, Solved, refuse_infinite, solve
from aegis.mechanisms.regression import Regression, RegressionDraw, in_units, simplex
from aegis.mechanisms.stacked_features import FeatureStack, stack_features
from aegis.problem import AnyArray, Array, Rows


@dataclass(frozen=True, slots=True)
class StackedNIG:
    """Natural parameters of G posteriors: precision `[G, D, D]`, shift `[G, D, q]`, shape `[G]`, square `[G, q]`.

    spare: memory for the next precision. An update takes it over and leaves its own precision to the one after it, because
    fresh megabytes in every episode cost as much as the sums; whoever keeps a state for longer than an update copies it.
    """

    precision: Array
    shift: Array
    shape: Array
    square: Array
    spare: Array

    @classmethod
    def of(cls, states: Sequence[NIG]) -> StackedNIG:
        """Return copies of the states, stacked."""
        precision = np.stack([state.precision for state in states])
        return cls(
            precision,
            np.stack([state.shift for state in states]),
            np.array([state.shape for state in states]),
            np.stack([state.square for state in states]),
            np.empty_like(precision),
        )

    def each(self) -> list[NIG]:
        """Return the G states, as views that the update after the next one overwrites."""
        return list(map(NIG, self.precision, self.shift, self.shape.tolist(), self.square))

    def solved(self) -> list[Solved]:
        """Return the G states as `each` does, their moments known; raises ModelError as `NIG.moments` does."""
        shape = self.shape.tolist()
        found = solve(self.precision, self.shift, shape, self.square)
        return list(map(Solved, self.precision, self.shift, shape, self.square, found))

    def update(self, features: Array, targets: Array, temper: float) -> StackedNIG:
        """Return the posteriors after rows features `[G, n, D]`, targets `[G, n, q]`: `NIG.update` of each run."""
        across = features.swapaxes(1, 2)
        with np.errstate(over="ignore", invalid="ignore"):  # looked at right below
            precision = np.matmul(across, features, out=self.spare)
            if temper != 1.0:
                precision *= temper
            precision += self.precision
            shift = self.shift + temper * (across @ targets)
            square = self.square + temper * np.square(targets).sum(axis=1)
        refuse_infinite(precision, shift, square)
        return StackedNIG(precision, shift, self.shape + 0.5 * temper * features.shape[1], square, self.precision)


@dataclass(frozen=True, slots=True)
class StackedRegression:
    """One mechanism of G runs. centre, scale `[G, 1, d]` of the inputs; target_centre, target_scale `[G, 1, q]`."""

    specs: tuple[Regression, ...]
    plain: Encoder
    features: FeatureStack
    centre: Array
    scale: Array
    target_centre: Array
    target_scale: Array

    @classmethod
    def of(cls, specs: Sequence[Regression]) -> StackedRegression:
        """Stack the regressions of G runs; raises ModelError if they differ in more than random features and scalings."""
        first = specs[0]
        if any(_shape(spec) != _shape(first) for spec in specs):
            raise ModelError(
                f"mechanisms of '{first.target.name}' that differ in parents, target, prior or features cannot be stacked; run "
                "them one after the other"
            )
        inputs = [spec.encoder.standardised() for spec in specs]
        return cls(
            tuple(specs),
            Encoder(first.encoder.parents),
            stack_features([spec.features for spec in specs]),
            np.stack([scaling.centre for scaling in inputs])[:, None],
            np.stack([scaling.scale for scaling in inputs])[:, None],
            np.stack([spec.scaling.centre for spec in specs])[:, None],
            np.stack([spec.scaling.scale for spec in specs])[:, None],
        )

    def part(self, start: int, stop: int) -> StackedRegression:
        """Return the mechanism of the runs from `start` up to, not including, `stop`."""
        own = slice(start, stop)
        scalings = (self.centre[own], self.scale[own], self.target_centre[own], self.target_scale[own])
        return StackedRegression(self.specs[own], self.plain, self.features.part(own), *scalings)

    def inputs(self, rows: Mapping[str, AnyArray], count: int, times: int = 1, skip: str | None = None) -> Array:
        """Return inputs `[G * times, n, d]` of rows `[1 or G * times, n]`, standardised as each run does it."""
        found = np.empty((len(self.specs) * times, count, self.plain.width))
        centre, scale = repeated(self.centre, times), repeated(self.scale, times)
        start = 0
        for parent in self.plain.parents:
            block = slice(start, start + parent.width)
            start += parent.width
            if parent.name == skip:
                found[..., block] = 0.0
            else:
                own = np.subtract(self.plain.encode(parent, rows[parent.name]), centre[..., block], out=found[..., block])
                own /= scale[..., block]
        return found

    def update(self, states: StackedNIG, rows: Rows, values: AnyArray) -> StackedNIG:
        """Return the states after n rows of each run: rows `[G * n]`, the runs one after the other."""
        runs = len(self.specs)
        apart = {name: found.reshape(runs, -1, *found.shape[1:]) for name, found in rows.items()}
        values = values.reshape(runs, -1, *values.shape[1:])
        targets = (self.plain.encode(self.specs[0].target, values) - self.target_centre) / self.target_scale
        inputs = self.inputs(apart, targets.shape[1])
        if np.isnan(targets).any() or np.isnan(inputs).any():  # every run leaves out other rows
            each = zip(self.specs, states.each(), values, range(runs), strict=True)
            return StackedNIG.of(
                [spec.update(state, {name: found[g] for name, found in apart.items()}, own) for spec, state, own, g in each]
            )
        return states.update(self.features(inputs), targets, self.specs[0].temper)

    def draws(self, drawn: Sequence[RegressionDraw]) -> StackedDraw:
        """Stack what the G runs drew, the same number each."""
        times = len(drawn[0].drawn.sd)
        scale, centre = repeated(self.target_scale, times), repeated(self.target_centre, times)
        weights = np.concatenate([found.drawn.weights for found in drawn])
        sd = np.concatenate([found.drawn.sd for found in drawn]) * scale[:, 0]
        return StackedDraw(self, in_units(weights, scale, centre[:, 0], self.specs[0].features.intercept), sd, times)


@dataclass(frozen=True, slots=True)
class StackedDraw:
    """What G runs drew of one mechanism, `times` draws each: a Function of G * times particles, those of a run together.

    weights `[G * times, D, q]`, noise standard deviations sd `[G * times, q]`, both in the target's units. Rows are
    `[1 or G * times, n]`.
    """

    spec: StackedRegression
    weights: Array
    sd: Array
    times: int

    @property
    def parents(self) -> tuple[str, ...]:
        """Return the names of the parents."""
        return self.spec.specs[0].parents

    def part(self, start: int, stop: int) -> StackedDraw:
        """Return the draws of the runs from `start` up to, not including, `stop`."""
        own = slice(start * self.times, stop * self.times)
        return StackedDraw(self.spec.part(start, stop), self.weights[own], self.sd[own], self.times)

    def mean(self, rows: Rows, count: int, noisy: Mapping[str, Array] | None = None) -> Array:
        """Return conditional means `[G * times, n, q]`."""
        sd = None if noisy is None else self._noise(noisy)
        inputs = self.spec.inputs(rows, count, self.times)
        return self._probable(self.spec.features.evaluate(inputs, self.weights, sd))

    def mean_each(self, rows: Rows, count: int, name: str, values: AnyArray) -> Array:
        """Return conditional means `[G * times, n, A, q]` with the parent `name` at each of the A `values` in turn."""
        spec = self.spec
        inputs = spec.inputs(rows, count, self.times, skip=name)
        block = spec.plain.block(name)
        variable = next(parent for parent in spec.plain.parents if parent.name == name)
        grids = (spec.plain.encode(variable, values) - spec.centre[..., block]) / spec.scale[..., block]
        return self._probable(spec.features.evaluate_each(inputs, block, grids, self.weights))

    def _noise(self, noisy: Mapping[str, Array]) -> Array | None:
        """Return the noise of the inputs `[G * times, 1, d]`, None if no parent is noisy."""
        sd = np.zeros((len(self.weights), 1, self.spec.plain.width))
        for name, spread in noisy.items():
            if name in self.parents:
                block = self.spec.plain.block(name)
                sd[:, 0, block] = spread / repeated(self.spec.scale[:, 0, block], self.times)
        return sd if sd.any() else None

    def _probable(self, means: Array) -> Array:
        return simplex(means) if self.spec.specs[0].target.kind == "categorical" else means


def repeated(values: Array, times: int) -> Array:
    """Return what belongs to each run once for each of its draws."""
    return values if times == 1 else np.repeat(values, times, axis=0)


def _shape(spec: Regression) -> tuple[object, ...]:
    """Return all that runs of the same kind have in common."""
    features = (type(spec.features), spec.features.size)
    return spec.target, spec.encoder.parents, spec.temper, spec.precision, spec.shape, spec.rate, features
