"""Rules: from a belief to the particles that plan, and from their values to a choice.

A rule says which draws of the belief to plan with and how the values under those draws pick an action. Commit shapes and
the recursion do not know which rule is in use.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from aegis.errors import SettingError
from aegis.mechanisms import Belief, Theta
from aegis.problem import Array


class Rule(Protocol):
    """A decision rule."""

    def beliefs(self, belief: Belief, rng: np.random.Generator) -> Theta:
        """Return the draws to plan with."""
        ...

    def choose(self, values: Array) -> Array:
        """Return action probabilities `[S', n, A]` from values `[S, n, A]` (-inf: not available)."""
        ...


@dataclass(frozen=True, slots=True)
class Thompson:
    """Act greedily under one draw per episode (the paper's ts-policy and ck-ts).

    `particles` draws are taken and one index is picked per episode. The law of the actions is that of a single draw; given the
    drawn set, the probability of each action is known exactly and can be logged.
    """

    particles: int = 8

    def __post_init__(self) -> None:
        if self.particles < 1:
            raise SettingError(f"thompson: at least one particle, found {self.particles}")

    def beliefs(self, belief: Belief, rng: np.random.Generator) -> Theta:
        """Return `particles` posterior draws."""
        return belief.draw(rng, self.particles)

    def choose(self, values: Array) -> Array:
        """Return each particle's best action as a distribution."""
        return best(values)


@dataclass(frozen=True, slots=True)
class Greedy:
    """Act on the posterior mean. Deterministic, so its log allows no certificate of a gain."""

    def beliefs(self, belief: Belief, rng: np.random.Generator) -> Theta:
        """Return the posterior mean."""
        return belief.point()

    def choose(self, values: Array) -> Array:
        """Return the best action as a distribution."""
        return best(values)


def best(values: Array) -> Array:
    """Return one-hot distributions `[..., A]` at the largest value, the first one on ties."""
    return (np.argmax(values, axis=-1)[..., None] == np.arange(values.shape[-1])).astype(np.float64)


RULES: dict[str, type[Thompson] | type[Greedy]] = {"thompson": Thompson, "greedy": Greedy}
