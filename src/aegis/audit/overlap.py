"""How far a candidate is from the log: effective sample sizes, the largest weights, and mass where the log never goes."""

from __future__ import annotations

import math

import numpy as np

from aegis.audit.doubtful import DOUBT, doubtful_weights
from aegis.audit.finding import Finding, finding
from aegis.audit.view import Mask
from aegis.audit.weights import at_scope, decision_weights, unit_weights
from aegis.errors import PolicyError, counted
from aegis.evidence import Blend, Tally, value_grid
from aegis.policies import TargetColumns, path_full
from aegis.problem import Array, Batch, LevelTable, Policy, Problem, Scope

STEPS = 4  # bins of the histogram in one doubling
REACH = 64  # doublings below and above one that are told apart
FEWEST = 0.05  # effective share of the units, below which overlap is poor
TOP = 0.01  # the heaviest units
FEW = 100  # decisions, below which the mean of weights says nothing
LIGHT = 0.05  # by which weights average below one, and by SCORE standard errors, before a word is said
SCORE = 4.0
HEAVY = 0.5  # of all weight in the heaviest units, above which overlap is poor
CAPPED_NEEDS = (
    "it needs the probabilities of all actions, logged in 'columns' or declared by 'shares', 'policy: uniform' or 'base'"
)


def is_full(problem: Problem, level: str) -> bool:
    """Say whether the whole logging distribution of a level is known, as a capped candidate needs it."""
    given = problem.level(level).propensity
    return given is not None and given.full


class Histogram:
    """Weights of units: count, sum, squares, the largest, and counts and sums on a scale of doublings."""

    def __init__(self) -> None:
        self.count = 0
        self.total = 0.0
        self.squares = 0.0
        self.largest = 0.0
        self.counts = np.zeros(2 * REACH * STEPS + 1)
        self.sums = np.zeros(2 * REACH * STEPS + 1)

    def add(self, weights: Array) -> None:
        """Add weights `[k]` from 0."""
        self.count += weights.size
        self.total += float(weights.sum())
        self.squares += float((weights * weights).sum())
        self.largest = max(self.largest, float(weights.max(initial=0.0)))
        some = weights[weights > 0]
        place = np.clip(np.floor(np.log2(some) * STEPS) + REACH * STEPS, 0, self.counts.size - 1).astype(np.int64)
        self.counts += np.bincount(place, minlength=self.counts.size)
        self.sums += np.bincount(place, weights=some, minlength=self.sums.size)

    def merge(self, other: Histogram) -> None:
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
        return 0.0 if none else float(2.0 ** ((min(place, self.counts.size - 1) + 1) / STEPS - REACH))


class Overlap:
    """Weights of a candidate over the log, for the scope and for each of its levels alone.

    learned: from this log, on whose own rows its weights need not average one. The mean is tested over independent episodes, by
    propensities that are taken to be exact.
    """

    def __init__(self, problem: Problem, policy: Policy, scope: Scope, learned: bool = False) -> None:
        self.problem, self.policy, self.scope = problem, at_scope(problem, policy, scope), scope
        self.tested = not learned and problem.cluster is None and not problem.wrong_by(scope)
        self.whole, self.tally = Histogram(), Tally()
        self.levels = {name: Histogram() for name in problem.names if name in scope}
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

    def merge(self, other: Overlap) -> None:
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
                found.append(finding("outside-support", "warning", message, name, share=share))
        found += [item for name in self.taken for item in self._light(name)]
        whole = self.whole
        evidence = self.log_evidence()
        if evidence >= math.log(DOUBT):
            found.append(doubtful_weights("the candidate", tuple(self.levels), whole.mean, evidence))
        if not whole.count or (whole.effective >= FEWEST and whole.heaviest(TOP) <= HEAVY):
            return found
        worst = (
            min(self.levels, key=lambda name: self.levels[name].effective) if len(self.levels) > 1 else next(iter(self.levels))
        )
        message = (
            f"the weights of {counted(whole.count, 'episodes')} are worth {whole.effective * whole.count:.1f} equal ones "
            f"({whole.effective:.1%}); the heaviest 1 % carry {whole.heaviest(TOP):.0%}, the largest weight is "
            f"{whole.largest:.3g}. The weights of level '{worst}' hurt most"
        )
        return [*found, finding("poor-overlap", "warning", message, worst, fix=self._closer(worst), figures=_figures(whole))]

    def _closer(self, level: str) -> str | None:
        """Return how a candidate comes closer to the log, where it cannot be capped as the log is."""
        if self.problem.level(level).actions.continuous:
            return "take a candidate that chooses nearer to what the log holds, or a wider 'bandwidth'; or explore more"
        if is_full(self.problem, level):
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
        if count < FEW or mean > 1 - LIGHT or mean + SCORE * error > 1:
            return []
        message = (
            f"level '{name}': the weights of {counted(count, 'decisions')} average {mean:.3g}, not 1: the candidate puts about "
            f"{1 - mean:.0%} of its probability on actions that the log never takes, or that are not available"
        )
        return [finding("outside-support", "warning", message, name, share=1 - mean)]

    def figures(self) -> dict[str, float | str]:
        """Return figures about the candidate's weights."""
        if not self.whole.count:
            return {}
        found: dict[str, float | str] = {f"weights_{name}": value for name, value in _figures(self.whole).items()}
        if len(self.levels) > 1:
            found |= {f"weights_effective_share_{name}": part.effective for name, part in self.levels.items() if part.count}
        return found


def _figures(weights: Histogram) -> dict[str, float | str]:
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
