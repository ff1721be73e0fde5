"""Do a candidate's weights average one, as those of every policy do? It costs no part of the risk, like the audit.

Target probabilities that belong to other rows, or that do not sum to one over the actions, give weights that average more than
one, and a gain that is not there. Weights below one on average only make a candidate look worse: actions may be out of reach.
Weights that are never below one, in a log of more than a few units, are the plainest such fault: what a policy takes more often
somewhere it takes less often elsewhere. The product of weights has mean one as well, and such a log is all that it bets on.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import partial

import numpy as np

from aegis.audit.doubtful import DOUBT
from aegis.certificate.claims import Claim
from aegis.certificate.collecting import Evidence, RunningValues
from aegis.certificate.doubt import doubted
from aegis.certificate.measures import Measure
from aegis.certificate.parts import Part
from aegis.certificate.view import View
from aegis.evidence import value_grid
from aegis.evidence.tally import BINS, DISTANCE, LOWEST
from aegis.problem import Array, Problem, Scope

ALPHA = 0.001  # a candidate that is in order is refused with at most this probability by the mean of its weights
NEVER_BELOW = 0.05  # and, if none of them is below one, by their product: on no more evidence than a certificate usually takes


def start_balance(problem: Problem, candidate: int, scope: Scope, measure: Measure) -> Evidence:
    """Return no evidence yet that the weights of a candidate at a scope, at their least, average more than one."""
    factors = problem.wrong_by(scope)
    part = Part("weights", "values", 1.0, partial(_unit_weights, scope, factors))
    return Evidence.start(Claim(candidate, scope, "weights", measure, 0.0, ALPHA, (part,)), (value_grid(0),), problem)


def _unit_weights(scope: Scope, factors: Mapping[str, float], view: View, bets: Array, widened: float) -> Array:
    return doubted(view, factors).unit_weights(scope)


def unbalanced(found: Evidence) -> bool:
    """Say whether the weights are certified to average more than one, or are never below one beyond chance."""
    blend = found.blend
    if blend is None or not blend.count:
        return False
    return blend.certifies(found.claim.margin, found.claim.delta) or _log_product(found) >= math.log(1.0 / NEVER_BELOW)


def doubtful(found: Evidence) -> bool:
    """Say whether there is some evidence that the weights average more than one, too little to refuse them."""
    blend = found.blend
    if blend is None or not blend.count or unbalanced(found):
        return False
    return log_evidence(found) >= math.log(DOUBT)


def log_evidence(found: Evidence) -> float:
    """Return the logarithm of the evidence that the weights average more than one; minus infinity without units."""
    blend = found.blend
    return -math.inf if blend is None or not blend.count else blend.log_wealth(found.claim.margin)


def _log_product(found: Evidence) -> float:
    """Return the logarithm of the product of the units' weights, rounded down; minus infinity if one of them is below one."""
    running = found.running[0]
    if not isinstance(running, RunningValues):
        return -math.inf
    tally = running.tally
    above = slice(-LOWEST * BINS, None)  # bins from one on
    used = np.flatnonzero(tally.numbers[above])
    numbers = tally.numbers[above][used]
    if numbers.sum() < tally.count:
        return -math.inf
    octave, place = np.divmod(used, BINS)
    low = octave * math.log(2.0) + np.log1p(place / BINS)
    step = np.log1p((place + 1) / BINS) - np.log1p(place / BINS)
    return float((numbers * low + tally.distances[above][used] / DISTANCE * step).sum())


def mean_weight(found: Evidence) -> float:
    """Return the mean over units of the nested means of their weights, which is what is tested; nan without units."""
    sums = _sums(found)
    return math.nan if sums is None else float(sums[0] / found.running[0].count)


def effective_units(found: Evidence) -> float:
    """Return how many units with equal weights would tell as much, (sum w)^2 / sum w^2; 0 if all are 0, nan without units."""
    sums = _sums(found)
    if sums is None:
        return math.nan
    total, squares = sums
    return float((total / squares) * total) if squares > 0 else 0.0


def _sums(found: Evidence) -> tuple[float, float] | None:
    """Return the sums of the units' weights and of their squares, by the bins of the tally; None without units."""
    running = found.running[0]
    if not isinstance(running, RunningValues) or not running.count:
        return None
    tally = running.tally
    octave, place = np.divmod(np.arange(tally.numbers.size), BINS)
    scale = np.exp2(octave + float(LOWEST))
    sums = tally.numbers * scale * (1.0 + place / BINS) + tally.distances / DISTANCE * scale / BINS
    used = tally.numbers > 0
    return float(sums.sum()), float((sums[used] ** 2 / tally.numbers[used]).sum())
