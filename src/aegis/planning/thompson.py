"""Thompson sampling: act as if one draw of the belief were true."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from aegis.mechanisms import Belief, Theta
from aegis.planning.rules import EachDraw, Mask, Values, best, check_count, closed_off
from aegis.planning.states import States
from aegis.problem import Array


@dataclass(frozen=True, slots=True)
class ThompsonChoice(EachDraw):
    """Each particle takes the best action under its own draw."""

    theta: Theta

    def probabilities(self, level: str, states: States, values: Values, allowed: Mask) -> Array:
        """Return one-hot distributions `[S, n, A]`."""
        return best(closed_off(values(), allowed))


@dataclass(frozen=True, slots=True)
class Thompson:
    """Maximise the planned value under one draw of the belief, held for the whole episode (Thompson 1933; the paper's
    ts-policy and ck-ts).

    An action is played with the posterior probability that it is best. `particles` draws are taken and one index is picked per
    episode: the law of the actions is that of a single draw, and given the drawn set the probability of each action is known
    exactly and can be logged.
    """

    particles: int = 8

    def __post_init__(self) -> None:
        check_count(self.particles, "thompson: 'particles'")

    def prepare(
        self,
        belief: Belief,
        rng: np.random.Generator,
        episode: int,
        scope: Iterable[str] | None = None,
        theta: Theta | None = None,
    ) -> ThompsonChoice:
        """Return the choice among `particles` posterior draws, or among those given."""
        return ThompsonChoice(belief.draw(rng, self.particles) if theta is None else theta)
