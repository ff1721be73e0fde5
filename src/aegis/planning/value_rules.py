"""Rules that act on planned values: Thompson sampling, greedy, upper and lower confidence bounds."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar

from numpy.random import Generator

from aegis.errors import finite_number, whole_number
from aegis.mechanisms import Belief, Theta
from aegis.planning.base import EachDraw, OneParticle, Values, best_actions, mask_closed
from aegis.planning.states import States
from aegis.problem import Array, Bools


@dataclass(frozen=True, slots=True)
class ThompsonChoice(EachDraw):
    """Each particle takes the best action under its own draw."""

    theta: Theta

    def probabilities(self, level: str, states: States, values: Values, allowed: Bools) -> Array:
        """Return one-hot distributions `[S, n, A]`."""
        return best_actions(mask_closed(values(), allowed))


@dataclass(frozen=True, slots=True)
class Thompson:
    """Thompson sampling: act as if one draw of the belief were true.

    Maximise the planned value under one draw of the belief, held for the whole episode (Thompson 1933; the paper's
    ts-policy and ck-ts).

    An action is played with the posterior probability that it is best. `particles` draws are taken and one index is picked per
    episode: the law of the actions is that of a single draw, and given the drawn set the probability of each action is known
    exactly and can be logged.
    """

    particles: int = 8

    def __post_init__(self) -> None:
        whole_number("thompson: 'particles'", self.particles)

    def prepare(
        self, belief: Belief, rng: Generator, episode: int, scope: Iterable[str] | None = None, theta: Theta | None = None
    ) -> ThompsonChoice:
        """Return the choice among `particles` posterior draws, or among those given."""
        return ThompsonChoice(belief.draw(rng, self.particles) if theta is None else theta)


@dataclass(frozen=True, slots=True)
class GreedyChoice(OneParticle):
    """The best action under theta, a single particle."""

    theta: Theta

    def probabilities(self, level: str, states: States, values: Values, allowed: Bools) -> Array:
        """Return one-hot distributions `[1, n, A]`."""
        return best_actions(mask_closed(values(), allowed))


@dataclass(frozen=True, slots=True)
class Greedy:
    """Greedy: act as if the posterior mean were true.

    Maximise the planned value under the posterior mean of every mechanism (the paper's Option C, greedy posterior mean).

    Deterministic, so that its log allows no certificate of a gain.
    """

    particles: ClassVar[int] = 0  # no draws are played

    def prepare(
        self, belief: Belief, rng: Generator, episode: int, scope: Iterable[str] | None = None, theta: Theta | None = None
    ) -> GreedyChoice:
        """Return the choice under the posterior mean, independent of the draws that other levels play."""
        return GreedyChoice(belief.point())


@dataclass(frozen=True, slots=True)
class SpreadChoice(OneParticle):
    """The action with the largest mean + kappa * sd of its planned values over the draws; kappa may be negative."""

    theta: Theta
    kappa: float

    def probabilities(self, level: str, states: States, values: Values, allowed: Bools) -> Array:
        """Return one-hot distributions `[1, n, A]`."""
        drawn = values()
        index = drawn.mean(axis=0) + self.kappa * drawn.std(axis=0)
        return best_actions(mask_closed(index[None], allowed))


@dataclass(frozen=True, slots=True)
class Ucb:
    """Upper confidence bound: act on the mean planned value plus a multiple of its posterior spread.

    Maximise the posterior mean + kappa posterior standard deviations of the planned value (Auer 2002; Kaufmann, Cappe and
    Garivier 2012 for the Bayesian form; the paper's host AEGIS-UCB).

    The value is that of the recursion, so that uncertainty about every mechanism below a decision counts. Mean and standard
    deviation are taken over `draws` posterior draws (divisor `draws`, so that a single draw has spread 0). Deterministic given
    the draws.
    """

    particles: ClassVar[int] = 0  # draws are averaged over, not played
    kappa: float = 1.0
    draws: int = 64

    def __post_init__(self) -> None:
        finite_number("ucb: 'kappa'", self.kappa, 0.0)
        whole_number("ucb: 'draws'", self.draws)

    def prepare(
        self, belief: Belief, rng: Generator, episode: int, scope: Iterable[str] | None = None, theta: Theta | None = None
    ) -> SpreadChoice:
        """Return the choice over draws of its own."""
        return SpreadChoice(belief.draw(rng, self.draws), float(self.kappa))


def pessimism(divergence: float, delta: float, episode: int) -> float:
    """Return kappa_k = sqrt(2 (KL(p_(k-1) || p_0) + log(1/delta)) / k) of the paper's ra-inner, for k = episode + 1."""
    whole_number("lcb: 'episode'", episode, 0)
    return math.sqrt(2.0 * (divergence + math.log(1.0 / delta)) / (episode + 1))


@dataclass(frozen=True, slots=True)
class Lcb:
    """Lower confidence bound: act on the mean planned value minus a multiple of its posterior spread.

    Maximise the posterior mean - kappa_k posterior standard deviations of the planned value (the paper's ra-inner).

    `kappa_k = sqrt(2 (KL(p_(k-1) || p_0) + log(1/delta)) / k)`, KL over the mechanisms of the scope, unless a fixed `kappa` is
    given. Mean and standard deviation are taken over `draws` posterior draws. Deterministic given the draws.
    """

    particles: ClassVar[int] = 0  # draws are averaged over, not played
    kappa: float | None = None
    delta: float = 0.05
    draws: int = 64

    def __post_init__(self) -> None:
        if self.kappa is not None:
            finite_number("lcb: 'kappa'", self.kappa, 0.0)
        finite_number("lcb: 'delta'", self.delta, above=0.0, below=1.0)
        whole_number("lcb: 'draws'", self.draws)

    def prepare(
        self, belief: Belief, rng: Generator, episode: int, scope: Iterable[str] | None = None, theta: Theta | None = None
    ) -> SpreadChoice:
        """Return the choice over draws of its own, with the pessimism of this episode."""
        kappa = pessimism(belief.kl(scope), self.delta, episode) if self.kappa is None else float(self.kappa)
        return SpreadChoice(belief.draw(rng, self.draws), -kappa)
