"""The split of a log into a training split and a certification split, whole units at a time.

A unit is an episode, or the cluster of dependent episodes where the problem names one. Ids are taken by their text: the
number 7 and the text "7" are one id, because the same log written as CSV and as Parquet must be split alike; "007" is
another one. Dates count to the microsecond, in files of any resolution. An id of several columns is hashed column by
column.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from aegis.errors import LogError, SettingError, check_choice
from aegis.logs.column_values import TEXT_TYPE, decode_column
from aegis.logs.columns import Role, column_key
from aegis.logs.ids import hash_ids, id_parts, ids_as_text
from aegis.problem import AnyArray, Batch, Hashes, Problem

Side = Literal["prior", "certify"]
SIDES: tuple[Side, ...] = ("prior", "certify")  # learned from, certified on
SPLIT_KINDS = ("hash", "time")
TimeCut = int | float | str
_NO_TIME = "a split in time needs to know when episodes started: name the column under 'time' in the problem file"


@dataclass(frozen=True, slots=True)
class Split:
    """Assign units to the training split (side 'prior') or the certification split (side 'certify').

    Parameters
    ----------
    kind
        'hash': the share `fraction` of all ids whose keyed hash is smallest. It depends only on key and id, not on row order,
        blocks, machines or rows added later; valid if episodes are independent and the logger does not learn. 'time': the units
        earlier than `cut`, about `fraction` of all; for a logger that learns.
    key
        The key of the hash.
    fraction
        The share to learn from, above 0 and below 1.
    cut
        The time at which a split by time cuts: a number, or a date and time in UTC. `Source.with_cut` finds it once.

    Raises
    ------
    SettingError
        If a value is not allowed.
    """

    kind: str = "hash"
    key: str = "aegis"
    fraction: float = 0.5
    cut: TimeCut | None = None

    def __post_init__(self) -> None:
        check_choice(self.kind, SPLIT_KINDS, "kind of split")
        share = self.fraction
        if isinstance(share, bool) or not isinstance(share, int | float) or not 0 < share < 1:
            raise SettingError(
                f"the fraction of a split is the share to learn from, above 0 and below 1, found {share!r}; 0.5 is usual"
            )
        if not isinstance(self.key, str):
            raise SettingError(f"the key of a split is a text, found {self.key!r}")
        if self.cut is not None:
            if self.kind != "time":
                raise SettingError(f"a split by {self.kind} has no cut, found {self.cut!r}; use kind 'time'")
            _comparable(self.cut)

    def prior(self, problem: Problem, batch: Batch) -> npt.NDArray[np.bool_]:
        """Return which episodes of a batch are on the prior side, `bool[E]`.

        Raises LogError if a split by time meets a log without times, SettingError if its cut has not been found yet.
        """
        if self.kind == "time":
            if problem.time is None or batch.time is None:
                raise LogError(_NO_TIME)
            return is_before_cut(check_times(batch.time, problem.time), self.cut)
        ids = batch.episode if problem.cluster is None else batch.cluster
        if ids is None:
            raise LogError(
                f"the problem has the cluster '{problem.cluster_name}', the batch has none; a split keeps clusters whole"
            )
        hashes = hash_ids([pa.array([self.key], TEXT_TYPE), *[ids_as_text(part) for part in id_parts(ids)]])
        return hashes < np.uint64(int(self.fraction * 2**64))

    def on_side(self, side: str, problem: Problem, batch: Batch) -> npt.NDArray[np.bool_]:
        """Return which episodes of a batch are on a side, `bool[E]`."""
        check_choice(side, SIDES, "side of a split")
        prior = self.prior(problem, batch)
        return prior if side == "prior" else ~prior

    def describe(self) -> dict[str, Any]:
        """Return plain data, for the record of a policy."""
        return {"kind": self.kind, "key": self.key, "fraction": self.fraction, "cut": self.cut}

    @classmethod
    def of(cls, description: Mapping[str, Any]) -> Split:
        """Return the split that `describe` described; raises SettingError for anything else."""
        allowed = ("kind", "key", "fraction", "cut")
        unknown = sorted(set(description) - set(allowed))
        if unknown:
            raise SettingError(f"a split has {', '.join(allowed)}; found also {', '.join(unknown)}")
        return cls(**description)


def choose_cut(times: AnyArray, fraction: float) -> TimeCut:
    """Return the time before which the share `fraction` of the units lies, at most; units of one time stay together.

    times: one for each unit, in any order. Raises LogError if that leaves a side empty.
    """
    ordered = np.sort(times)
    place = math.floor(fraction * ordered.size)
    cut = ordered[min(place, ordered.size - 1)]
    if ordered.size < 2 or not ordered[0] < cut:
        raise LogError(
            f"a split in time leaves nothing to learn from: a share of {fraction:g} of {ordered.size} episodes was asked for, "
            f"{int((ordered == ordered[0]).sum())} have the earliest time, {ordered[0]}; take a larger share, or split by hash"
        )
    # Plain data that compares the same when read back.
    return str(cut) if isinstance(cut, np.datetime64) else int(cut) if isinstance(cut, np.integer) else float(cut)


def is_before_cut(times: AnyArray, cut: TimeCut | None) -> npt.NDArray[np.bool_]:
    """Return which times lie before the cut, `bool[n]`."""
    if cut is None:
        raise SettingError("the cut of this split in time has not been found yet; find it once with Source.with_cut(split)")
    limit = _comparable(cut)
    if isinstance(limit, np.datetime64) != (times.dtype.kind == "M"):
        raise LogError(
            f"the split in time has the cut {cut!r}, the log has times of type {times.dtype}; use the log it was made for"
        )
    return np.asarray(times < limit)


def check_times(times: AnyArray, column: str) -> AnyArray:
    """Return times that can be ordered: numbers or dates; raises LogError for text, whose order is not that of time."""
    if times.dtype.kind not in "iufM":
        raise LogError(
            f"column '{column}': a split in time needs numbers or dates, found text; write dates as 2024-03-01T06:00:00"
        )
    return times


def _comparable(cut: TimeCut) -> Any:
    """Return a cut that can be compared with times."""
    try:
        if isinstance(cut, str):
            return np.datetime64(cut)
        if not isinstance(cut, bool) and isinstance(cut, int | float) and math.isfinite(cut):
            return cut
    except ValueError:
        pass
    raise SettingError(f"the cut of a split in time is a number or a date and time, found {cut!r}")


def find_cut(tables: Iterable[pa.Table], problem: Problem, fraction: float) -> TimeCut:
    """Return the time before which the share `fraction` of the episodes starts, from converted tables of ids and times.

    An episode starts at the earliest time in its rows. Rows may come in any order and in any blocks: a hash and a time are kept
    for each episode of a block, and sorted at the end.
    Raises LogError if the problem names no time, if a side would be empty, or if a cluster has episodes on both sides: what
    its later episodes taught would be known on the prior side, and what its earlier ones taught on the other.
    """
    if problem.time is None:
        raise LogError(_NO_TIME)
    times: list[AnyArray] = []
    clusters: list[Hashes] = []
    parts: list[Hashes] = []
    for table in tables:
        ids = _unit_hashes(table, "episode", problem.episode)
        when = decode_column(table[column_key("time", problem.time)]).to_numpy(zero_copy_only=False)
        first = _earliest_rows(ids, check_times(when, problem.time))
        parts.append(ids[first])
        times.append(when[first])
        if problem.cluster is not None:
            clusters.append(_unit_hashes(table, "cluster", problem.cluster_columns)[first])
    first = _earliest_rows(np.concatenate(parts), np.concatenate(times))
    starts = np.concatenate(times)[first]
    cut = choose_cut(starts, fraction)
    if problem.cluster is not None:
        _refuse_straddling(np.concatenate(clusters)[first], is_before_cut(starts, cut), problem.cluster_columns, cut)
    return cut


def _earliest_rows(ids: Hashes, times: AnyArray) -> AnyArray:
    """Return for each id the row with the earliest time."""
    order = np.lexsort((times, ids))
    ordered = ids[order]
    return order[np.concatenate([[True], ordered[1:] != ordered[:-1]])]


def _unit_hashes(table: pa.Table, role: Role, names: Iterable[str]) -> Hashes:
    return hash_ids([decode_column(table[column_key(role, name)]) for name in names])


def _refuse_straddling(clusters: Hashes, before: AnyArray, columns: Sequence[str], cut: TimeCut) -> None:
    both = np.intersect1d(clusters[before], clusters[~before])
    if both.size:
        named = ", ".join(f"'{column}'" for column in columns)
        raise LogError(
            f"{both.size} of the {np.unique(clusters).size} clusters (column{'s' * (len(columns) > 1)} {named}) have "
            f"episodes before and after the cut, {cut}; a split in time needs clusters that lie on one side of it: "
            "take another share, or split by hash, which keeps clusters whole"
        )
