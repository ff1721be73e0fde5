"""Upper confidence bound: act on the mean planned value plus a multiple of its posterior spread."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from aegis.mechanisms import Belief, Theta
from aegis.planning.rules import Mask, OneParticle, Values, best, check_count, closed_off
from aegis.planning.states import States
from aegis.policies.support import number
from aegis.problem import Array


@dataclass(frozen=True, slots=True)
class SpreadChoice(OneParticle):
    """The action with the largest mean + kappa * sd of its planned values over the draws; kappa may be negative."""

    theta: Theta
    kappa: float

    def probabilities(self, level: str, states: States, values: Values, allowed: Mask) -> Array:
        """Return one-hot distributions `[1, n, A]`."""
        drawn = values()
        index = drawn.mean(axis=0) + self.kappa * drawn.std(axis=0)
        return best(closed_off(index[None], allowed))


@dataclass(frozen=True, slots=True)
class Ucb:
    """Maximise the posterior mean + kappa posterior standard deviations of the planned value (Auer 2002; Kaufmann, Cappe and
    Garivier 2012 for the Bayesian form; the paper's host AEGIS-UCB).

    The value is that of the recursion, so that uncertainty about every mechanism below a decision counts. Mean and standard
    deviation are taken over `draws` posterior draws (divisor `draws`, so that a single draw has spread 0). Deterministic given
    the draws.
    """

    kappa: float = 1.0
    draws: int = 64

    def __post_init__(self) -> None:
        number(self.kappa, "ucb: 'kappa'", 0.0)
        check_count(self.draws, "ucb: 'draws'")

    @property
    def particles(self) -> int:
        """Return 0: draws are averaged over, not played."""
        return 0

    def prepare(
        self,
        belief: Belief,
        rng: np.random.Generator,
        episode: int,
        scope: Iterable[str] | None = None,
        theta: Theta | None = None,
    ) -> SpreadChoice:
        """Return the choice over draws of its own."""
        return SpreadChoice(belief.draw(rng, self.draws), float(self.kappa))
