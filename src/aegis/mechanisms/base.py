"""Protocols of this package: a mechanism, the learnable conditional law of one variable given its parents, and its draws."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

import numpy as np

from aegis.problem import AnyArray, Array, Rows, Variable


class MechanismDraw(Protocol):
    """S draws of a mechanism, to be evaluated.

    Rows are `[1 or S, n]` by variable name, `[1 or S, n, k]` for vectors. Real and vector targets answer in the target's own
    units; a categorical target answers with the probabilities of its categories.
    """

    @property
    def parents(self) -> tuple[str, ...]:
        """Return the names of the parents."""

    @property
    def sd(self) -> Array:
        """Return the noise standard deviations `[S, q]`, in the target's units."""

    def mean(self, rows: Rows, count: int, noisy: Mapping[str, Array] | None = None) -> Array:
        """Return the conditional mean `[S, n, q]` at `count` = n rows.

        `noisy` gives, by parent name, standard deviations `[S, k]` of Gaussian noise on that parent to integrate over.
        """

    def mean_each(self, rows: Rows, count: int, name: str, values: AnyArray) -> Array:
        """Return the conditional mean `[S, n, A, q]` with the parent `name` at each of A values in turn."""


class Mechanism(Protocol):
    """The fixed part of a mechanism; its posterior is a dataclass of arrays, whose size does not depend on the data."""

    @property
    def target(self) -> Variable:
        """Return the variable this mechanism generates."""

    @property
    def parents(self) -> tuple[str, ...]:
        """Return the names of the parents."""

    @property
    def affine(self) -> bool:
        """Return whether the mean is affine in every parent, without interactions."""

    def prior(self) -> Any:
        """Return the state before any data."""

    def update(self, state: Any, rows: Rows, values: AnyArray) -> Any:
        """Return the state after rows of parents and target values `[n]` or `[n, q]`."""

    def draw(self, state: Any, rng: np.random.Generator, count: int) -> MechanismDraw:
        """Return `count` draws from the posterior."""

    def point(self, state: Any) -> MechanismDraw:
        """Return the posterior mean as one draw."""

    def predict(self, state: Any, rows: Rows, count: int) -> tuple[Array, Array, Array]:
        """Return mean, variance of the mean, variance of a new value, each `[n, q]`, at `count` = n rows."""

    def kl(self, state: Any, other: Any) -> float:
        """Return KL(state || other) in nats."""
