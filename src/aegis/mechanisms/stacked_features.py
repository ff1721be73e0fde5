"""The feature maps of several runs, evaluated for all of them: random features differ from run to run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from aegis.mechanisms.feature_map import FeatureMap
from aegis.mechanisms.fourier import Fourier
from aegis.problem import Array


@dataclass(frozen=True, slots=True, eq=False)
class FeatureStack:
    """The maps of G runs, of one kind and size; `joined` computes the features of all of them in one call."""

    maps: tuple[FeatureMap, ...]
    joined: FeatureMap

    @classmethod
    def of(cls, maps: Sequence[FeatureMap]) -> FeatureStack:
        """Stack the maps; those without random parts are the same for all runs."""
        random = [found for found in maps if isinstance(found, Fourier)]
        return cls(tuple(maps), Fourier.stacked(random) if random else maps[0])

    def part(self, own: slice) -> FeatureStack:
        """Return the maps of some of the runs."""
        joined = self.joined
        if isinstance(joined, Fourier):
            joined = Fourier(joined.frequencies[own], joined.phases[own], joined.linear_terms)
        return FeatureStack(self.maps[own], joined)

    def __call__(self, inputs: Array) -> Array:
        """Return the features `[G, n, D]` of inputs `[G, n, d]`."""
        return self.joined(inputs)

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
