"""Overlap of a candidate with the log, and whether the stated incumbent can have written a part of it.

Overlap: effective sample sizes, largest and mean weights, mass where the log never goes. Weights are per decision, and per
unit as a certificate uses them (theory section 1).

Incumbent. Every row is compared with what the problem promises of the stated incumbent. With the whole distribution in the
log a promised largest ratio of incumbent to logger is checked at every action; with the propensity of the action taken
alone, at that action.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from aegis.audit.batch_view import BatchView
from aegis.audit.check import AuditSetting, Check, Finding, Known, make_finding
from aegis.audit.codes import CAPPED_NEEDS
from aegis.errors import PolicyError, RefusedError, pluralise
from aegis.evidence import Tally, value_grid
from aegis.ope import INCUMBENT_FIX, INCUMBENT_IMPOSSIBLE, WeightHistogram, incumbent_message
from aegis.policies import StatedIncumbent, TargetColumns, incumbent_misfit, path_full, stated_levels
from aegis.problem import Batch, Problem, Scope

LEAST_EFFECTIVE = 0.05  # effective share of the units, below which overlap is poor
TOP = 0.01  # the heaviest units
HEAVY = 0.5  # of all weight in the heaviest units, above which overlap is poor
FEW_DECISIONS = 100  # below which the mean of weights proves nothing
LIGHT, SCORE = 0.05, 4.0  # share and standard errors by which weights average below one in a finding
WEIGHT_DOUBT = 20.0  # evidence from which weights are doubtful
LEAST_CHANCE = 1e-6  # smaller chances are all called the same


def knows_all_propensities(problem: Problem, level: str) -> bool:
    """Say whether the whole logging distribution of a level is known, as a capped candidate needs it."""
    spec = problem.level(level).propensity
    return spec is not None and spec.full


class CandidateOverlap(Check):
    """Weights of a candidate over the log, for the scope and for each of its levels alone.

    The mean is tested over independent episodes, by propensities that are taken as exact; not on rows that the candidate was
    learned from, where its weights need not average one.
    """

    adds = ("whole", "levels", "outside", "decisions", "taken")
    needs = (AuditSetting.has_candidate,)

    def __init__(self, setting: AuditSetting) -> None:
        super().__init__(setting)
        self.problem = setting.problem
        self.tested = not setting.learned and self.problem.cluster is None and not self.problem.wrong_by(self.scope)
        self.whole, self.tally = WeightHistogram(), Tally()
        self.levels = {name: WeightHistogram() for name in self.problem.names if name in self.scope}
        self.outside = dict.fromkeys(self.levels, 0.0)
        self.decisions = dict.fromkeys(self.levels, 0)
        # A candidate that is known at the actions taken only does not show what it does elsewhere; its weights do.
        taken = self.levels if isinstance(setting.policy, TargetColumns) else ()
        self.taken = {name: WeightHistogram() for name in taken}

    def add(self, view: BatchView) -> None:
        """Add the episodes of a batch."""
        known = 0
        for name, histogram in self.levels.items():
            weights = view.candidate_weights(name)
            if weights is None or view.candidate is None:
                continue
            known += 1
            if len(self.levels) > 1:
                histogram.add(view.candidate.unit_weights(Scope(name)))
            self.outside[name] += _mass_outside(view, name)
            self.decisions[name] += weights.size
            if name in self.taken:
                self.taken[name].add(weights)
        if known == len(self.levels) and view.candidate is not None:
            units = view.candidate.unit_weights(self.scope)
            self.whole.add(units)
            if self.tested:
                self.tally.add(np.minimum(units, np.finfo(np.float64).max))

    def merge(self, other: CandidateOverlap) -> None:
        """Add the weights of other episodes."""
        super().merge(other)
        self.tally = self.tally.merge(other.tally)

    def findings(self, known: Known) -> list[Finding]:
        """Return the findings."""
        findings: list[Finding] = []
        for name, mass in self.outside.items():
            share = mass / max(self.decisions[name], 1)
            if share > 1e-9:
                message = f"level '{name}': the candidate puts {share:.2%} of its probability on actions that the log never takes"
                findings.append(make_finding("outside-support", "warning", message, name, share=share))
        findings += [item for name in self.taken for item in self._light(name)]
        evidence = self.log_evidence()
        if evidence >= math.log(WEIGHT_DOUBT):
            findings.append(doubtful_weights("the candidate", tuple(self.levels), self.whole.mean, evidence))
        return findings + self._poor()

    def _poor(self) -> list[Finding]:
        """Return a warning where few units carry the weight, with the level that hurts most."""
        whole = self.whole
        if not whole.count or (whole.effective >= LEAST_EFFECTIVE and whole.heaviest(TOP) <= HEAVY):
            return []
        worst = next(iter(self.levels))
        if len(self.levels) > 1:
            worst = min(self.levels, key=lambda name: self.levels[name].effective)
        message = (
            f"the weights of {pluralise(whole.count, 'episodes')} are worth {whole.effective * whole.count:.1f} equal ones "
            f"({whole.effective:.1%}); the heaviest 1 % carry {whole.heaviest(TOP):.0%}, the largest weight is "
            f"{whole.largest:.3g}. The weights of level '{worst}' hurt most"
        )
        return [make_finding("poor-overlap", "warning", message, worst, fix=self._closer(worst), figures=_figures(whole))]

    def _closer(self, level: str) -> str | None:
        """Return how a candidate comes closer to the log, where it cannot be capped as the log is."""
        if self.problem.level(level).actions.continuous:
            return "take a candidate that chooses nearer to what the log holds, or a wider 'bandwidth'; or explore more"
        if knows_all_propensities(self.problem, level):
            return None
        return f"learn a candidate closer to the log: aegis learn --kind capped --cap 2 ({CAPPED_NEEDS}); or explore more"

    def log_evidence(self) -> float:
        """Return the logarithm of the evidence that weights average more than one, as a certificate tests it."""
        return self.tally.sketch(value_grid(0)).log_wealth(1.0) if self.tally.count else -math.inf

    def _light(self, name: str) -> list[Finding]:
        """Return a finding if the weights of a level's decisions average below one: the candidate leaves the support."""
        weights = self.taken[name]
        if weights.count < FEW_DECISIONS:
            return []
        count, mean = weights.count, weights.mean
        error = math.sqrt(max(weights.squares / count - mean * mean, 0.0) / count)
        if mean > 1 - LIGHT or mean + SCORE * error > 1:
            return []
        message = (
            f"level '{name}': the weights of {pluralise(count, 'decisions')} average {mean:.3g}, not 1: the candidate puts about "
            f"{1 - mean:.0%} of its probability on actions that the log never takes, or that are not available"
        )
        return [make_finding("outside-support", "warning", message, name, share=1 - mean)]

    def figures(self) -> dict[str, float | str]:
        """Return figures about the candidate's weights."""
        if not self.whole.count:
            return {}
        figures: dict[str, float | str] = {f"weights_{name}": value for name, value in _figures(self.whole).items()}
        if len(self.levels) > 1:
            figures |= {f"weights_effective_share_{name}": part.effective for name, part in self.levels.items() if part.count}
        return figures


def _figures(weights: WeightHistogram) -> dict[str, float | str]:
    return {
        "mean": weights.mean,
        "effective_share": weights.effective,
        "effective_units": weights.effective * weights.count,
        "largest": weights.largest,
        "heaviest_hundredth": weights.heaviest(TOP),
        "median": weights.quantile(0.5),
        "quantile_99": weights.quantile(0.99),
    }


def _mass_outside(view: BatchView, level: str) -> float:
    """Return the sum over decisions of the candidate's probability on available actions that are never logged.

    Needs the whole distributions of both; 0 if one of them is not known.
    """
    table, candidate = view.logged.levels[level], view.candidate
    if table.mu_full is None or candidate is None:
        return 0.0
    never = table.mu_full <= 0
    never = never if table.available is None else never & table.available
    if not never.any():
        return 0.0
    try:
        single = candidate.weights.size == 1
        chances = candidate.full(level, view.logged)[0] if single else path_full(candidate, level, view.logged)
    except PolicyError:
        return 0.0  # the candidate is known at the actions taken only
    return float((chances * never).sum())


def doubtful_weights(candidate: str, levels: Sequence[str], mean: float, log_evidence: float) -> Finding:
    """Return the finding that the weights of a candidate at some levels average more than one, with the evidence for it."""
    return make_finding(
        "doubtful-weights",
        "warning",
        f"the weights of {candidate} at {', '.join(map(repr, levels))} average {mean:.4g}, those of a policy average one: a log "
        f"in order comes to such weights with a chance of {chance_words(log_evidence)}",
        mean_weight=mean,
        log10_evidence=log_evidence / math.log(10),
    )


def chance_words(log_evidence: float) -> str:
    """Return the largest chance of so much evidence in a log that is in order, in words: wealth W is reached with 1/W at most."""
    largest = math.exp(-log_evidence)
    return f"at most {100 * largest:.2g} %" if largest >= LEAST_CHANCE else "less than one in a million"


class IncumbentFit(Check):
    """The first decision of each level that its stated incumbent does not fit."""

    needs = (AuditSetting.has_one_incumbent,)

    def __init__(self, setting: AuditSetting) -> None:
        super().__init__(setting)
        self.problem = setting.problem
        self.levels = sorted(stated_levels(self.problem))
        self.policy = StatedIncumbent(self.problem)
        self.messages: dict[str, str] = {}

    def add(self, view: BatchView) -> None:
        """Add the episodes of a batch, as it is in the log."""
        self.add_batch(view.logged)

    def add_batch(self, batch: Batch) -> None:
        """Add the episodes of a batch."""
        for name in self.levels:
            if name in self.messages:
                continue
            full = None if batch.levels[name].mu_full is None else self.policy.full(name, batch)[0]
            taken, ratio = self.policy.taken(name, batch)[0], self.problem.level(name).ratio_bound
            misfit = incumbent_misfit(name, batch, taken, full, ratio)
            if misfit is not None:
                self.messages[name] = incumbent_message(name, batch, *misfit)

    def merge(self, other: IncumbentFit) -> None:
        """Add the misfits of a later part of the log."""
        self.messages = {**other.messages, **self.messages}

    def findings(self, known: Known) -> list[Finding]:
        """Return a finding for each level whose incumbent does not fit."""
        return [make_finding(INCUMBENT_IMPOSSIBLE, "refused", message, name) for name, message in self.messages.items()]


def check_incumbent(problem: Problem, batch: Batch) -> None:
    """Raise RefusedError, naming the row, where the stated incumbent does not fit the episodes of a batch."""
    setting = AuditSetting(problem)
    if not setting.has_one_incumbent():
        return
    fit = IncumbentFit(setting)
    fit.add_batch(batch)
    for message in fit.messages.values():
        raise RefusedError(message, INCUMBENT_IMPOSSIBLE, INCUMBENT_FIX)
