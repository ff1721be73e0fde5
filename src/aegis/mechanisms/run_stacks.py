"""Feature maps, posteriors, regressions and beliefs of several runs that differ only in their seed, stacked on one axis.

One call serves all runs. A run's numbers are those it would have alone, bit for bit.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from aegis.errors import ModelError
from aegis.mechanisms.belief import Belief
from aegis.mechanisms.encoding import Encoder
from aegis.mechanisms.features import FeatureMap
from aegis.mechanisms.fourier import CHUNK, TABLE_FROM, Floats, Fourier
from aegis.mechanisms.regression import (
    NIG,
    Regression,
    RegressionDraw,
    SolvedNIG,
    check_finite_sums,
    simplex,
    solve_moments,
    to_target_units,
)
from aegis.problem import AnyArray, Array, Batch, Rows

# Angles that are held at once, of as many runs as it takes: their arrays stay in the cache.
ANGLES = 2**16


@dataclass(frozen=True, slots=True, eq=False)
class FeatureStack:
    """The maps of G runs, of one kind and size. A run may have several draws (`times`), which share its map."""

    maps: tuple[FeatureMap, ...]

    def part(self, own: slice) -> FeatureStack:
        """Return the maps of some of the runs."""
        return FeatureStack(self.maps[own])

    def __call__(self, inputs: Array) -> Array:
        """Return the features `[G, n, D]` of inputs `[G, n, d]`; maps without random parts are all the same."""
        return self.maps[0](inputs)

    def evaluate(self, inputs: Array, weights: Array, sd: Array | None = None) -> Array:
        """Return features . weights, `[G * times, n, q]`, for inputs `[G * times, n, d]`; see `FeatureMap.evaluate`."""
        times = len(weights) // len(self.maps)
        values = np.empty((len(weights), inputs.shape[1], weights.shape[-1]))
        for run, own in enumerate(self.maps):
            part = slice(run * times, (run + 1) * times)
            values[part] = own.evaluate(inputs[part], weights[part], None if sd is None else sd[part])
        return values

    def evaluate_each(self, inputs: Array, block: slice, grids: Array, weights: Array) -> Array:
        """Return `[G * times, n, A, q]`, the inputs of `block` replaced by each row of the run's grid `[G, A, k]` in turn."""
        times = len(weights) // len(self.maps)
        values = np.empty((len(weights), inputs.shape[1], grids.shape[1], weights.shape[-1]))
        for run, own in enumerate(self.maps):
            part = slice(run * times, (run + 1) * times)
            values[part] = own.evaluate_each(inputs[part], block, grids[run], weights[part])
        return values


@dataclass(frozen=True, slots=True, eq=False)
class FourierStack(FeatureStack):
    """Random Fourier features of G runs: `all` holds frequencies `[G, d, D]` and phases `[G, 1, D]`.

    Few points are evaluated for all runs in one call, in the very steps that `Fourier` takes for one of them.
    """

    all: Fourier
    angles: Floats

    @classmethod
    def of(cls, maps: Sequence[Fourier]) -> FourierStack:
        """Stack the maps; angles `[G, d + 1, D]` are frequencies and phases in 32 bits."""
        frequencies = np.stack([fourier.frequencies for fourier in maps])
        phases = np.stack([fourier.phases for fourier in maps])[:, None]
        angles = np.concatenate([frequencies, phases], axis=1).astype(np.float32)
        return cls(tuple(maps), Fourier(frequencies, phases, maps[0].linear_terms), angles)

    def part(self, own: slice) -> FourierStack:
        """Return the maps of some of the runs."""
        every = self.all
        return FourierStack(
            self.maps[own], Fourier(every.frequencies[own], every.phases[own], every.linear_terms), self.angles[own]
        )

    def __call__(self, inputs: Array) -> Array:
        """Return the features `[G, n, D]` of inputs `[G, n, d]`."""
        return self.all(inputs)

    def evaluate(self, inputs: Array, weights: Array, sd: Array | None = None) -> Array:
        """Return features . weights, `[G * times, n, q]`."""
        particles, count, width = inputs.shape
        if (width == 1 and count > TABLE_FROM) or count > CHUNK:
            return FeatureStack.evaluate(self, inputs, weights, sd)
        times, size = particles // len(self.maps), self.angles.shape[-1]
        wave = self._wave(weights, sd, times)
        extended = np.ones((particles, count, width + 1), dtype=np.float32)
        extended[..., :width] = inputs
        values = np.empty((particles, count, weights.shape[-1]))
        cosines = np.empty((count, size), dtype=np.float32)
        for particle in range(particles):
            np.matmul(extended[particle], self.angles[particle // times], out=cosines)
            np.cos(cosines, out=cosines)
            values[particle] = cosines @ wave[particle]
        values += self.all.affine_part(inputs, weights)
        return values

    def evaluate_each(self, inputs: Array, block: slice, grids: Array, weights: Array) -> Array:
        """Return `[G * times, n, A, q]` by the angle sums of `Fourier.evaluate_each`; the inputs of `block` are 0."""
        every, runs, count = self.all, len(self.maps), inputs.shape[1]
        if len(inputs) > runs:
            return FeatureStack.evaluate_each(self, inputs, block, grids, weights)
        wave = self._wave(weights, None, 1)
        v = (grids @ every.frequencies[:, block]).astype(np.float32)
        cos_v, sin_v = np.cos(v).swapaxes(1, 2), np.sin(v).swapaxes(1, 2)
        values = np.empty((runs, count, grids.shape[1], weights.shape[-1]))
        step = max(1, ANGLES // max(1, count * every.count))
        for part in (slice(start, start + step) for start in range(0, runs, step)):
            u = (inputs[part] @ every.frequencies[part] + every.phases[part]).astype(np.float32)
            cos_u, sin_u = np.cos(u), np.sin(u)
            for q in range(weights.shape[-1]):
                scale = wave[part, None, :, q]
                values[part, ..., q] = (cos_u * scale) @ cos_v[part] - (sin_u * scale) @ sin_v[part]
        affine = every.affine_part(inputs, weights)[:, :, None, :]
        if every.linear_terms:
            first = every.count + 1
            affine = affine + (grids @ weights[:, first + block.start : first + block.stop])[:, None]
        values += affine
        return values

    def _wave(self, weights: Array, sd: Array | None, times: int) -> Floats:
        """Return the weights of the cosines `[G * times, D, q]`, scaled and damped, as `Fourier` does for one run."""
        wave = np.sqrt(2.0 / self.all.count) * weights[:, : self.all.count]
        if sd is not None:
            squares = np.square(self.all.frequencies)
            wave = (
                wave
                * np.exp(-0.5 * (np.square(sd) @ (squares if times == 1 else np.repeat(squares, times, axis=0))))[:, 0, :, None]
            )
        return wave.astype(np.float32)


def stack_features(maps: Sequence[FeatureMap]) -> FeatureStack:
    """Return the maps of G runs, stacked."""
    random = [features for features in maps if isinstance(features, Fourier)]
    return FourierStack.of(random) if random else FeatureStack(tuple(maps))


@dataclass(frozen=True, slots=True)
class StackedNIG:
    """Natural parameters of G posteriors: precision `[G, D, D]`, shift `[G, D, q]`, shape `[G]`, square `[G, q]`.

    spare: memory for the next precision. An update takes it over and leaves its own precision to the one after it, because
    fresh megabytes in every episode cost as much as the sums. Copy a state that must live longer than one update.
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
            precision=precision,
            shift=np.stack([state.shift for state in states]),
            shape=np.array([state.shape for state in states]),
            square=np.stack([state.square for state in states]),
            spare=np.empty_like(precision),
        )

    def each(self) -> list[NIG]:
        """Return the G states, as views that the update after the next one overwrites."""
        return list(map(NIG, self.precision, self.shift, self.shape.tolist(), self.square))

    def solved(self) -> list[SolvedNIG]:
        """Return the G states as `each` does, their moments known; raises ModelError as `NIG.moments` does."""
        shape = self.shape.tolist()
        moments = solve_moments(self.precision, self.shift, shape, self.square)
        return list(map(SolvedNIG, self.precision, self.shift, shape, self.square, moments))

    def update(self, features: Array, targets: Array, temper: float) -> StackedNIG:
        """Return the posteriors after rows features `[G, n, D]`, targets `[G, n, q]`: `NIG.update` of each run."""
        across = features.swapaxes(1, 2)
        with np.errstate(over="ignore", invalid="ignore"):  # checked right below
            precision = np.matmul(across, features, out=self.spare)
            if temper != 1.0:
                precision *= temper
            precision += self.precision
            shift = self.shift + temper * (across @ targets)
            square = self.square + temper * np.square(targets).sum(axis=1)
        check_finite_sums(precision, shift, square)
        return StackedNIG(
            precision=precision,
            shift=shift,
            shape=self.shape + 0.5 * temper * features.shape[1],
            square=square,
            spare=self.precision,
        )


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
            specs=tuple(specs),
            plain=Encoder(first.encoder.parents),
            features=stack_features([spec.features for spec in specs]),
            centre=np.stack([scaling.centre for scaling in inputs])[:, None],
            scale=np.stack([scaling.scale for scaling in inputs])[:, None],
            target_centre=np.stack([spec.scaling.centre for spec in specs])[:, None],
            target_scale=np.stack([spec.scaling.scale for spec in specs])[:, None],
        )

    def part(self, start: int, stop: int) -> StackedRegression:
        """Return the mechanism of the runs from `start` up to, not including, `stop`."""
        own = slice(start, stop)
        scalings = (self.centre[own], self.scale[own], self.target_centre[own], self.target_scale[own])
        return StackedRegression(self.specs[own], self.plain, self.features.part(own), *scalings)

    def inputs(self, rows: Mapping[str, AnyArray], count: int, times: int = 1, skip: str | None = None) -> Array:
        """Return inputs `[G * times, n, d]` of rows `[1 or G * times, n]`, standardised as each run does it."""
        inputs = np.empty((len(self.specs) * times, count, self.plain.width))
        centre, scale = repeat_per_draw(self.centre, times), repeat_per_draw(self.scale, times)
        start = 0
        for parent in self.plain.parents:
            block = slice(start, start + parent.width)
            start += parent.width
            if parent.name == skip:
                inputs[..., block] = 0.0
            else:
                own = np.subtract(self.plain.encode(parent, rows[parent.name]), centre[..., block], out=inputs[..., block])
                own /= scale[..., block]
        return inputs

    def update(self, states: StackedNIG, rows: Rows, values: AnyArray) -> StackedNIG:
        """Return the states after n rows of each run: rows `[G * n]`, the runs one after the other."""
        runs = len(self.specs)
        apart = {name: column.reshape(runs, -1, *column.shape[1:]) for name, column in rows.items()}
        values = values.reshape(runs, -1, *values.shape[1:])
        targets = (self.plain.encode(self.specs[0].target, values) - self.target_centre) / self.target_scale
        inputs = self.inputs(apart, targets.shape[1])
        if np.isnan(targets).any() or np.isnan(inputs).any():  # every run leaves out other rows
            each = zip(self.specs, states.each(), values, range(runs), strict=True)
            return StackedNIG.of(
                [spec.update(state, {name: column[g] for name, column in apart.items()}, own) for spec, state, own, g in each]
            )
        return states.update(self.features(inputs), targets, self.specs[0].temper)

    def draws(self, drawn: Sequence[RegressionDraw]) -> StackedDraw:
        """Stack what the G runs drew, the same number each."""
        times = len(drawn[0].drawn.sd)
        scale, centre = repeat_per_draw(self.target_scale, times), repeat_per_draw(self.target_centre, times)
        weights = np.concatenate([draw.drawn.weights for draw in drawn])
        sd = np.concatenate([draw.drawn.sd for draw in drawn]) * scale[:, 0]
        return StackedDraw(
            spec=self, weights=to_target_units(weights, scale, centre[:, 0], self.specs[0].features.intercept), sd=sd, times=times
        )


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
        return StackedDraw(spec=self.spec.part(start, stop), weights=self.weights[own], sd=self.sd[own], times=self.times)

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
                sd[:, 0, block] = spread / repeat_per_draw(self.spec.scale[:, 0, block], self.times)
        return sd if sd.any() else None

    def _probable(self, means: Array) -> Array:
        return simplex(means) if self.spec.specs[0].target.kind == "categorical" else means


def repeat_per_draw(values: Array, times: int) -> Array:
    """Return what belongs to each run once for each of its draws."""
    return values if times == 1 else np.repeat(values, times, axis=0)


def _shape(spec: Regression) -> tuple[object, ...]:
    """Return what runs of the same kind have in common."""
    features = (type(spec.features), spec.features.size)
    return spec.target, spec.encoder.parents, spec.temper, spec.precision, spec.shape, spec.rate, features


@dataclass(frozen=True, slots=True)
class StackedBelief:
    """G beliefs over the same mechanisms. shared: the first one, for what they have in common."""

    shared: Belief
    members: tuple[Belief, ...]
    stacks: Mapping[str, StackedRegression]
    states: Mapping[str, StackedNIG]

    @classmethod
    def of(cls, beliefs: Sequence[Belief]) -> StackedBelief | None:
        """Stack the beliefs of G runs of one agent; None if a mechanism is not a regression (a table has nothing to share)."""
        stacks, states = {}, {}
        for name in beliefs[0].mechanisms:
            specs = [spec for belief in beliefs if isinstance(spec := belief.mechanisms[name], Regression)]
            own = [state for belief in beliefs if isinstance(state := belief.states[name], NIG)]
            if not len(specs) == len(own) == len(beliefs):
                return None
            stacks[name], states[name] = StackedRegression.of(specs), StackedNIG.of(own)
        return cls(shared=beliefs[0], members=tuple(beliefs), stacks=stacks, states=states)

    def update(self, batch: Batch) -> StackedBelief:
        """Return the beliefs after one episode of each run: the g-th of the batch is the g-th's."""
        if not all(has_equal_counts(batch, level) for level in batch.levels):
            each = [own.update(batch.take_episodes([g])) for g, own in enumerate(self.beliefs())]
            states = {name: StackedNIG.of([own.states[name] for own in each]) for name in self.stacks}  # type: ignore[misc]
            return replace(self, states=states)
        rows = self.shared.rows(batch)
        return replace(self, states={name: stack.update(self.states[name], *rows[name]) for name, stack in self.stacks.items()})

    def beliefs(self) -> list[Belief]:
        """Return the belief of each run; its arrays are views."""
        return self._apart({name: states.each() for name, states in self.states.items()})

    def solved(self) -> list[Belief]:
        """Return the belief of each run with the moments of its posteriors known: what draws start from."""
        return self._apart({name: states.solved() for name, states in self.states.items()})

    def _apart(self, each: Mapping[str, Sequence[NIG]]) -> list[Belief]:
        return [replace(own, states={name: states[g] for name, states in each.items()}) for g, own in enumerate(self.members)]


def has_equal_counts(batch: Batch, level: str) -> bool:
    """Return whether every episode of a batch has the same number of decisions at `level`."""
    episodes: AnyArray = np.arange(len(batch))
    owner = episodes
    for name, table in batch.levels.items():
        owner = owner[table.parent]
        if name == level:
            break
    return owner.size % len(batch) == 0 and bool((owner.reshape(len(batch), -1) == episodes[:, None]).all())
