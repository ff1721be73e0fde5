"""Independence of episodes: are actions held over several, and does one act on the next, on neighbours or on its cluster?

Held actions. A machine that keeps its setting for many episodes, and logs how often it takes each setting, has propensities
that are right on average: no slice shows anything. But its episodes are not the independent draws that a certificate
counts.

The next episode. `E[(w - 1) f(next episode)] = 0` for the weight of any policy at a decision of an episode and any f of the
outermost context or of the mean reward of the next one, in the order of time or of the log. The decision is the last one of
its level; where episodes differ in size the first one, because which one is last may depend on the action. In a product
over episodes every term has mean zero given the others, because its earliest weight has: the pairs may overlap.

Order. Episodes of one cluster may depend on each other: of each cluster only the first takes part, because where a cluster
ends may depend on its outcomes. The last few episodes of a batch are kept for the next one. Without a time the order of the
log is taken for that of time, unless episodes are sorted by a result. Held actions are tested in the order of ids as well,
where ids imply another order: numbers, dates, or a number after the same text, such as `day-17`.
"""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Iterator, Mapping

import numpy as np
import pyarrow as pa

from aegis.audit.batch_view import BatchView, comparable_times
from aegis.audit.betting import (
    REACTS,
    ActionRepeats,
    Choices,
    EpisodeBets,
    GroupBets,
    centre_rewards,
    log_mean_evidence,
    set_members,
    silenced,
)
from aegis.audit.check import (
    SEVERITIES,
    AuditSetting,
    Check,
    Finding,
    Known,
    Severity,
    Sums,
    Thinning,
    first_column,
    make_finding,
    tolerate,
)
from aegis.audit.checks.interference import ClusterInterference, WindowInterference, bet_on_next, group_members, not_compared
from aegis.audit.slices import EPISODES, own_context_signs, sign_at
from aegis.problem import AnyArray, Array, Batch, Level, LevelTable, Problem, concat

MOST_EPISODES = 2**14  # that are all read; then some batches only
MOST_AT_ONCE = 2**15  # in one batch
EPISODE_LAGS = (1, 2, 3, 4, 5, 6, 8, 12)  # episodes back; a few machines that take turns come again after as many
BY_ID = "in the order of the ids of episodes"


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
        return tolerate(self.problem, lambda wrong: self._findings(known.strongest, wrong), known.wrong)

    def _findings(self, strongest: Mapping[str, float], wrong: set[str]) -> list[Finding]:
        column = None if self.in_time else self.sorting.column()
        orders = 2 if self.by_id.pairs else 1
        held_by_id, near_by_id = list[Finding](), list[Finding]()
        if orders == 2 and not self.id_sorting.by_result():
            held_by_id = self.by_id.findings(BY_ID, strongest, orders)
            near_by_id = self.id_windows.findings(BY_ID, wrong | _levels(held_by_id))
        if column is not None:
            message = f"the episodes are sorted by '{column}', which follows from their actions; their order in time is not known"
            mates = self.mates.findings("sorted by a result", wrong)
            unsure_mates = not_compared(self.mates.reacting() - wrong, "other episodes of the cluster")
            order = make_finding("order-unknown", "warning", message, column=column)
            return [order, *held_by_id, *near_by_id, *mates, *unsure_mates]
        unread: list[Finding] = []
        if self.text_time:
            message = (
                f"'{self.problem.time}' holds text that is not a date, so that it tells no order; the order of the log was taken"
            )
            unread = [make_finding("order-unknown", "warning", message, column=self.problem.time)]
        words = f"in the order of '{self.problem.time}'" if self.in_time else "in the order of the log"
        held = self.held.findings(words, strongest, orders)
        held += [item for item in held_by_id if str(item.level) not in _levels(held)]
        wrong = wrong | _levels(held)
        after = self.interference.findings(words, wrong, self.windows.joined())
        in_order = self.windows.findings(words, wrong) or self.clustered.findings(words, wrong)
        mates = self.mates.findings(words, wrong)
        near = [] if after or mates else sorted([*in_order, *near_by_id], key=lambda item: SEVERITIES.index(item.severity))[:1]
        clustered = self.mates.reacting() - wrong
        reacting = (self.windows.reacting() | self.clustered.reacting()) - clustered - wrong
        unsure = [*not_compared(clustered, "other episodes of the cluster"), *not_compared(reacting, "episodes before")]
        return [*unread, *held, *after, *near, *mates, *unsure]

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


def _pairs(order: AnyArray, joint: int) -> Iterator[tuple[int, AnyArray, AnyArray]]:
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
        bets, column = self.bets[level, lag], first_column(self.problem.level(level))
        back = "the episode before" if lag == 1 else f"{lag} episodes before"
        message = (
            f"level '{level}': {bets.same} of {bets.pairs} episodes take the action of {back} ({order}), not as often as their "
            "propensities say: an action is held over several episodes, or alternates, while each is logged as a fresh draw"
        )
        severity: Severity = "refused" if level in self.scope else "warning"
        figures = {"log10_evidence": log / math.log(10), "lag": lag, "share": bets.same / bets.pairs, "pairs": bets.pairs}
        return make_finding("actions-held", severity, message, level, column, figures=figures)


class NextEpisodeInterference(Sums):
    """The test of independence between neighbouring episodes, all levels together."""

    adds = ("bets", "again", "mean", "pairs")

    def __init__(self, problem: Problem, alpha: float) -> None:
        self.problem, self.alpha = problem, alpha
        self.declared = [level for level in problem.levels if level.propensity is not None]
        self.bets: dict[tuple[str, str, int], EpisodeBets] = {}
        self.again: dict[tuple[str, int], EpisodeBets] = {}
        self.mean: dict[str, GroupBets] = {}
        self.pairs = 0

    def add(self, view: BatchView, before: AnyArray, now: AnyArray) -> None:
        """Add pairs `[p]` of neighbouring episodes."""
        fresh = view.fresh[before] & view.fresh[now]
        before, now = before[fresh], now[fresh]
        if not before.size:
            return
        self.pairs += before.size
        outermost = self.problem.names[0]
        signs = own_context_signs(view.cuts, view.batch, outermost, view.first_decisions(outermost)[0][now])
        rewards = view.mean_rewards()[now]
        signs["the reward"] = sign_at(rewards, view.cuts.reward[outermost])
        for name, members in group_members(view, before).items():
            bet_on_next(self.mean, name, members, centre_rewards(rewards, view.cuts, EPISODES))
        for level in self.declared:
            table, counts = view.batch.levels[level.name], np.diff(view.starts[level.name])
            start, some = view.first_decisions(level.name)
            pairs = np.flatnonzero(some[before] & some[now])
            drawn = view.last_decisions(level.name) if (counts == counts[0]).all() else start
            rows, after = drawn[before[pairs]], start[now[pairs]]
            if pairs.size and np.isfinite(table.mu_taken[rows]).all():
                later = {label: sign[pairs] for label, sign in signs.items()}
                self._bet(level, table.take(rows, rows), later, table.action[after])

    def _bet(self, level: Level, table: LevelTable, signs: dict[str, Array], after: AnyArray) -> None:
        """Bet on the signs `[p]` of the next episode, and on its first actions `[p]`."""
        # Effects that grow with the action show in halves, others in finer sets.
        for most in (2, 8) if level.actions.count > 2 else (2,):
            choices = Choices.of(level, table, most)
            for label, sign in signs.items():
                self.bets.setdefault((level.name, label, choices.sets), EpisodeBets(choices.sets)).add_single(choices, sign)
            again = self.again.setdefault((level.name, choices.sets), EpisodeBets(choices.sets))
            again.add_repeats(choices, set_members(level, most)[after], np.arange(after.size), after.size)

    def findings(self, order: str, wrong: Collection[str] = (), joined: Collection[str] = ()) -> list[Finding]:
        """Return the findings. order: of the episodes, in words. Levels whose propensities are `wrong` prove nothing.

        joined: levels whose draws in one episode may go together, which are not bet on one after the other.
        """
        reacting = {name for (name, _), bets in self.again.items() if log_mean_evidence(bets.evidence()) >= REACTS}
        parts: dict[tuple[str, str, int], Array] = {}
        for (name, label, sets), bets in self.bets.items():
            if name not in wrong:
                reaction = name in reacting and label == "the reward"  # of the controller, not of the plant
                parts[name, label, sets] = silenced(bets.evidence(), reaction)
        for name, every_draw in self.mean.items():
            if name not in wrong:
                parts[name, "the mean reward", 0] = silenced(every_draw.evidence(), name in {*reacting, *joined})
        if log_mean_evidence(parts.values()) < math.log(1.0 / self.alpha):
            return []
        (level, what, _), strongest = max(parts.items(), key=lambda item: item[1].max(initial=-np.inf))
        message = f"{what} of an episode depends on an action of level '{level}' in the episode before it ({order})"
        evidence, number = float(strongest.max()) / math.log(10), sum(logs.size for logs in parts.values())
        return [
            make_finding("episodes-interfere", "refused", message, level, log10_evidence=evidence, pairs=self.pairs, bets=number)
        ]


_DATE = re.compile(r"\d{4}-\d{2}-\d{2}([T ][\d:.]+Z?)?")
_NUMBERED = re.compile(r"(\D*)(\d{1,15})")


def id_order(ids: AnyArray) -> AnyArray | None:
    """Return the places `[E]` of episodes in the order of their ids; None if ids tell none, or that in which they stand."""
    keys = _keys(ids)
    if keys is None:
        return None
    order: AnyArray = np.argsort(keys, kind="stable")
    return None if (order[1:] > order[:-1]).all() else order


def _keys(ids: AnyArray) -> AnyArray | None:
    """Return what ids `[E]` are sorted by; an id of several columns by the first, then the next."""
    if ids.dtype.names is not None:
        parts = [_keys(ids[name]) for name in ids.dtype.names]
        if any(part is None for part in parts):
            return None
        ranks = [np.unique(part, return_inverse=True)[1] for part in parts if part is not None]
        order = np.lexsort(ranks[::-1])
        place: AnyArray = np.empty(order.size, dtype=np.int64)
        place[order] = np.arange(order.size)
        return place
    if ids.dtype.kind in "iufMm":
        return ids
    if ids.dtype.kind not in "OUT" or not ids.size or not isinstance(ids[0], str):
        return None
    return _text_keys(ids.tolist())


def _text_keys(ids: list[object]) -> AnyArray | None:
    """Return dates as they are, or the number that follows the same text in all ids; None if they are neither."""
    if _DATE.fullmatch(str(ids[0])):
        return np.array(ids, dtype=str) if all(_DATE.fullmatch(str(value)) for value in ids) else None
    first = _NUMBERED.fullmatch(str(ids[0]))
    if first is None:
        return None
    matches = [_NUMBERED.fullmatch(str(value)) for value in ids]
    numbers = [int(match[2]) for match in matches if match is not None and match[1] == first[1]]
    return np.array(numbers, dtype=np.int64) if len(numbers) == len(ids) else None


class ResultSorting(Sums):
    """Whether the episodes of the log come sorted by their mean reward or by the first action of a level."""

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        columns = [problem.reward.column, *[level.actions.column for level in problem.levels]]
        # By column: may it still be rising, falling; does it change at all; its last value.
        self.state: dict[str, tuple[bool, bool, bool, float]] = dict.fromkeys(columns, (True, True, False, np.nan))

    def add(self, view: BatchView, order: AnyArray | None = None) -> None:
        """Add the episodes of a batch; order: their places, if they are not to be taken as they stand."""
        results: dict[str, AnyArray] = {self.problem.reward.column: view.mean_rewards()}
        for level in self.problem.levels:
            if len(view.batch.levels[level.name]):
                first, some = view.first_decisions(level.name)
                results[level.actions.column] = np.where(some, view.batch.levels[level.name].action[first], np.nan)
        for column, result in results.items():
            values = result if order is None else result[order]
            up, down, changing, last = self.state[column]
            with np.errstate(over="ignore"):
                steps = np.diff(np.concatenate([[last], values]))
            steps = steps[np.isfinite(steps)]
            up, down = up and bool((steps >= 0).all()), down and bool((steps <= 0).all())
            known = values[np.isfinite(values)]
            self.state[column] = up, down, changing or bool((steps != 0).any()), known[-1] if known.size else last

    def merge(self, other: ResultSorting) -> None:
        """Add later episodes: if each part is sorted, their order is not that of time either."""
        for name, (rising, falling, changing, last) in other.state.items():
            up, down, moving, before = self.state[name]
            self.state[name] = up and rising, down and falling, moving or changing, before if np.isnan(last) else last

    def column(self) -> str | None:
        """Return the column by which the episodes are sorted, if there is one."""
        return next((name for name, (up, down, changing, _) in self.state.items() if changing and (up or down)), None)


class IdArrangement(Sums):
    """Whether ids follow from the outcomes of episodes, each batch by itself: sorted, or one range of ids for each action."""

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        self.sorting = ResultSorting(problem)
        # By level: does every action have a range of its own in each batch; is there more than one action.
        self.ranges: dict[str, tuple[bool, bool]] = dict.fromkeys(problem.names, (True, False))

    def add(self, view: BatchView, order: AnyArray) -> None:
        """Add the episodes of a batch, in the order of their ids."""
        own = IdArrangement(self.problem)
        own.sorting.add(view, order)
        for name, table in view.batch.levels.items():
            first, some = view.first_decisions(name)
            taken = table.action[first[order[some[order]]]] if len(table) else table.action
            runs = 1 + int(np.count_nonzero(taken[1:] != taken[:-1]))
            own.ranges[name] = runs <= max(np.unique(taken).size, 1), runs > 1
        self.merge(own)

    def merge(self, other: IdArrangement) -> None:
        """Add other batches."""
        self.sorting.merge(other.sorting)
        for name, (apart, several) in other.ranges.items():
            self.ranges[name] = self.ranges[name][0] and apart, self.ranges[name][1] or several

    def by_result(self) -> bool:
        """Say whether ids follow from outcomes."""
        return self.sorting.column() is not None or any(apart and several for apart, several in self.ranges.values())
