"""Overlap of a candidate with the log: effective sample sizes, largest and mean weights, mass where the log never goes.

Weights are per decision, and per unit as a certificate uses them (theory section 1).
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from aegis.audit.batch_view import Mask
from aegis.audit.codes import CAPPED_NEEDS
from aegis.audit.finding import Finding, make_finding
from aegis.errors import PolicyError, pluralise
from aegis.evidence import Blend, Tally, value_grid
from aegis.policies import Hybrid, Legacy, TargetColumns, Uniform, path_full, path_taken, sums_before
from aegis.problem import Array, Batch, LevelTable, Policy, Problem, Scope

STEPS_PER_DOUBLING = 4  # bins of the histogram in one doubling

DOUBLINGS = 64  # doublings below and above one that are told apart

LEAST_EFFECTIVE = 0.05  # effective share of the units, below which overlap is poor

TOP = 0.01  # the heaviest units

FEW_DECISIONS = 100  # decisions, below which the mean of weights says nothing

LIGHT = 0.05  # by which weights average below one, and by SCORE standard errors, before a word is said

SCORE = 4.0

HEAVY = 0.5  # of all weight in the heaviest units, above which overlap is poor


def knows_all_propensities(problem: Problem, level: str) -> bool:
    """Say whether the whole logging distribution of a level is known, as a capped candidate needs it."""
    given = problem.level(level).propensity
    return given is not None and given.full


class WeightHistogram:
    """Weights of units: count, sum, squares, the largest, and counts and sums on a scale of doublings."""

    def __init__(self) -> None:
        self.count = 0
        self.total = 0.0
        self.squares = 0.0
        self.largest = 0.0
        self.counts = np.zeros(2 * DOUBLINGS * STEPS_PER_DOUBLING + 1)
        self.sums = np.zeros(2 * DOUBLINGS * STEPS_PER_DOUBLING + 1)

    def add(self, weights: Array) -> None:
        """Add weights `[k]` from 0."""
        self.count += weights.size
        self.total += float(weights.sum())
        self.squares += float((weights * weights).sum())
        self.largest = max(self.largest, float(weights.max(initial=0.0)))
        some = weights[weights > 0]
        place = np.clip(
            np.floor(np.log2(some) * STEPS_PER_DOUBLING) + DOUBLINGS * STEPS_PER_DOUBLING, 0, self.counts.size - 1
        ).astype(np.int64)
        self.counts += np.bincount(place, minlength=self.counts.size)
        self.sums += np.bincount(place, weights=some, minlength=self.sums.size)

    def merge(self, other: WeightHistogram) -> None:
        """Add the weights of another."""
        self.count += other.count
        self.total += other.total
        self.squares += other.squares
        self.largest = max(self.largest, other.largest)
        self.counts = self.counts + other.counts
        self.sums = self.sums + other.sums

    @property
    def effective(self) -> float:
        """The share of units that equal weights would need for the same spread: (sum w)^2 / (n sum w^2)."""
        return self.total**2 / (self.count * self.squares) if self.squares > 0 else 0.0

    @property
    def mean(self) -> float:
        """The mean weight; one is expected, less where the candidate leaves the support."""
        return self.total / self.count if self.count else math.nan

    def heaviest(self, share: float) -> float:
        """Return which part of all weight the heaviest `share` of the units carries, to the accuracy of a bin."""
        wanted, carried = share * self.count, 0.0
        for number, total in zip(self.counts[::-1], self.sums[::-1], strict=True):
            if number > wanted:
                carried += total * wanted / number
                break
            wanted, carried = wanted - number, carried + total
        return carried / self.total if self.total > 0 else 0.0

    def quantile(self, share: float) -> float:
        """Return a weight that the share of the units does not exceed, to the accuracy of a bin."""
        below = self.count - float(self.counts.sum()) + np.cumsum(self.counts)
        place = int(np.searchsorted(below, share * self.count))
        none = share * self.count <= self.count - self.counts.sum()
        return 0.0 if none else float(2.0 ** ((min(place, self.counts.size - 1) + 1) / STEPS_PER_DOUBLING - DOUBLINGS))


class CandidateOverlap:
    """Weights of a candidate over the log, for the scope and for each of its levels alone.

    learned: from this log, on whose own rows its weights need not average one. The mean is tested over independent episodes, by
    propensities that are taken to be exact.
    """

    def __init__(self, problem: Problem, policy: Policy, scope: Scope, learned: bool = False) -> None:
        self.problem, self.policy, self.scope = problem, at_scope(problem, policy, scope), scope
        self.tested = not learned and problem.cluster is None and not problem.wrong_by(scope)
        self.whole, self.tally = WeightHistogram(), Tally()
        self.levels = {name: WeightHistogram() for name in problem.names if name in scope}
        self.outside = dict.fromkeys(self.levels, 0.0)
        self.decisions = dict.fromkeys(self.levels, 0)
        # A candidate that is known at the actions taken only does not say what it does elsewhere; its weights do.
        self.taken = dict.fromkeys(self.levels if isinstance(policy, TargetColumns) else (), (0, 0.0, 0.0))

    def add(self, batch: Batch) -> dict[str, Array]:
        """Add the episodes of a batch; return the weights `[m]` of the decisions at each level of the scope."""
        weights = {name: decision_weights(self.policy, name, batch) for name in self.levels}
        known = {name: found for name, found in weights.items() if np.isfinite(found).all()}
        for name in known:
            if len(self.levels) > 1:
                self.levels[name].add(unit_weights(self.problem, known, Scope(name), batch))
            self.outside[name] += _mass_outside(self.policy, name, batch)
            self.decisions[name] += len(batch.levels[name])
        for name in self.taken:
            found = known.get(name, np.zeros(0))
            self.taken[name] = _plus(self.taken[name], (found.size, float(found.sum()), float((found * found).sum())))
        if len(known) == len(self.levels):
            units = unit_weights(self.problem, known, self.scope, batch)
            self.whole.add(units)
            if self.tested:
                self.tally.add(np.minimum(units, np.finfo(np.float64).max))
        return known

    def merge(self, other: CandidateOverlap) -> None:
        """Add the weights of other episodes."""
        self.whole.merge(other.whole)
        self.tally = self.tally.merge(other.tally)
        for name, histogram in other.levels.items():
            self.levels[name].merge(histogram)
            self.outside[name] += other.outside[name]
            self.decisions[name] += other.decisions[name]
        for name, sums in other.taken.items():
            self.taken[name] = _plus(self.taken[name], sums)

    def findings(self) -> list[Finding]:
        """Return what was found."""
        found: list[Finding] = []
        for name, mass in self.outside.items():
            share = mass / max(self.decisions[name], 1)
            if share > 1e-9:
                message = f"level '{name}': the candidate puts {share:.2%} of its probability on actions that the log never takes"
                found.append(make_finding("outside-support", "warning", message, name, share=share))
        found += [item for name in self.taken for item in self._light(name)]
        whole = self.whole
        evidence = self.log_evidence()
        if evidence >= math.log(WEIGHT_DOUBT):
            found.append(doubtful_weights("the candidate", tuple(self.levels), whole.mean, evidence))
        if not whole.count or (whole.effective >= LEAST_EFFECTIVE and whole.heaviest(TOP) <= HEAVY):
            return found
        worst = (
            min(self.levels, key=lambda name: self.levels[name].effective) if len(self.levels) > 1 else next(iter(self.levels))
        )
        message = (
            f"the weights of {pluralise(whole.count, 'episodes')} are worth {whole.effective * whole.count:.1f} equal ones "
            f"({whole.effective:.1%}); the heaviest 1 % carry {whole.heaviest(TOP):.0%}, the largest weight is "
            f"{whole.largest:.3g}. The weights of level '{worst}' hurt most"
        )
        return [*found, make_finding("poor-overlap", "warning", message, worst, fix=self._closer(worst), figures=_figures(whole))]

    def _closer(self, level: str) -> str | None:
        """Return how a candidate comes closer to the log, where it cannot be capped as the log is."""
        if self.problem.level(level).actions.continuous:
            return "take a candidate that chooses nearer to what the log holds, or a wider 'bandwidth'; or explore more"
        if knows_all_propensities(self.problem, level):
            return None
        return f"learn a candidate closer to the log: aegis learn --kind capped --cap 2 ({CAPPED_NEEDS}); or explore more"

    def log_evidence(self) -> float:
        """Return the logarithm of the evidence that weights average more than one, as a certificate tests it."""
        if not self.tally.count:
            return -math.inf
        return Blend((self.tally.sketch(value_grid(0)),), (1.0,)).log_wealth(0.0)

    def _light(self, name: str) -> list[Finding]:
        """Return a finding if the weights of a level's decisions average below one, which is what they do within the support."""
        count, total, squares = self.taken[name]
        mean = total / max(count, 1)
        error = math.sqrt(max(squares / max(count, 1) - mean * mean, 0.0) / max(count, 1))
        if count < FEW_DECISIONS or mean > 1 - LIGHT or mean + SCORE * error > 1:
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
        found: dict[str, float | str] = {f"weights_{name}": value for name, value in _figures(self.whole).items()}
        if len(self.levels) > 1:
            found |= {f"weights_effective_share_{name}": part.effective for name, part in self.levels.items() if part.count}
        return found


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


def _plus(one: tuple[int, float, float], other: tuple[int, float, float]) -> tuple[int, float, float]:
    return one[0] + other[0], one[1] + other[1], one[2] + other[2]


def _mass_outside(policy: Policy, level: str, batch: Batch) -> float:
    """Return the sum over decisions of the candidate's probability on available actions that are never logged.

    Needs the whole distributions of both; 0 if one of them is not known.
    """
    never = _never(batch.levels[level])
    if never is None:
        return 0.0
    rows = np.flatnonzero(never.any(axis=1))
    if not rows.size:
        return 0.0
    try:
        chances = policy.full(level, batch)[0] if policy.weights.size == 1 else path_full(policy, level, batch)
    except PolicyError:
        return 0.0  # the candidate is known at the actions taken only
    return float((chances * never).sum())


def _never(table: LevelTable) -> Mask | None:
    if table.mu_full is None:
        return None
    never = table.mu_full <= 0
    return never if table.available is None else never & table.available


def at_scope(problem: Problem, policy: Policy, scope: Scope) -> Policy:
    """Return the candidate as it acts: at the levels of the scope; elsewhere anybody, whose actions say nothing about it."""
    if policy.weights.size == 1:
        return policy
    return Hybrid(problem, scope, policy, Legacy(problem, {name: Uniform() for name in problem.names}))


def decision_weights(policy: Policy, level: str, batch: Batch) -> Array:
    """Return pi / mu `[m]` of the decisions at a level, the candidate given the actions above; nan without a propensity."""
    # A single particle need not be asked about the levels above, where it may have no answer.
    chances = policy.taken(level, batch)[0] if policy.weights.size == 1 else path_taken(policy, level, batch)
    return chances / batch.levels[level].mu_taken


def unit_weights(problem: Problem, weights: dict[str, Array], scope: Scope, batch: Batch) -> Array:
    """Return the weight `[E]` of each episode: the nested mean of the weights of its rewards.

    The weight of a reward is the product over the decisions of the scope that caused it: those on its path, all below the
    decision it belongs to (`per`), and all earlier ones of the episode if decisions carry over. weights `[m]` by level.
    """
    logs = {name: _log(weights[name]) if name in scope else np.zeros(len(table)) for name, table in batch.levels.items()}
    innermost = problem.innermost.name
    if problem.reward.per == "episode":
        total = np.zeros(len(batch))
        for name, log in logs.items():
            total = total + _summed(batch.episode_of(name), log, len(batch))
        return np.exp(total)
    per = innermost if problem.reward.per == "decision" else problem.reward.per
    product = np.zeros(len(batch.levels[per]))
    if problem.carry_over == "within":
        product = product + sums_before(batch, {name: log[None] for name, log in logs.items()})[per][0] + logs[per]
    else:
        above = batch.ancestors(per)
        for name in above:
            product = product + logs[name][above[name]]
    for below in problem.names[problem.names.index(per) + 1 :]:
        product = product + _summed(batch.ancestors(below)[per], logs[below], product.size)
    return batch.episode_means(np.exp(product)[batch.ancestors(innermost)[per]])


def _log(weights: Array) -> Array:
    with np.errstate(divide="ignore"):
        return np.log(weights)


def _summed(owner: Array, logs: Array, count: int) -> Array:
    """Return sums of logarithms by owner; minus infinity stays minus infinity."""
    zero = np.isneginf(logs)
    total = np.bincount(owner, weights=np.where(zero, 0.0, logs), minlength=count)
    return np.where(np.bincount(owner, weights=zero, minlength=count) > 0, -np.inf, total)


WEIGHT_DOUBT = 20.0  # evidence from which one is warned

LEAST_CHANCE = 1e-6  # chances below this are not told apart


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
