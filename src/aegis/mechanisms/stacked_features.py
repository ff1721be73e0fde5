"""The feature maps of several runs, evaluated for all of them: random features differ from run to run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from aegis.mechanisms.feature_map import FeatureMap
from aegis.mechanisms.fourier import CHUNK, TABLE_FROM, Floats, Fourier
from aegis.problem import Array

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
        found = np.empty((len(weights), inputs.shape[1], weights.shape[-1]))
        for run, own in enumerate(self.maps):
            part = slice(run * times, (run + 1) * times)
            found[part] = own.evaluate(inputs[part], weights[part], None if sd is None else sd[part])
        return found

    def evaluate_each(self, inputs: Array, block: slice, grids: Array, weights: Array) -> Array:
        """Return `[G * times, n, A, q]`, the inputs of `block` replaced by each row of the run's grid `[G, A, k]` in turn."""
        times = len(weights) // len(self.maps)
        found = np.empty((len(weights), inputs.shape[1], grids.shape[1], weights.shape[-1]))
        for run, own in enumerate(self.maps):
            part = slice(run * times, (run + 1) * times)
            found[part] = own.evaluate_each(inputs[part], block, grids[run], weights[part])
        return found


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
        frequencies = np.stack([found.frequencies for found in maps])
        phases = np.stack([found.phases for found in maps])[:, None]
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
        found = np.empty((particles, count, weights.shape[-1]))
        cosines = np.empty((count, size), dtype=np.float32)
        for particle in range(particles):
            np.matmul(extended[particle], self.angles[particle // times], out=cosines)
            np.cos(cosines, out=cosines)
            found[particle] = cosines @ wave[particle]
        found += self.all.affine_part(inputs, weights)
        return found

    def evaluate_each(self, inputs: Array, block: slice, grids: Array, weights: Array) -> Array:
        """Return `[G * times, n, A, q]` by the angle sums of `Fourier.evaluate_each`; the inputs of `block` are 0."""
        every, runs, count = self.all, len(self.maps), inputs.shape[1]
        if len(inputs) > runs:
            return FeatureStack.evaluate_each(self, inputs, block, grids, weights)
        wave = self._wave(weights, None, 1)
        v = (grids @ every.frequencies[:, block]).astype(np.float32)
        cos_v, sin_v = np.cos(v).swapaxes(1, 2), np.sin(v).swapaxes(1, 2)
        found = np.empty((runs, count, grids.shape[1], weights.shape[-1]))
        step = max(1, ANGLES // max(1, count * every.count))
        for part in (slice(start, start + step) for start in range(0, runs, step)):
            u = (inputs[part] @ every.frequencies[part] + every.phases[part]).astype(np.float32)
            cos_u, sin_u = np.cos(u), np.sin(u)
            for q in range(weights.shape[-1]):
                scale = wave[part, None, :, q]
                found[part, ..., q] = (cos_u * scale) @ cos_v[part] - (sin_u * scale) @ sin_v[part]
        affine = every.affine_part(inputs, weights)[:, :, None, :]
        if every.linear_terms:
            first = every.count + 1
            affine = affine + (grids @ weights[:, first + block.start : first + block.stop])[:, None]
        found += affine
        return found

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
    random = [found for found in maps if isinstance(found, Fourier)]
    return FourierStack.of(random) if random else FeatureStack(tuple(maps))
