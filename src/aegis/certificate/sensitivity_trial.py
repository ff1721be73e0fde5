"""Testing a claim at factors Gamma: the tests of `aegis.certificate.doubt` on units that were asked for all they need once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from aegis.certificate.claims import Claim
from aegis.certificate.collecting import Evidence, place_grid
from aegis.certificate.comparator import Comparator
from aegis.certificate.doubt import chances_at, doubted, doubted_gains
from aegis.certificate.parts import FILLED, PLAIN, Part, plain_gain
from aegis.certificate.view import View
from aegis.evidence import Grid
from aegis.problem import Array, Problem, Scope


@dataclass(frozen=True, slots=True)
class Asked:
    """Units seen through a candidate that has been asked all that is needed; chances `[n, A]`: its choice at the one level."""

    view: View
    chances: Array | None

    @classmethod
    def of(cls, view: View, scope: Scope, whole: bool) -> Asked:
        """Ask the candidate of a view at the levels of a scope; whole: for its distribution at the one level in scope, too."""
        chances = chances_at(view, scope) if whole else None
        for name in scope:
            view.taken(name, view.batch)
        return cls(replace(view, _full={}), chances)  # the answers of every particle are too large to be kept


@dataclass(frozen=True, slots=True)
class Trial:
    """A claim to be tested at factors: by water-filled bets if it rests on them at one level, and by the plain test."""

    claim: Claim
    parts: tuple[Part, ...]
    grids: tuple[Grid, ...]

    @classmethod
    def of(cls, item: Evidence, prior: View | None, foreseen: int, comparator: Comparator, carries: bool) -> Trial:
        """Return the trial of a claim: with its own bets; those of the plain test are placed on prior units like any other.

        carries: decisions carry over to later ones of their episode.
        """
        claim = item.claim
        plain = plain_gain(claim.scope, claim.measure, comparator, doubtful=True)
        single = len(claim.scope) == 1 and not comparator.others and not (carries and comparator.stated(claim.scope))
        both = zip(claim.parts, item.grids, strict=True)
        filled = [(part, grid) for part, grid in both if single and _filled(part)]
        listed = [*filled, (plain, place_grid(plain, claim, prior, foreseen))]
        return cls(claim, tuple(part for part, _ in listed), tuple(grid for _, grid in listed))

    @property
    def filled(self) -> bool:
        """Say whether there are water-filled bets."""
        return any(_filled(part) for part in self.parts)

    @property
    def method(self) -> str:
        """Return the tests in words."""
        return " + ".join(FILLED if _filled(part) else PLAIN for part in self.parts)

    def evidence(self, units: Sequence[Asked], factors: Mapping[str, float], problem: Problem) -> Evidence:
        """Return the evidence of some units at factors by level in scope."""
        found = Evidence.start(replace(self.claim, what="sensitivity", parts=self.parts), self.grids, problem)
        for item in units:
            both = zip(self.parts, self.grids, strict=True)
            found.add([self._values(part, grid, item, factors) for part, grid in both], item.view.batch.cluster)
        found.close()
        return found

    def survives(self, evidence: Evidence) -> bool:
        """Say whether the gain is certified to exceed the margin of the claim, or more than that."""
        blend = evidence.blend
        low = max(-part.largest for part in self.parts)  # the least gain that all bets can be held against
        return blend is not None and blend.count > 0 and blend.certifies(max(self.claim.margin, low), self.claim.delta)

    def _values(self, part: Part, grid: Grid, item: Asked, factors: Mapping[str, float]) -> Array:
        scope, measure = self.claim.scope, self.claim.measure
        if _filled(part):
            (factor,) = factors.values()
            return doubted_gains(item.view, scope, measure, grid.bets, factor, item.chances)
        return part.compute(doubted(item.view, factors), grid.bets, 1.0)


def _filled(part: Part) -> bool:
    """Say whether a part is made of water-filled bets for a gain."""
    return part.kind == "gain"
