"""Which units are certified: those that no candidate was learned from, and that were not used to place a grid."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from aegis.certificate.candidate import Candidate
from aegis.certificate.data import DataDigest
from aegis.certificate.frozen import Window
from aegis.certificate.recognising import recognise, recognisers
from aegis.errors import AegisError, RefusedError
from aegis.logs import Source, Split
from aegis.logs.keys import hashes, id_parts
from aegis.logs.split import id_text
from aegis.problem import Batch, Hashes, Problem

PLACING_SHARE = 0.05
LEAST_PLACING = 20  # units, on average
KEY = "grid"
GAP = "gate_gap"  # column of a log of a live gate: what an episode did was not drawn as logged, or the one before is left out


@dataclass(frozen=True, slots=True)
class Opening:
    """The start of the first unit that is still open, and the start of every cluster where clusters are the units."""

    first: Any
    starts: Mapping[Any, Any] | None = None

    def closed(self, batch: Batch) -> npt.NDArray[np.bool_]:
        """Return which episodes belong to units that started before the first open one, `bool[E]`."""
        if self.starts is None or batch.cluster is None:
            found: npt.NDArray[np.bool_] = np.asarray(batch.time) < self.first
            return found
        return np.array([self.starts[key] < self.first for key in batch.cluster.tolist()], dtype=bool)


@dataclass(frozen=True, slots=True)
class Earliest:
    """The first units of a log without times, in its order: they place bets where propensities follow earlier rewards.

    ids: hashes of these units, sorted.
    """

    ids: tuple[int, ...]

    @classmethod
    def of(cls, problem: Problem, batches: Iterable[Batch], count: int) -> Earliest:
        """Return the first so many units, reading no further than they reach."""
        found: dict[int, None] = {}
        for batch in batches:
            found.update(dict.fromkeys(_unit_hashes(batch).tolist()))
            if len(found) >= count:
                break
        return cls(tuple(sorted(list(found)[:count])))

    def on_side(self, side: str, problem: Problem, batch: Batch) -> npt.NDArray[np.bool_]:
        """Return which episodes are on a side, `bool[E]`: 'prior' for the first ones, 'certify' for the others."""
        prior: npt.NDArray[np.bool_] = np.isin(_unit_hashes(batch), np.array(self.ids, dtype=np.uint64))
        return prior if side == "prior" else ~prior

    def describe(self) -> dict[str, Any]:
        """Return plain data."""
        return {"kind": "order of the log", "units": len(self.ids)}


def _unit_hashes(batch: Batch) -> Hashes:
    """Return a hash of the unit of each episode `[E]`: its cluster, else its own id."""
    return hashes([id_text(part) for part in id_parts(batch.episode if batch.cluster is None else batch.cluster)])


@dataclass(frozen=True, slots=True)
class Sides:
    """Splits whose certification sides have to agree, and where units begin to be open, if any are."""

    splits: tuple[Split | Window | Earliest, ...]
    opening: Opening | None = None

    def certified(self, problem: Problem, batch: Batch) -> npt.NDArray[np.bool_]:
        """Return which episodes are certified, `bool[E]`."""
        kept = np.ones(len(batch), dtype=bool)
        for split in self.splits:
            kept &= split.on_side("certify", problem, batch)
        kept &= self.closed(batch)
        _refuse_gaps(problem, batch, kept)
        return kept

    def closed(self, batch: Batch) -> npt.NDArray[np.bool_]:
        """Return which episodes belong to units that started before the first open one, `bool[E]`."""
        return np.ones(len(batch), dtype=bool) if self.opening is None else self.opening.closed(batch)

    def prior(self, problem: Problem, batch: Batch) -> npt.NDArray[np.bool_]:
        """Return which episodes may place grids and fit models, `bool[E]`: those that no certificate will speak of."""
        kept = np.zeros(len(batch), dtype=bool)
        for split in self.splits:
            kept |= split.on_side("prior", problem, batch)
        return kept & self.closed(batch)


def gap_columns(source: Source) -> tuple[str, ...]:
    """Return the column that tells gaps, if the log has one: certified units are read with it."""
    return (GAP,) if GAP in source.names else ()


def _refuse_gaps(problem: Problem, batch: Batch, kept: npt.NDArray[np.bool_]) -> None:
    """Raise RefusedError if a certified episode is a gap: leaving it out would leave out what went wrong."""
    if GAP not in batch.extra:
        return
    owner = batch.episode_of(problem.innermost.name)
    gaps = np.zeros(len(batch), dtype=bool)
    gaps[owner] = np.asarray(batch.extra[GAP]).astype(np.str_) == "True"
    wrong = np.flatnonzero(gaps & kept)
    if wrong.size:
        raise RefusedError(
            f"column '{GAP}': the live gate that wrote this log was told at episode {batch.episode[wrong[0]]} that actions were "
            "not drawn as it logs them, or that not all of them are known. Whether that happens may depend on how an episode "
            "goes, so that nothing can be certified on a log with such episodes, nor without them. What the gate has certified "
            "itself does not use them: certify its challenges (export/challenges)"
        )


def learned_splits(source: Source, candidates: Sequence[Candidate], fresh: bool, data: DataDigest) -> tuple[Split, ...]:
    """Return the splits that candidates were learned with, each once; none if the log is said to be fresh.

    Raises RefusedError for a policy that was fitted on this very log, or on a file of it, without a split; that is said to be
    fresh and is not; or that was split by other ids than those of the problem.
    """
    found: dict[Split, None] = {}
    for candidate in candidates:
        record = candidate.record
        if not record:
            continue
        log = dict(record.get("log", {}))
        same_log, shared = log.get("digest") == data.total, data.learned_parts(log)
        part = "this very log" if same_log else f"{', '.join(shared)}, which is a part of this log"
        if record.get("split") is None:
            if same_log or shared:
                what = "all rows of this log" if same_log else part
                raise RefusedError(
                    f"{candidate.name} was fitted on {what}: a certificate needs units that the policy has not "
                    "seen; learn it on one side of a split (aegis learn), or certify it on other data"
                )
            continue
        if fresh and (same_log or shared):
            raise RefusedError(f"{candidate.name} was learned from {part}: it is not fresh; leave out --fresh")
        check_units(source, candidate, fresh)
        if not fresh:
            found[source.placed(Split.of(record["split"]))] = None
    return tuple(found)


def check_units(source: Source, candidate: Candidate, fresh: bool) -> None:
    """Raise RefusedError if a candidate was split by other columns than those that tell the units of the problem.

    Other ids are on other sides of the same split: units that were learned from would be certified. A log that is said to be
    fresh passes if none of its episodes, read with the columns of the record, was learned from.
    """
    stated = candidate.record.get("units")
    if stated is None:
        return
    problem = source.problem
    timed = dict(candidate.record["split"]).get("kind") == "time"
    pairs = {
        "episode": (tuple(stated["episode"]), problem.episode),
        "cluster": (_columns(stated["cluster"]), problem.cluster),
        **({"time": (stated["time"], problem.time)} if timed else {}),
    }
    differ = [f"{name}: {_shown(was)} (now {_shown(now)})" for name, (was, now) in pairs.items() if was != now]
    if not differ or (fresh and _other_data(source, candidate, stated)):
        return
    raise RefusedError(
        f"{candidate.name} was learned with other units than those of this problem, {'; '.join(differ)}: the sides of its split "
        "are told by these columns, so that units it was learned from would be certified; use the problem it was learned "
        "with, or learn it again"
    )


def _other_data(source: Source, candidate: Candidate, stated: Mapping[str, Any]) -> bool:
    """Say whether a log, read with the unit columns of a record, is shown to hold none of the episodes that were learned from."""
    found, _ = recognisers(source.problem, [candidate])
    if not found:
        return False
    try:
        cluster_most = source.problem.cluster_most if stated["cluster"] is not None else None
        names = {"cluster": _columns(stated["cluster"]), "time": stated["time"], "cluster_most": cluster_most}
        problem = replace(source.problem, episode=tuple(stated["episode"]), **names)
        for batch in Source(source.paths, problem).batches():
            recognise(found, batch, np.ones(len(batch), dtype=bool))
    except AegisError:  # the columns are not there any more: nothing is shown
        return False
    return not found[0].beyond_chance


def _columns(stated: Any) -> str | tuple[str, ...] | None:
    """Return the columns of a cluster as a problem has them; records are plain data, with lists."""
    return tuple(stated) if isinstance(stated, list) else stated


def _shown(columns: str | Sequence[str] | None) -> str:
    return "none" if columns is None else f"'{columns}'" if isinstance(columns, str) else ", ".join(f"'{c}'" for c in columns)


def placing_split(units: int | None) -> Split:
    """Return the split that sets some units apart to place grids where no candidate brings one; units: how many, if known.

    A twentieth of them, or the share that makes LEAST_PLACING on average (a hash decides, so that it may be some more or fewer),
    but at most half.
    """
    least = 0.0 if units is None or units == 0 else min(0.5, LEAST_PLACING / units)
    return Split("hash", KEY, max(PLACING_SHARE, least))


def placing_in_time(source: Source, units: int) -> Split | Earliest:
    """Return what sets the earliest units apart to place grids, where propensities move or follow rewards; units: of the log."""
    share = placing_split(units).fraction
    if source.problem.time is not None:
        return source.placed(Split("time", fraction=share))
    return Earliest.of(source.problem, source.batches(), math.ceil(share * units))


def first_open(source: Source) -> Opening | None:
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
                "time; write numbers, or dates as 2024-03-01T06:00:00"
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
        return Opening(min(starts[key] for key in waiting), starts)
    return None if first is None else Opening(first)
