"""Reading a log in blocks: a survey of ids and types, the plan of what to read, whole episodes from a stream, and prefetching.

Where the rows of an episode are scattered over the log, they are gathered in temporary files first.
"""

from __future__ import annotations

import contextlib
import functools
import tempfile
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Generic, TypeVar

import numpy as np
import pyarrow as pa

from aegis.engine import usable_cores
from aegis.errors import LogError, OutputError
from aegis.logs.column_values import POINT, TEXT_TYPE, TYPE_GUESSES, decode_column, narrow_types
from aegis.logs.columns import Column
from aegis.logs.conversion import convert_table
from aegis.logs.formats.base import CHUNK_ROWS, FileRange, LogFile
from aegis.logs.ids import IdRuns, are_contiguous, hash_ids, id_type, joint_codes, last_id_start
from aegis.problem import RowOrigins

_FREE = ("key", "time", "any")  # kinds whose type is found, not prescribed
_FEW_ROWS = 4 * CHUNK_ROWS  # fewer rows are surveyed faster without threads
_MOST_PARTITIONS = 128  # files open at a time
PREFETCH_DEPTH = 2  # more than one, so that neither side waits for the other's slow items, such as the first ones


@dataclass(frozen=True, slots=True)
class LogSurvey:
    """The survey of a log. contiguous: the rows of every episode adjoin. types: by `Column.key`, for free kinds.

    ranges: the row ranges in the order of the log, each with its number of rows. runs: the number of runs of equal episode ids,
    each range by itself.
    """

    rows: int
    contiguous: bool
    types: Mapping[str, pa.DataType]
    ranges: tuple[tuple[FileRange, int], ...] = ()
    runs: int = 0


@dataclass(slots=True)
class RangeSurvey:
    """The survey of one row range. guesses: the types that columns of a text file may have, by `Column.key`."""

    rows: int = 0
    guesses: dict[str, list[pa.DataType]] = field(default_factory=dict)
    runs: IdRuns = field(default_factory=IdRuns)


def survey_log(files: Sequence[LogFile], columns: Sequence[Column], rows: int) -> LogSurvey:
    """Read ids only (and, in text files, the columns whose type must be guessed), a block at a time.

    Where ids do not grow from row to row, keeps 8 bytes for each run of equal episode ids. Raises LogError if there are no rows,
    if an episode id is missing or if a column has types in two files that do not go together.
    """
    ranges = [FileRange(index, row_range) for index, file in enumerate(files) for row_range in file.row_ranges()]
    surveys = list(_survey_ranges(ranges, files, columns, rows))
    count = sum(survey.rows for survey in surveys)
    if not count:
        raise LogError(f"{', '.join(file.name for file in files)}: the log has no rows; there is nothing to learn from")

    def hashed(places: Sequence[int]) -> Iterable[IdRuns]:
        chosen = [ranges[place] for place in places]
        return (survey.runs for survey in _survey_ranges(chosen, files, columns, rows, hashed=True))

    contiguous = are_contiguous([survey.runs for survey in surveys], hashed)
    first = {file_range.file: survey for file_range, survey in reversed(list(zip(ranges, surveys, strict=True)))}
    return LogSurvey(
        rows=count,
        contiguous=contiguous,
        types={column.key: _type(column, files, first) for column in columns if column.kind in _FREE},
        ranges=tuple((file_range, survey.rows) for file_range, survey in zip(ranges, surveys, strict=True)),
        runs=sum(survey.runs.count for survey in surveys),
    )


def _survey_ranges(
    ranges: Sequence[FileRange], files: Sequence[LogFile], columns: Sequence[Column], rows: int, hashed: bool = False
) -> Iterator[RangeSurvey]:
    """Yield the survey of each row range, in threads if there is much to read."""
    survey = functools.partial(_survey_range, files=files, columns=columns, rows=rows, hashed=hashed)
    if sum(file_range.row_range.rows or 0 for file_range in ranges) < _FEW_ROWS:
        yield from map(survey, ranges)
    else:
        with ThreadPoolExecutor(usable_cores(), thread_name_prefix="aegis-survey") as pool:
            yield from pool.map(survey, ranges)


def _survey_range(
    file_range: FileRange, files: Sequence[LogFile], columns: Sequence[Column], rows: int, hashed: bool
) -> RangeSurvey:
    """Return the survey of a row range. hashed: ids are hashed also where they grow from row to row."""
    file, row_range = files[file_range.file], file_range.row_range
    episode = [column.name for column in columns if column.role == "episode"]
    guessed = [column for column in columns if column.kind in _FREE] if file.types is None else []
    survey = RangeSurvey(guesses={column.key: list(TYPE_GUESSES[column.kind]) for column in guessed})
    # Text that is not sorted is read but once: ids of text files are hashed as they come.
    survey.runs = IdRuns(hashed=hashed or file.types is None)
    wanted = list(dict.fromkeys([*episode, *(column.name for column in guessed)]))
    for block in file.blocks(wanted, rows, episode, row_range):
        for column in guessed:
            text, mark = decode_column(block[column.name]), file.decimals.get(column.name, POINT)
            survey.guesses[column.key] = narrow_types(survey.guesses[column.key], text, mark)
        places = functools.partial(RowOrigins.following, (file.name,), 0, row_range.first + survey.rows, block.num_rows)
        survey.runs.add([block[name] for name in episode], episode, file, places)
        survey.rows += block.num_rows
    return survey


def _type(column: Column, files: Sequence[LogFile], surveys: Mapping[int, RangeSurvey]) -> pa.DataType:
    """Return the one type that a column gets in all files; surveys: by file, of its first row range."""
    joint: pa.DataType | None = None
    for index, file in enumerate(files):
        typed = file.types is not None
        kind = id_type(file.types[column.name], column, file) if typed else surveys[index].guesses[column.key][0]  # type: ignore[index]
        joint = kind if joint is None else _joined_type(joint, kind, column, files[0], file)
    return joint


def _joined_type(one: pa.DataType, other: pa.DataType, column: Column, first: LogFile, file: LogFile) -> pa.DataType:
    """Return a type that holds both; whole numbers and text make text, as in ids that are sometimes numbers."""
    if one == other:
        return one
    pair = {one, other}
    if pair == {pa.int64(), pa.float64()}:
        return pa.float64()
    if pair == {pa.int64(), TEXT_TYPE}:
        return TEXT_TYPE
    raise LogError(
        f"{file.name}, column '{column.name}': the {column.what} has the type {other} here and {one} in {first.name}; "
        "write the same type in all files"
    )


@dataclass(frozen=True, slots=True)
class ReadPlan:
    """The opened files, the columns, and what a survey of the ids found."""

    files: tuple[LogFile, ...]
    columns: tuple[Column, ...]
    survey: LogSurvey

    @property
    def names(self) -> tuple[str, ...]:
        """Return what messages call the files."""
        return tuple(file.name for file in self.files)

    def only(self, *roles: str) -> ReadPlan:
        """Return the plan to read the columns of some roles."""
        return replace(self, columns=tuple(column for column in self.columns if column.role in roles))

    def tables(self, rows: int, ranges: Sequence[FileRange] | None = None) -> Iterator[pa.Table]:
        """Yield converted tables of at most `rows` rows, of some row ranges or of the whole log."""
        wanted = list(dict.fromkeys(column.name for column in self.columns))
        repeated = [name for name in wanted if all(column.repeated for column in self.columns if column.name == name)]
        for one in [FileRange(index) for index in range(len(self.files))] if ranges is None else ranges:
            file, first = self.files[one.file], one.row_range.first
            for block in file.blocks(wanted, rows, repeated, one.row_range):
                places = RowOrigins.following(self.names, one.file, first, block.num_rows)
                yield convert_table(block, self.columns, self.survey.types, places, file.decimals)
                first += block.num_rows


def whole_episodes(tables: Iterable[pa.Table], keys: Sequence[str]) -> Iterator[pa.Table]:
    """Yield tables of whole episodes from tables in which the rows of an episode follow each other.

    The last episode of a table may go on in the next one, if there is one, and is held back: a table that comes out has fewer
    rows than one that went in and one episode together.
    """
    held: list[pa.Table] = []
    stream = iter(tables)
    table = next(stream, None)
    while table is not None:
        following = next(stream, None)
        last = table.num_rows if following is None else last_id_start([table[key] for key in keys])
        if (last == 0 or following is None) and held and not _same_episode(held[-1], table, keys):
            yield join_tables(held)
            held = []
        if last > 0:
            yield join_tables([*held, table.slice(0, last)])
            held = []
        held.append(table.slice(last))
        table = following


def join_tables(tables: Sequence[pa.Table]) -> pa.Table:
    """Return tables as one; dictionaries go if not all of them have them, as where one file ends and another begins."""
    alike = all(table.schema == tables[0].schema for table in tables)
    return pa.concat_tables(tables if alike else [decode_table(table) for table in tables])


@contextlib.contextmanager
def gather_episodes(tables: Iterable[pa.Table], keys: Sequence[str], total: int, rows: int) -> Iterator[Iterator[pa.Table]]:
    """Give tables of about `rows` rows in which the rows of an episode follow each other, from tables in any order.

    Rows go to temporary files by a hash of the episode id and are read back file by file, so that one file is in memory
    at a time (total / 128 rows, or `rows` if that is more). Within a file episodes come in the order of their first row;
    rows of an episode keep their order. The files are removed on leaving, also after an error. Raises OutputError if
    they cannot be written.
    """
    with _temporary_files():
        folder = tempfile.TemporaryDirectory(prefix="aegis-")
    with folder as name:
        paths = [Path(name) / f"{number}.arrow" for number in range(min(_MOST_PARTITIONS, -(-total // rows)))]
        _spill(tables, keys, paths)
        yield _read_back(paths, keys, rows)


def _spill(tables: Iterable[pa.Table], keys: Sequence[str], paths: Sequence[Path]) -> None:
    """Write each row to the file of its episode's hash."""
    with contextlib.ExitStack() as stack:
        writers: list[pa.RecordBatchStreamWriter] = []
        for table in tables:
            table = decode_table(table)
            part = (hash_ids(_ids(table, keys)) % np.uint64(len(paths))).astype(np.int64)
            order = np.argsort(part, kind="stable")
            bounds = np.searchsorted(part[order], np.arange(len(paths) + 1))
            arranged = table.take(pa.array(order))
            with _temporary_files():
                for path in paths[len(writers) :]:
                    file = stack.enter_context(pa.OSFile(str(path), "wb"))
                    writers.append(stack.enter_context(pa.ipc.new_stream(file, table.schema)))
                for number in np.flatnonzero(np.diff(bounds)):
                    writers[number].write_table(arranged.slice(bounds[number], bounds[number + 1] - bounds[number]))


@contextlib.contextmanager
def _temporary_files() -> Iterator[None]:
    """Raise OutputError if temporary files cannot be written."""
    try:
        yield
    except OSError as error:
        raise OutputError(
            f"cannot write temporary files in {tempfile.gettempdir()}: {error.strerror or error}; the rows of an episode are "
            "scattered over this log and have to be gathered first: free space there, set TMPDIR, or sort the log by episode"
        ) from error


def decode_table(table: pa.Table) -> pa.Table:
    """Return the table without dictionaries, which would be written once more for every block and file."""
    names = [name for name in table.column_names if pa.types.is_dictionary(table[name].type)]
    for name in names:
        table = table.set_column(table.column_names.index(name), name, decode_column(table[name]))
    return table


def _read_back(paths: Sequence[Path], keys: Sequence[str], rows: int) -> Iterator[pa.Table]:
    for path in paths:
        with pa.OSFile(str(path), "rb") as file, pa.ipc.open_stream(file) as reader:
            table = reader.read_all()
        path.unlink()
        order = np.argsort(joint_codes(_ids(table, keys)), kind="stable")
        arranged = table.take(pa.array(order))
        for start in range(0, arranged.num_rows, rows):
            yield arranged.slice(start, rows)


def _ids(table: pa.Table, keys: Sequence[str]) -> list[pa.Array]:
    return [decode_column(table[key]) for key in keys]


def _same_episode(before: pa.Table, after: pa.Table, keys: Sequence[str]) -> bool:
    return all(before[key][-1].as_py() == after[key][0].as_py() for key in keys)


Item = TypeVar("Item")


def prefetch(items: Generator[Item, None, None], depth: int = PREFETCH_DEPTH) -> Generator[Item, None, None]:
    """Yield what a generator yields, made ready before its use; what it raises is raised at that item's turn.

    Decoding and most of the work on arrays runs outside Python's lock, so that a second core is put to use. `depth` more items
    are in memory. Leaving early waits for the items that are being made, and closes the generator.
    """
    end = object()
    try:
        with ThreadPoolExecutor(1, thread_name_prefix="aegis-read") as pool:
            coming = deque(pool.submit(next, items, end) for _ in range(depth))
            while (item := coming.popleft().result()) is not end:
                coming.append(pool.submit(next, items, end))
                yield item  # type: ignore[misc]
    finally:
        items.close()


class BackgroundObserver(Generic[Item]):
    """Shows items to a function in a thread, one after the other, while the caller goes on working with them.

    A context: leaving it waits until all have been shown. An error of the function is raised at the next item, or on leaving.
    """

    def __init__(self, observe: Callable[[Item], None], most: int = 1) -> None:
        """Show items to `observe`; at most `most` of them wait."""
        self._observe, self._most = observe, most
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="aegis-look")
        self._waiting: deque[Future[None]] = deque()

    def show(self, item: Item) -> None:
        """Show an item soon; waits if too many are waiting."""
        while len(self._waiting) >= self._most:
            self._waiting.popleft().result()
        self._waiting.append(self._pool.submit(self._observe, item))

    def __enter__(self) -> BackgroundObserver[Item]:
        """Return itself."""
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        """Wait for all items; raise the observer's error, unless the caller has raised one already."""
        self._pool.shutdown(wait=True)
        while error is None and self._waiting:
            self._waiting.popleft().result()
