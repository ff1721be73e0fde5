"""What a feature map is, and how a regression on its features is evaluated."""

from __future__ import annotations

from abc import ABC, abstractmethod

import numpy as np

from aegis.problem import Array


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
    @abstractmethod
    def intercept(self) -> int:
        """Return the place of the feature that is always 1."""

    @property
    @abstractmethod
    def affine(self) -> bool:
        """Say whether features are affine in every input, so that inputs do not interact."""

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
