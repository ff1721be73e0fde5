"""Greedy: act as if the posterior mean were true."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from aegis.mechanisms import Belief, Theta
from aegis.planning.rules import Mask, OneParticle, Values, best, closed_off
from aegis.planning.states import States
from aegis.problem import Array


@dataclass(frozen=True, slots=True)
class GreedyChoice(OneParticle):
    """The best action under theta, a single particle."""

    theta: Theta

    def probabilities(self, level: str, states: States, values: Values, allowed: Mask) -> Array:
        """Return one-hot distributions `[1, n, A]`."""
        return best(closed_off(values(), allowed))


@dataclass(frozen=True, slots=True)
class Greedy:
    """Maximise the planned value under the posterior mean of every mechanism (the paper's Option C, greedy posterior mean).

    Deterministic, so that its log allows no certificate of a gain.
    """

    @property
    def particles(self) -> int:
        """Return 0: no draws are played."""
        return 0

    def prepare(
        self,
        belief: Belief,
        rng: np.random.Generator,
        episode: int,
        scope: Iterable[str] | None = None,
        theta: Theta | None = None,
    ) -> GreedyChoice:
        """Return the choice under the posterior mean, whatever draws other levels play."""
        return GreedyChoice(belief.point())
