"""What every check shares: the protocol, the part of a large log that a costly check reads, and tolerance of declared errors.

Thinning. Which part is read depends on counts only, never on content, so that bets stay fair.

Tolerance. The tests of propensities, held actions, carry-over, interference and of sizes that follow actions bet on `E[w -
1] = 0`, which holds for exact propensities. At a level with `wrong_by` they may win although everything is as declared.
There they only warn. Other levels are tested without these, so that a finding here hides nothing there.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property

from scipy.special import ndtri

from aegis.audit.action_bins import atom_counts, bin_problem
from aegis.audit.batch_view import BatchView
from aegis.audit.finding import Finding
from aegis.audit.sums import Sums
from aegis.errors import SettingError
from aegis.policies import Hybrid, Legacy, Uniform
from aegis.problem import Policy, Problem, Scope

PART = 2**32  # episodes of a part of the log, at most: where the numbers of the next part begin
STEP = 32  # batches, of which a costly check reads one once it has read enough


@dataclass(frozen=True)
class AuditSetting:
    """What an audit is about.

    policy: the candidate whose overlap is checked. scope: the levels it would act at. alpha: the level of each test. learned:
    the candidate was learned from this log. whole: one legacy wrote all of the log, so that an incumbent must fit every row.
    """

    problem: Problem
    policy: Policy | None = None
    levels: frozenset[str] | None = None
    alpha: float = 0.001
    learned: bool = False
    whole: bool = True

    def __post_init__(self) -> None:
        if not (math.isfinite(self.alpha) and 0 < self.alpha < 1):
            raise SettingError(f"alpha is the level of the audit's tests, above 0 and below 1, found {self.alpha}")
        if not self.scope:
            raise SettingError(f"an audit is for at least one level of {', '.join(self.problem.names)}")

    @cached_property
    def scope(self) -> Scope:
        """The levels the candidate would act at, all if none are named."""
        return self.problem.scope(self.levels)

    @cached_property
    def binned(self) -> Problem:
        """The problem with cells and atoms as the actions of every interval."""
        return bin_problem(self.problem)

    @cached_property
    def atoms(self) -> dict[str, int]:
        """How many of the last actions are atoms, for levels whose actions are an interval."""
        return atom_counts(self.problem)

    @cached_property
    def candidate(self) -> Policy | None:
        """The candidate as it acts: at the levels of the scope; elsewhere uniformly, which no weight depends on."""
        if self.policy is None or self.policy.weights.size == 1:
            return self.policy
        return Hybrid(
            self.problem, self.scope, self.policy, Legacy(self.problem, {name: Uniform() for name in self.problem.names})
        )


@dataclass(slots=True)
class Known:
    """What earlier checks found, by the name of the check, and what that means for later ones.

    strongest: by level, the largest log evidence that propensities are wrong in a slice.
    """

    findings: dict[str, list[Finding]] = field(default_factory=dict)
    strongest: Mapping[str, float] = field(default_factory=dict)

    def of(self, check: str) -> list[Finding]:
        """Return what one check found."""
        return self.findings.get(check, [])

    def levels(self, code: str) -> set[str]:
        """Return the levels with a finding of this code."""
        return {str(item.level) for items in self.findings.values() for item in items if item.code == code and item.level}

    @property
    def wrong(self) -> set[str]:
        """The levels whose propensities are refuted."""
        return self.levels("miscalibrated-propensities")


class Check(Sums, ABC):
    """One check of the audit: it adds batches, merges with the same check of a later part of the log, and lists findings."""

    def __init__(self, setting: AuditSetting) -> None:
        self.setting = setting
        self.problem, self.scope, self.alpha = setting.binned, setting.scope, setting.alpha

    @staticmethod
    def applies(setting: AuditSetting) -> bool:
        """Say whether the check is part of an audit with this setting."""
        return True

    def begin_part(self, first: int, episodes: int) -> None:
        """Prepare for a part of a log: the number of its first episode; about how many episodes the log has, 0 if unknown."""

    @abstractmethod
    def add(self, view: BatchView) -> None:
        """Add a batch."""

    @abstractmethod
    def findings(self, known: Known) -> list[Finding]:
        """Return the findings so far, given those of earlier checks."""

    def figures(self) -> dict[str, float | str]:
        """Return figures about the log as a whole."""
        return {}


class Thinning:
    """Decides what a costly check reads: all batches until it has read `most` decisions, then one in `STEP`.

    It reads at most `most` decisions of a batch, those of its first episodes, and nothing of a skimmed batch.
    """

    def __init__(self, most: int) -> None:
        self.most = most
        self.decisions_read = 0
        self.batches = 0

    def wants(self, decisions: int, skimmed: bool = False) -> bool:
        """Say whether to read a batch with this number of decisions; call it once for each batch."""
        self.batches += 1
        if skimmed or (self.decisions_read >= self.most and self.batches % STEP):
            return False
        self.decisions_read += min(decisions, self.most)
        return True

    def part(self, view: BatchView, level: str) -> BatchView | None:
        """Return the part of a batch to read for decisions of a level, None for nothing; call it once for each batch."""
        return view.first(level, self.most) if self.wants(len(view.batch.levels[level]), view.skimmed) else None


EXACT_CODES = (
    "miscalibrated-propensities",
    "actions-held",
    "carry-over",
    "behaviour-reacts",
    "siblings-interfere",
    "episodes-interfere",
    "neighbours-interfere",
    "cluster-interferes",
    "size-follows-action",
)


@dataclass(frozen=True)
class PropensityTolerance:
    """The levels with a declared factor of error, and the findings there."""

    problem: Problem

    @cached_property
    def factors(self) -> dict[str, float]:
        """The declared factors by level."""
        return self.problem.wrong_by()

    def findings(self, test: Callable[[set[str]], list[Finding]], wrong: set[str]) -> list[Finding]:
        """Return the findings of a test, which takes the levels to leave out: those with `wrong` propensities, and more."""
        if not self.factors:
            return test(wrong)
        exact = [item for item in test({*wrong, *self.factors}) if not self._doubted(item)]
        return exact + [self.softened(item) for item in test(wrong) if self._doubted(item)]

    def softened(self, item: Finding) -> Finding:
        """Return the finding, as a warning if it refuses because it takes declared errors for none."""
        if item.severity != "refused" or not self._doubted(item):
            return item
        factor = self.factors[str(item.level)]
        words = f"this does not refuse: it takes the propensities as exact, which may be wrong by a factor of up to {factor:g}"
        return replace(item, severity="warning", message=f"{item.message}; {words}")

    def _doubted(self, item: Finding) -> bool:
        return item.level in self.factors and item.code in EXACT_CODES


def upper_quantile(probability: float) -> float:
    """Return the standard score that is exceeded with a probability; `scipy.stats` takes longer to import than an audit takes."""
    return -float(ndtri(probability))
