"""Rules made of two others: a coin per episode (D-optimal or Thompson), or one rule outside and another innermost."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.random import Generator

from aegis.errors import finite_number, whole_number
from aegis.mechanisms import Belief, Theta
from aegis.planning.base import Choice, Rule, Values
from aegis.planning.information_rules import DOptimalChoice, Information
from aegis.planning.states import States
from aegis.planning.value_rules import ThompsonChoice
from aegis.problem import AnyArray, Array, Bools, Ints


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

    def probabilities(self, level: str, states: States, values: Values, allowed: Bools) -> Array:
        """Return one-hot distributions `[1 + S, n, A]`."""
        parts = [choice.probabilities(level, states, values, allowed) for choice in (self.exploring, self.acting)]
        return np.concatenate(parts)


@dataclass(frozen=True, slots=True)
class BernoulliMix:
    """The coin: D-optimal design in some episodes, Thompson sampling in the others.

    Maximise information (as DOptimal) with probability p, the planned value under one draw (as Thompson) otherwise.

    The coin is thrown once per episode: it is part of the particle that acts, so that the logged probabilities are those of the
    mixture, exactly. `particles` as in Thompson, `samples` as in DOptimal.
    """

    p: float = 0.5
    particles: int = 8
    samples: float = 1.0

    def __post_init__(self) -> None:
        finite_number("mix: 'p'", self.p, 0.0, 1.0)
        whole_number("mix: 'particles'", self.particles)
        finite_number("mix: 'samples'", self.samples, above=0.0)

    def prepare(
        self, belief: Belief, rng: Generator, episode: int, scope: Iterable[str] | None = None, theta: Theta | None = None
    ) -> MixChoice:
        """Return the choice with `particles` posterior draws, or with those given."""
        drawn = belief.draw(rng, self.particles) if theta is None else theta
        point = belief.point()
        exploring = DOptimalChoice(point, Information(belief, point, float(self.samples)))
        return MixChoice(exploring, ThompsonChoice(drawn), float(self.p))


@dataclass(frozen=True, slots=True)
class ByLevelChoice:
    """Pairs of an outer and an inner particle that act together.

    members `[S', 2]`: the outer and the inner particle of each pair. weights `[S']`. innermost: the level at which the inner one
    decides.
    """

    outer: Choice
    inner: Choice
    innermost: str
    members: AnyArray
    weights: Array

    @property
    def theta(self) -> Theta:
        """Return the draws that are played; what the innermost level plans with if none are."""
        return self.outer.theta if (self.outer.plays >= 0).any() else self.inner.theta

    @property
    def plays(self) -> Ints:
        """Return the draw each pair acts under, `[S']`: partners never act under two different ones."""
        return np.maximum(self.outer.plays[self.members[:, 0]], self.inner.plays[self.members[:, 1]])

    def at(self, level: str) -> Choice:
        """Return the choice that decides at `level`."""
        return self.inner.at(level) if level == self.innermost else self.outer.at(level)

    def probabilities(self, level: str, states: States, values: Values, allowed: Bools) -> Array:
        """Return `[S', n, A]`."""
        side, choice = (1, self.inner) if level == self.innermost else (0, self.outer)
        return choice.probabilities(level, states, values, allowed)[self.members[:, side]]


@dataclass(frozen=True, slots=True)
class ByLevel:
    """Follow `outer` at every level but the innermost, `inner` there.

    One set of draws is shared: an episode that acts under a draw acts under it at all levels. The set is as large as the more
    demanding of the two rules asks for; rules that only average over draws, such as Ucb, take their own.
    """

    outer: Rule
    inner: Rule

    @property
    def particles(self) -> int:
        """Return how many draws are shared."""
        return max(self.outer.particles, self.inner.particles)

    def prepare(
        self, belief: Belief, rng: Generator, episode: int, scope: Iterable[str] | None = None, theta: Theta | None = None
    ) -> Choice:
        """Return the choices of both rules, their particles paired; of one of them if the other has no level in the scope."""
        innermost = belief.problem.innermost.name
        controlled = belief.problem.scope(scope)
        if controlled <= {innermost}:
            return self.inner.prepare(belief, rng, episode, controlled, theta)
        if innermost not in controlled:
            return self.outer.prepare(belief, rng, episode, controlled, theta)
        if theta is None and self.particles:
            theta = belief.draw(rng, self.particles)
        outer, inner = (rule.prepare(belief, rng, episode, controlled, theta) for rule in (self.outer, self.inner))
        members, weights = particle_pairs(outer, inner)
        return ByLevelChoice(outer=outer, inner=inner, innermost=innermost, members=members, weights=weights)


def particle_pairs(outer: Choice, inner: Choice) -> tuple[AnyArray, Array]:
    """Return which particles act together `[S', 2]`, and with which weights `[S']`.

    The episode's draw s is one of S with the same chance, and given s the two choices pick their particles independently: a
    particle of weight w that acts under s has conditional chance S w, one that acts under no draw has w. Summed over s that
    is S w w' for two particles of the same draw, 0 for different draws, and w w' if either acts under none.
    """
    one, other = outer.plays[:, None], inner.plays[None, :]
    free = (one < 0) | (other < 0)
    members = np.argwhere(free | (one == other))
    first, second = members.T
    factor = np.where(free[first, second], 1.0, float(outer.theta.count))
    return members, factor * outer.weights[first] * inner.weights[second]
