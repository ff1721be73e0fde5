"""Which units are certified, and which prior units place bets and fit models.

A unit is certified if no candidate was learned from it and no grid was placed on it. The first blocks of a log (its head) are
read before anything is certified: the prior units among them place the grids, and some certified ones, chosen by hashes of
their ids alone, are kept for the sensitivity analysis.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from aegis.certificate.candidate import Candidate, GateWindow
from aegis.certificate.digests import DataDigest
from aegis.errors import RefusedError
from aegis.logs import Source, Split, hash_ids, id_parts, ids_as_text
from aegis.problem import AnyArray, Batch, Hashes, Problem, concat

PLACING_SHARE = 0.05
LEAST_PLACING = 20  # units, on average
PLACING_KEY = "grid"
HEAD_ROWS = 400_000
MOST_PRIOR_ROWS = 20_000  # innermost rows that grids are placed on; more would only take longer
MOST_SENSITIVITY_ROWS = 65_536  # innermost decisions
# The column of a live gate's log that marks episodes whose actions were not drawn as logged, or that follow one left out.
GAP_COLUMN = "gate_gap"


@dataclass(frozen=True, slots=True)
class OpenUnits:
    """The start of the first unit that is still open, and the start of every cluster where clusters are the units."""

    first: Any
    starts: Mapping[Any, Any] | None = None

    def closed(self, batch: Batch) -> npt.NDArray[np.bool_]:
        """Return which episodes belong to units that started before the first open one, `bool[E]`."""
        if self.starts is None or batch.cluster is None:
            mask: npt.NDArray[np.bool_] = np.asarray(batch.time) < self.first
            return mask
        return np.array([self.starts[key] < self.first for key in batch.cluster.tolist()], dtype=bool)


@dataclass(frozen=True, slots=True)
class EarliestUnits:
    """The first units of a log without times, in its order: they place bets where propensities follow earlier rewards.

    ids: hashes of these units, sorted.
    """

    ids: tuple[int, ...]

    @classmethod
    def of(cls, batches: Iterable[Batch], count: int) -> EarliestUnits:
        """Return the first so many units, reading no further than they reach."""
        hashes: dict[int, None] = {}
        for batch in batches:
            hashes.update(dict.fromkeys(id_hashes(unit_ids(batch)).tolist()))
            if len(hashes) >= count:
                break
        return cls(tuple(sorted(list(hashes)[:count])))

    def on_side(self, side: str, problem: Problem, batch: Batch) -> npt.NDArray[np.bool_]:
        """Return which episodes are on a side, `bool[E]`: 'prior' for the first ones, 'certify' for the others."""
        prior: npt.NDArray[np.bool_] = np.isin(id_hashes(unit_ids(batch)), np.array(self.ids, dtype=np.uint64))
        return prior if side == "prior" else ~prior

    def describe(self) -> dict[str, Any]:
        """Return plain data."""
        return {"kind": "order of the log", "units": len(self.ids)}


def unit_ids(batch: Batch) -> AnyArray:
    """Return the id of the unit of each episode `[E]`: its cluster, else its own."""
    return batch.episode if batch.cluster is None else batch.cluster


@dataclass(frozen=True, slots=True)
class UnitSplit:
    """Splits whose certification sides have to agree, and where units begin to be open, if any are."""

    splits: tuple[Split | GateWindow | EarliestUnits, ...]
    opening: OpenUnits | None = None

    def certified(self, problem: Problem, batch: Batch) -> npt.NDArray[np.bool_]:
        """Return which episodes are certified, `bool[E]`."""
        mask = np.ones(len(batch), dtype=bool)
        for split in self.splits:
            mask &= split.on_side("certify", problem, batch)
        mask &= self.closed(batch)
        _refuse_gaps(problem, batch, mask)
        return mask

    def closed(self, batch: Batch) -> npt.NDArray[np.bool_]:
        """Return which episodes belong to units that started before the first open one, `bool[E]`."""
        return np.ones(len(batch), dtype=bool) if self.opening is None else self.opening.closed(batch)

    def prior(self, problem: Problem, batch: Batch) -> npt.NDArray[np.bool_]:
        """Return which episodes may place grids and fit models, `bool[E]`: those that no certificate will speak of."""
        mask = np.zeros(len(batch), dtype=bool)
        for split in self.splits:
            mask |= split.on_side("prior", problem, batch)
        return mask & self.closed(batch)


def gap_columns(source: Source) -> tuple[str, ...]:
    """Return the column that tells gaps, if the log has one: certified units are read with it."""
    return (GAP_COLUMN,) if GAP_COLUMN in source.names else ()


def _refuse_gaps(problem: Problem, batch: Batch, certified: npt.NDArray[np.bool_]) -> None:
    """Raise RefusedError if a certified episode is a gap: leaving it out would leave out what went wrong."""
    if GAP_COLUMN not in batch.extra:
        return
    owner = batch.episode_of(problem.innermost.name)
    gaps = np.zeros(len(batch), dtype=bool)
    gaps[owner] = np.asarray(batch.extra[GAP_COLUMN]).astype(np.str_) == "True"
    wrong = np.flatnonzero(gaps & certified)
    if wrong.size:
        raise RefusedError(
            f"column '{GAP_COLUMN}': the live gate that wrote this log notes at episode {batch.episode[wrong[0]]} that actions "
            "were not drawn as it logs them, or that not all of them are known. Whether that happens may depend on how an "
            "episode goes, so that nothing can be certified on a log with such episodes, nor without them. What the gate has "
            "certified itself does not use them: certify its challenges (export/challenges)"
        )


def learned_splits(source: Source, candidates: Sequence[Candidate], fresh: bool, data: DataDigest) -> tuple[Split, ...]:
    """Return the splits that candidates were learned with, each once; none if the log is declared fresh.

    One that learned nothing (a share of 0) has seen no unit, also if the log is declared fresh.
    Raises RefusedError for a policy that was fitted on this very log, or on a file of it, without a split; that is declared
    fresh and is not; or that was split by other ids than those of the problem.
    """
    splits: dict[Split, None] = {}
    for candidate in candidates:
        record = candidate.record
        if not record:
            continue
        split = None if record.get("split") is None else Split.of(record["split"])
        if split is not None and candidate.unlearned:
            splits[split] = None
            continue
        log = dict(record.get("log", {}))
        same_log, shared = log.get("digest") == data.total, data.learned_parts(log)
        if (same_log or shared) and (split is None or fresh):
            part = f"{', '.join(shared)}, which is a part of this log"
            if split is not None:
                part = "this very log" if same_log else part
                raise RefusedError(f"{candidate.name} was learned from {part}: it is not fresh", fix="leave out --fresh")
            raise RefusedError(
                f"{candidate.name} was fitted on {'all rows of this log' if same_log else part}: a certificate needs units that "
                "the policy has not seen",
                fix="learn it on one side of a split (aegis learn), or certify it on other data",
            )
        if split is not None:
            check_unit_columns(source.problem, candidate)
            if not fresh:
                splits[source.with_cut(split)] = None
    return tuple(splits)


def check_unit_columns(problem: Problem, candidate: Candidate) -> None:
    """Raise RefusedError if a candidate was split by other columns than those that tell the units of the problem.

    Other ids are on other sides of the same split: units that were learned from would be certified. Episodes that are put
    together otherwise have other hashes, so that nothing shows that a log is fresh.
    """
    stated = candidate.record.get("units")
    if stated is None:
        return
    names = ("episode", "cluster", "time") if dict(candidate.record["split"]).get("kind") == "time" else ("episode", "cluster")
    pairs = {name: (_columns(stated[name]), _columns(getattr(problem, name))) for name in names}
    differ = [f"{name}: {was or 'none'} (now {now or 'none'})" for name, (was, now) in pairs.items() if was != now]
    if differ:
        raise RefusedError(
            f"{candidate.name} was learned with other units than those of this problem, {'; '.join(differ)}: the sides of its "
            "split follow from these columns, so that units it was learned from would be certified",
            fix="use the problem it was learned with, or learn it again",
        )


def _columns(stated: str | Sequence[str] | None) -> str:
    """Return a column or several, quoted; empty if there are none."""
    columns = () if stated is None else (stated,) if isinstance(stated, str) else stated
    return ", ".join(f"'{column}'" for column in columns)


def placing_split(units: int | None) -> Split:
    """Return the split that sets some units apart to place grids where no candidate brings one; units: how many, if known.

    A twentieth of them, or the share that makes LEAST_PLACING on average (a hash decides, so that it may be some more or fewer),
    but at most half.
    """
    least = 0.0 if units is None or units == 0 else min(0.5, LEAST_PLACING / units)
    return Split("hash", PLACING_KEY, max(PLACING_SHARE, least))


def placing_in_time(source: Source, units: int) -> Split | EarliestUnits:
    """Return what sets the earliest units apart to place grids, where propensities move or follow rewards; units: of the log."""
    share = placing_split(units).fraction
    if source.problem.time is not None:
        return source.with_cut(Split("time", fraction=share))
    return EarliestUnits.of(source.batches(), math.ceil(share * units))


def first_open_unit(source: Source) -> OpenUnits | None:
    """Return where units begin to be open because a reward is still awaited; None if all are closed or no column tells.

    Units count in the order of their start: what started after an open unit has to wait for it, or quick failures and slow
    successes would enter at different times.
    """
    problem = source.problem
    if problem.reward.closed is None:
        return None
    if problem.time is None:
        raise RefusedError(
            f"'{problem.reward.closed}' marks rewards that are still awaited: units then count in the order of their start, so "
            "name the column that tells it under 'time' in the problem file"
        )
    starts: dict[Any, Any] = {}
    waiting: set[Any] = set()
    first: Any = None
    for batch in source.batches():
        if batch.time is None or batch.closed is None:
            continue
        if batch.time.dtype.kind not in "iufM":
            raise RefusedError(
                f"column '{problem.time}': units count in the order of their start, but this is text, whose order is not that of "
                "time",
                fix="write numbers, or dates as 2024-03-01T06:00:00",
            )
        still = np.unique(batch.episode_of(problem.innermost.name)[~batch.closed])
        if batch.cluster is None:
            start = None if not still.size else batch.time[still].min()
            first = start if first is None else first if start is None else min(first, start)
            continue
        for key, time in zip(batch.cluster.tolist(), batch.time, strict=True):
            starts[key] = time if key not in starts else min(starts[key], time)
        waiting |= set(batch.cluster[still].tolist())
    if waiting:
        return OpenUnits(min(starts[key] for key in waiting), starts)
    return None if first is None else OpenUnits(first)


def read_head(batches: Iterator[Batch]) -> tuple[list[Batch], Iterator[Batch], bool]:
    """Return the first batches, the others, and whether the first are all."""
    head: list[Batch] = []
    rows = 0
    for batch in batches:
        head.append(batch)
        rows += len(batch.levels[list(batch.levels)[-1]])
        if rows >= HEAD_ROWS:
            return head, batches, False
    return head, iter(()), True


def add_placing_split(sides: UnitSplit, head: Sequence[Batch], whole: bool) -> UnitSplit:
    """Return the sides with a split that sets units apart to place grids, if no candidate brings one."""
    if sides.splits:
        return sides
    units = len(np.unique(np.concatenate([unit_ids(batch) for batch in head]))) if whole else None
    return UnitSplit((placing_split(units),), sides.opening)


def prior_units(problem: Problem, sides: UnitSplit, head: Sequence[Batch]) -> Batch | None:
    """Return the prior units of the head, but not too many, in an order that depends on their ids alone; None if none are."""
    masks = [sides.prior(problem, batch) for batch in head]
    parts = [batch.take_episodes(mask) for batch, mask in zip(head, masks, strict=True) if mask.any()]
    if not parts:
        return None
    whole = concat(parts)
    order = np.lexsort((id_hashes(whole.episode), id_hashes(unit_ids(whole))))
    rows = np.bincount(whole.episode_of(problem.innermost.name), minlength=len(whole))[order]
    few = 1 + int(np.searchsorted(np.cumsum(rows), MOST_PRIOR_ROWS))
    return whole.take_episodes(order[:few])


def id_hashes(ids: AnyArray) -> Hashes:
    """Return a hash `[E]` of each id, of one column or several."""
    return hash_ids([ids_as_text(part) for part in id_parts(ids)])


def foresee_units(problem: Problem, sides: UnitSplit, head: Sequence[Batch]) -> int:
    """Return how many units of the head will be certified, which is about how many there are of a log that is not long."""
    ids = [unit_ids(batch)[sides.certified(problem, batch)] for batch in head]
    return sum(map(len, ids)) if problem.cluster is None else len(np.unique(np.concatenate(ids)))


@dataclass(frozen=True, slots=True)
class SensitivityUnits:
    """Units held back from the head of a log, and what placed the grids.

    units: certified ones; None if there are none. whole: they are whole units, which clusters are not if they may go on
    behind the head. prior, foreseen: as for all other claims.
    """

    units: Batch | None
    whole: bool
    prior: Batch | None
    foreseen: int


def choose_sensitivity_units(problem: Problem, sides: UnitSplit, head: Sequence[Batch], most: int) -> Batch | None:
    """Return certified units of the head in the order of hashes of their ids until `most` innermost rows are reached.

    All of them if there are fewer rows. The unit that reaches `most` is the last, and every unit is taken with all its rows.
    """
    parts = []
    for batch in head:
        mask = sides.certified(problem, batch)
        if mask.any():
            rows = np.bincount(batch.episode_of(problem.innermost.name), minlength=len(batch))
            parts.append((batch, mask, id_hashes(unit_ids(batch)), rows))
    if not parts:
        return None
    keys = np.concatenate([hashes[mask] for _, mask, hashes, _ in parts])
    order = np.argsort(keys, kind="stable")
    total = np.cumsum(np.concatenate([rows[mask] for _, mask, _, rows in parts])[order])
    last = keys[order[min(int(np.searchsorted(total, most)), keys.size - 1)]]
    chosen = [(batch, mask & (hashes <= last)) for batch, mask, hashes, _ in parts]
    return concat([batch.take_episodes(mask) for batch, mask in chosen if mask.any()])
