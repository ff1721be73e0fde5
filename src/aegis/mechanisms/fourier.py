"""Random Fourier features (Rahimi and Recht 2007): a Gaussian process with an RBF kernel, cut to D terms.

Posteriors use 64-bit features. Planning evaluates drawn functions at very many points and only compares values, so it uses
32-bit cosines.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from aegis.errors import SettingError, whole_number
from aegis.mechanisms.features import FeatureMap
from aegis.problem import Array
from aegis.rng import stream

Floats = npt.NDArray[np.float32]
CHUNK = 4096  # points evaluated at once: the angles of one chunk stay in the cache
TABLE_FROM = 1500  # points from which a function of one input is tabulated and interpolated
TABLE_STEP = 0.15  # spacing of the table, times the highest frequency: the error stays below 1e-6 of the function's scale
TABLE_MOST = 20_000  # longer tables do not pay


@dataclass(frozen=True, slots=True, eq=False)
class Fourier(FeatureMap):
    """`sqrt(2 / D) cos(inputs . frequencies + phases)`, an intercept, and the inputs themselves if `linear_terms`.

    frequencies `[d, D]`, phases `[D]`. The kernel's variance is 1: the prior's precision sets the scale of the function.
    """

    frequencies: Array
    phases: Array
    linear_terms: bool = True
    precision: ClassVar[type[np.floating[Any]]] = np.float32  # of trigonometry in `evaluate_each`

    @property
    def exact(self) -> ExactFourier:
        """Return the same features with 64-bit trigonometry."""
        return ExactFourier(self.frequencies, self.phases, self.linear_terms)

    @classmethod
    def draw(
        cls,
        inputs: int,
        count: int = 128,
        lengthscale: float | Sequence[float] = 1.0,
        linear_terms: bool = True,
        rng: np.random.Generator | None = None,
    ) -> Fourier:
        """Return a random draw of `count` features; one length-scale for all inputs, or one for each, in input units."""
        whole_number("the count of fourier features", count)
        scales = np.broadcast_to(np.asarray(lengthscale, dtype=np.float64), (inputs,))
        if not (np.isfinite(scales).all() and (scales > 0).all()):
            raise SettingError(f"fourier features: length-scales are finite numbers above 0, found {lengthscale}")
        rng = stream(0, "fourier") if rng is None else rng
        frequencies = rng.standard_normal((count, inputs)).T / scales[:, None]
        return cls(np.ascontiguousarray(frequencies), rng.uniform(0.0, 2.0 * np.pi, count), linear_terms)

    @property
    def count(self) -> int:
        """Return the number of cosines."""
        return int(self.phases.shape[-1])

    @property
    def size(self) -> int:
        """Return the number of cosines, plus the intercept and, if there are linear terms, the inputs."""
        return self.count + 1 + (self.frequencies.shape[-2] if self.linear_terms else 0)

    @property
    def intercept(self) -> int:
        """Return the place behind the cosines."""
        return self.count

    def __call__(self, inputs: Array) -> Array:
        """Return `[..., D]` in 64 bits."""
        return self._joined(np.cos(inputs @ self.frequencies + self.phases), inputs)

    def expected(self, inputs: Array, sd: Array) -> Array:
        """Return expected features: `E cos(w (x + e) + b) = exp(-w^2 s^2 / 2) cos(w x + b)`; linear terms keep their mean."""
        return self._joined(np.cos(inputs @ self.frequencies + self.phases) * self._damping(sd), inputs)

    def evaluate(self, inputs: Array, weights: Array, sd: Array | None = None) -> Array:
        """Return features . weights, `[S, n, q]`; noise is absorbed into the weights, trigonometry is 32-bit."""
        if len(self.frequencies) == 1 and inputs.shape[1] > TABLE_FROM:
            return self._interpolated(inputs, weights, sd)
        return self._direct(inputs, weights, sd)

    def _direct(self, inputs: Array, weights: Array, sd: Array | None) -> Array:
        wave = self._waves(weights, sd).astype(np.float32)
        extended = np.concatenate([inputs, np.ones((*inputs.shape[:-1], 1))], axis=-1).astype(np.float32)
        angles = np.concatenate([self.frequencies, self.phases[None]]).astype(np.float32)
        values = np.empty((len(weights), inputs.shape[1], weights.shape[-1]))
        buffer = np.empty((min(CHUNK, max(1, inputs.shape[1])), self.count), dtype=np.float32)
        shared = len(inputs) == 1
        for start in range(0, inputs.shape[1], CHUNK):
            stop = min(start + CHUNK, inputs.shape[1])
            for particle in range(len(inputs)):
                cosines = np.matmul(extended[particle, start:stop], angles, out=buffer[: stop - start])
                np.cos(cosines, out=cosines)
                if shared:
                    values[:, start:stop] = cosines @ wave
                else:
                    values[particle, start:stop] = cosines @ wave[particle]
        values += self.affine_part(inputs, weights)
        return values

    def evaluate_each(self, inputs: Array, block: slice, grid: Array, weights: Array) -> Array:
        """Return `[S, n, A, q]` by `cos(u + v) = cos u cos v - sin u sin v`: u of the other inputs, v of the block.

        n + A angles instead of n x A, and one matrix product.
        """
        wave = self._waves(weights, None).astype(self.precision)
        other = inputs.copy()
        other[..., block] = 0.0
        u = self._angles(other)
        v = (grid @ self.frequencies[block]).astype(self.precision)
        cos_v, sin_v = np.cos(v).T, np.sin(v).T
        cos_u = np.cos(u)
        sin_u = np.sin(u, out=u)
        values = np.empty((len(weights), inputs.shape[1], len(grid), weights.shape[-1]))
        for q in range(weights.shape[-1]):
            scale = wave[:, None, :, q]
            # Large arrays cost more to make than to compute with: the last output may reuse the memory of its inputs.
            reuse = q + 1 == weights.shape[-1] and len(u) == len(weights)
            even = np.multiply(cos_u, scale, out=cos_u if reuse else None) @ cos_v
            even -= np.multiply(sin_u, scale, out=sin_u if reuse else None) @ sin_v
            values[..., q] = even
        affine = self.affine_part(other, weights)[:, :, None, :]
        if self.linear_terms:
            first = self.count + 1
            affine = affine + (grid @ weights[:, first + block.start : first + block.stop])[:, None]
        values += affine
        return values

    def _interpolated(self, inputs: Array, weights: Array, sd: Array | None) -> Array:
        """Return `evaluate` of one input by cubic Hermite interpolation in a table of values and slopes, per particle."""
        low, high = float(inputs.min()), float(inputs.max())
        step = TABLE_STEP / max(float(np.abs(self.frequencies).max()), 1e-12)
        points = int((high - low) / step) + 2 if np.isfinite(high - low) else TABLE_MOST + 1
        if points > min(TABLE_MOST, inputs.shape[1]):
            return self._direct(inputs, weights, sd)
        step = max((high - low) / (points - 1), np.finfo(float).tiny)
        grid = low + step * np.arange(points)
        wave = self._waves(weights, sd)
        angles = (np.outer(grid, self.frequencies[0]) + self.phases).astype(np.float32)
        values = (np.cos(angles) @ wave.astype(np.float32)).astype(np.float64)
        slopes = np.sin(angles) @ (-step * self.frequencies[0][:, None] * wave).astype(np.float32)
        place = (inputs[..., 0] - low) / step
        cell = np.minimum(place.astype(np.int64), points - 2)
        t = (place - cell)[..., None]
        take = _taker(cell, len(weights))
        left, right = take(values), take(values[:, 1:])
        slope_left, slope_right = take(slopes), take(slopes[:, 1:])
        rise = right - left
        curve = left + t * rise + t * (1 - t) * ((1 - t) * (slope_left - rise) - t * (slope_right - rise))
        curve += self.affine_part(inputs, weights)
        return curve

    def _angles(self, inputs: Array) -> npt.NDArray[np.floating[Any]]:
        """Return `inputs . frequencies + phases`, summed in 64 bits."""
        angles = inputs @ self.frequencies
        angles += self.phases
        return angles.astype(self.precision, copy=False)

    def _joined(self, cosines: Array, inputs: Array) -> Array:
        parts = [np.sqrt(2.0 / self.count) * cosines, np.ones((*inputs.shape[:-1], 1))]
        return np.concatenate([*parts, inputs] if self.linear_terms else parts, axis=-1)

    def _damping(self, sd: Array) -> Array:
        return np.exp(-0.5 * (np.square(sd) @ np.square(self.frequencies)))

    def _waves(self, weights: Array, sd: Array | None) -> Array:
        """Return the weights of the cosines `[S, D, q]`, scaled and damped."""
        wave = np.sqrt(2.0 / self.count) * weights[:, : self.count]
        return wave if sd is None else wave * self._damping(sd)[:, 0, :, None]

    def affine_part(self, inputs: Array, weights: Array) -> Array:
        """Return what intercept and linear terms add, `[S, 1 or n, q]`."""
        constant = weights[:, None, self.count]
        return constant + inputs @ weights[:, self.count + 1 :] if self.linear_terms else constant


def _taker(cell: npt.NDArray[np.int64], particles: int) -> Callable[[Array], Array]:
    """Return a function that looks up table rows `[S, T, q]` at cells `[1 or S, n]`."""
    if len(cell) == 1:
        return lambda table: table[:, cell[0]]
    rows = np.arange(particles)[:, None]
    return lambda table: table[rows, cell]


@dataclass(frozen=True, slots=True, eq=False)
class ExactFourier(Fourier):
    """Fourier features whose values on an action grid do not depend on how many points are evaluated together."""

    precision: ClassVar[type[np.floating[Any]]] = np.float64
