"""Testing a claim at a factor Gamma: what every unit contributes if logged probabilities may be wrong by that much.

- Plain: with `w = product of pi / min(1, Gamma nu)`, which is at most the true weight, the nested mean of (w - 1) r has a mean of
  at most the true gain and is at least -1, like any plain gain. It needs no more than the propensities of the actions taken.
- Water-filled, one level: see `aegis.evidence.doubted`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from aegis.certificate.claims import Claim
from aegis.certificate.collecting import Evidence, place_grid
from aegis.certificate.measures import Measure
from aegis.certificate.parts import Part, Reach, gain_parts
from aegis.certificate.units import nested_means
from aegis.certificate.view import View
from aegis.certificate.weights import carried
from aegis.evidence import Grid, doubted_filled, least_weights
from aegis.policies import path_full, sequential_full
from aegis.problem import Array, Batch, Problem, Scope

FILLED = "water-filled"


@dataclass(frozen=True, slots=True)
class AsLogged:
    """A candidate that answers as it did on the log as it is: what it does may depend on what was logged."""

    view: View

    @property
    def weights(self) -> Array:
        """Return the particle weights `[S]`."""
        return self.view.weights

    def taken(self, level: str, batch: Batch) -> Array:
        """Return `[S, n]`."""
        return self.view.taken(level, self.view.batch)

    def full(self, level: str, batch: Batch) -> Array:
        """Return `[S, n, A]`."""
        return self.view.full(level, self.view.batch)


@dataclass(frozen=True, slots=True)
class Asked:
    """Units seen through a candidate that has been asked all that is needed; chances `[n, A]`: its choice at the one level."""

    view: View
    chances: Array | None

    @classmethod
    def of(cls, view: View, scope: Scope, whole: bool) -> Asked:
        """Ask the candidate of a view at the levels of a scope; whole: for its distribution at the one level in scope, too."""
        chances = None
        if whole:
            (level,) = scope
            choice = path_full if view.problem.carry_over == "none" else sequential_full
            chances = choice(view, level, view.batch, scope)
        for name in scope:
            view.taken(name, view.batch)
        return cls(replace(view, _full={}), chances)  # the answers of every particle are too large to be kept


def doubted(view: View, scope: Scope, gamma: float) -> View:
    """Return the view with `min(1, gamma nu)` as the propensities of the actions taken in scope: its weights are the least."""
    levels = {
        name: replace(table, mu_taken=np.minimum(1.0, gamma * table.mu_taken)) if name in scope else table
        for name, table in view.batch.levels.items()
    }
    # Rewards, predictions and who is whose sibling stay what they are; weights, and what was made of them, do not.
    batch = replace(view.batch, levels=levels)
    return replace(view, batch=batch, policy=AsLogged(view), _taken={}, _full={}, _weights={}, _series={})


def doubted_gains(view: View, chances: Array, scope: Scope, measure: Measure, bets: Array, gamma: float) -> Array:
    """Return the water-filled factors `[E, J]` for the gain at a scope of one level, valid within a factor of gamma.

    chances `[n, A]`: the candidate's distribution there. If decisions carry over it is multiplied by the least weight of
    what went before.
    """
    (level,) = scope
    nu, action = view.logging(level), view.batch.levels[level].action
    if view.problem.carry_over != "none":
        lowered = doubted(view, scope, gamma)
        chances = carried(view.problem, lowered, lowered.batch, scope, level)[:, None] * chances
    least = least_weights(chances, nu, gamma)
    reward = view.subtree(measure, level).worst(least[np.arange(len(nu)), action] - 1.0)
    return nested_means(view.batch, level, doubted_filled(least, nu, view.predicted(measure, level), action, reward, bets, gamma))


@dataclass(frozen=True, slots=True)
class Trial:
    """A claim to be tested at factors: by water-filled bets if it rests on them at one level, and by the plain test."""

    claim: Claim
    parts: tuple[Part, ...]
    grids: tuple[Grid, ...]

    @classmethod
    def of(cls, item: Evidence, problem: Problem, prior: View | None, foreseen: int) -> Trial:
        """Return the trial of a claim: with its own bets; those of the plain test are placed on prior units like any other."""
        claim = item.claim
        (plain,) = gain_parts(problem, claim.scope, claim.measure, Reach(False, ()), "plain")
        filled = [(part, grid) for part, grid in zip(claim.parts, item.grids, strict=True) if part.name == FILLED]
        listed = [*filled, (plain, place_grid(plain, claim, prior, foreseen))]
        return cls(claim, tuple(part for part, _ in listed), tuple(grid for _, grid in listed))

    @property
    def filled(self) -> bool:
        """Say whether there are water-filled bets."""
        return any(part.name == FILLED for part in self.parts)

    def evidence(self, units: Sequence[Asked], gamma: float, problem: Problem) -> Evidence:
        """Return the evidence of some units at a factor of gamma."""
        found = Evidence.start(replace(self.claim, what="sensitivity", parts=self.parts), self.grids, problem)
        for item in units:
            both = zip(self.parts, self.grids, strict=True)
            found.add([self._values(part, grid, item, gamma) for part, grid in both], item.view.batch.cluster)
        found.close()
        return found

    def survives(self, evidence: Evidence) -> bool:
        """Say whether the gain is certified to exceed the margin of the claim, or more than that."""
        blend = evidence.blend
        low = max(-part.largest for part in self.parts)  # the least gain that all bets can be held against
        return blend is not None and blend.count > 0 and blend.certifies(max(self.claim.margin, low), self.claim.delta)

    def _values(self, part: Part, grid: Grid, item: Asked, gamma: float) -> Array:
        scope, measure = self.claim.scope, self.claim.measure
        if part.name == FILLED and item.chances is not None:
            return doubted_gains(item.view, item.chances, scope, measure, grid.bets, gamma)
        return part.compute(doubted(item.view, scope, gamma), grid.bets, 1.0)
