"""What a mechanism is: a learnable conditional law of one variable given its parents."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

import numpy as np

from aegis.problem import AnyArray, Array, Rows, Variable


class State(Protocol):
    """The posterior of one mechanism: a fixed set of arrays, whatever the amount of data seen."""

    def arrays(self) -> dict[str, Array]:
        """Return the state as arrays, for saving."""
        ...


class Function(Protocol):
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
        """Say whether the mean is affine in every parent, without interactions."""
        ...

    def prior(self) -> State:
        """Return the state before any data."""
        ...

    def update(self, state: Any, rows: Rows, values: AnyArray) -> State:
        """Return the state after rows of parents and target values `[n]` or `[n, q]`."""
        ...

    def draw(self, state: Any, rng: np.random.Generator, count: int) -> Function:
        """Return `count` draws from the posterior."""
        ...

    def point(self, state: Any) -> Function:
        """Return the posterior mean as one draw."""
        ...

    def predict(self, state: Any, rows: Rows, count: int) -> tuple[Array, Array, Array]:
        """Return mean, variance of the mean, variance of a new value, each `[n, q]`, at `count` = n rows."""
        ...

    def kl(self, state: Any, other: Any) -> float:
        """Return KL(state || other) in nats."""
        ...

    def restore(self, arrays: Mapping[str, Array]) -> State:
        """Return the state saved as `arrays`."""
        ...
