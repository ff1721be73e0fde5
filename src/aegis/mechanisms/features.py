"""Feature maps: what they have in common, and linear and polynomial ones.

A mechanism is linear in its features, so the expectation of a mechanism over Gaussian noise on its parents is the same
linear function of the expected features.
"""

from __future__ import annotations

import itertools
import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from aegis.errors import whole_number
from aegis.problem import Array

CHUNK = 4096  # points evaluated at once


class FeatureMap(ABC):
    """A map from inputs `[..., d]` to features `[..., D]`; subclasses are frozen dataclasses.

    `evaluate` and `evaluate_each` are what planning calls, many times; a map overrides them where its shape allows a
    faster way to the same numbers.
    """

    __slots__ = ()

    @property
    @abstractmethod
    def size(self) -> int:
        """Return D."""

    @property
    def intercept(self) -> int:
        """Return the place of the feature that is always 1: the first one."""
        return 0

    @property
    def affine(self) -> bool:
        """Return whether features are affine in every input, so that inputs do not interact."""
        return False

    @abstractmethod
    def __call__(self, inputs: Array) -> Array:
        """Return the features `[..., D]` of inputs `[..., d]`."""

    @abstractmethod
    def expected(self, inputs: Array, sd: Array) -> Array:
        """Return E[features(inputs + sd * N(0, I))], with independent noise per input; `sd` broadcasts to `inputs`."""

    def evaluate(self, inputs: Array, weights: Array, sd: Array | None = None) -> Array:
        """Return features . weights, `[S, n, q]`, for inputs `[1 or S, n, d]`, weights `[S, D, q]` and noise sd `[S, 1, d]`."""
        if sd is None:
            return self(inputs) @ weights
        return self.expected(np.broadcast_to(inputs, (len(weights), *inputs.shape[1:])), sd) @ weights

    def evaluate_each(self, inputs: Array, block: slice, grid: Array, weights: Array) -> Array:
        """Return features . weights, `[S, n, A, q]`, the inputs of `block` replaced by each row of `grid` `[A, k]` in turn."""
        count = inputs.shape[1]
        wide = np.repeat(inputs, len(grid), axis=1)
        wide[..., block] = np.tile(grid, (count, 1))
        return self.evaluate(wide, weights).reshape(len(weights), count, len(grid), weights.shape[-1])


@dataclass(frozen=True, slots=True)
class Linear(FeatureMap):
    """An intercept and the inputs themselves: D = d + 1."""

    inputs: int

    @property
    def size(self) -> int:
        """Return d + 1."""
        return self.inputs + 1

    @property
    def affine(self) -> bool:
        """Return True."""
        return True

    def __call__(self, inputs: Array) -> Array:
        """Return `[..., 1 + d]`."""
        features = np.empty((*inputs.shape[:-1], inputs.shape[-1] + 1))
        features[..., 0] = 1.0
        features[..., 1:] = inputs
        return features

    def expected(self, inputs: Array, sd: Array) -> Array:
        """Return the features of the mean: noise of mean zero drops out."""
        return self(inputs)

    def evaluate_each(self, inputs: Array, block: slice, grid: Array, weights: Array) -> Array:
        """Return `[S, n, A, q]` as a sum of what the other inputs and what the block contribute."""
        other = inputs.copy()
        other[..., block] = 0.0
        part = grid @ weights[:, 1 + block.start : 1 + block.stop]
        return (self(other) @ weights)[:, :, None, :] + part[:, None]


@dataclass(frozen=True, slots=True)
class Polynomial(FeatureMap):
    """All monomials of the inputs up to `degree`, products included.

    A monomial is a choice, with repetition, of `degree` factors among 1 and the inputs; `factors[m]` are the places of those of
    monomial m in (1, inputs).
    """

    inputs: int
    degree: int = 2
    factors: tuple[tuple[int, ...], ...] = field(init=False)

    def __post_init__(self) -> None:
        whole_number("the degree of polynomial features", self.degree)
        chosen = itertools.combinations_with_replacement(range(self.inputs + 1), self.degree)
        object.__setattr__(self, "factors", tuple(sorted(chosen, key=lambda places: sum(place > 0 for place in places))))

    @property
    def size(self) -> int:
        """Return the number of monomials."""
        return len(self.factors)

    def __call__(self, inputs: Array) -> Array:
        """Return the monomials `[..., D]`."""
        rows = inputs.reshape(math.prod(inputs.shape[:-1]), self.inputs)
        return np.ascontiguousarray(_products(rows, self.factors).T).reshape(*inputs.shape[:-1], self.size)

    def expected(self, inputs: Array, sd: Array) -> Array:
        """Return the expected monomials: with independent noise, products of the inputs' Gaussian moments."""
        moments: list[Array] = [np.ones_like(inputs), inputs]
        variance = np.broadcast_to(np.square(sd), inputs.shape)
        for p in range(2, self.degree + 1):  # Stein: E x^p = m E x^(p-1) + (p-1) s^2 E x^(p-2)
            moments.append(inputs * moments[p - 1] + (p - 1) * variance * moments[p - 2])
        features = self(inputs)
        for position, places in enumerate(self.factors):
            powers = {place: places.count(place) for place in places if place > 0}
            if max(powers.values(), default=0) > 1:  # only repeated factors feel the noise
                features[..., position] = math.prod(moments[p][..., place - 1] for place, p in powers.items())
        return features

    def evaluate(self, inputs: Array, weights: Array, sd: Array | None = None) -> Array:
        """Return features . weights, `[S, n, q]`, in chunks whose monomials stay in the cache."""
        if sd is not None and self.degree == 2:
            weights, sd = self._without_noise(weights, sd), None
        if sd is not None:
            return FeatureMap.evaluate(self, inputs, weights, sd)
        values = np.empty((len(weights), inputs.shape[1], weights.shape[-1]))
        for start in range(0, inputs.shape[1], CHUNK):
            for particle in range(len(inputs)):
                part = inputs[particle, start : start + CHUNK]
                own = weights if len(inputs) == 1 else weights[particle : particle + 1]
                where = slice(None) if len(inputs) == 1 else slice(particle, particle + 1)
                values[where, start : start + CHUNK] = _products(part, self.factors).T @ own
        return values

    def evaluate_each(self, inputs: Array, block: slice, grid: Array, weights: Array) -> Array:
        """Return `[S, n, A, q]`: a sum of products of what the other inputs and what the block contribute.

        Every monomial is one of the other inputs times one of the block: n and A rows of monomials instead of n x A.
        """
        width = block.stop - block.start
        inside = range(1 + block.start, 1 + block.stop)
        outer = Polynomial(self.inputs - width, self.degree)
        inner = Polynomial(width, self.degree)
        own = [tuple(place - block.start if place in inside else 0 for place in places) for places in self.factors]
        rest = [
            tuple(0 if place in inside else place - width * (place >= inside.stop) for place in places) for places in self.factors
        ]
        each = inner(grid)
        used = each.any(axis=0)  # products of two different indicators are always 0
        split = np.zeros((len(weights), outer.size, inner.size, weights.shape[-1]))
        split[:, outer.places(rest), inner.places(own)] = weights
        split = split[:, :, used]
        others = np.delete(inputs, block, axis=-1)
        values = np.empty((len(weights), inputs.shape[1], len(grid), weights.shape[-1]))
        for q in range(weights.shape[-1]):
            values[..., q] = outer.evaluate(others, split[..., q]) @ each[:, used].T
        return values

    def places(self, factors: Sequence[tuple[int, ...]]) -> list[int]:
        """Return where monomials with these factors stand among the features."""
        known = {factor: place for place, factor in enumerate(self.factors)}
        return [known[tuple(sorted(factor_places))] for factor_places in factors]

    def _without_noise(self, weights: Array, sd: Array) -> Array:
        """Return weights `[S, D, q]` of degree 2 that give at the mean what the old ones give on average over the noise.

        Noise adds its variance to a square and nothing to a product of different inputs.
        """
        squares = self.places([(place, place) for place in range(1, self.inputs + 1)])
        shifted = weights.copy()
        shifted[:, self.intercept] += np.einsum("sd,sdq->sq", np.square(sd[:, 0]), weights[:, squares])
        return shifted


def _products(rows: Array, factors: tuple[tuple[int, ...], ...]) -> Array:
    """Return the monomials `[D, n]` of rows `[n, d]`: whole columns are multiplied, which is many times faster than by row."""
    extended = np.ones((rows.shape[1] + 1, len(rows)))
    extended[1:] = rows.T
    places = np.array(factors).T
    product = extended[places[0]]
    for place in places[1:]:
        product *= extended[place]
    return product
