"""Protocols of decision rules: a rule turns a belief into a choice, a choice turns values into action probabilities.

A rule prepares a choice once per episode: the draws of the belief it plans with, and the particles of the policy it gives.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Protocol, Self

import numpy as np
from numpy.random import Generator

from aegis.errors import PolicyError
from aegis.mechanisms import Belief, Theta
from aegis.planning.states import States
from aegis.problem import Array, Bools, Ints

Values = Callable[[], Array]


class Choice(Protocol):
    """What a rule has settled for one episode. Frozen data, so that a policy made of it can be stored."""

    @property
    def theta(self) -> Theta:
        """Return the S draws that actions are planned with."""

    @property
    def weights(self) -> Array:
        """Return the weights `[S']` of the particles of the policy; S' need not be S."""

    @property
    def plays(self) -> Ints:
        """Return which draw of theta each particle acts under, `[S']`; -1 if it acts under no draw.

        All draws have the same chance of being played.
        """

    def at(self, level: str) -> Choice:
        """Return what decides at `level`: itself, unless rules differ by level. Its theta is what that level plans with."""

    def probabilities(self, level: str, states: States, values: Values, allowed: Bools) -> Array:
        """Return each particle's distribution over the actions, `[S', n, A]`; 0 where `allowed` `[n, A]` is false.

        states: what the n decisions look at. values: planned values `[S, n, A]` under theta, larger is better; called only if
        needed. Every row of `allowed` has an action.
        """


class Rule(Protocol):
    """A decision rule."""

    @property
    def particles(self) -> int:
        """Return how many draws of the belief take turns in acting, one per episode; 0 if the rule acts under none."""

    def prepare(
        self, belief: Belief, rng: Generator, episode: int, scope: Iterable[str] | None = None, theta: Theta | None = None
    ) -> Choice:
        """Return the choice for one episode, counted from 0, from the belief before it.

        scope: the levels under control, all without one. theta: draws shared with the rules of other levels; a rule with
        particles plays these, however many, instead of drawing its own.
        """


class OneParticle:
    """The part that choices of a single particle, which acts under no draw in particular, have in common."""

    __slots__ = ()

    @property
    def weights(self) -> Array:
        """Return `[1.0]`."""
        return np.ones(1)

    @property
    def plays(self) -> Ints:
        """Return `[-1]`."""
        return np.full(1, -1, dtype=np.int32)

    def at(self, level: str) -> Self:
        """Return itself."""
        return self


class EachDraw:
    """The part that choices with one particle per draw have in common."""

    __slots__ = ()
    theta: Theta

    @property
    def weights(self) -> Array:
        """Return the weights of the draws, `[S]`."""
        return self.theta.weights

    @property
    def plays(self) -> Ints:
        """Return `0 .. S - 1`."""
        return np.arange(self.theta.count, dtype=np.int32)

    def at(self, level: str) -> Self:
        """Return itself."""
        return self


def best_actions(values: Array) -> Array:
    """Return one-hot distributions `[..., A]` at the largest value, the first one on ties."""
    return (np.argmax(values, axis=-1)[..., None] == np.arange(values.shape[-1])).astype(np.float64)


def mask_closed(values: Array, allowed: Bools) -> Array:
    """Return values `[..., n, A]` with -inf at actions that are not allowed."""
    return np.where(allowed, values, -np.inf)


def check_known(values: Array, level: str, what: str) -> Array:
    """Return values `[S, n, A]`; raise PolicyError, naming the first row, if some are not finite."""
    unknown = ~np.isfinite(values).all(axis=(0, 2))
    if unknown.any():
        raise PolicyError(
            f"level '{level}', row {int(np.argmax(unknown))}: {what} is not finite ({int(unknown.sum())} such rows); a context "
            "is missing or far too large, so set these rows aside or fill them in"
        )
    return values
