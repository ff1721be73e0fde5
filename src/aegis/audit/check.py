"""What every check shares: findings and the verdict, results that add up, the protocol, thinning, and tolerance of errors.

Parts of a long log are checked apart and merged, so that every partial result adds up.

Thinning. Which part is read depends on counts only, never on content, so that bets stay fair.

Tolerance. The tests of propensities, held actions, carry-over, interference and of sizes that follow actions bet on `E[w -
1] = 0`, which holds for exact propensities. At a level with `wrong_by` they may win although everything is as declared.
There they only warn. Other levels are tested without these, so that a finding here hides nothing there.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from typing import Any, ClassVar, Literal, Self

from scipy.special import ndtri

from aegis.audit.batch_view import BatchView, bin_problem
from aegis.audit.codes import CODES
from aegis.errors import SettingError
from aegis.policies import Hybrid, Legacy, Uniform, stated_levels
from aegis.problem import Level, Policy, Problem, Scope

Severity = Literal["note", "warning", "refused"]  # how grave a finding is
Verdict = Literal["fit", "fit with warnings", "refused"]  # of an audit: as grave as its gravest finding
SEVERITIES: tuple[Severity, ...] = ("refused", "warning", "note")  # the gravest first
# What a finding rests on, where a test has both: figure 'test'.
ANYTIME, FIXED = "by betting, at any time", "by a standard score, for a log of fixed length"
# What every audit says about itself.
CAVEAT = "The audit is necessary, not sufficient: hidden confounding passes."


@dataclass(frozen=True, slots=True)
class Finding:
    """One finding of an audit: a stable code, its severity, a message, what to do, where, and the numbers behind it.

    level, column: where, None if it concerns the whole log. A finding at a level matters for the scopes that contain it.
    """

    code: str
    severity: Severity
    level: str | None
    column: str | None
    message: str
    fix: str
    figures: Mapping[str, float | str]

    def plain(self) -> dict[str, Any]:
        """Return the finding as plain data."""
        return asdict(self)


@dataclass(frozen=True, slots=True)
class Audit:
    """The outcome: a verdict, the findings (gravest first) and figures about the log as a whole."""

    verdict: Verdict
    findings: tuple[Finding, ...]
    figures: Mapping[str, float | str]

    @classmethod
    def of(cls, findings: list[Finding], figures: Mapping[str, float | str]) -> Audit:
        """Return the audit of these findings: refused if one of them refuses, else with warnings if there are any."""
        ordered = tuple(sorted(findings, key=lambda finding: SEVERITIES.index(finding.severity)))
        gravest = ordered[0].severity if ordered else "note"
        verdict: Verdict = "refused" if gravest == "refused" else "fit with warnings" if gravest == "warning" else "fit"
        return cls(verdict, ordered, dict(figures))

    @property
    def refused(self) -> tuple[Finding, ...]:
        """Return the findings that refuse."""
        return tuple(finding for finding in self.findings if finding.severity == "refused")

    def codes(self, severity: Severity | None = None) -> tuple[str, ...]:
        """Return the codes that were found, of one severity or of all."""
        return tuple(finding.code for finding in self.findings if severity in (None, finding.severity))

    def plain(self) -> dict[str, Any]:
        """Return the audit as plain data."""
        return {
            "verdict": self.verdict,
            "findings": [finding.plain() for finding in self.findings],
            "figures": dict(self.figures),
            "caveat": CAVEAT,
        }


def make_finding(
    code: str,
    severity: Severity,
    message: str,
    level: str | None = None,
    column: str | None = None,
    fix: str | None = None,
    figures: Mapping[str, float | str] | None = None,
    **more: float | str,
) -> Finding:
    """Return a finding; what to do comes from the table of codes unless given, figures as a mapping or by name."""
    fix = CODES[code].fix if fix is None else fix
    every = {name: value if isinstance(value, str) else float(value) for name, value in {**(figures or {}), **more}.items()}
    return Finding(code, severity, level, column, message, fix, every)


class Sums:
    """A partial result. adds, lowest, highest: the attributes that make up the result, by how two of them become one.

    The others are settings, equal in all parts.
    """

    adds: ClassVar[tuple[str, ...]] = ()
    lowest: ClassVar[tuple[str, ...]] = ()
    highest: ClassVar[tuple[str, ...]] = ()

    def merge(self, other: Self) -> None:
        """Add the result of a later part of the log."""
        for names, joined in ((self.adds, merged), (self.lowest, min), (self.highest, max)):
            for name in names:
                setattr(self, name, joined(getattr(self, name), getattr(other, name)))


def merged(own: Any, other: Any) -> Any:
    """Return two partial results as one: the sum of numbers, arrays and lists, the union of sets, and mappings key by key.

    None gives way to the other result. Keys that only the other mapping has come last.
    """
    if own is None or other is None:
        return other if own is None else own
    if isinstance(own, dict):
        return {key: merged(own.get(key), other.get(key)) for key in {**own, **other}}
    if isinstance(own, Sums):
        own.merge(other)
        return own
    return own | other if isinstance(own, set | bool) else own + other


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
        return {level.name: len(level.actions.atoms) for level in self.problem.levels if level.actions.continuous}

    def has_intervals(self) -> bool:
        """Say whether the actions of a level are an interval."""
        return bool(self.atoms)

    def has_candidate(self) -> bool:
        """Say whether there is a candidate."""
        return self.policy is not None

    def has_one_incumbent(self) -> bool:
        """Say whether one legacy wrote all of the log and an incumbent is stated."""
        return self.whole and bool(stated_levels(self.problem))

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
    """One check of the audit: it adds batches, merges with the same check of a later part of the log, and lists findings.

    needs: what a setting must have for the check to be part of the audit. next: the number of the next episode, for checks
    that count them.
    """

    needs: ClassVar[tuple[Callable[[AuditSetting], bool], ...]] = ()
    highest = ("next",)

    def __init__(self, setting: AuditSetting) -> None:
        self.setting, self.next = setting, 0
        self.problem, self.scope, self.alpha = setting.binned, setting.scope, setting.alpha

    @classmethod
    def applies(cls, setting: AuditSetting) -> bool:
        """Say whether the check is part of an audit with this setting."""
        return all(need(setting) for need in cls.needs)

    def severities(self, level: str) -> tuple[Severity, Severity]:
        """Return how grave faults are that refuse, and that warn, at a level of the scope; notes at other levels."""
        return ("refused", "warning") if level in self.scope else ("note", "note")

    def begin_part(self, first: int, episodes: int) -> None:
        """Prepare for a part of a log: the number of its first episode; about how many episodes the log has, 0 if unknown."""
        self.next = first

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


def soften(problem: Problem, item: Finding) -> Finding:
    """Return the finding, as a warning if it refuses because it takes declared errors for none."""
    if item.severity != "refused" or not _doubted(problem, item):
        return item
    factor = problem.wrong_by()[str(item.level)]
    words = f"this does not refuse: it takes the propensities as exact, which may be wrong by a factor of up to {factor:g}"
    return replace(item, severity="warning", message=f"{item.message}; {words}")


def tolerate(problem: Problem, test: Callable[[set[str]], list[Finding]], wrong: set[str]) -> list[Finding]:
    """Return the findings of a test, which takes the levels to leave out: those with `wrong` propensities, and more."""
    factors = problem.wrong_by()
    if not factors:
        return test(wrong)
    exact = [item for item in test({*wrong, *factors}) if not _doubted(problem, item)]
    return exact + [soften(problem, item) for item in test(wrong) if _doubted(problem, item)]


def _doubted(problem: Problem, item: Finding) -> bool:
    return item.level in problem.wrong_by() and item.code in EXACT_CODES


def upper_quantile(probability: float) -> float:
    """Return the standard score that is exceeded with a probability; `scipy.stats` takes longer to import than an audit takes."""
    return -float(ndtri(probability))


def first_column(level: Level) -> str | None:
    """Return the first column of the log that holds propensities of a level, None if there is none."""
    columns = () if level.propensity is None else level.propensity.log_columns
    return columns[0] if columns else None
