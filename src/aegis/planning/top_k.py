"""The hybrid: Thompson sampling among the most informative actions."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from aegis.mechanisms import Belief, Theta
from aegis.planning.d_optimal import check_samples
from aegis.planning.information import Information, comparable
from aegis.planning.rules import EachDraw, Mask, Values, best, check_count, closed_off
from aegis.planning.states import States
from aegis.problem import Array


@dataclass(frozen=True, slots=True)
class TopKChoice(EachDraw):
    """Each particle takes, of the k most informative actions, the best one under its own draw."""

    theta: Theta
    information: Information
    k: int

    def probabilities(self, level: str, states: States, values: Values, allowed: Mask) -> Array:
        """Return one-hot distributions `[S, n, A]`."""
        listed = shortlist(comparable(self.information.score(level, states), allowed), self.k) & allowed
        return best(closed_off(values(), listed))


@dataclass(frozen=True, slots=True)
class TopK:
    """Maximise the planned value under one draw among the k actions that DOptimal ranks highest (the paper's top-k hybrid with
    Thompson as the tie-break).

    The shortlist is made per decision among the available actions; with fewer than k of them all are on it. Informative
    actions tied for the last place: the first ones. `particles` as in Thompson, `samples` as in DOptimal.
    """

    k: int = 3
    particles: int = 8
    samples: float = 1.0

    def __post_init__(self) -> None:
        check_count(self.k, "top_k: 'k'")
        check_count(self.particles, "top_k: 'particles'")
        check_samples(self.samples, "top_k")

    def prepare(
        self,
        belief: Belief,
        rng: np.random.Generator,
        episode: int,
        scope: Iterable[str] | None = None,
        theta: Theta | None = None,
    ) -> TopKChoice:
        """Return the choice among `particles` posterior draws, or among those given."""
        drawn = belief.draw(rng, self.particles) if theta is None else theta
        return TopKChoice(drawn, Information(belief, belief.point(), float(self.samples)), int(self.k))


def shortlist(scores: Array, k: int) -> Mask:
    """Return which actions are among the k with the largest scores `[..., A]`, first ones first on ties."""
    order = np.argsort(-scores, axis=-1, kind="stable")
    return np.argsort(order, axis=-1, kind="stable") < k
