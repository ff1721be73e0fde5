"""Calibration: are actions taken as often as their propensities say? Bets for each action and slice of the context.

With the whole distribution, the surprise `1{A = a} - mu_a` has mean zero (theory section 8). With the propensity of the
action taken only, the weight `1{A = a} / mu` has mean one where a is always possible; at most one otherwise, so that only a
mean above one refutes the propensities, unless a lowest probability is declared.

Leans. A context that was measured after the decision, and moves with it, is on the side of the action more often than
propensities say. Both are cut in halves, and the bet is that they fall on the same side, or that they do not. Slices show a
part of that each; here all rows count.

Prior mass. Half of it is for the log as a whole, so that slicing costs small logs little. Every slice's evidence has mean
at most one if propensities are right, and so has their mean under any weights that were fixed beforehand.

Shares. Rows that were left out after their outcome was known change the shares of the actions. Betting needs a long log to
be sure; a standard score notices sooner, at the price of a warning in one of twenty logs that are in order. It never
refuses.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy.special import logsumexp

from aegis.audit.batch_view import ActionHalves, BatchView, cluster_hashes
from aegis.audit.betting import ActionRepeats, Choices, set_count, set_members
from aegis.audit.check import AuditSetting, Check, Finding, Known, Sums, Thinning, make_finding, merged, upper_quantile
from aegis.audit.slices import Cut, Mask, SliceCells, count_actions, group_cuts, sum_rows
from aegis.evidence import SHORT_STAKES, WEIGHT_STAKES, log_mean_wealth, low_weight_logs, moment_evidence, weight_logs
from aegis.problem import Actions, AnyArray, Array, Level, LevelTable, Rows

ORDERS = np.arange(1, 5)
MOST_CALIBRATED = 2**19  # of a level that are all read; then some batches only


@dataclass(frozen=True, slots=True)
class SliceEvidence:
    """Evidence against the propensities of one action in one slice: its logarithm, and counts.

    taken: how often the action was taken; expected: how often the propensities say, nan if only the taken one's is known.
    mean_weight: mean of its weights where it was available; 1 is expected. spread: standard error of that mean.
    """

    level: str
    action: str
    where: str
    log_evidence: float
    decisions: float
    taken: float
    expected: float
    mean_weight: float
    spread: float

    @property
    def words(self) -> str:
        """The slice in words."""
        return f"{self.action}{f' where {self.where}' if self.where else ''}"


class LevelCalibration(Sums):
    """Sums that the evidence about one level is made of; they add up over batches in any order."""

    adds = ("_full", "_taken")

    def __init__(self, level: Level, cuts: tuple[Cut, ...]) -> None:
        self.level = level
        self.groups = group_cuts(cuts, level.actions.count)
        self._full: dict[int, _FullSums] = {}
        self._taken: dict[int, _TakenSums] = {}

    def add(self, table: LevelTable, rows: Rows, fresh: Mask, share: Array | None = None) -> None:
        """Add the decisions of a batch; rows is what they looked at. Decisions without a propensity are left out.

        share `[m]`: of each decision in the bet of its cluster, None if there are no clusters.
        """
        known = np.isfinite(table.mu_taken) & (table.mu_taken > 0)
        if not known.all():
            usable = np.flatnonzero(known)
            table = table.take(usable, table.parent[usable])
            rows, fresh = {name: values[usable] for name, values in rows.items()}, fresh[usable]
            share = None if share is None else share[usable]
        if not len(table):
            return
        if table.mu_full is not None:
            self._full = self._full or {place: _FullSums(self.level, group) for place, group in enumerate(self.groups)}
            powers = _powers(table.mu_full)
            for full in self._full.values():
                full.add(table, powers, full.cells.codes(rows, fresh), share)
        else:
            self._taken = self._taken or {place: _TakenSums(self.level, group) for place, group in enumerate(self.groups)}
            logs, short = weight_logs(1.0 / table.mu_taken), self._short(table.mu_taken)
            for taken in self._taken.values():
                taken.add(table, logs, short, taken.cells.codes(rows, fresh), share)

    def slices(self, batches: int | None = None) -> list[SliceEvidence]:
        """Return the evidence of every action in every slice.

        batches: in which a cluster occurs at most, if each cluster is one bet; None if each decision is.
        """
        sums: list[_CellSums] = [*self._full.values(), *self._taken.values()]
        return [part for own in sums for part in own.slices(batches)]

    def _short(self, mu: Array) -> Array | None:
        least = None if self.level.propensity is None else self.level.propensity.least
        # A propensity below the declared lowest is a finding of its own; the bet needs the bound, so it is not placed then.
        if least is None or least >= 1 or (mu < least * (1 - 1e-9)).any():
            return None
        return low_weight_logs(np.minimum(1.0 / mu, 1.0 / least), 1.0 / least)


class _CellSums(Sums, ABC):
    """Sums by action and cell `[A, C]`, and the evidence of every action in every slice of cells."""

    def __init__(self, level: Level, cells: SliceCells) -> None:
        self.level, self.cells = level, cells
        self.taken = np.zeros((level.actions.count, cells.count))

    @abstractmethod
    def figures(self, cells: Array, batches: int | None) -> tuple[Array, ...]:
        """Return the fields of `SliceEvidence` from `log_evidence` on, each `[A, S]`; cells `[C, S]`: those of each slice."""

    def slices(self, batches: int | None) -> list[SliceEvidence]:
        """Return the evidence, slice by slice; batches: as in `LevelCalibration.slices`."""
        slices = self.cells.slices()
        cells = np.stack([members for _, members in slices], axis=1).astype(np.float64)
        figures = np.stack(np.broadcast_arrays(*self.figures(cells, batches)), axis=-1)
        actions = self.level.actions
        names = [f"{actions.column} = {value}" for value in actions.values]
        return [
            SliceEvidence(self.level.name, name, where, *figures[action, place].tolist())
            for place, (where, _) in enumerate(slices)
            for action, name in enumerate(names)
        ]


class _FullSums(_CellSums):
    """Power sums of surprises `[4, A, C]`, and decisions `[C]`. shared: the sums times shares in clusters."""

    adds = ("sums", "shared", "taken", "decisions")

    def __init__(self, level: Level, cells: SliceCells) -> None:
        super().__init__(level, cells)
        self.sums = np.zeros((4, *self.taken.shape))
        self.shared: Array | None = None
        self.decisions = np.zeros(cells.count)

    def add(self, table: LevelTable, powers: list[Array], code: AnyArray, share: Array | None) -> None:
        actions, count = self.taken.shape
        self.sums += self._surprises(table, powers, code)
        if share is not None:
            weighted = [power * share[:, None] for power in powers]
            self.shared = merged(self.shared, self._surprises(table, weighted, code, share))
        self.taken += count_actions(table.action, code, actions, count)
        self.decisions += np.bincount(code, minlength=count)

    def _surprises(self, table: LevelTable, powers: list[Array], code: AnyArray, share: Array | float = 1.0) -> Array:
        """Return power sums `[4, A, C]` of surprises, times the shares that the powers are multiplied by."""
        actions, count = self.taken.shape
        mu, sums = table.mu_taken, np.zeros_like(self.sums)
        for order, power in zip(ORDERS, powers, strict=True):
            everywhere = (-1.0) ** order * sum_rows(power, code, count).T
            at_taken = share * ((1.0 - mu) ** order - (-mu) ** order)
            sums[order - 1] = everywhere + count_actions(table.action, code, actions, count, at_taken)
        return sums

    def figures(self, cells: Array, batches: int | None) -> tuple[Array, ...]:
        sums, taken = self.sums @ cells, self.taken @ cells
        evidence = moment_evidence(sums if batches is None or self.shared is None else self.shared @ cells / batches)
        expected = taken - sums[0]
        positive = np.where(expected > 0, expected, np.nan)
        return evidence, self.decisions @ cells, taken, expected, taken / positive, np.sqrt(sums[1]) / positive


class _TakenSums(_CellSums):
    """Sums over the decisions in which an action was taken, and counts of those in which it could have been, `[A, C]`.

    A decision that took another action contributes the same factor to every bet, so that counting it is enough. shared: the
    same, with each decision counted by its share in a cluster.
    """

    adds = ("logs", "taken", "available", "weights", "shared")

    def __init__(self, level: Level, cells: SliceCells) -> None:
        super().__init__(level, cells)
        self.logs = np.zeros((WEIGHT_STAKES.size, *self.taken.shape))
        self.short: Array | None = np.zeros((SHORT_STAKES.size, *self.taken.shape))
        self.available = np.zeros(self.taken.shape)
        self.weights = np.zeros((2, *self.taken.shape))
        self.shared: _TakenSums | None = None

    def add(self, table: LevelTable, logs: Array, short: Array | None, code: AnyArray, share: Array | None) -> None:
        self._count(table, logs, short, code)
        if share is not None:
            self.shared = self.shared or _TakenSums(self.level, self.cells)
            self.shared._count(table, logs * share, None if short is None else short * share, code, share)

    def _count(self, table: LevelTable, logs: Array, short: Array | None, code: AnyArray, share: Array | None = None) -> None:
        actions, count = self.taken.shape
        for stake, log in enumerate(logs):
            self.logs[stake] += count_actions(table.action, code, actions, count, log)
        if short is None:
            self.short = None
        elif self.short is not None:
            for stake, log in enumerate(short):
                self.short[stake] += count_actions(table.action, code, actions, count, log)
        self.taken += count_actions(table.action, code, actions, count, share)
        if table.available is None:
            self.available += np.bincount(code, weights=share, minlength=count)
        else:
            available = table.available.astype(np.float64)
            self.available += sum_rows(available if share is None else available * share[:, None], code, count).T
        inverse = 1.0 / table.mu_taken
        self.weights[0] += count_actions(table.action, code, actions, count, inverse)
        self.weights[1] += count_actions(table.action, code, actions, count, inverse * inverse)

    def merge(self, other: _TakenSums) -> None:
        super().merge(other)
        self.short = None if self.short is None or other.short is None else self.short + other.short

    def figures(self, cells: Array, batches: int | None) -> tuple[Array, ...]:
        available, (total, squares) = self.available @ cells, self.weights @ cells
        evidence = self._evidence(cells) if batches is None or self.shared is None else self.shared._evidence(cells / batches)
        number = np.where(available > 0, available, np.nan)
        spread = np.sqrt(np.maximum(squares - 2 * total + available, 0.0)) / number
        return evidence, available, self.taken @ cells, np.asarray(np.nan), total / number, spread

    def _evidence(self, cells: Array) -> Array:
        elsewhere = (self.available - self.taken) @ cells
        above = log_mean_wealth(self.logs @ cells + weight_logs(np.zeros(1))[:, :, None] * elsewhere)
        least = None if self.level.propensity is None else self.level.propensity.least
        if self.short is None or least is None:
            return above
        below = log_mean_wealth(self.short @ cells + low_weight_logs(np.zeros(1), 1.0 / least)[:, :, None] * elsewhere)
        return np.asarray(np.logaddexp(above, below) - np.log(2.0))


def _powers(values: Array) -> list[Array]:
    square = values * values
    return [values, square, square * values, square * square]


SIDES = ("in the same half as the context", "in the other half")


class ContextLeans(Sums):
    """Evidence about one level: for each context that is a number, whether actions lean to its side."""

    adds = ("sides",)

    def __init__(self, halves: ActionHalves, cuts: tuple[Cut, ...]) -> None:
        self.halves = halves
        self.sides = {cut: LevelCalibration(_sides(halves.level), ()) for cut in cuts if not cut.values}

    def add(self, table: LevelTable, rows: Rows, fresh: Mask, share: Array | None = None) -> None:
        """Add decisions; rows is what they looked at. Those that placed the cuts are left out."""
        usable = np.flatnonzero(fresh)
        halved = self.halves.table(table.take(usable, table.parent[usable]))
        looks = {name: values[usable] for name, values in rows.items()}
        share = None if share is None else share[usable]
        for cut, calibration in self.sides.items():
            upper = cut.codes(looks).astype(np.bool_)
            calibration.add(_turned(halved, upper), looks, np.ones(usable.size, dtype=np.bool_), share)

    def slices(self, batches: int | None = None) -> list[SliceEvidence]:
        """Return the evidence about either side of every context. batches: as in `LevelCalibration.slices`."""
        return [
            replace(part, where=f"{cut.name} is cut at {cut.edge:.4g}")
            for cut, calibration in self.sides.items()
            for part in calibration.slices(batches)[: len(SIDES)]
        ]


def _sides(level: Level) -> Level:
    actions = level.actions
    return replace(level, actions=Actions(actions.column, (*SIDES, *actions.values[2:]), "labels"), incumbent=None)


def _turned(table: LevelTable, upper: Mask) -> LevelTable:
    """Return decisions among halves as decisions among sides: where the context is in its upper half, halves change places."""
    action = np.where((table.action < 2) & upper, 1 - table.action, table.action).astype(np.int32)
    full = None if table.mu_full is None else table.mu_full.copy()
    available = None if table.available is None else table.available.copy()
    for values in (full, available):
        if values is not None:
            values[upper, :2] = values[upper, 1::-1]
    return replace(table, action=action, mu_full=full, available=available)


WHOLE_LOG_MASS = 0.5  # of the mass for slices that hold all rows; everything if there are no others


class SliceShares:
    """Logarithms of the weight that each slice has in the mean: one that holds all rows, and one that holds a part of them."""

    def __init__(self, slices: Sequence[SliceEvidence]) -> None:
        wholes = sum(not part.where for part in slices)
        parts = len(slices) - wholes
        mass = 1.0 if not parts else WHOLE_LOG_MASS if wholes else 0.0
        self.whole = math.log(mass / wholes) if wholes else -math.inf
        self.part = math.log((1.0 - mass) / parts) if parts else -math.inf

    def log(self, part: SliceEvidence) -> float:
        """Return the logarithm of what a slice contributes to the mean."""
        return part.log_evidence + (self.part if part.where else self.whole)

    def mean_log(self, slices: Iterable[SliceEvidence]) -> float:
        """Return the logarithm of the mean, in which slices that are left out count as 0; minus infinity if there are none."""
        logs = np.array([self.log(part) for part in slices], dtype=np.float64)
        return float(logsumexp(logs)) if logs.size else -math.inf


DEPENDS = math.log(10.0)  # evidence from which draws within clusters count as dependent


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
