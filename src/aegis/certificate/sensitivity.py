"""How wrong the logged probabilities may be: the largest factor Gamma that a certificate survives.

Let nu be the logged probability of an action at a level in scope and nu' the true one, `nu / Gamma <= nu' <= min(1, Gamma nu)`. A
test at Gamma is one that is valid whatever nu' is in between (`aegis.certificate.doubt`). Where the certificate rests
on water-filled bets at one level the wealths of these and of the plain test are averaged: the former need less data, the latter
survive more where there are plenty. Everywhere else the plain test stands alone and may survive less than the certificate would.

Gammas are tried from the smallest up to the first that is not certified, each at the risk of the claim itself. That costs no
risk. 'It survives Gamma' is false only if the truth is wrong by a factor of some G <= Gamma while the gain does not exceed its
margin. Let Gamma_i be the smallest on the list with Gamma_i >= G (the claim itself, at a factor of one, heads the list). Its test
is valid, because the truth lies within Gamma_i, and it must have been certified on the way to Gamma: the probability of that is
at most the risk of the claim. If G = 1 it is even the same event as that of a false certificate.

Where a factor is declared for every level in scope (`wrong_by`) the claim itself is certified at it: the smallest of them heads
the list. A level with a larger one keeps it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from aegis.certificate.adding import pieces
from aegis.certificate.certificate import Sensitivity
from aegis.certificate.collected import Collected
from aegis.certificate.collecting import Evidence
from aegis.certificate.request import Request
from aegis.certificate.sensitivity_trial import Asked, Trial
from aegis.certificate.view import View

GAMMAS = (1.02, 1.05, 1.1, 1.2, 1.3, 1.5, 2.0, 3.0, 5.0, 10.0)
CUT = "clusters may go on behind the first rows of a log as long as this, and only whole ones can be looked at"
PLAIN_ONLY = "the plain test was used, which may survive less than the test of the certificate"


def sensitivity(request: Request, found: Collected, items: Sequence[Evidence]) -> Sensitivity:
    """Return how wrong the logged probabilities may be; items: gain and guards of a candidate and scope, all certified."""
    held, problem = found.held, request.problem
    if held is None or held.units is None or not held.whole:
        return Sensitivity(None, CUT, GAMMAS)
    index, scope = items[0].claim.candidate, items[0].claim.scope
    policy, models = request.candidates[index].policy, found.models[index]
    comparator = request.comparator
    # Beside the units of a gate stand episodes that other policies wrote, of which nothing is promised. They only place bets.
    placing = comparator if request.frozen is None else replace(comparator, ratios={}, promised={})
    prior = None if held.prior is None else View(problem, held.prior, policy, models, placing)
    trials = [Trial.of(item, prior, held.foreseen, comparator, problem.carry_over != "none") for item in items]
    filled = trials[0].filled
    units = [
        Asked.of(View(problem, piece, policy, models, comparator), scope, filled)
        for piece, _ in pieces(problem, policy, held.units, None)
    ]
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
