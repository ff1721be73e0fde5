"""A log on disk, read as batches of whole episodes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import pyarrow as pa

from aegis.errors import LogError, SettingError, choose
from aegis.logs.convert import convert
from aegis.logs.formats import LogFile, open_log
from aegis.logs.grouping import group
from aegis.logs.placing import find_cut
from aegis.logs.schema import Column, check_present, column_key, required_columns
from aegis.logs.split import SIDES, Split
from aegis.logs.streaming import gathered, whole_episodes
from aegis.logs.survey import Survey, numbered, survey
from aegis.problem import Batch, Problem

ROWS = 131072


@dataclass(frozen=True, slots=True)
class Source:
    """One or several files that hold one log of a problem: Parquet (.parquet, .pq) or comma-separated text (.csv).

    A log is a table with a row for each innermost decision, outer columns repeated, in any row order; several files are
    read as one after the other, and an episode may go on from one to the next. Everything that does not fit raises
    LogError with file, row (counted from 1, without the header) and column; nothing is skipped or clipped.
    """

    paths: str | Path | Sequence[str | Path]
    problem: Problem
    _seen: dict[object, Survey] = field(default_factory=dict, init=False, repr=False, compare=False)

    @property
    def files(self) -> tuple[Path, ...]:
        """Return the paths, one or several."""
        given = [self.paths] if isinstance(self.paths, str | Path) else self.paths
        return tuple(Path(path) for path in given)

    def batches(
        self, columns: Sequence[str] = (), rows: int = ROWS, side: str | None = None, split: Split | None = None
    ) -> Iterator[Batch]:
        """Yield batches of whole episodes, of at most `rows` rows and one episode together; `columns` go to Batch.extra.

        If the rows of each episode follow each other, episodes come in the order of the log and only some `rows` rows are
        in memory. Otherwise rows are first gathered in temporary files, and episodes come in an order that depends on
        their ids alone (and, within a file, on their first rows): sort by time where order matters. Numbers missing in
        `columns` come as nan, missing text as None. `side` ('prior' or 'certify') of `split` keeps the episodes of that side
        only; all rows are checked. Raises LogError, in part before the first batch, and at the end if no episode is on the side.
        """
        if rows < 1:
            raise SettingError(f"'rows' is a whole number from 1, found {rows}")
        if (side is None) != (split is None):
            raise SettingError(f"give 'side' and 'split' together, or neither; found side {side!r} and split {split!r}")
        plan = self._plan(columns)
        if side is None or split is None:
            return self._stream(plan, rows)
        choose(side, SIDES, "side of a split")
        return self._one_side(self._stream(plan, rows), side, self.placed(split))

    def read(self, columns: Sequence[str] = (), side: str | None = None, split: Split | None = None) -> Batch:
        """Return the whole log, or one side of it, as one batch, episodes in the order in which they first appear."""
        if (side is None) != (split is None):
            raise SettingError(f"give 'side' and 'split' together, or neither; found side {side!r} and split {split!r}")
        plan = self._plan(columns)
        whole = group(pa.concat_tables(plan.tables(ROWS)), plan.columns, self.problem, plan.names)
        if side is None or split is None:
            return whole
        return next(self._one_side(iter([whole]), side, self.placed(split)))

    def placed(self, split: Split) -> Split:
        """Return the split with its cut in time found, if it needs one: one pass over ids and times, 16 bytes for each episode.

        Raises LogError if the problem names no time, or if a cluster has episodes on both sides of the cut.
        """
        if split.kind != "time" or split.cut is not None:
            return split
        return replace(
            split, cut=find_cut(self._plan(()).only("episode", "cluster", "time").tables(ROWS), self.problem, split.fraction)
        )

    def _one_side(self, batches: Iterator[Batch], side: str, split: Split) -> Iterator[Batch]:
        episodes = found = 0
        for batch in batches:
            kept = split.on_side(side, self.problem, batch)
            episodes, found = episodes + len(batch), found + int(kept.sum())
            if kept.all():
                yield batch
            elif kept.any():
                yield batch.take_episodes(kept)
        if not found:
            raise LogError(
                f"{', '.join(map(str, self.files))}: none of the {episodes} episodes is on the {side} side of the split "
                f"(share to learn from: {split.fraction:g}); give more episodes, or another share"
            )

    def _stream(self, plan: _Plan, rows: int) -> Iterator[Batch]:
        keys = [column_key("episode", name) for name in self.problem.episode]
        if plan.survey.contiguous:
            for table in whole_episodes(plan.tables(rows), keys):
                yield group(table, plan.columns, self.problem, plan.names)
            return
        with gathered(plan.tables(rows), keys, plan.survey.rows, rows) as tables:
            for table in whole_episodes(tables, keys):
                yield group(table, plan.columns, self.problem, plan.names)

    def _plan(self, extra: Sequence[str]) -> _Plan:
        if not self.files:
            raise LogError("no log was given; name at least one file")
        columns = required_columns(self.problem, extra)
        opened = tuple(open_log(path) for path in self.files)
        for file in opened:
            check_present(columns, file.names, str(file.path))
        # A second pass over the same files need not look again; a file that was written in between is another file.
        stamps = [(stat.st_size, stat.st_mtime_ns, stat.st_ino) for stat in (path.stat() for path in self.files)]
        key = (columns, *stamps)
        if key not in self._seen:
            self._seen[key] = survey(opened, columns, ROWS)
        return _Plan(opened, columns, self._seen[key])


@dataclass(frozen=True, slots=True)
class _Plan:
    """What is to be read, checked as far as it can be without reading the rows."""

    files: tuple[LogFile, ...]
    columns: tuple[Column, ...]
    survey: Survey

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(str(file.path) for file in self.files)

    def only(self, *roles: str) -> _Plan:
        """Return the plan to read the columns of some roles."""
        return replace(self, columns=tuple(column for column in self.columns if column.role in roles))

    def tables(self, rows: int) -> Iterable[pa.Table]:
        """Yield converted tables of at most `rows` rows."""
        wanted = list(dict.fromkeys(column.name for column in self.columns))
        for _, block, places in numbered(self.files, lambda _: wanted, rows):
            yield convert(block, self.columns, self.survey.types, places)
