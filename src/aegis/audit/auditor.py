"""The audit of a log: one pass over its batches, or over its pieces wherever they are read, all checks at once.

Memory is bounded, but for 24 bytes for each episode of a log with clusters. Parts of a long log are audited by themselves,
here or on other machines, and merged in the order of the log.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Generator, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from aegis.audit.action_bins import atom_counts, bin_batch, bin_problem
from aegis.audit.batch_view import BatchView
from aegis.audit.checks.base import PropensityTolerance
from aegis.audit.checks.carry_over import CarryOver
from aegis.audit.checks.density import DensityActions
from aegis.audit.checks.drift import PART, Drift
from aegis.audit.checks.duplicates import DuplicateEpisodes, DuplicateRows
from aegis.audit.checks.independence import EpisodeIndependence
from aegis.audit.checks.interference import SiblingInterference
from aegis.audit.checks.loggers import IncumbentFit, Loggers
from aegis.audit.checks.overlap import CandidateOverlap
from aegis.audit.checks.propensities import Propensities
from aegis.audit.checks.randomisation import ActionShares
from aegis.audit.checks.reward_units import FinalReward, RepeatedReward
from aegis.audit.checks.rewards import RewardRanges
from aegis.audit.checks.sizes import ClusterSizes, ParentSizes
from aegis.audit.finding import Audit, Finding, make_finding
from aegis.audit.slices import Cuts
from aegis.engine import Engine, engine_for_function, map_in_order, parse_engine
from aegis.errors import SettingError, pluralise
from aegis.logs import LogChunks, Source, Split, part_digests
from aegis.problem import Batch, Policy, Problem

FEW = 30  # units


class Auditor:
    """Checks a log batch by batch: `add` each, then ask for the `result`. What was added stays counted; asking changes nothing.

    policy: a candidate whose overlap with the log is of interest. scope: the levels it would act at, all if None; what is
    found about propensities at other levels does not stand in the way. alpha: each test refuses a log that is in order with
    at most this probability (standard scores: in large samples); it costs a certificate nothing. Clusters
    take 24 bytes for each episode, all else a fixed amount. learned: the candidate was learned from this log, on whose own rows
    the mean of its weights says nothing. whole: one legacy wrote all of the log, so that a stated incumbent has to fit every row.
    """

    def __init__(
        self,
        problem: Problem,
        policy: Policy | None = None,
        scope: Iterable[str] | None = None,
        alpha: float = 0.001,
        learned: bool = False,
        whole: bool = True,
    ) -> None:
        if not (math.isfinite(alpha) and 0 < alpha < 1):
            raise SettingError(f"alpha is the level of the audit's tests, above 0 and below 1, found {alpha}")
        self.problem, self.scope, self.alpha = problem, problem.scope(scope), alpha
        if not self.scope:
            raise SettingError(f"an audit is for at least one level of {', '.join(problem.names)}")
        self._policy, self._learned = policy, learned
        self._cuts: Cuts | None = None
        self._placing = 0  # of the next episodes placed the cuts
        self._skimmed = False
        self._first = True  # of several parts, or there is only one
        self._episodes = 0
        self._decisions = 0
        self._celled = problem = bin_problem(problem)
        self._propensities = Propensities(problem, self.scope, alpha, atom_counts(self.problem))
        self._carry_over = CarryOver(problem, alpha / 2.0)
        self._shares = ActionShares(problem, self.scope)
        self._siblings = SiblingInterference(problem, alpha)
        self._neighbours = EpisodeIndependence(problem, self.scope, alpha)
        self._sizes = ParentSizes(problem, alpha)
        self._clusters = ClusterSizes(problem, alpha)
        self._rewards = RewardRanges(problem)
        self._repeats = RepeatedReward(problem)
        self._at_end = FinalReward(problem)
        self._duplicates = DuplicateRows(problem)
        self._copies = DuplicateEpisodes(problem, alpha, frozenset(atom_counts(self.problem)))
        self._exact = DensityActions(self.problem, self.scope)
        self._loggers = Loggers(self.problem)
        self._incumbent = IncumbentFit(self.problem) if whole else None
        self._drift = Drift(problem, alpha)
        self._overlap = None if policy is None else CandidateOverlap(self.problem, policy, self.scope, learned)

    @property
    def episodes(self) -> int:
        """Return how many episodes were added."""
        return self._episodes

    def add(self, batch: Batch) -> None:
        """Add a batch of whole episodes; raises LogError if it does not fit the problem."""
        if not len(batch):
            return
        self.place(batch)
        skimmed = self._skimmed or (self._episodes > 0 and not self._first)
        view = BatchView.of(self._celled, bin_batch(self.problem, batch), self._cuts, self._placing, skimmed)
        self._placing = max(0, self._placing - len(batch))
        self._episodes += len(batch)
        self._decisions += view.reward.size
        weights = {} if self._overlap is None else self._overlap.add(batch)
        self._exact.add(batch)
        self._loggers.add(batch)
        if self._incumbent is not None:
            self._incumbent.add(batch)
        self._carry_over.add(view, weights)
        for check in self._alone():
            check.add(view)

    def place(self, batch: Batch, used: int | None = None) -> None:
        """Place the cuts by which contexts are told apart, unless they are: by the first episodes of a log.

        used: by so many of them, whatever the size of the batch.
        """
        if self._cuts is None:
            view = BatchView.of(self._celled, bin_batch(self.problem, batch), None)
            self._cuts = view.cuts if used is None else Cuts.of(self._celled, view.batch, view.reward, used)
            self._placing = self._cuts.used

    def part(self, number: int, skimmed: bool = False, episodes: int = 0) -> Auditor:
        """Return an auditor for one part of the log, from 0, whose cuts are placed; merge it with those before it.

        Of later parts costly tests look at the first batch; skimmed: at none. Which parts are skimmed must depend on their
        numbers only. episodes: about how many the whole log has, if that is known: samples need not be larger there.
        """
        found = Auditor(self.problem, self._policy, self.scope, self.alpha, self._learned, self._incumbent is not None)
        found._cuts, found._skimmed = self._cuts, skimmed
        found._first = number == 0
        found._placing = self._placing if number == 0 else 0
        found._copies.expect(episodes)
        found._drift.seen = found._clusters.seen = found._loggers.seen = number * PART
        return found

    def at(self, alpha: float) -> Audit:
        """Return what was found so far, by tests at another level."""
        other = Auditor(self.problem, self._policy, self.scope, alpha, self._learned, self._incumbent is not None)
        other._cuts = self._cuts
        other.merge(self)
        return other.result()

    def merge(self, other: Auditor) -> None:
        """Add what was found in a later part of the log, with the same cuts."""
        self._episodes += other._episodes
        self._decisions += other._decisions
        for own, more in zip(self._alone(), other._alone(), strict=True):
            own.merge(more)
        self._carry_over.merge(other._carry_over)
        self._exact.merge(other._exact)
        self._loggers.merge(other._loggers)
        if self._incumbent is not None and other._incumbent is not None:
            self._incumbent.merge(other._incumbent)
        if self._overlap is not None and other._overlap is not None:
            self._overlap.merge(other._overlap)

    def _alone(self) -> list[Any]:
        """Return the checks that need nothing but the view of a batch."""
        return [
            self._propensities,
            self._shares,
            self._siblings,
            self._neighbours,
            self._sizes,
            self._clusters,
            self._rewards,
            self._repeats,
            self._at_end,
            self._duplicates,
            self._copies,
            self._drift,
        ]

    def result(self) -> Audit:
        """Return what was found so far."""
        repeated, propensities = self._repeats.findings(), self._propensities.findings()
        lenient, strongest = PropensityTolerance(self.problem), self._propensities.strongest()
        wrong = {found.level for found in propensities if found.level and found.code == "miscalibrated-propensities"}
        neighbours = lenient.findings(lambda levels: self._neighbours.findings(strongest, levels), wrong)
        held = {found.level for found in neighbours if found.code == "actions-held"}
        carried = lenient.findings(self._carry_over.findings, wrong)
        siblings = lenient.findings(self._siblings.findings, wrong)
        found = [
            *self._backdoors(),
            *propensities,
            *([] if propensities else self._shares.findings()),
            *self._exact.findings(),
            *self._rewards.findings(),
            *repeated,
            *self._at_end.findings(),
            *neighbours,
            *carried,
            *([] if any(found.severity == "refused" for found in carried) else siblings),
            *lenient.findings(self._sizes.findings, wrong),
            *self._clusters.findings(),
            *self._units(),
            *self._drift.findings(),
            *self._loggers.findings(),
            *([] if self._incumbent is None else self._incumbent.findings()),
            *self._duplicates.findings(bool(repeated)),
            *self._copies.findings({*wrong, *held}),
            *([] if self._overlap is None else self._overlap.findings()),
        ]
        return Audit.of(found, self._figures())

    def _backdoors(self) -> list[Finding]:
        checked = [self.problem.backdoor(name) for name in self.problem.names]
        return [
            make_finding("backdoor", "refused" if check.level in self.scope else "note", check.reason, check.level)
            for check in checked
            if not check.admissible
        ]

    def _units(self) -> list[Finding]:
        clustered = self.problem.cluster is not None
        number = self._clusters.count if clustered else self._episodes
        if number >= FEW:
            return []
        what = "clusters" if clustered else "episodes"
        message = (
            f"the log has {pluralise(number, 'units', 'independent ')} ({what}); fewer than {FEW} hardly ever certify anything"
        )
        return [make_finding("few-units", "warning" if number else "refused", message, units=float(number))]

    def _figures(self) -> dict[str, float | str]:
        found: dict[str, float | str] = {"episodes": float(self._episodes), "decisions": float(self._decisions)}
        if self.problem.cluster is not None:
            found["clusters"] = float(self._clusters.count)
        found |= {"scope": ", ".join(name for name in self.problem.names if name in self.scope), "alpha": self.alpha}
        found["log10_calibration_evidence"] = max(self._propensities.evidence() / math.log(10), -300.0)
        found |= self._rewards.figures()
        return found | ({} if self._overlap is None else self._overlap.figures())


SKIMMED = 16  # of so many pieces of a long log the costly tests look at one

Report = Callable[[int], None]


def audit_log(
    source: Source,
    policy: Policy | None = None,
    scope: Iterable[str] | None = None,
    columns: Sequence[str] = (),
    split: Split | None = None,
    side: str | None = None,
    alpha: float = 0.001,
    report: Report | None = None,
    engine: str = "local",
    workers: int | None = 1,
    learned: bool = False,
) -> Audit:
    """Audit a log, or one `side` of a `split` of it; `columns` are read along, for policies that are columns of the log.

    report: called after each batch, or piece, with the number of episodes so far. engine, workers: who reads a long log, as for
    `certify`. learned: the policy was learned from this log, so that the mean of its weights on it says nothing. Raises what
    reading and the policy raise.
    """
    auditor = Auditor(source.problem, policy, scope, alpha, learned)
    team = parse_engine(engine, workers)
    pieces = None if split is not None else source.chunks(columns)
    if pieces is not None:
        pieces = pieces.sealed(part_digests(source.files)) if team.elsewhere else pieces
        _audit_pieces(auditor, source.batches(columns), pieces, team, report)
        return auditor.result()
    for batch in source.batches(columns, side=side, split=split):
        auditor.add(batch)
        if report is not None:
            report(auditor.episodes)
    return auditor.result()


def skips_costly_checks(number: int) -> bool:
    """Say whether the costly tests leave a piece out; that depends on its number alone, so that bets stay fair."""
    return number % SKIMMED > 0


@dataclass(frozen=True, slots=True)
class _Work:
    """Audits a piece. auditor: with its cuts placed, and nothing in it."""

    pieces: LogChunks
    auditor: Auditor

    def __call__(self, number: int) -> tuple[Auditor, list[pa.Table]]:
        auditor, reading = self.auditor.part(number, skips_costly_checks(number), self.pieces.episodes), self.pieces.read(number)
        for batch in reading:
            auditor.add(batch)
        return auditor, reading.ends


def _audit_pieces(
    auditor: Auditor, batches: Generator[Batch, None, None], pieces: LogChunks, engine: Engine, report: Report | None
) -> None:
    """Add all pieces; the first of the batches places the cuts."""
    auditor.place(next(batches))
    batches.close()
    work, edges, last = _Work(pieces, auditor.part(0)), pieces.edges(), auditor.part(len(pieces))
    for part, ends in map_in_order(engine_for_function(engine, work), work, range(len(pieces))):
        auditor.merge(part)
        for batch in edges.add(ends):
            last.add(batch)
        if report is not None:
            report(auditor.episodes)
    for batch in edges.close():
        last.add(batch)
    auditor.merge(last)
