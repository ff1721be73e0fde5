"""The coin: D-optimal design in some episodes, Thompson sampling in the others."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from aegis.mechanisms import Belief, Theta
from aegis.planning.d_optimal import DOptimalChoice, check_samples
from aegis.planning.information import Information
from aegis.planning.rules import Mask, Values, check_count
from aegis.planning.states import States
from aegis.planning.thompson import ThompsonChoice
from aegis.policies.support import number
from aegis.problem import Array, Ints


@dataclass(frozen=True, slots=True)
class MixChoice:
    """1 + S particles: D-optimal design with weight p, and each draw of Thompson's theta with weight (1 - p) / S."""

    exploring: DOptimalChoice
    acting: ThompsonChoice
    p: float

    @property
    def theta(self) -> Theta:
        """Return Thompson's draws."""
        return self.acting.theta

    @property
    def weights(self) -> Array:
        """Return `[1 + S]`."""
        return np.concatenate([[self.p], (1.0 - self.p) * self.acting.weights])

    @property
    def plays(self) -> Ints:
        """Return `-1, 0 .. S - 1`."""
        return np.concatenate([self.exploring.plays, self.acting.plays])

    def at(self, level: str) -> MixChoice:
        """Return itself."""
        return self

    def probabilities(self, level: str, states: States, values: Values, allowed: Mask) -> Array:
        """Return one-hot distributions `[1 + S, n, A]`."""
        parts = [choice.probabilities(level, states, values, allowed) for choice in (self.exploring, self.acting)]
        return np.concatenate(parts)


@dataclass(frozen=True, slots=True)
class BernoulliMix:
    """Maximise information (as DOptimal) with probability p, the planned value under one draw (as Thompson) otherwise.

    The coin is thrown once per episode: it is part of the particle that acts, so that the logged probabilities are those of the
    mixture, exactly. `particles` as in Thompson, `samples` as in DOptimal.
    """

    p: float = 0.5
    particles: int = 8
    samples: float = 1.0

    def __post_init__(self) -> None:
        number(self.p, "mix: 'p'", 0.0, 1.0)
        check_count(self.particles, "mix: 'particles'")
        check_samples(self.samples, "mix")

    def prepare(
        self,
        belief: Belief,
        rng: np.random.Generator,
        episode: int,
        scope: Iterable[str] | None = None,
        theta: Theta | None = None,
    ) -> MixChoice:
        """Return the choice with `particles` posterior draws, or with those given."""
        drawn = belief.draw(rng, self.particles) if theta is None else theta
        point = belief.point()
        exploring = DOptimalChoice(point, Information(belief, point, float(self.samples)))
        return MixChoice(exploring, ThompsonChoice(drawn), float(self.p))
