"""Checks of candidate and incumbent over the certified units.

Do their weights average one, where do they differ, and does the log reach what the incumbent does?

They cost no part of the risk, like the audit. Target probabilities that belong to other rows, or that do not sum to one over
the actions, give weights that average more than one, and a gain that is not there. Weights below one on average only make a
candidate look worse. Weights that are never below one, in a log of more than a few units, are the plainest such fault: what a
policy takes more often somewhere it takes less often elsewhere. The product of weights has mean one as well, and such a log is
all that it bets on.

The incumbent's ratios mu/nu average one if the log takes every action that the incumbent takes. Mass that the log never reaches
shows in no single row, but it is missing from the mean: `E[mu/nu] = sum over nu > 0 of mu`. A problem that promises a largest
ratio C promises that nothing is missing. Then `C - mu/nu` is at least 0 and has mean `C - 1`, so that a bet can refute the
promise. Without a promise nothing is refuted; a mean clearly below one is worth a warning (theory section 12, actions taken
only). Where whole distributions are logged the unreached mass is added up directly (`Agreement`).
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np

from aegis.audit import WEIGHT_DOUBT, Finding, make_finding
from aegis.certificate.claims import OFFSET_SLACK, Claim, EvidencePart
from aegis.certificate.evidence import ClaimEvidence, UnitMoments
from aegis.certificate.request import Request
from aegis.errors import PolicyError, pluralise
from aegis.evidence import TALLY_BINS, TALLY_DISTANCE, TALLY_LOWEST, value_grid
from aegis.ope import CandidateView, ClusterUnits, Measure
from aegis.policies import contrast_policies, path_full, path_taken
from aegis.problem import AnyArray, Array, Batch, Problem, Scope, exact_sum

BALANCE_ALPHA = 0.001  # a candidate that is in order is refused with at most this probability by the mean of its weights
NEVER_BELOW_ALPHA = 0.05  # and, if all are at least one, by their product: on no more evidence than a certificate usually takes
PROMISE_ALPHA = 0.001  # a promise that is kept is refused with at most this probability
CLEAR_SCORE = 4.0  # standard errors by which a mean is clearly below one
FEWEST_RATIO_UNITS = 100  # units, below which a mean says nothing
RATIO_SERIES = "ratio"
INCUMBENT_UNREACHED = "incumbent-unreached"
SAME_PROBABILITY = 1e-9  # probabilities closer than this are equal
UNREACHED_BITS = 30
MOST_CONTRASTED = 4000  # innermost decisions looked at
MOST_CONTRAST_BINS = 6  # the bins that differ most, for each level


def start_balance(problem: Problem, candidate: int, scope: Scope, measure: Measure) -> ClaimEvidence:
    """Return no evidence yet that the weights of a candidate at a scope, at their least, average more than one."""
    part = EvidencePart(
        "weights", "values", 1.0, partial(CandidateView.unit_weights, scope=scope), factors=problem.wrong_by(scope)
    )
    claim = Claim(candidate, scope, "weights", measure, 0.0, BALANCE_ALPHA, (part,))
    return ClaimEvidence.start(claim, (value_grid(0),), problem)


def weights_unbalanced(balance: ClaimEvidence) -> bool:
    """Say whether the weights are certified to average more than one, or are never below one beyond chance."""
    blend = balance.blend
    if blend is None or not blend.count:
        return False
    never_below = _log_product(balance) >= math.log(1.0 / NEVER_BELOW_ALPHA)
    return never_below or blend.certifies(balance.claim.margin, balance.claim.delta)


def weights_doubtful(balance: ClaimEvidence) -> bool:
    """Say whether there is some evidence that the weights average more than one, too little to refuse them."""
    return log_weight_evidence(balance) >= math.log(WEIGHT_DOUBT) and not weights_unbalanced(balance)


def log_weight_evidence(balance: ClaimEvidence) -> float:
    """Return the logarithm of the evidence that the weights average more than one; minus infinity without units."""
    blend = balance.blend
    return -math.inf if blend is None or not blend.count else blend.log_wealth(balance.claim.margin)


def _log_product(balance: ClaimEvidence) -> float:
    """Return the logarithm of the product of the units' weights, rounded down; minus infinity if one of them is below one."""
    tally = balance.running[0].tally
    if tally is None:
        return -math.inf
    above = slice(-TALLY_LOWEST * TALLY_BINS, None)  # bins from one on
    used = np.flatnonzero(tally.numbers[above])
    numbers = tally.numbers[above][used]
    if numbers.sum() < tally.count:
        return -math.inf
    octave, place = np.divmod(used, TALLY_BINS)
    low = octave * math.log(2.0) + np.log1p(place / TALLY_BINS)
    step = np.log1p((place + 1) / TALLY_BINS) - np.log1p(place / TALLY_BINS)
    return float((numbers * low + tally.distances[above][used] / TALLY_DISTANCE * step).sum())


def mean_weight(balance: ClaimEvidence) -> float:
    """Return the mean over units of the nested means of their weights, which is what is tested; nan without units."""
    sums = _sums(balance)
    return math.nan if sums is None else float(sums[0] / balance.running[0].count)


def effective_units(balance: ClaimEvidence) -> float:
    """Return how many units with equal weights would tell as much, (sum w)^2 / sum w^2; 0 if all are 0, nan without units."""
    sums = _sums(balance)
    if sums is None:
        return math.nan
    total, squares = sums
    return float((total / squares) * total) if squares > 0 else 0.0


def _sums(balance: ClaimEvidence) -> tuple[float, float] | None:
    """Return the sums of the units' weights and of their squares, by the bins of the tally; None without units."""
    tally = balance.running[0].tally
    if tally is None or not tally.count:
        return None
    octave, place = np.divmod(np.arange(tally.numbers.size), TALLY_BINS)
    scale = np.exp2(octave + float(TALLY_LOWEST))
    sums = tally.numbers * scale * (1.0 + place / TALLY_BINS) + tally.distances / TALLY_DISTANCE * scale / TALLY_BINS
    used = tally.numbers > 0
    return float(sums.sum()), float((sums[used] ** 2 / tally.numbers[used]).sum())


@dataclass(slots=True)
class IncumbentRatios:
    """Ratios of the incumbent at one level over the certified units; bets: against a promised largest one, if there is any."""

    level: str
    moments: UnitMoments
    bets: ClaimEvidence | None

    @classmethod
    def start(cls, problem: Problem, level: str, measure: Measure, most: float | None) -> IncumbentRatios:
        """Return no ratios yet; most: the largest one that is promised."""
        ratios = cls(level, UnitMoments((RATIO_SERIES,), ClusterUnits.start(problem, np.zeros(1))), None)
        if most is not None:
            limit = most * (1 + OFFSET_SLACK)
            part = EvidencePart("shortfall", "values", limit - 1.0, partial(_shortfalls, level, limit))
            claim = Claim(0, Scope(level), "weights", measure, 0.0, PROMISE_ALPHA, (part,))
            ratios.bets = ClaimEvidence.start(claim, (value_grid(0),), problem)
        return ratios

    def add(self, view: CandidateView, certified: AnyArray | None) -> None:
        """Add the certified episodes of a view; all of them if None."""
        self.moments.add(_unit_ratios(view, self.level)[:, None], view.batch.cluster, certified)
        if self.bets is not None:
            self.bets.add(self.bets.compute(view), view.batch.cluster, certified)

    def merge(self, other: IncumbentRatios) -> None:
        """Add the units of another."""
        self.moments.merge(other.moments)
        if self.bets is not None and other.bets is not None:
            self.bets.merge(other.bets)

    def close(self) -> None:
        """Turn clusters into units."""
        self.moments.close()
        if self.bets is not None:
            self.bets.close()

    @property
    def missing(self) -> float:
        """Return the share of the incumbent's probability that seems to be missing; 0 unless it is clearly above that."""
        mean, error = self.moments.mean(RATIO_SERIES), self.moments.error(RATIO_SERIES)
        clear = self.moments.count >= FEWEST_RATIO_UNITS and mean + CLEAR_SCORE * error < 1.0
        return 1.0 - mean if clear or self.refuted else 0.0

    @property
    def refuted(self) -> bool:
        """Say whether a bet refutes the promise."""
        blend = None if self.bets is None else self.bets.blend
        return blend is not None and blend.count > 0 and blend.certifies(0.0, PROMISE_ALPHA)

    def finding(self) -> Finding | None:
        """Return what was found; None if nothing is missing as far as the log shows."""
        share = self.missing
        if not share > 0:
            return None
        units = pluralise(self.moments.count, "clusters" if self.moments.clusters is not None else "episodes")
        text = (
            f"at '{self.level}' the ratios of incumbent to logged probability average {1 - share:.3g} over {units}, not 1: about "
            f"{100 * share:.2g} % of the incumbent's probability lies on actions that the log never takes, or too rarely to show"
        )
        if not self.refuted:
            return unreached_finding(self.level, f"{text}. They count", share)
        return make_finding(
            INCUMBENT_UNREACHED,
            "refused",
            f"{text}. That refutes the promise ('max_ratio' or 'epsilon' of the incumbent, or 'least' of the propensity) "
            "that the log takes every action of the incumbent",
            self.level,
            fix="leave the promise out, so that these actions count as if the incumbent earned the most there; or explore "
            "around the incumbent; or correct 'incumbent' in the problem file",
            share=share,
        )


def unreached_finding(level: str, text: str, share: float) -> Finding:
    """Return the warning that the log never takes actions which have this share of the incumbent's probability."""
    worst = f"{text} as if the incumbent earned the most there, so that gains come out smaller than they are"
    return make_finding(INCUMBENT_UNREACHED, "warning", worst, level, share=share)


def start_ratios(request: Request, measure: Measure) -> dict[str, IncumbentRatios]:
    """Return no ratios yet, by level at which an incumbent is stated and only the probability of the action taken is logged."""
    problem, comparator = request.problem, request.comparator
    levels = {name for scope in request.scopes for name in comparator.compared(scope)} & comparator.levels
    taken_only = [level.name for level in problem.levels if level.propensity is not None and not level.propensity.full]
    return {
        name: IncumbentRatios.start(problem, name, measure, comparator.promised.get(name))
        for name in sorted(levels & set(taken_only) - set(problem.wrong_by()))
    }


def _shortfalls(level: str, most: float, view: CandidateView) -> Array:
    return np.maximum(most - _unit_ratios(view, level), 0.0)  # rows were checked up to the rounding of probabilities


def _unit_ratios(view: CandidateView, level: str) -> Array:
    """Return the nested mean `[E]` of mu/nu at the decisions of a level."""
    incumbent = view.against(Scope(level))
    if incumbent is None:
        return np.ones(len(view.batch))
    ratio = path_taken(incumbent, level, incumbent.batch) / view.batch.levels[level].mu_taken
    return view.series(("ratios", level), lambda: ratio, level)


@dataclass(slots=True)
class Agreement:
    """A candidate beside its comparator at a scope, over the certified decisions.

    differs: whether any probability does. decisions, unreached: by level whose incumbent is stated, how many decisions there are,
    and the sum of the probability that the incumbent gives to actions that the logger never takes, in units of 2^-BITS.
    """

    differs: bool = False
    decisions: Counter[str] = field(default_factory=Counter)
    unreached: Counter[str] = field(default_factory=Counter)

    def add(self, view: CandidateView, scope: Scope, rows: Mapping[str | None, AnyArray]) -> None:
        """Add the decisions of a view; rows: by level which of them count, all where a level is not named."""
        incumbent, batch = view.against(scope), view.batch
        wide = view.comparator.compared(scope)
        for level in batch.levels:
            known = batch.levels[level].mu_full is not None
            reached = view.against(wide) if known and level in wide & view.comparator.levels else None
            if reached is not None:
                self._reach(level, path_full(reached, level, batch), view.logging(level), rows.get(level))
            if self.differs or level not in scope:
                continue
            stated = incumbent if level in view.comparator.levels else None
            if level in view._full and known:
                mu = view.logging(level) if stated is None else path_full(stated, level, batch)
                apart = np.abs(path_full(view, level, batch, scope) - mu).max(axis=1) > SAME_PROBABILITY
            else:
                own = batch.levels[level].mu_taken if stated is None else path_taken(stated, level, batch)
                apart = np.abs(path_taken(view, level, batch, scope) - own) > SAME_PROBABILITY * np.maximum(own, 1.0)
            mask = rows.get(level)
            self.differs = bool((apart if mask is None else apart[mask]).any())

    def merge(self, other: Agreement) -> None:
        """Add the decisions of another."""
        self.differs = self.differs or other.differs
        self.decisions.update(other.decisions)
        self.unreached.update(other.unreached)

    def share(self, level: str) -> float:
        """Return the mean probability that the incumbent gives to actions which the logger never takes; 0 if none were seen."""
        return self.unreached[level] / 2.0**UNREACHED_BITS / max(self.decisions[level], 1)

    def _reach(self, level: str, mu: AnyArray, nu: AnyArray, mask: AnyArray | None) -> None:
        missed = np.where(nu <= 0, mu, 0.0).sum(axis=1)
        missed = missed if mask is None else missed[mask]
        self.decisions[level] += len(missed)
        self.unreached[level] += exact_sum(missed, UNREACHED_BITS) or 0


def comparator_differences(request: Request, batch: Batch) -> list[dict[str, Any]]:
    """Return for each candidate and level where it differs, most first; candidates known by columns only are left out."""
    rows = len(batch.levels[request.problem.innermost.name])
    few = max(1, min(len(batch), round(len(batch) * MOST_CONTRASTED / max(rows, 1))))
    some = batch.take_episodes(np.arange(few))
    levels = [name for name in request.problem.names if any(name in scope for scope in request.scopes)]
    differences = []
    for candidate in request.candidates:
        try:
            parts = contrast_policies(request.problem, candidate.policy, some, levels)
        except PolicyError:
            continue
        differences += [
            {
                "candidate": candidate.name,
                "level": part.level,
                "decisions": part.overall.decisions,
                "total_variation": part.overall.total_variation,
                "favourite_differs": part.overall.favourite_differs,
                "bins": [
                    {
                        "variable": item.variable,
                        "label": item.label,
                        "decisions": item.difference.decisions,
                        "total_variation": item.difference.total_variation,
                    }
                    for item in part.bins[:MOST_CONTRAST_BINS]
                ],
                "actions": [str(value) for value in request.problem.level(part.level).actions.values],
                "policy": part.policy.tolist(),
                "comparator": None if part.comparator is None else part.comparator.tolist(),
            }
            for part in parts
        ]
    return differences
