"""A log on disk, in a store or in memory, read as batches of whole episodes, and its split into two sides.

A unit of the split is an episode, or the cluster of dependent episodes where the problem names one. Ids are taken by their
text: the number 7 and the text "7" are one id, because the same log written as CSV and as Parquet must be split alike; "007"
is another one. Dates count to the microsecond. The record of what a policy learned from a log names split, side and units, and
holds fingerprints. A certificate uses the other side, and refuses units that it recognises under any name.
"""

from __future__ import annotations

import math
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from aegis.errors import LogError, SettingError, check_choice
from aegis.logs.chunks import LogChunks
from aegis.logs.column_values import TEXT_TYPE, decode_column
from aegis.logs.columns import Role, check_columns_present, column_key, required_columns
from aegis.logs.episodes import group_episodes
from aegis.logs.formats.base import FileRange, bundle_ranges
from aegis.logs.ids import hash_ids, id_parts, ids_as_text
from aegis.logs.log_files import LogInput, LogPart, normalise_inputs, part_digests, resolve_parts, total_digest, with_row_numbers
from aegis.logs.reader import LogSurvey, ReadPlan, gather_episodes, join_tables, prefetch, survey_log, whole_episodes
from aegis.problem import AnyArray, Batch, EpisodeFingerprints, Hashes, Problem, content_digest, episode_hashes

CHUNK_BLOCK_ROWS = 131072  # of a block of a chunk: several processes have blocks in memory
BLOCK_ROWS = 163840  # of a block: much larger ones take more memory, smaller ones more time for each row


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
        The share to learn from, below 1. 0 learns nothing, and leaves all units to certify on.
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
        if not isinstance(self.fraction, int | float) or not 0 <= self.fraction < 1:
            raise SettingError(
                f"the fraction of a split is the share to learn from, from 0 and below 1, found {self.fraction!r}; 0.5 is usual"
            )
        if self.kind == "time" and not self.fraction:
            raise SettingError("a split that learns from nothing needs no cut in time, found a fraction of 0; use kind 'hash'")
        if self.cut is not None:
            if self.kind != "time":
                raise SettingError(f"a split by {self.kind} has no cut, found {self.cut!r}; use kind 'time'")
            _comparable(self.cut)

    @property
    def unlearned(self) -> bool:
        """Whether nothing is learned from: every unit is on the certification side (the paper's alpha = 0)."""
        return not self.fraction

    def prior(self, problem: Problem, batch: Batch) -> npt.NDArray[np.bool_]:
        """Return which episodes of a batch are on the prior side, `bool[E]`.

        Raises LogError if a split by time meets a log without times, SettingError if its cut has not been found yet.
        """
        if self.kind == "time":
            if problem.time is None or batch.time is None:
                raise LogError(_NO_TIME)
            return _is_before_cut(_check_times(batch.time, problem.time), self.cut)
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
        return asdict(self)

    @classmethod
    def of(cls, description: Mapping[str, Any]) -> Split:
        """Return the split that `describe` described; raises SettingError for anything else."""
        try:
            return cls(**description)
        except TypeError:
            raise SettingError(f"a split has kind, key, fraction and cut; found {', '.join(sorted(description))}") from None


def _choose_cut(times: AnyArray, fraction: float) -> TimeCut:
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


def _is_before_cut(times: AnyArray, cut: TimeCut | None) -> npt.NDArray[np.bool_]:
    """Return which times lie before the cut, `bool[n]`."""
    if cut is None:
        raise SettingError("the cut of this split in time has not been found yet; find it once with Source.with_cut(split)")
    limit = _comparable(cut)
    if isinstance(limit, np.datetime64) != (times.dtype.kind == "M"):
        raise LogError(
            f"the split in time has the cut {cut!r}, the log has times of type {times.dtype}; use the log it was made for"
        )
    return np.asarray(times < limit)


def _check_times(times: AnyArray, column: str) -> AnyArray:
    """Return times that can be ordered; raises LogError for text, whose order is not that of time."""
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


def _find_cut(tables: Iterable[pa.Table], problem: Problem, fraction: float) -> TimeCut:
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
        first = _earliest_rows(ids, _check_times(when, problem.time))
        parts.append(ids[first])
        times.append(when[first])
        if problem.cluster is not None:
            clusters.append(_unit_hashes(table, "cluster", problem.cluster_columns)[first])
    first = _earliest_rows(np.concatenate(parts), np.concatenate(times))
    starts = np.concatenate(times)[first]
    cut = _choose_cut(starts, fraction)
    if problem.cluster is not None:
        _refuse_straddling(np.concatenate(clusters)[first], _is_before_cut(starts, cut), problem.cluster_columns, cut)
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


@dataclass(frozen=True, slots=True)
class Source:
    """One log of a problem, read as batches of whole episodes.

    A log is a table with a row for each innermost decision, outer columns repeated, in any row order. Several parts are read one
    after the other, and an episode may go on from one to the next. A value that does not fit raises LogError with file, row
    (counted from 1, without header and blank lines) and column, for the first of each kind among the rows that are read
    together; nothing is skipped or clipped.

    Parameters
    ----------
    paths
        Files, folders of files, patterns such as `logs/*.csv`, or tables in memory; one or several. Parquet (.parquet, .pq), or
        text with a header (.csv, .tsv, .txt, also with .gz) whose encoding, separator and decimal marks are recognised. Folders
        are read with all folders in them, sorted by path; a folder called `day=7` adds a column. Addresses such as
        `s3://bucket/logs/` lead to object stores. Tables are those of Arrow, pandas, polars and all libraries that hand over
        Arrow streams; messages call the third input `frame 3`.
    problem
        The problem that names the columns.

    Raises
    ------
    LogError
        If an input is no log.
    """

    paths: LogInput | Sequence[LogInput]
    problem: Problem
    _surveys: dict[object, LogSurvey] = field(default_factory=dict, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "paths", normalise_inputs(self.paths))

    @property
    def files(self) -> tuple[LogPart, ...]:
        """Return the parts of the log, folders and patterns resolved; raises LogError if there are none."""
        return resolve_parts(self.paths)

    @property
    def names(self) -> frozenset[str]:
        """Return the columns that every part of the log has."""
        names = [frozenset(part.open().names) for part in self.files]
        return frozenset.intersection(*names)

    @property
    def dialects(self) -> dict[str, str]:
        """Return in words how each text file is read, by its path: what separates fields, encoding, decimal commas."""
        return {file.name: file.dialect for part in self.files if (file := part.open()).dialect}

    def batches(
        self, columns: Sequence[str] = (), rows: int = BLOCK_ROWS, side: str | None = None, split: Split | None = None
    ) -> Generator[Batch, None, None]:
        """Yield batches of whole episodes.

        If the rows of each episode follow each other, episodes come in the order of the log and only some `rows` rows are in
        memory. Otherwise rows are first gathered in temporary files, and episodes come in an order that depends on their ids
        alone (and, within a file, on their first rows): sort by time where order matters.

        Parameters
        ----------
        columns
            Further columns, which go to Batch.extra: missing numbers as nan, missing text as None. The base actions of levels
            whose propensity is declared by them go there as well.
        rows
            A batch has at most so many rows and one episode together.
        side, split
            Only the episodes on this side ('prior' or 'certify') of the split; all rows are checked.

        Raises
        ------
        LogError
            In part before the first batch, and at the end if no episode is on the side.
        """
        if rows < 1:
            raise SettingError(f"'rows' is a whole number from 1, found {rows}")
        _check_side(side, split)
        plan = self._plan(columns)
        stream = self._stream(plan, rows)
        # What fits into one batch is not worth a thread.
        batches = stream if plan.survey.rows <= rows else prefetch(stream)
        return batches if side is None or split is None else self._one_side(batches, side, self.with_cut(split))

    @property
    def long(self) -> bool:
        """Say whether the log will be read in chunks, as far as its files tell without being read."""
        ranges = [(FileRange(0, rows), rows.rows or 0) for part in self.files for rows in part.open().row_ranges()]
        return len(bundle_ranges(ranges, sum(rows for _, rows in ranges))) > 1

    @property
    def uncut(self) -> bool:
        """Say whether the log, now that it was read, turned out to be a single chunk: one process reads it."""
        survey = next(reversed(self._surveys.values()), None)
        return survey is not None and (not survey.contiguous or len(bundle_ranges(survey.ranges, survey.rows)) < 2)

    def chunks(self, columns: Sequence[str] = ()) -> LogChunks | None:
        """Return the log in chunks that can be read by themselves; None if it is short, or the rows of an episode are scattered.

        Chunks of one log are always the same.
        """
        plan = self._plan(columns)
        ranges = tuple(bundle_ranges(plan.survey.ranges, plan.survey.rows))
        if len(ranges) < 2 or not plan.survey.contiguous:
            return None
        return LogChunks(plan=plan, problem=self.problem, ranges=ranges, rows=CHUNK_BLOCK_ROWS, parts=self.files)

    def read(self, columns: Sequence[str] = (), side: str | None = None, split: Split | None = None) -> Batch:
        """Return the whole log, or one side of it, as one batch, episodes in the order in which they first appear."""
        _check_side(side, split)
        plan = self._plan(columns)
        whole = group_episodes(join_tables(list(plan.tables(BLOCK_ROWS))), plan.columns, self.problem, plan.names)
        return whole if side is None or split is None else next(self._one_side(iter([whole]), side, self.with_cut(split)))

    def with_cut(self, split: Split) -> Split:
        """Return the split with its cut in time found, if it needs one: one pass over ids and times, 16 bytes for each episode.

        Raises LogError if the problem names no time, or if a cluster has episodes on both sides of the cut.
        """
        if split.kind != "time" or split.cut is not None:
            return split
        tables = self._plan(()).only("episode", "cluster", "time").tables(BLOCK_ROWS)
        return replace(split, cut=_find_cut(tables, self.problem, split.fraction))

    def _one_side(self, batches: Iterator[Batch], side: str, split: Split) -> Generator[Batch, None, None]:
        episodes = chosen = 0
        for batch in batches:
            mask = split.on_side(side, self.problem, batch)
            episodes, chosen = episodes + len(batch), chosen + int(mask.sum())
            if mask.all():
                yield batch
            elif mask.any():
                yield batch.take_episodes(mask)
        if not chosen:
            raise LogError(
                f"{', '.join(map(str, self.files))}: no episode of {episodes} is on the {side} side of the split "
                f"(share to learn from: {split.fraction:g}); give more episodes, or another share"
            )

    def _stream(self, plan: ReadPlan, rows: int) -> Generator[Batch, None, None]:
        keys = [column_key("episode", name) for name in self.problem.episode]
        tables = plan.tables(rows)
        adjoining = nullcontext(tables) if plan.survey.contiguous else gather_episodes(tables, keys, plan.survey.rows, rows)
        with adjoining as ordered:
            for table in whole_episodes(ordered, keys):
                yield group_episodes(table, plan.columns, self.problem, plan.names)

    def _plan(self, extra: Sequence[str]) -> ReadPlan:
        parts = self.files
        columns = required_columns(self.problem, extra)
        opened = with_row_numbers([part.open() for part in parts], self.problem.episode)
        for file in opened:
            check_columns_present(columns, file.names, file.name, file.dialect)
        # A second pass over the same files need not look again; a file that was written in between is another file.
        key = (columns, *[part.stamp() for part in parts])
        if key not in self._surveys:
            self._surveys[key] = survey_log(opened, columns, BLOCK_ROWS)
        return ReadPlan(opened, columns, self._surveys[key])


def _check_side(side: str | None, split: Split | None) -> None:
    if (side is None) != (split is None):
        raise SettingError(f"give 'side' and 'split' together, or neither; found side {side!r} and split {split!r}")
    if side is not None:
        check_choice(side, SIDES, "side of a split")


def learning_record(source: Source, split: Split) -> dict[str, Any]:
    """Return split, side, columns of the units, fingerprints and digests of the log, as plain data; reads the prior side once.

    By the fingerprints a certificate recognises the episodes that were learned from under any other ids.
    """
    problem, placed, parts = source.problem, source.with_cut(split), source.files
    learned = () if placed.unlearned else source.batches(side="prior", split=placed)
    hashes = [episode_hashes(batch) for batch in learned]
    digests = part_digests(parts)
    cluster = list(problem.cluster) if isinstance(problem.cluster, tuple) else problem.cluster
    return {
        "split": placed.describe(),
        "side": "prior",
        "units": {"episode": list(problem.episode), "cluster": cluster, "time": problem.time},
        "fingerprints": EpisodeFingerprints.among(hashes, content_digest(problem)).plain(),
        "log": {
            "files": [part.name for part in parts],
            "digests": [digest.hex() for digest in digests],
            "digest": total_digest(digests).hex(),
        },
    }
