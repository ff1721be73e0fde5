"""A lower bound along the units: the wealth after every unit, where the bound ended, and when it was first above a number."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt
from scipy.special import logsumexp

from aegis.certificate import ClaimEvidence, next_station
from aegis.errors import ModelError, SettingError
from aegis.evidence import Bound, BoundMethod, BoundPath, UnitSample
from aegis.ope import CandidateView
from aegis.problem import Array


def wealth_path(item: ClaimEvidence, view: CandidateView, mean: float) -> Array:
    """Return the log wealth `[U]` against `mean` after each unit, in the order in which units count.

    view: all certified episodes of the evidence. Dead bets stay dead. The last entry is the log wealth of `item.blend`, up to
    the rounding of its sums.
    """
    return log_wealth_path(item, unit_evidence(item, [] if item.clusters else [item.compute(view)]), mean)


def unit_evidence(item: ClaimEvidence, pieces: Sequence[Sequence[Array]]) -> list[Array]:
    """Return what each part of the evidence makes of the units, `[U]`, `[U, 1]` or `[U, J]`.

    pieces: what `item.compute` gave for one view of episodes after the other; clusters are put together in the item itself.
    """
    if item.clusters:
        return [clusters.units() for clusters in item.clusters]
    return [np.concatenate(parts) for parts in zip(*pieces, strict=True)]


def log_wealth_path(item: ClaimEvidence, evidence: Sequence[Array], mean: float) -> Array:
    """Return the log wealth `[U]` against `mean` after each unit, from what `unit_evidence` found."""
    paths = [
        _part_path(values, part.kind == "values", grid.bets, grid.log_weights, mean + part.offset)
        for values, part, grid in zip(evidence, item.claim.parts, item.grids, strict=True)
    ]
    if not paths:
        return np.zeros(0)
    return np.asarray(logsumexp(np.stack(paths), axis=0) - math.log(len(paths)))


def crossing(path: Array, delta: float) -> int | None:
    """Return after how many units a path of log wealth first reaches 1/delta; None if it never does."""
    above = path >= math.log(1.0 / delta)
    return int(np.argmax(above)) + 1 if above.any() else None


def _part_path(values: Array, lifted: bool, bets: Array, log_weights: Array, mean: float) -> Array:
    """Return the log wealth `[U]` of one part from values `[U]` or `[U, 1]` (lifted), or from factors `[U, J]`."""
    with np.errstate(divide="ignore", invalid="ignore"):
        logs = np.log1p(values.reshape(-1, 1) * bets) if lifted else np.log(values)
    logs = np.where(np.isnan(logs), -np.inf, logs)
    count = np.arange(1, len(logs) + 1)[:, None]
    return np.asarray(logsumexp(np.cumsum(logs, axis=0) - count * np.log1p(bets * mean) + log_weights, axis=1))


Counts = npt.NDArray[np.int64]


class Trace(Protocol):
    """A bound and what came before it."""

    @property
    def last(self) -> Bound:
        """Return the bound from all units."""
        ...

    def above(self, mean: float) -> int | None:
        """Return after how many units the bound was first above `mean`; None if it never was."""
        ...


@dataclass(frozen=True, slots=True)
class LookTrace:
    """A bound that was computed at some numbers of units: counts `[m]`, values `[m]`."""

    last: Bound
    counts: Counts
    values: Array

    def above(self, mean: float) -> int | None:
        """Return the first number of units looked at where the bound was above `mean`."""
        above = self.values > mean
        return int(self.counts[np.argmax(above)]) if above.any() else None


@dataclass(frozen=True, slots=True)
class WealthTrace:
    """A bound by betting: it is above a mean exactly when the wealth against that mean has reached 1/delta, at every unit."""

    last: Bound
    item: ClaimEvidence
    evidence: Sequence[Array]

    def above(self, mean: float) -> int | None:
        """Return the first unit after which the bound was above `mean`."""
        return crossing(log_wealth_path(self.item, self.evidence, mean), self.last.delta)


def trace_bound(method: BoundMethod, sample: UnitSample, counts: Counts) -> LookTrace | None:
    """Return a bound of the table at these numbers of units; None if it is not defined at the last of them."""
    if method.sequence:
        bound = _bound_at(method, sample, int(counts[-1]))
        return LookTrace(bound, np.arange(1, bound.path.size + 1), bound.path) if isinstance(bound, BoundPath) else None
    looks = [(int(count), _bound_at(method, sample, int(count))) for count in counts]
    last = looks[-1][1]
    if last is None:
        return None
    known = [(count, bound.value) for count, bound in looks if bound is not None]
    return LookTrace(last, np.array([count for count, _ in known]), np.array([value for _, value in known], dtype=np.float64))


def _bound_at(method: BoundMethod, sample: UnitSample, count: int) -> Bound | None:
    try:
        return method.at(sample, count)
    except (SettingError, ModelError):  # too few units, or units that do not differ
        return None


def look_counts(units: int, only_end: bool = False) -> Counts:
    """Return the numbers of units that are looked at: 10, 13, 17, ... and all."""
    counts: list[int] = []
    count = 0 if not only_end else units
    while (count := next_station(count)) < units:
        counts.append(count)
    return np.array([*counts, units], dtype=np.int64)
