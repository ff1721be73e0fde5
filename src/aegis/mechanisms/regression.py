"""A mechanism as a Normal-Inverse-Gamma regression on a feature map.

Real and vector targets are regressed as they are, standardised if a scaling is given. A categorical target is regressed
through its indicators: the Gibbs posterior under the Brier loss.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from aegis.errors import SettingError, finite_number
from aegis.mechanisms.base import FeatureMap
from aegis.mechanisms.encoding import Encoder, Scaling
from aegis.mechanisms.normal_inverse_gamma import NIG, Draw
from aegis.problem import AnyArray, Array, Rows, Variable


@dataclass(frozen=True, slots=True)
class Regression:
    """A Normal-Inverse-Gamma mechanism; `temper` multiplies its log-likelihood (1: Bayes, below 1: tempered Gibbs)."""

    target: Variable
    encoder: Encoder
    features: FeatureMap
    scaling: Scaling
    temper: float = 1.0
    precision: float = 0.1
    shape: float = 2.0
    rate: float = 1.0

    def __post_init__(self) -> None:
        finite_number("tempering", self.temper, above=0.0)
        if self.scaling.scale.shape != (self.target.width,):
            raise SettingError(
                f"the scaling of '{self.target.name}' has {self.scaling.scale.size} numbers, expected {self.target.width}"
            )

    @property
    def parents(self) -> tuple[str, ...]:
        """Return the names of the parents."""
        return tuple(parent.name for parent in self.encoder.parents)

    @property
    def affine(self) -> bool:
        """Return whether the mean is affine in every parent: affine features, and no clipping to the simplex."""
        return self.features.affine and self.target.kind != "categorical"

    def prior(self) -> NIG:
        """Return the prior state."""
        return NIG.prior(self.features.size, self.target.width, self.precision, self.shape, self.rate)

    def update(self, state: NIG, rows: Rows, values: AnyArray) -> NIG:
        """Return the state after n rows; rows in which the target or a parent is missing (nan, code -1) are left out."""
        inputs, targets = self.complete_rows(rows, values)
        return state.update(self.features(inputs), targets, self.temper)

    def complete_rows(self, rows: Rows, values: AnyArray) -> tuple[Array, Array]:
        """Return inputs `[n, d]` and targets `[n, q]`, standardised, of the rows in which nothing is missing."""
        targets = self._targets(values)
        inputs = self.encoder(rows, (len(targets),))
        missing = np.isnan(targets).any(axis=1) | np.isnan(inputs).any(axis=1)
        return (inputs[~missing], targets[~missing]) if missing.any() else (inputs, targets)

    def draw(self, state: NIG, rng: np.random.Generator, count: int) -> RegressionDraw:
        """Return `count` draws."""
        return RegressionDraw(self, state.draw(rng, count))

    def point(self, state: NIG) -> RegressionDraw:
        """Return the posterior mean."""
        return RegressionDraw(self, state.point())

    def predict(self, state: NIG, rows: Rows, count: int) -> tuple[Array, Array, Array]:
        """Return mean, variance of the mean and variance of a new value, `[n, q]`, in the target's units.

        For a categorical target these are of its indicators, not moved to the simplex.
        """
        mean, of_mean, of_value = state.predict(self.features(self.encoder(rows, (count,))))
        square = np.square(self.scaling.scale)
        return self.scaling.back(mean), of_mean * square, of_value * square

    def kl(self, state: NIG, other: NIG) -> float:
        """Return KL(state || other)."""
        return state.kl(other)

    def restore(self, arrays: Mapping[str, Array]) -> NIG:
        """Return a saved state."""
        return NIG(precision=arrays["precision"], shift=arrays["shift"], shape=float(arrays["shape"]), square=arrays["square"])

    def _targets(self, values: AnyArray) -> Array:
        if self.target.kind == "categorical":
            return self.encoder.encode(self.target, values)
        numbers = values if self.target.kind == "vector" else values[:, None]
        return self.scaling.forward(np.asarray(numbers, dtype=np.float64))


@dataclass(frozen=True, slots=True)
class RegressionDraw:
    """S draws of a regression, evaluated in the target's units."""

    spec: Regression
    drawn: Draw

    @property
    def parents(self) -> tuple[str, ...]:
        """Return the names of the parents."""
        return self.spec.parents

    @property
    def sd(self) -> Array:
        """Return noise standard deviations `[S, q]`."""
        return self.drawn.sd * self.spec.scaling.scale

    def mean(self, rows: Rows, count: int, noisy: Mapping[str, Array] | None = None) -> Array:
        """Return conditional means `[S, n, q]` (probabilities for a categorical target)."""
        spec = self.spec
        particles = max((rows[name].shape[0] for name in spec.parents if name in rows), default=1)
        sd = None if noisy is None else self._noise(noisy)
        inputs = spec.encoder(rows, (particles, count))
        return self._probable(spec.features.evaluate(inputs, self._weights(), sd))

    def mean_each(self, rows: Rows, count: int, name: str, values: AnyArray) -> Array:
        """Return conditional means `[S, n, A, q]` with the parent `name` at each of the A `values` in turn."""
        spec = self.spec
        particles = max((rows[parent].shape[0] for parent in spec.parents if parent in rows and parent != name), default=1)
        inputs = spec.encoder(rows, (particles, count), skip=name)
        block = spec.encoder.block(name)
        variable = next(parent for parent in spec.encoder.parents if parent.name == name)
        grid = spec.encoder.encode(variable, values)
        return self._probable(spec.features.evaluate_each(inputs, block, grid, self._weights()))

    def _noise(self, noisy: Mapping[str, Array]) -> Array | None:
        """Return the noise of the inputs `[S, 1, d]`, None if no parent is noisy."""
        encoder = self.spec.encoder
        sd = np.zeros((len(self.drawn.weights), 1, encoder.width))
        for name, spread in noisy.items():
            if name in self.spec.parents:
                sd[:, 0, encoder.block(name)] = spread / encoder.scale_of(name)
        return sd if sd.any() else None

    def _weights(self) -> Array:
        scaling = self.spec.scaling
        return to_target_units(self.drawn.weights, scaling.scale, scaling.centre, self.spec.features.intercept)

    def _probable(self, means: Array) -> Array:
        return simplex(means) if self.spec.target.kind == "categorical" else means


def to_target_units(weights: Array, scale: Array, centre: Array, intercept: int) -> Array:
    """Return weights `[S, D, q]` whose regression is in the target's units: `scale` times the old one, plus `centre`.

    Scaling a few weights instead of all predictions saves two passes over the latter.
    """
    scaled = weights * scale
    scaled[:, intercept] += centre
    return scaled


def simplex(raw: Array) -> Array:
    """Move `[..., K]` to nonnegative numbers that sum to one; all clipped away means uniform."""
    clipped = np.clip(raw, 0.0, 1.0)
    total = clipped.sum(axis=-1, keepdims=True)
    return np.where(total > 0, clipped / np.where(total > 0, total, 1.0), 1.0 / raw.shape[-1])
