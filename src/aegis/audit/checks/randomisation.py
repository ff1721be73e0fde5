"""Randomisation: does a level leave its action to chance, are its propensities rounded, and do action shares fit them?

Rows that were left out after their outcome was known change the shares of the actions. Betting needs a long log to be sure;
a standard score notices sooner, at the price of a warning in one of twenty logs that are in order. It never refuses.
"""

from __future__ import annotations

import math

import numpy as np
import pyarrow as pa

from aegis.audit.batch_view import BatchView
from aegis.audit.betting import ActionRepeats, Choices, set_count, set_members
from aegis.audit.checks.base import AuditSetting, Check, Known, Thinning, upper_quantile
from aegis.audit.codes import NO_DENSITY
from aegis.audit.finding import Finding, Severity, make_finding
from aegis.audit.slices import sum_rows
from aegis.audit.sums import Sums
from aegis.errors import pluralise
from aegis.logs import hash_ids, id_parts
from aegis.problem import AnyArray, Array, Level, LevelTable

DEPENDS = math.log(10.0)  # evidence from which draws within clusters count as dependent


class Backdoors(Check):
    """Whether the graph says that something unobserved acts on an action and on the reward."""

    def add(self, view: BatchView) -> None:
        """Add nothing: the graph alone decides."""

    def findings(self, known: Known) -> list[Finding]:
        """Return the levels with an open back door."""
        checked = [self.setting.problem.backdoor(name) for name in self.problem.names]
        return [
            make_finding("backdoor", "refused" if check.level in self.scope else "note", check.reason, check.level)
            for check in checked
            if not check.admissible
        ]


def cluster_hashes(cluster: AnyArray) -> AnyArray:
    """Return a hash `[E]` of the cluster of each episode."""
    return np.asarray(hash_ids([pa.array(part) for part in id_parts(cluster)]))


class ClusterDraws(Sums):
    """Evidence about one level that actions repeat within clusters, and in how many batches a cluster occurs."""

    adds = ("again", "ids")

    def __init__(self) -> None:
        self.again = ActionRepeats()
        self.ids: list[AnyArray] = []  # of the clusters in each batch

    def add(self, view: BatchView, level: str) -> Array | None:
        """Add the episodes of a batch; return the share `[m]` of each decision of a level, None without clusters."""
        if view.batch.cluster is None:
            return None
        ids, cluster, sizes = np.unique(cluster_hashes(view.batch.cluster), return_inverse=True, return_counts=True)
        self.ids.append(ids)
        first, some = view.first_decisions(level)
        order = np.argsort(cluster, kind="stable")
        order = order[some[order]]
        same = cluster[order[1:]] == cluster[order[:-1]]
        before, now = first[order[:-1][same]], first[order[1:][same]]
        table = view.batch.levels[level]
        known = np.isfinite(table.mu_taken[now]) & (table.mu_taken[now] > 0)
        if known.any():
            self.again.add(table, before[known], now[known])
        return np.asarray((1.0 / sizes)[cluster][view.episodes[level]])

    def batches(self, strongest: float) -> int | None:
        """Return in how many batches a cluster occurs at most, if draws within clusters depend on each other; else None.

        strongest: log evidence that the propensities are wrong in a slice; what is explained by that is no dependence.
        """
        if not self.again.pairs or self.again.evidence() < max(DEPENDS, strongest):
            return None
        _, number = np.unique(np.concatenate(self.ids), return_counts=True)
        return int(number.max())


CERTAIN = 1.0 - 1e-9
MANY = {100: 8, 1000: 30}  # distinct values, all of them multiples of 1/100 or 1/1000, that no exact policy is likely to have


class LevelRandomisation(Sums):
    """Counts about the propensities of one level. atoms: see `Propensities`; a density is never certain, an atom may be."""

    adds = ("decisions", "free", "certain", "below", "choices")

    def __init__(self, level: Level, atoms: int | None = None) -> None:
        self.level, self.atoms = level, atoms
        self.decisions = 0
        self.free = 0  # with more than one action available
        self.certain = 0  # of these, with a propensity of one
        self.below = 0
        self.smallest = np.inf
        self.choices: set[int] = set()  # numbers of actions that were available
        # How often each multiple of 1/100 and 1/1000 was logged; None once another number was.
        self.multiples: dict[int, np.ndarray | None] = {steps: np.zeros(steps + 1) for steps in MANY}

    @property
    def deterministic(self) -> bool:
        """Whether no decision was left to chance."""
        return self.free > 0 and self.certain == self.free

    def add(self, table: LevelTable) -> None:
        """Add the decisions of a batch."""
        self.decisions += len(table)
        known = np.isfinite(table.mu_taken)
        mu = table.mu_taken if known.all() else table.mu_taken[known]
        if self.level.propensity is None or not mu.size:
            return
        free = np.ones(len(table), dtype=np.bool_)
        if table.available is None:
            self.choices.add(self.level.actions.count)
        else:
            number = table.available.sum(axis=1)
            free = number > 1
            self.choices |= set(np.unique(number).tolist())
        self.free += int(free.sum())
        chances = free if self.atoms is None else table.action >= self.level.actions.count - self.atoms
        self.certain += int((free & chances & (table.mu_taken >= CERTAIN)).sum())
        self.smallest = min(self.smallest, float(mu.min()))
        if self.level.propensity.least is not None:
            self.below += int((mu < self.level.propensity.least * (1 - 1e-9)).sum())
        for steps, counts in self.multiples.items():
            if counts is None or self.atoms is not None:
                continue
            scaled = np.minimum(mu, 1.0) * steps
            whole = np.rint(scaled)
            exact = bool((np.abs(scaled - whole) <= 1e-7).all())
            self.multiples[steps] = counts + np.bincount(whole.astype(np.int64), minlength=steps + 1) if exact else None

    def merge(self, other: LevelRandomisation) -> None:
        """Add the counts of other decisions."""
        super().merge(other)
        self.smallest = min(self.smallest, other.smallest)
        for steps, more in other.multiples.items():
            own = self.multiples[steps]
            self.multiples[steps] = None if own is None or more is None else own + more

    def findings(self, in_scope: bool) -> list[Finding]:
        """Return the findings; outside the scope they are notes."""
        level, spec = self.level.name, self.level.propensity
        grave: Severity = "refused" if in_scope else "note"
        mild: Severity = "warning" if in_scope else "note"
        if spec is None:
            message = f"level '{level}' has no propensity; nothing can be certified there"
            return [make_finding("no-propensity", grave, message, level, fix=None if self.atoms is None else NO_DENSITY)]
        column = first_column(self.level)
        findings: list[Finding] = []
        if spec.wrong_by is not None:
            message = (
                f"level '{level}': the propensities are declared as estimated and wrong by a factor of up to {spec.wrong_by:g}; "
                "a certificate rests on that factor, which is not checked"
            )
            fix = "see that the factor holds in every context; where the controller can log its probabilities, log them"
            findings.append(make_finding("estimated-propensities", mild, message, level, column, fix))
        elif spec.estimated:
            message = f"level '{level}': the propensities are declared as estimated; they allow an estimate, not a certificate"
            findings.append(make_finding("estimated-propensities", grave, message, level, column))
        if self.below:
            message = (
                f"level '{level}': {self.below} of {self.decisions} propensities are below the declared least {spec.least:g}, "
                f"down to {self.smallest:g}"
            )
            findings.append(make_finding("propensity-below-least", grave, message, level, column, smallest=self.smallest))
        if self.deterministic:
            every = "the one action was" if self.free == 1 else f"all {self.free} actions were"
            message = f"level '{level}': {every} taken with probability one; nothing else was ever tried"
            findings.append(make_finding("deterministic-level", grave, message, level, column, decisions=float(self.free)))
        elif self.certain:
            share = self.certain / self.free
            message = f"level '{level}': {share:.1%} of {pluralise(self.free, 'decisions')} with a choice had a propensity of one"
            findings.append(make_finding("partly-deterministic", mild, message, level, column, share=share))
        computed = self.atoms is not None or column is None or spec.base is not None
        return findings + ([] if computed or self.deterministic else self._rounded(mild, column))

    def _rounded(self, severity: Severity, column: str | None) -> list[Finding]:
        for steps, counts in self.multiples.items():
            if counts is None:
                continue
            values = np.flatnonzero(counts)
            if values.size < MANY[steps] and not any(_rounded_uniform(int(v), steps, self.choices) for v in values):
                continue
            error = 0.5 / steps / max(self.smallest, 1.0 / steps)
            message = (
                f"level '{self.level.name}': all propensities are multiples of {1 / steps:g} ({values.size} different ones), as "
                f"if rounded; a weight may be off by {error:.1%}"
            )
            figures: dict[str, float | str] = {"distinct": float(values.size), "error": error}
            return [make_finding("rounded-propensities", severity, message, self.level.name, column, figures=figures)]
        return []


def first_column(level: Level) -> str | None:
    """Return the first column of the log that holds propensities of a level, None if there is none."""
    columns = () if level.propensity is None else level.propensity.log_columns
    return columns[0] if columns else None


def _rounded_uniform(value: int, steps: int, choices: set[int]) -> bool:
    """Say whether value / steps is a uniform choice from some number of actions, rounded."""
    return any(number > 1 and steps % number and value == round(steps / number) for number in choices)


LEVEL = 0.05  # share of logs in order that are warned of
MOST_DECISIONS = 2**16  # of a level that are all read; then some batches only
FEWEST = 10.0  # variance of the number of draws of a set, below which its score says little


class ActionShares(Check):
    """Standard scores of how often each set of actions is taken, by level, all levels together at 5 %."""

    adds = ("sums",)

    def __init__(self, setting: AuditSetting) -> None:
        super().__init__(setting)
        self.levels = [level for level in self.problem.levels if level.propensity is not None and level.name in self.scope]
        self.thinning = {level.name: Thinning(MOST_DECISIONS) for level in self.levels}
        # By level: taken, expected, squares of sums over units, variance by the propensities.
        self.sums = {level.name: np.zeros((4, set_count(level))) for level in self.levels}

    def add(self, view: BatchView) -> None:
        """Add the decisions of a batch; those without the whole distribution are left out, because overlap may be missing."""
        for level in self.levels:
            part = self.thinning[level.name].part(view, level.name)
            table = None if part is None else part.batch.levels[level.name]
            if part is None or table is None or table.mu_full is None:
                continue
            choices = Choices.of(level, table)
            chance = np.asarray(choices.chance)
            taken = (np.arange(choices.sets) == choices.chosen[:, None]).astype(np.float64)
            owner, count = part.episodes[level.name], len(part.batch)
            if part.batch.cluster is not None:  # the episodes of a cluster may share a draw
                _, unit = np.unique(part.batch.cluster, return_inverse=True)
                owner, count = np.ravel(unit)[owner], int(unit.max()) + 1
            episodes = sum_rows(taken - chance, owner, count)
            self.sums[level.name] += np.stack(
                [taken.sum(axis=0), chance.sum(axis=0), (episodes**2).sum(axis=0), (chance * (1.0 - chance)).sum(axis=0)]
            )

    def findings(self, known: Known) -> list[Finding]:
        """Return the level and set of actions that stand out most; nothing if propensities are in doubt anyway."""
        if known.of("propensities"):
            return []
        numbers = [int(np.count_nonzero(sums[3] >= FEWEST)) for sums in self.sums.values()]
        tests = sum(1 if number == 2 else number for number in numbers)  # of two sets one is the rest of the other
        if not tests:
            return []
        best = max(self.levels, key=lambda level: float(np.abs(self._scores(level)).max()))
        scores = self._scores(best)
        place = int(np.argmax(np.abs(scores)))
        if abs(scores[place]) < upper_quantile(LEVEL / 2.0 / tests):
            return []
        taken, expected, _, _ = self.sums[best.name][:, place]
        message = (
            f"level '{best.name}': {_actions(best, place)} taken {taken:.0f} times, expected {expected:.1f} by the propensities "
            f"(standard score {scores[place]:.1f}); a fixed-sample test: it warns of one in twenty logs that are in order, and "
            "never refuses"
        )
        return [make_finding("action-shares", "warning", message, best.name, score=float(scores[place]), taken=float(taken))]

    def _scores(self, level: Level) -> Array:
        taken, expected, square, variance = self.sums[level.name]
        spread = np.sqrt(np.maximum(np.maximum(square, variance), 1e-300))
        return np.where(variance >= FEWEST, (taken - expected) / spread, 0.0)


def _actions(level: Level, place: int) -> str:
    """Return the actions of a set in words."""
    members = [level.actions.values[action] for action in np.flatnonzero(set_members(level) == place)]
    return f"action {members[0]} was" if len(members) == 1 else f"actions {members[0]} to {members[-1]} were"
