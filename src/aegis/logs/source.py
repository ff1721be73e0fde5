"""A log on disk, in a store or in memory, read as batches of whole episodes; and the record of what a policy learned from it.

The record names split, side and units, and holds fingerprints. A certificate uses the other side, and refuses units that
it recognises under any name.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from typing import Any

from aegis.errors import LogError, SettingError, check_choice
from aegis.logs.chunks import LogChunks
from aegis.logs.columns import check_columns_present, column_key, required_columns
from aegis.logs.episodes import group_episodes
from aegis.logs.formats.base import FileRange, bundle_ranges
from aegis.logs.log_files import LogInput, LogPart, normalise_inputs, part_digests, resolve_parts, total_digest, with_row_numbers
from aegis.logs.reader import LogSurvey, ReadPlan, gather_episodes, join_tables, prefetch, survey_log, whole_episodes
from aegis.logs.split import SIDES, Split, find_cut
from aegis.problem import Batch, EpisodeFingerprints, Problem, content_digest, episode_hashes

CHUNK_BLOCK_ROWS = 131072  # of a block of a chunk: several processes have blocks in memory
BLOCK_ROWS = 163840  # of a block: much larger ones take more memory, smaller ones more time for each row


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
        opened = [part.open() for part in self.files]
        return {file.name: file.dialect for file in opened if file.dialect}

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
        return replace(split, cut=find_cut(tables, self.problem, split.fraction))

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
    """Return split, side, columns of the units, fingerprints and digests of the log, as plain data; reads the prior side once."""
    problem, placed = source.problem, source.with_cut(split)
    return {
        "split": placed.describe(),
        "side": "prior",
        "units": {"episode": list(problem.episode), "cluster": _plain(problem.cluster), "time": problem.time},
        "fingerprints": _fingerprints(source, placed),
        "log": _log(source),
    }


def _plain(cluster: str | tuple[str, ...] | None) -> str | list[str] | None:
    return list(cluster) if isinstance(cluster, tuple) else cluster


def _fingerprints(source: Source, split: Split) -> dict[str, Any]:
    """Return which episodes were learned from: a certificate recognises them under any other ids."""
    hashes = [episode_hashes(batch) for batch in source.batches(side="prior", split=split)]
    return EpisodeFingerprints.among(hashes, content_digest(source.problem)).plain()


def _log(source: Source) -> dict[str, Any]:
    """Return the parts of the log by name and digest, and the digest of them all (that of `log_digest`)."""
    parts = source.files
    digests = part_digests(parts)
    names = [part.name for part in parts]
    return {"files": names, "digests": [digest.hex() for digest in digests], "digest": total_digest(digests).hex()}
