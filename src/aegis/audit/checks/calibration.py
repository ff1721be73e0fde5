"""Calibration: are actions taken as often as their propensities say? Bets for each action and slice of the context.

With the whole distribution, the surprise `1{A = a} - mu_a` has mean zero (theory section 7). With the propensity of the
action taken only, the weight `1{A = a} / mu` has mean one where a is always possible; at most one otherwise, so that only a
mean above one refutes the propensities, unless a lowest probability is declared.

Leans. A context that was measured after the decision, and moves with it, is on the side of the action more often than
propensities say. Both are cut in halves, and the bet is that they fall on the same side, or that they do not. Slices show a
part of that each; here all rows count.

Prior mass. Half of it is for the log as a whole, so that slicing costs small logs little. Every slice's evidence has mean
at most one if propensities are right, and so has their mean under any weights that were fixed beforehand.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

import numpy as np
from scipy.special import logsumexp

from aegis.audit.action_bins import ActionHalves
from aegis.audit.batch_view import BatchView, Mask
from aegis.audit.betting import plus
from aegis.audit.checks.base import Thinning
from aegis.audit.slices import Cut, SliceCells, count_actions, group_cuts, sum_rows
from aegis.evidence import SHORT_STAKES, WEIGHT_STAKES, log_mean_wealth, low_weight_logs, moment_evidence, weight_logs
from aegis.problem import Actions, AnyArray, Array, Level, LevelTable, Rows

ORDERS = np.arange(1, 5)

MOST_DECISIONS = 2**19  # of a level that are all looked at; then some batches only


@dataclass(frozen=True, slots=True)
class SliceEvidence:
    """Evidence against the propensities of one action in one slice: its logarithm, and how often was what.

    found: how often the action was taken; expected: how often the propensities say, nan if only the taken one's is known.
    mean_weight: mean of its weights where it was available; 1 is expected. spread: standard error of that mean.
    """

    level: str
    action: str
    where: str
    log_evidence: float
    decisions: float
    found: float
    expected: float
    mean_weight: float
    spread: float

    @property
    def words(self) -> str:
        """The slice in words."""
        return f"{self.action}{f' where {self.where}' if self.where else ''}"


class LevelCalibration:
    """Sums that the evidence about one level is made of; they add up over batches in any order."""

    def __init__(self, level: Level, cuts: tuple[Cut, ...]) -> None:
        self.level = level
        self.groups = group_cuts(cuts, level.actions.count)
        self._thinning = Thinning(MOST_DECISIONS)
        self._full: list[_FullSums] = []
        self._taken: list[_TakenSums] = []

    def part(self, view: BatchView) -> BatchView | None:
        """Return what to add of a batch, None if nothing; asked once for each batch."""
        return self._thinning.part(view, self.level.name)

    def add(self, table: LevelTable, rows: Rows, fresh: Mask, share: Array | None = None) -> None:
        """Add the decisions of a batch; rows is what they looked at. Decisions without a propensity are left out.

        share `[m]`: of each decision in the bet of its cluster, None if there are no clusters.
        """
        known = np.isfinite(table.mu_taken) & (table.mu_taken > 0)
        if not known.all():
            kept = np.flatnonzero(known)
            table = table.take(kept, table.parent[kept])
            rows, fresh = {name: values[kept] for name, values in rows.items()}, fresh[kept]
            share = None if share is None else share[kept]
        if not len(table):
            return
        if table.mu_full is not None:
            self._full = self._full or [_FullSums(self.level, group) for group in self.groups]
            powers = _powers(table.mu_full)
            for sums in self._full:
                sums.add(table, powers, sums.cells.codes(rows, fresh), share)
        else:
            self._taken = self._taken or [_TakenSums(self.level, group) for group in self.groups]
            logs, short = weight_logs(1.0 / table.mu_taken), self._short(table.mu_taken)
            for taken in self._taken:
                taken.add(table, logs, short, taken.cells.codes(rows, fresh), share)

    def merge(self, other: LevelCalibration) -> None:
        """Add the sums of another, with the same cuts."""
        for full, more in zip(self._full, other._full, strict=False):
            full.merge(more)
        for taken, further in zip(self._taken, other._taken, strict=False):
            taken.merge(further)
        self._full, self._taken = self._full or other._full, self._taken or other._taken

    def slices(self, batches: int | None = None) -> list[SliceEvidence]:
        """Return the evidence of every action in every slice.

        batches: in which a cluster occurs at most, if each cluster is one bet; None if each decision is.
        """
        sums: list[_FullSums | _TakenSums] = [*self._full, *self._taken]
        return [found for part in sums for found in part.slices(batches)]

    def _short(self, mu: Array) -> Array | None:
        least = None if self.level.propensity is None else self.level.propensity.least
        # A propensity below the declared lowest is a finding of its own; the bet needs the bound, so it is not placed then.
        if least is None or least >= 1 or (mu < least * (1 - 1e-9)).any():
            return None
        return low_weight_logs(np.minimum(1.0 / mu, 1.0 / least), 1.0 / least)


class _FullSums:
    """Power sums of surprises `[4, A, C]` and counts `[A, C]`, by action and cell. shared: sums times shares in clusters."""

    def __init__(self, level: Level, cells: SliceCells) -> None:
        actions = level.actions.count
        self.level, self.cells = level, cells
        self.sums = np.zeros((4, actions, cells.count))
        self.shared: Array | None = None
        self.taken = np.zeros((actions, cells.count))
        self.decisions = np.zeros(cells.count)

    def add(self, table: LevelTable, powers: list[Array], code: AnyArray, share: Array | None) -> None:
        actions, count = self.sums.shape[1:]
        self.sums += self._surprises(table, powers, code)
        if share is not None:
            found = self._surprises(table, [power * share[:, None] for power in powers], code, share)
            self.shared = found if self.shared is None else self.shared + found
        self.taken += count_actions(table.action, code, actions, count)
        self.decisions += np.bincount(code, minlength=count)

    def _surprises(self, table: LevelTable, powers: list[Array], code: AnyArray, share: Array | float = 1.0) -> Array:
        """Return power sums `[4, A, C]` of surprises, times the shares that the powers are multiplied by."""
        actions, count = self.sums.shape[1:]
        mu, found = table.mu_taken, np.zeros_like(self.sums)
        for order, power in zip(ORDERS, powers, strict=True):
            everywhere = (-1.0) ** order * sum_rows(power, code, count).T
            found[order - 1] = everywhere + count_actions(
                table.action, code, actions, count, share * ((1.0 - mu) ** order - (-mu) ** order)
            )
        return found

    def merge(self, other: _FullSums) -> None:
        self.sums = self.sums + other.sums
        self.shared = plus(self.shared, other.shared)
        self.taken = self.taken + other.taken
        self.decisions = self.decisions + other.decisions

    def slices(self, batches: int | None) -> list[SliceEvidence]:
        words, cells = _membership(self.cells)
        sums, taken, decisions = self.sums @ cells, self.taken @ cells, self.decisions @ cells
        evidence = moment_evidence(sums if batches is None or self.shared is None else self.shared @ cells / batches)
        found: list[SliceEvidence] = []
        for index, where in enumerate(words):
            for place in range(taken.shape[0]):
                number = float(taken[place, index])
                expected = float(number - sums[0, place, index])
                mean = number / expected if expected > 0 else np.nan
                error = float(np.sqrt(sums[1, place, index]) / expected) if expected > 0 else np.nan
                counts = (float(decisions[index]), number, expected, mean, error)
                log = float(evidence[place, index])
                found.append(SliceEvidence(self.level.name, _named(self.level, place), where, log, *counts))
        return found


class _TakenSums:
    """Sums over the decisions in which an action was taken, and counts of those in which it could have been, `[A, C]`.

    A decision that took another action contributes the same factor to every bet, so that counting it is enough. shared: the
    same, with each decision counted by its share in a cluster.
    """

    def __init__(self, level: Level, cells: SliceCells) -> None:
        actions = level.actions.count
        self.level, self.cells = level, cells
        self.logs = np.zeros((WEIGHT_STAKES.size, actions, cells.count))
        self.short: Array | None = np.zeros((SHORT_STAKES.size, actions, cells.count))
        self.taken = np.zeros((actions, cells.count))
        self.available = np.zeros((actions, cells.count))
        self.weights = np.zeros((2, actions, cells.count))
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
        self.logs = self.logs + other.logs
        self.short = None if self.short is None or other.short is None else self.short + other.short
        self.taken = self.taken + other.taken
        self.available = self.available + other.available
        self.weights = self.weights + other.weights
        if self.shared is not None and other.shared is not None:
            self.shared.merge(other.shared)
        self.shared = self.shared or other.shared

    def slices(self, batches: int | None) -> list[SliceEvidence]:
        words, cells = _membership(self.cells)
        taken, available = self.taken @ cells, self.available @ cells
        evidence = self._evidence(cells) if batches is None or self.shared is None else self.shared._evidence(cells / batches)
        first, second = self.weights @ cells
        found: list[SliceEvidence] = []
        for index, where in enumerate(words):
            for place in range(taken.shape[0]):
                number, total = float(available[place, index]), float(first[place, index])
                mean = total / number if number else np.nan
                spread = np.sqrt(max(float(second[place, index]) - 2 * total + number, 0.0)) / number if number else np.nan
                counts = (number, float(taken[place, index]), np.nan, mean, float(spread))
                log = float(evidence[place, index])
                found.append(SliceEvidence(self.level.name, _named(self.level, place), where, log, *counts))
        return found

    def _evidence(self, cells: Array) -> Array:
        elsewhere = (self.available - self.taken) @ cells
        above = log_mean_wealth(self.logs @ cells + weight_logs(np.zeros(1))[:, :, None] * elsewhere)
        least = None if self.level.propensity is None else self.level.propensity.least
        if self.short is None or least is None:
            return above
        below = log_mean_wealth(self.short @ cells + low_weight_logs(np.zeros(1), 1.0 / least)[:, :, None] * elsewhere)
        return np.asarray(np.logaddexp(above, below) - np.log(2.0))


def _membership(cells: SliceCells) -> tuple[list[str], Array]:
    """Return the slices in words, and which cells `[C, S]` are in each."""
    slices = cells.slices()
    return [words for words, _ in slices], np.stack([members for _, members in slices], axis=1).astype(np.float64)


def _powers(values: Array) -> list[Array]:
    square = values * values
    return [values, square, square * values, square * square]


def _named(level: Level, place: int) -> str:
    return f"{level.actions.column} = {level.actions.values[place]}"


Columns = TypeVar("Columns", Array, Mask)

SIDES = ("in the same half as the context", "in the other half")


class ContextLeans:
    """Evidence about one level: for each context that is a number, whether actions lean to its side."""

    def __init__(self, halves: ActionHalves, cuts: tuple[Cut, ...]) -> None:
        self.halves = halves
        self.cuts = tuple(cut for cut in cuts if not cut.values)
        self.found = [LevelCalibration(_sides(halves.level), ()) for _ in self.cuts]

    def add(self, table: LevelTable, rows: Rows, fresh: Mask, share: Array | None = None) -> None:
        """Add decisions; rows is what they looked at. Those that placed the cuts are left out."""
        kept = np.flatnonzero(fresh)
        halved = self.halves.table(table.take(kept, table.parent[kept]))
        looks = {name: values[kept] for name, values in rows.items()}
        share = None if share is None else share[kept]
        for cut, calibration in zip(self.cuts, self.found, strict=True):
            upper = cut.codes(looks).astype(np.bool_)
            calibration.add(_turned(halved, upper), looks, np.ones(kept.size, dtype=np.bool_), share)

    def merge(self, other: ContextLeans) -> None:
        """Add what was found in other decisions, with the same cuts."""
        for own, more in zip(self.found, other.found, strict=True):
            own.merge(more)

    def slices(self, batches: int | None = None) -> list[SliceEvidence]:
        """Return the evidence about either side of every context. batches: as in `LevelCalibration.slices`."""
        return [
            replace(part, where=f"{cut.name} is cut at {cut.edge:.4g}")
            for cut, calibration in zip(self.cuts, self.found, strict=True)
            for part in calibration.slices(batches)[: len(SIDES)]
        ]


def _sides(level: Level) -> Level:
    actions = level.actions
    return replace(level, actions=Actions(actions.column, (*SIDES, *actions.values[2:]), "labels"), incumbent=None)


def _turned(table: LevelTable, upper: Mask) -> LevelTable:
    """Return decisions among halves as decisions among sides: where the context is in its upper half, halves change places."""
    action = np.where((table.action < 2) & upper, 1 - table.action, table.action).astype(np.int32)
    full = None if table.mu_full is None else _changed(table.mu_full, upper)
    available = None if table.available is None else _changed(table.available, upper)
    return replace(table, action=action, mu_full=full, available=available)


def _changed(values: Columns, upper: Mask) -> Columns:
    found = values.copy()
    found[upper, 0], found[upper, 1] = values[upper, 1], values[upper, 0]
    return found


WHOLE_LOG_MASS = 0.5  # of the mass for slices that hold all rows; everything if there are no others


@dataclass(frozen=True, slots=True)
class SliceShares:
    """Logarithms of the weight that each slice has in the mean: one that holds all rows, and one that holds a part of them."""

    whole: float
    part: float

    @classmethod
    def of(cls, slices: Sequence[SliceEvidence]) -> SliceShares:
        """Return the shares of these slices, which add up to one."""
        wholes = sum(not found.where for found in slices)
        parts = len(slices) - wholes
        mass = 1.0 if not parts else WHOLE_LOG_MASS if wholes else 0.0
        return cls(_log(mass, wholes), _log(1.0 - mass, parts))

    def log(self, found: SliceEvidence) -> float:
        """Return the logarithm of what a slice contributes to the mean."""
        return found.log_evidence + (self.part if found.where else self.whole)

    def mean_log(self, slices: Iterable[SliceEvidence]) -> float:
        """Return the logarithm of the mean, in which slices that are not given count as 0; minus infinity of none."""
        logs = np.array([self.log(found) for found in slices], dtype=np.float64)
        return float(logsumexp(logs)) if logs.size else -math.inf


def _log(mass: float, number: int) -> float:
    return math.log(mass / number) if mass and number else -math.inf
