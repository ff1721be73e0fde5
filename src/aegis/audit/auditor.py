"""The audit of a log: one pass over its batches, or over its pieces wherever they are read, all checks at once.

Memory is bounded, but for 24 bytes for each episode of a log with clusters. Parts of a long log are audited by themselves,
here or on other machines, and merged in the order of the log.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa

from aegis.audit.batch_view import BatchView, bin_batch
from aegis.audit.check import PART, Audit, AuditSetting, Known
from aegis.audit.checks import CHECKS
from aegis.audit.slices import Cuts
from aegis.engine import Engine, engine_for_function, map_in_order, parse_engine
from aegis.logs import LogChunks, Source, Split, part_digests
from aegis.ope import CandidateView, RewardModels
from aegis.problem import Batch, Policy, Problem


class Auditor:
    """Checks a log batch by batch: `add` each, then ask for the `result`, which changes nothing.

    Memory is fixed, but for 24 bytes for each episode of a log with clusters.

    Parameters
    ----------
    problem
        The problem that the log belongs to.
    policy
        The candidate whose overlap with the log is checked, if there is one.
    scope
        The levels it would act at, all if None. Propensities at other levels do not refuse the log.
    alpha
        Each test refuses a log that is in order with at most this probability (standard scores: in large samples). The tests
        cost a certificate nothing.
    learned
        The candidate was learned from this log, so that the mean of its weights here proves nothing.
    whole
        One legacy wrote all of the log, so that a stated incumbent has to fit every row.

    Raises
    ------
    SettingError
        If alpha is no probability, or the scope is empty or names no level.
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
        levels = None if scope is None else frozenset(scope)
        self._start(AuditSetting(problem, policy, levels, alpha=alpha, learned=learned, whole=whole))

    def _start(self, setting: AuditSetting) -> None:
        self._setting = setting
        self._checks = {name: check(setting) for name, check in CHECKS.items() if check.applies(setting)}
        self._cuts: Cuts | None = None
        self._placing = 0  # number of next episodes that placed the cuts
        self._skimmed = False
        self._first = True  # the first part of the log, or all of it
        self._episodes = 0
        self._decisions = 0

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
        view = self._view(batch, self._cuts, skimmed)
        self._placing = max(0, self._placing - len(batch))
        self._episodes += len(batch)
        self._decisions += view.reward.size
        for check in self._checks.values():
            check.add(view)

    def place(self, batch: Batch, used: int | None = None) -> None:
        """Place the cuts between slices of the context by the first episodes of a log, `used` of them, unless they are placed."""
        if self._cuts is None:
            view = self._view(batch, None)
            self._cuts = view.cuts if used is None else Cuts.of(view.problem, view.batch, view.reward, used)
            self._placing = self._cuts.used

    def part(self, number: int, skimmed: bool = False, episodes: int = 0) -> Auditor:
        """Return an auditor for one part of the log, from 0, with the cuts of this one; merge it with those before it.

        Costly tests read the first batch of a later part; of a skimmed part they read nothing. Which parts are skimmed must
        depend on their numbers only. episodes: about how many the whole log has, if known: samples need not be larger.
        """
        part = self._empty(self._setting)
        part._skimmed, part._first = skimmed, number == 0
        part._placing = self._placing if number == 0 else 0
        for check in part._checks.values():
            check.begin_part(number * PART, episodes)
        return part

    def at(self, alpha: float) -> Audit:
        """Return the outcome so far, by tests at another level."""
        other = self._empty(replace(self._setting, alpha=alpha))
        other.merge(self)
        return other.result()

    def merge(self, other: Auditor) -> None:
        """Add the results of a later part of the log, with the same cuts."""
        self._episodes += other._episodes
        self._decisions += other._decisions
        for name, check in self._checks.items():
            check.merge(other._checks[name])

    def result(self) -> Audit:
        """Return the outcome so far."""
        known = Known()
        for name, check in self._checks.items():
            known.findings[name] = check.findings(known)
        return Audit.of([item for items in known.findings.values() for item in items], self._figures())

    def _empty(self, setting: AuditSetting) -> Auditor:
        other = Auditor.__new__(Auditor)
        other._start(setting)
        other._cuts = self._cuts
        return other

    def _view(self, batch: Batch, cuts: Cuts | None, skimmed: bool = False) -> BatchView:
        setting = self._setting
        candidate = None
        if setting.candidate is not None:
            candidate = CandidateView(setting.problem, batch, setting.candidate, RewardModels())
        binned = bin_batch(setting.problem, batch)
        return BatchView.of(setting.binned, binned, cuts, self._placing, skimmed, logged=batch, candidate=candidate)

    def _figures(self) -> dict[str, float | str]:
        setting = self._setting
        figures: dict[str, float | str] = {"episodes": float(self._episodes), "decisions": float(self._decisions)}
        figures |= {"scope": ", ".join(name for name in setting.problem.names if name in setting.scope), "alpha": setting.alpha}
        for check in self._checks.values():
            figures |= check.figures()
        return figures


SKIMMED = 16  # pieces of a long log, of which costly tests read one

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
    """Audit a log: is it fit to certify from?

    Parameters
    ----------
    source
        The log.
    policy
        The candidate whose overlap with the log is checked, if there is one.
    scope
        The levels it would act at, all if None.
    columns
        Further columns to read, for policies that are columns of the log.
    split, side
        Audit one side of a split only.
    alpha
        Each test refuses a log that is in order with at most this probability.
    report
        Called after each batch, or piece of a long log, with the number of episodes so far.
    engine, workers
        Where a long log is read, as for `certify`.
    learned
        The policy was learned from this log, so that the mean of its weights here proves nothing.

    Returns
    -------
    Audit
        The verdict, the findings with remedies, and figures about the log.

    Raises
    ------
    LogError
        If the log cannot be read or does not fit the problem.
    SettingError
        If alpha, scope or engine is not valid.
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
