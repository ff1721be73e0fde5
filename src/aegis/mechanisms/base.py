"""Protocols of this package: mechanism, posterior state, draws of a mechanism, and feature map.

A mechanism is the learnable conditional law of one variable given its parents. A regression is built on a feature map.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, Protocol

import numpy as np

from aegis.problem import AnyArray, Array, Rows, Variable


class MechanismState(Protocol):
    """The posterior of one mechanism: a fixed set of arrays, whose size does not depend on the data."""

    def arrays(self) -> dict[str, Array]:
        """Return the state as arrays, for saving."""
        ...


class MechanismDraw(Protocol):
    """S draws of a mechanism, to be evaluated.

    Rows are `[1 or S, n]` by variable name, `[1 or S, n, k]` for vectors. Real and vector targets answer in the target's own
    units; a categorical target answers with the probabilities of its categories.
    """

    @property
    def parents(self) -> tuple[str, ...]:
        """Return the names of the parents."""
        ...

    @property
    def sd(self) -> Array:
        """Return the noise standard deviations `[S, q]`, in the target's units."""
        ...

    def mean(self, rows: Rows, count: int, noisy: Mapping[str, Array] | None = None) -> Array:
        """Return the conditional mean `[S, n, q]` at `count` = n rows.

        `noisy` gives, by parent name, standard deviations `[S, k]` of Gaussian noise on that parent to integrate over.
        """
        ...

    def mean_each(self, rows: Rows, count: int, name: str, values: AnyArray) -> Array:
        """Return the conditional mean `[S, n, A, q]` with the parent `name` at each of A values in turn."""
        ...


class Mechanism(Protocol):
    """The fixed part of a mechanism; its posterior is a State."""

    @property
    def target(self) -> Variable:
        """Return the variable this mechanism generates."""
        ...

    @property
    def parents(self) -> tuple[str, ...]:
        """Return the names of the parents."""
        ...

    @property
    def affine(self) -> bool:
        """Return whether the mean is affine in every parent, without interactions."""
        ...

    def prior(self) -> MechanismState:
        """Return the state before any data."""
        ...

    def update(self, state: Any, rows: Rows, values: AnyArray) -> MechanismState:
        """Return the state after rows of parents and target values `[n]` or `[n, q]`."""
        ...

    def draw(self, state: Any, rng: np.random.Generator, count: int) -> MechanismDraw:
        """Return `count` draws from the posterior."""
        ...

    def point(self, state: Any) -> MechanismDraw:
        """Return the posterior mean as one draw."""
        ...

    def predict(self, state: Any, rows: Rows, count: int) -> tuple[Array, Array, Array]:
        """Return mean, variance of the mean, variance of a new value, each `[n, q]`, at `count` = n rows."""
        ...

    def kl(self, state: Any, other: Any) -> float:
        """Return KL(state || other) in nats."""
        ...

    def restore(self, arrays: Mapping[str, Array]) -> MechanismState:
        """Return the state saved as `arrays`."""
        ...


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
        """Return whether features are affine in every input, so that inputs do not interact."""

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
