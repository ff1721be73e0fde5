"""The first look at a log: how many rows, do episodes come in one piece, and what do columns of free type hold."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

import pyarrow as pa

from aegis.engine import usable_cores
from aegis.errors import LogError
from aegis.logs.blocks import LogFile
from aegis.logs.convert import plain
from aegis.logs.decimals import POINT
from aegis.logs.id_runs import Runs, contiguous, id_type
from aegis.logs.schema import Column
from aegis.logs.spans import PIECE, Span
from aegis.logs.texts import TEXT, Guess
from aegis.problem.places import Places

_FREE = ("key", "time", "any")  # kinds whose type is found, not prescribed
_FEW = 4 * PIECE  # rows whose ids are read faster than others could be told to


@dataclass(frozen=True, slots=True)
class Survey:
    """rows: how many. contiguous: every episode's rows are next to each other. types: by `Column.key`, for free kinds.

    spans: what can be read by itself, in the order of the log, each with its number of rows. runs: of equal episode ids, each
    span by itself.
    """

    rows: int
    contiguous: bool
    types: Mapping[str, pa.DataType]
    spans: tuple[tuple[Span, int], ...] = ()
    runs: int = 0


@dataclass(slots=True)
class Seen:
    """What was seen in one span. guesses: by `Column.key`, of a file of text."""

    rows: int = 0
    guesses: dict[str, Guess] = field(default_factory=dict)
    runs: Runs = field(default_factory=Runs)


def survey(files: Sequence[LogFile], columns: Sequence[Column], rows: int) -> Survey:
    """Read ids only (and, in text files, the columns whose type must be guessed), a block at a time.

    Where ids do not grow from row to row, keeps 8 bytes for each run of equal episode ids. Raises LogError if there are no rows,
    if an episode id is missing or if a column has types in two files that do not go together.
    """
    spans = [Span(index, stretch) for index, file in enumerate(files) for stretch in file.stretches()]
    look = _Look(tuple(files), tuple(columns), rows)
    found = list(_each(look, spans))
    count = sum(seen.rows for seen in found)
    if not count:
        raise LogError(f"{', '.join(file.name for file in files)}: the log has no rows; there is nothing to learn from")

    def hashed(places: Sequence[int]) -> Iterable[Runs]:
        return (seen.runs for seen in _each(_Look(tuple(files), tuple(columns), rows, True), [spans[p] for p in places]))

    one_piece = contiguous([seen.runs for seen in found], hashed)
    types = {c.key: _type(c, files, [(span.file, seen) for span, seen in zip(spans, found, strict=True)]) for c in look.free}
    counted = tuple((span, seen.rows) for span, seen in zip(spans, found, strict=True))
    return Survey(count, one_piece, types, counted, sum(seen.runs.count for seen in found))


def _each(look: _Look, spans: Sequence[Span]) -> Iterator[Seen]:
    """Yield what is seen in each span, in threads if there is much to see."""
    known = sum(span.stretch.rows or 0 for span in spans)
    if known < _FEW:
        yield from map(look, spans)
    else:
        with ThreadPoolExecutor(usable_cores(), thread_name_prefix="aegis-survey") as pool:
            yield from pool.map(look, spans)


@dataclass(frozen=True, slots=True)
class _Look:
    """Looks at a span. hashed: ids are hashed also where they grow from row to row."""

    files: tuple[LogFile, ...]
    columns: tuple[Column, ...]
    rows: int
    hashed: bool = False

    @property
    def free(self) -> list[Column]:
        return [column for column in self.columns if column.kind in _FREE]

    def __call__(self, span: Span) -> Seen:
        file, free = self.files[span.file], self.free
        episode = [column.name for column in self.columns if column.role == "episode"]
        seen = Seen(guesses={column.key: Guess.start(column.kind) for column in free if file.types is None})
        # Text that is not sorted is read but once: ids of text files are hashed as they come.
        seen.runs = Runs(hashed=self.hashed or file.types is None)
        guessed = [column.name for column in free] if file.types is None else []
        wanted = list(dict.fromkeys([*episode, *guessed]))
        for block in file.blocks(wanted, self.rows, episode, span.stretch):
            for column in free if file.types is None else ():
                seen.guesses[column.key].see(plain(block[column.name]), file.decimals.get(column.name, POINT))
            places = functools.partial(Places.following, (file.name,), 0, span.stretch.first + seen.rows, block.num_rows)
            seen.runs.add([block[name] for name in episode], episode, file, places)
            seen.rows += block.num_rows
        return seen


def _type(column: Column, files: Sequence[LogFile], found: Sequence[tuple[int, Seen]]) -> pa.DataType:
    """Return the one type that a column gets in all files."""
    kind: pa.DataType | None = None
    for index, file in enumerate(files):
        types = file.types
        guesses = (seen.guesses[column.key].left[0] for place, seen in found if place == index) if types is None else ()
        here = next(iter(guesses)) if types is None else id_type(types[column.name], column, file)
        kind = here if kind is None else _joined(kind, here, column, files[0], file)
    return kind


def _joined(one: pa.DataType, other: pa.DataType, column: Column, first: LogFile, file: LogFile) -> pa.DataType:
    """Return a type that holds both; whole numbers and text make text, as in ids that are sometimes numbers."""
    if one == other:
        return one
    pair = {one, other}
    if pair == {pa.int64(), pa.float64()}:
        return pa.float64()
    if pair == {pa.int64(), TEXT}:
        return TEXT
    raise LogError(
        f"{file.name}, column '{column.name}': the {column.what} has the type {other} here and {one} in {first.name}; "
        "write the same type in all files"
    )
