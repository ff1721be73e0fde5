"""How wrong the logged probabilities may be: the largest factor Gamma that a certificate survives.

Let nu be the logged probability of an action at a level in scope and nu' the true one, `nu / Gamma <= nu' <= min(1, Gamma nu)`.
A test at Gamma is valid for every nu' in between. Where the certificate rests on water-filled bets at one level the wealths
of these and of the plain test are averaged: the former need less data, the latter survive more where there are plenty.
Everywhere else the plain test stands alone and may survive less than the certificate would.

Gammas are tried from the smallest up to the first that is not certified, each at the risk of the claim itself. That costs no
risk. 'It survives Gamma' is false only if the truth is wrong by a factor of some G <= Gamma while the gain does not exceed its
margin. Let Gamma_i be the smallest on the list with Gamma_i >= G (the claim itself, at a factor of one, heads the list). Its
test is valid, because the truth lies within Gamma_i, and it must have been certified on the way to Gamma: the probability of
that is at most the risk of the claim. If G = 1 it is even the same event as that of a false certificate.

Where a factor is declared for every level in scope (`wrong_by`) the claim itself is certified at it: the smallest of them heads
the list. A level with a larger one keeps it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from aegis.certificate.certificate import Sensitivity
from aegis.certificate.claims import Claim
from aegis.certificate.evidence import ClaimEvidence, place_grid
from aegis.certificate.methods import FILLED, PLAIN, EvidencePart, plain_gain
from aegis.certificate.request import Request
from aegis.certificate.scan import ScanResult
from aegis.evidence import Grid
from aegis.ope import (
    CandidateView,
    Comparator,
    candidate_distribution,
    filled_gains_within_error,
    views_in_pieces,
    with_least_weights,
)
from aegis.problem import Array, Problem, Scope


@dataclass(frozen=True, slots=True)
class AnsweredUnits:
    """Units seen through a candidate that has answered everything needed; chances `[n, A]`: its choice at the one level."""

    view: CandidateView
    chances: Array | None

    @classmethod
    def of(cls, view: CandidateView, scope: Scope, whole: bool) -> AnsweredUnits:
        """Ask the candidate of a view at the levels of a scope; whole: for its distribution at the one level in scope, too."""
        chances = candidate_distribution(view, scope) if whole else None
        for name in scope:
            view.taken(name, view.batch)
        return cls(replace(view, _full={}), chances)  # the answers of every particle are too large to be kept


@dataclass(frozen=True, slots=True)
class SensitivityTrial:
    """A claim to be tested at factors: by water-filled bets if it rests on them at one level, and by the plain test."""

    claim: Claim
    parts: tuple[EvidencePart, ...]
    grids: tuple[Grid, ...]

    @classmethod
    def of(
        cls, item: ClaimEvidence, prior: CandidateView | None, foreseen: int, comparator: Comparator, carries: bool
    ) -> SensitivityTrial:
        """Return the trial of a claim: with its own bets; those of the plain test are placed on prior units like any other.

        carries: decisions carry over to later ones of their episode.
        """
        claim = item.claim
        plain = plain_gain(claim.scope, claim.measure, comparator, doubtful=True)
        single = len(claim.scope) == 1 and not comparator.others and not (carries and comparator.stated(claim.scope))
        both = zip(claim.parts, item.grids, strict=True)
        filled = [(part, grid) for part, grid in both if single and _is_water_filled(part)]
        listed = [*filled, (plain, place_grid(plain, claim, prior, foreseen))]
        return cls(claim, tuple(part for part, _ in listed), tuple(grid for _, grid in listed))

    @property
    def filled(self) -> bool:
        """Say whether there are water-filled bets."""
        return any(_is_water_filled(part) for part in self.parts)

    @property
    def method(self) -> str:
        """Return the tests in words."""
        return " + ".join(FILLED if _is_water_filled(part) else PLAIN for part in self.parts)

    def evidence(self, units: Sequence[AnsweredUnits], factors: Mapping[str, float], problem: Problem) -> ClaimEvidence:
        """Return the evidence of some units at factors by level in scope."""
        evidence = ClaimEvidence.start(replace(self.claim, what="sensitivity", parts=self.parts), self.grids, problem)
        for item in units:
            both = zip(self.parts, self.grids, strict=True)
            evidence.add([self._values(part, grid, item, factors) for part, grid in both], item.view.batch.cluster)
        evidence.close()
        return evidence

    def survives(self, evidence: ClaimEvidence) -> bool:
        """Say whether the gain is certified to exceed the margin of the claim, or more than that."""
        blend = evidence.blend
        low = max(-part.largest for part in self.parts)  # the least gain that all bets can be held against
        return blend is not None and blend.count > 0 and blend.certifies(max(self.claim.margin, low), self.claim.delta)

    def _values(self, part: EvidencePart, grid: Grid, item: AnsweredUnits, factors: Mapping[str, float]) -> Array:
        scope, measure = self.claim.scope, self.claim.measure
        if _is_water_filled(part):
            (factor,) = factors.values()
            return filled_gains_within_error(item.view, scope, measure, grid.bets, factor, item.chances)
        return part.compute(with_least_weights(item.view, factors), grid.bets, 1.0)


def _is_water_filled(part: EvidencePart) -> bool:
    """Say whether a part is made of water-filled bets for a gain."""
    return part.kind == "gain"


GAMMAS = (1.02, 1.05, 1.1, 1.2, 1.3, 1.5, 2.0, 3.0, 5.0, 10.0)

CLUSTERS_CUT_OFF = "clusters may go on behind the first rows of a log as long as this, and only whole ones can be looked at"

PLAIN_ONLY = "the plain test was used, which may survive less than the test of the certificate"


def find_sensitivity(request: Request, scan: ScanResult, items: Sequence[ClaimEvidence]) -> Sensitivity:
    """Return how wrong the logged probabilities may be; items: gain and guards of a candidate and scope, all certified."""
    held, problem = scan.held, request.problem
    if held is None or held.units is None or not held.whole:
        return Sensitivity(None, CLUSTERS_CUT_OFF, GAMMAS)
    index, scope = items[0].claim.candidate, items[0].claim.scope
    policy, models = request.candidates[index].policy, scan.models[index]
    comparator = request.comparator
    # Beside the units of a gate stand episodes that other policies wrote, of which nothing is promised. They only place bets.
    placing = comparator if request.frozen is None else replace(comparator, ratios={}, promised={})
    prior = None if held.prior is None else CandidateView(problem, held.prior, policy, models, placing)
    trials = [SensitivityTrial.of(item, prior, held.foreseen, comparator, problem.carry_over != "none") for item in items]
    filled = trials[0].filled
    units = [AnsweredUnits.of(view, scope, filled) for view in views_in_pieces(problem, policy, models, [held.units], comparator)]
    declared = {name: problem.wrong_by().get(name, 1.0) for name in scope}
    survived, count = min(declared.values()), 0
    tried = tuple(gamma for gamma in GAMMAS if gamma > survived)
    for gamma in tried:
        factors = {name: max(gamma, own) for name, own in declared.items()}
        tested = [trial.evidence(units, factors, problem) for trial in trials]
        count = tested[0].running[0].count
        if not all(trial.survives(item) for trial, item in zip(trials, tested, strict=True)):
            break
        survived = gamma
    plain = not any(part.modelled for part in items[0].claim.parts)
    return Sensitivity(survived, "" if filled or plain else PLAIN_ONLY, tried, trials[0].method, count)
