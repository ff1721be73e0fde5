"""Independence of episodes: hands neighbouring episodes to the tests of held actions and of interference.

Held actions. A machine that keeps its setting for many episodes, and logs how often it takes each setting, has propensities
that are right on average: no slice shows anything. But its episodes are not the independent draws that a certificate
counts.

Order. Episodes of one cluster may depend on each other: of each cluster only the first takes part, because where a cluster
ends may depend on its outcomes. The last few episodes of a batch are kept for the next one. Without a time the order of the
log is taken for that of time, unless episodes are sorted by a result. Held actions are tested in the order of ids as well,
where ids imply another order.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping

import numpy as np
import pyarrow as pa

from aegis.audit.batch_view import BatchView, comparable_times
from aegis.audit.betting import ActionRepeats, log_mean_evidence
from aegis.audit.checks.base import AuditSetting, Check, Known, PropensityTolerance, Thinning
from aegis.audit.checks.interference import ClusterInterference, NextEpisodeInterference, WindowInterference, not_compared
from aegis.audit.checks.randomisation import first_column
from aegis.audit.episode_order import IdArrangement, ResultSorting, id_order
from aegis.audit.finding import SEVERITIES, Finding, make_finding
from aegis.audit.sums import Sums
from aegis.problem import AnyArray, Batch, concat

MOST_EPISODES = 2**14  # that are all read; then some batches only
MOST_AT_ONCE = 2**15  # in one batch
EPISODE_LAGS = (1, 2, 3, 4, 5, 6, 8, 12)  # episodes back; a few machines that take turns come again after as many
BY_ID = "in the order of the ids of episodes"

EpisodePairs = tuple[int, AnyArray, AnyArray]


class EpisodeIndependence(Check):
    """Hands episodes to the tests of held actions and of interference: in pairs, in windows, and by clusters."""

    adds = (
        *("held", "by_id", "interference", "windows", "clustered", "id_windows", "mates"),
        *("sorting", "id_sorting", "text_time", "in_time"),
    )

    def __init__(self, setting: AuditSetting) -> None:
        super().__init__(setting)
        problem, alpha = self.problem, self.alpha
        self.held, self.by_id = HeldActions(setting), HeldActions(setting)
        self.interference = NextEpisodeInterference(problem, alpha / 2.0)  # the other half is for carry-over within episodes
        self.windows, self.mates = WindowInterference(alpha), ClusterInterference(problem, alpha)
        self.clustered, self.id_windows = WindowInterference(alpha), WindowInterference(alpha)
        self.thinning = Thinning(MOST_EPISODES)
        self.tail: Batch | None = None  # the last episodes, for pairs with the next batch
        self.sorting, self.id_sorting = ResultSorting(problem), IdArrangement(problem)
        self.in_time = self.text_time = False

    def add(self, view: BatchView) -> None:
        """Add the episodes of a batch."""
        batch = view.batch
        times = _times(batch)
        self.in_time, self.text_time = times is not None, batch.time is not None and times is None
        if not self.in_time:
            self.sorting.add(view)
        if not self.thinning.wants(len(batch), view.skimmed):
            self.tail = None
            return
        whole = self._order(batch)
        order = whole[:MOST_AT_ONCE]
        if self.tail is not None and batch.cluster is None:
            head = batch.take_episodes(order[: max(EPISODE_LAGS)])
            both = concat([self.tail, head])
            self._add(BatchView.of(self.problem, both, view.cuts), self._order(both), len(self.tail))
        self._add(view, order, 0)
        self.windows.add(view, order)
        if batch.cluster is not None:
            # Clusters may hold actions, which is noticed and leaves this out; else their episodes are neighbours like others.
            self.clustered.add(view, self._in_time(batch)[:MOST_AT_ONCE])
        self.mates.add(view, self._in_time(batch)[:MOST_AT_ONCE])
        if not self.in_time:
            self._add_by_id(view)
        last = whole[-max(EPISODE_LAGS) :]
        last = last[view.fresh[last]]  # those that placed the cuts are not bet on
        self.tail = batch.take_episodes(last) if last.size else None

    def merge(self, other: EpisodeIndependence) -> None:
        """Add the results of later episodes; pairs with one episode here and one there are left out."""
        super().merge(other)
        self.tail = None

    def findings(self, known: Known) -> list[Finding]:
        """Return the findings; levels whose propensities are wrong prove nothing."""
        return PropensityTolerance(self.problem).findings(lambda wrong: self._findings(known.strongest, wrong), known.wrong)

    def _findings(self, strongest: Mapping[str, float], wrong: set[str]) -> list[Finding]:
        column = None if self.in_time else self.sorting.column()
        orders = 2 if self.by_id.pairs else 1
        held_by_id: list[Finding] = []
        near_by_id: list[Finding] = []
        if orders == 2 and not self.id_sorting.by_result():
            held_by_id = self.by_id.findings(BY_ID, strongest, orders)
            near_by_id = self.id_windows.findings(BY_ID, wrong | _levels(held_by_id))
        if column is not None:
            message = f"the episodes are sorted by '{column}', which follows from their actions; their order in time is not known"
            mates = self.mates.findings("sorted by a result", wrong)
            unsure_mates = not_compared(self.mates.test.reacting() - wrong, "other episodes of the cluster")
            order = make_finding("order-unknown", "warning", message, column=column)
            return [order, *held_by_id, *near_by_id, *mates, *unsure_mates]
        words = f"in the order of '{self.problem.time}'" if self.in_time else "in the order of the log"
        held = self.held.findings(words, strongest, orders)
        held += [item for item in held_by_id if str(item.level) not in _levels(held)]
        wrong = wrong | _levels(held)
        after = self.interference.findings(words, wrong, self.windows.test.joined())
        in_order = self.windows.findings(words, wrong) or self.clustered.findings(words, wrong)
        mates = self.mates.findings(words, wrong)
        near = [] if after or mates else sorted([*in_order, *near_by_id], key=lambda item: SEVERITIES.index(item.severity))[:1]
        return [*self._unread(), *held, *after, *near, *mates, *self._not_compared(wrong)]

    def _not_compared(self, wrong: set[str]) -> list[Finding]:
        """Return warnings about levels at which the controller reacts to other episodes."""
        clustered = self.mates.test.reacting() - wrong
        near = (self.windows.test.reacting() | self.clustered.test.reacting()) - clustered - wrong
        return [*not_compared(clustered, "other episodes of the cluster"), *not_compared(near, "episodes before")]

    def _unread(self) -> list[Finding]:
        """Return a warning where times are text without an order."""
        if not self.text_time:
            return []
        message = (
            f"'{self.problem.time}' holds text that is not a date, so that it tells no order; the order of the log was taken"
        )
        return [make_finding("order-unknown", "warning", message, column=self.problem.time)]

    def _add_by_id(self, view: BatchView) -> None:
        """Add pairs in the order of ids, if that is another one than that of the log; within a batch."""
        order = id_order(view.batch.episode)
        if order is None:
            return
        self.id_sorting.add(view, order)
        order = _first_of_clusters(view.batch, order)[:MOST_AT_ONCE]
        for lag, before, now in _pairs(order, 0):
            self.by_id.add(view, lag, before, now)
        self.id_windows.add(view, order)

    def _order(self, batch: Batch) -> AnyArray:
        """Return the episodes that are paired, in their order."""
        return _first_of_clusters(batch, self._in_time(batch))

    def _in_time(self, batch: Batch) -> AnyArray:
        """Return all episodes in the order of time, else of the log."""
        times = _times(batch) if self.in_time else None
        return np.arange(len(batch)) if times is None else np.argsort(times, kind="stable")

    def _add(self, view: BatchView, order: AnyArray, joint: int) -> None:
        for lag, before, now in _pairs(order, joint):
            self.held.add(view, lag, before, now)
            if lag == 1:
                self.interference.add(view, before, now)


def _levels(findings: list[Finding]) -> set[str]:
    return {str(item.level) for item in findings}


def _times(batch: Batch) -> AnyArray | None:
    """Return the times `[E]` as numbers or dates, text read as dates; None if there are none, or they have no order."""
    times = comparable_times(batch)
    if times is not None or batch.time is None:
        return times
    try:
        return np.asarray(pa.array(batch.time.astype(str)).cast(pa.timestamp("us")).to_numpy(zero_copy_only=False))
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        return None


def _first_of_clusters(batch: Batch, order: AnyArray) -> AnyArray:
    """Return the episodes in this order; of each cluster, the first one only."""
    if batch.cluster is None:
        return order
    _, first = np.unique(batch.cluster[order], return_index=True)
    return order[np.sort(first)]


def _pairs(order: AnyArray, joint: int) -> Iterator[EpisodePairs]:
    """Yield pairs of episodes for each lag; if `joint` > 0, those of which one is before that row and the other is not."""
    for lag in EPISODE_LAGS:
        before, now = order[:-lag], order[lag:]
        if joint:
            across = (before < joint) & (now >= joint)
            before, now = before[across], now[across]
        if now.size:
            yield lag, before, now


class HeldActions(Sums):
    """The test of actions that repeat across episodes, all levels and lags together at level alpha."""

    adds = ("bets",)

    def __init__(self, setting: AuditSetting) -> None:
        self.problem, self.scope, self.alpha = setting.binned, setting.scope, setting.alpha
        declared = [level.name for level in self.problem.levels if level.propensity is not None]
        self.bets = {(name, lag): ActionRepeats() for name in declared for lag in EPISODE_LAGS}

    def add(self, view: BatchView, lag: int, before: AnyArray, now: AnyArray) -> None:
        """Add pairs `[p]` of episodes, `lag` apart: the first decisions of each level are compared."""
        for level in self.problem.levels:
            bets = self.bets.get((level.name, lag))
            table = view.batch.levels[level.name]
            if bets is None or not len(table):
                continue
            first, some = view.first_decisions(level.name)
            pairs = some[before] & some[now]
            earlier, later = first[before[pairs]], first[now[pairs]]
            if later.size and (table.mu_taken[later] > 0).all():
                bets.add(table, earlier, later)

    @property
    def pairs(self) -> int:
        """How many pairs were added."""
        return sum(bets.pairs for bets in self.bets.values())

    def findings(self, order: str, strongest: Mapping[str, float], orders: int = 1) -> list[Finding]:
        """Return the findings. order: of the episodes, in words. orders: in how many they are tested, which share alpha.

        strongest: log evidence that the propensities of a level are wrong in a slice, which may explain repeats.
        """
        alpha = self.alpha / orders
        logs = {key: bets.evidence() for key, bets in self.bets.items() if bets.pairs}
        every = np.array(list(logs.values()))
        if log_mean_evidence(every) < math.log(1.0 / alpha):
            return []
        limit = min(math.log(every.size / alpha), float(every.max()))
        findings: list[Finding] = []
        for name in self.problem.names:
            own = {lag: log for (level, lag), log in logs.items() if level == name}
            lag = max(own, key=lambda key: own[key], default=0)
            if own and own[lag] >= limit and own[lag] > strongest.get(name, -math.inf):
                findings.append(self._finding(name, lag, own[lag], order))
        return findings

    def _finding(self, level: str, lag: int, log: float, order: str) -> Finding:
        bets = self.bets[level, lag]
        back = "the episode before" if lag == 1 else f"{lag} episodes before"
        return make_finding(
            "actions-held",
            "refused" if level in self.scope else "warning",
            f"level '{level}': {bets.same} of {bets.pairs} episodes take the action of {back} ({order}), not as often as their "
            "propensities say: an action is held over several episodes, or alternates, while each is logged as a fresh draw",
            level,
            first_column(self.problem.level(level)),
            log10_evidence=log / math.log(10),
            lag=float(lag),
            share=bets.same / bets.pairs,
            pairs=float(bets.pairs),
        )
