"""One rule at the outer levels, another at the innermost: the paper's meta-rules above an inner Thompson sampler."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from aegis.mechanisms import Belief, Theta
from aegis.planning.rules import Choice, Mask, Rule, Values
from aegis.planning.states import States
from aegis.problem import AnyArray, Array, Ints


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

    def probabilities(self, level: str, states: States, values: Values, allowed: Mask) -> Array:
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
        self,
        belief: Belief,
        rng: np.random.Generator,
        episode: int,
        scope: Iterable[str] | None = None,
        theta: Theta | None = None,
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
        members, weights = pairs(outer, inner)
        return ByLevelChoice(outer, inner, innermost, members, weights)


def pairs(outer: Choice, inner: Choice) -> tuple[AnyArray, Array]:
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
