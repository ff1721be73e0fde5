"""The first look at a log: how many rows, do episodes come in one piece, and what do columns of free type hold."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from aegis.errors import LogError
from aegis.logs.blocks import LogFile
from aegis.logs.convert import plain
from aegis.logs.decimals import POINT
from aegis.logs.findings import Findings
from aegis.logs.keys import Hashes, changes, hashes, values_at
from aegis.logs.schema import Column
from aegis.logs.texts import TEXT, Guess, is_text
from aegis.problem.places import Places

_FREE = ("key", "time", "any")  # kinds whose type is found, not prescribed


@dataclass(frozen=True, slots=True)
class Survey:
    """rows: how many. contiguous: every episode's rows are next to each other. types: by `Column.key`, for free kinds."""

    rows: int
    contiguous: bool
    types: Mapping[str, pa.DataType]


def survey(files: Sequence[LogFile], columns: Sequence[Column], rows: int) -> Survey:
    """Read ids only (and, in text files, the columns whose type must be guessed), a block at a time.

    Keeps 8 bytes for each run of equal episode ids. Raises LogError if there are no rows, if an episode id is missing or
    if a column has types in two files that do not go together.
    """
    free = [column for column in columns if column.kind in _FREE]
    episode = [column.name for column in columns if column.role == "episode"]
    guesses = {(index, c.key): Guess.start(c.kind) for index, f in enumerate(files) for c in free if f.types is None}
    runs: list[Hashes] = []
    previous: np.uint64 | None = None  # hash of the id in the last row so far
    count = 0
    for index, block, places in _id_blocks(files, episode, free, rows):
        for column in free if files[index].types is None else ():
            guesses[index, column.key].see(plain(block[column.name]), files[index].decimals.get(column.name, POINT))
        kinds = [_id_type(block[name].type, name, files[index]) for name in episode]
        ids = [block[name] for name in episode]
        _refuse_nulls(ids, episode, Findings(places))
        starts = np.flatnonzero(changes(ids))
        found = hashes([_settled(values_at(column, starts), kind) for column, kind in zip(ids, kinds, strict=True)])
        runs.append(found[1:] if previous is not None and found[0] == previous else found)
        previous, count = found[-1], count + block.num_rows
    if not count:
        raise LogError(f"{', '.join(file.name for file in files)}: the log has no rows; there is nothing to learn from")
    ordered = np.sort(np.concatenate(runs))
    contiguous = not bool(np.any(ordered[1:] == ordered[:-1]))
    return Survey(count, contiguous, {column.key: _type(column, files, guesses) for column in free})


def numbered(
    files: Sequence[LogFile], columns: Callable[[LogFile], Sequence[str]], rows: int, repeated: Sequence[str] = ()
) -> Iterator[tuple[int, pa.Table, Places]]:
    """Yield the blocks of all files one after the other, with the index of the file and where each row is."""
    names = tuple(file.name for file in files)
    for index, file in enumerate(files):
        first = 1
        for block in file.blocks(columns(file), rows, repeated):
            row = np.arange(first, first + block.num_rows, dtype=np.int64)
            yield index, block, Places(names, np.full(row.size, index, dtype=np.int32), row)
            first += block.num_rows


def _id_blocks(
    files: Sequence[LogFile], episode: Sequence[str], free: Sequence[Column], rows: int
) -> Iterator[tuple[int, pa.Table, Places]]:
    def wanted(file: LogFile) -> list[str]:
        guessed = [column.name for column in free] if file.types is None else []
        return list(dict.fromkeys([*episode, *guessed]))

    return numbered(files, wanted, rows, episode)


def _id_type(kind: pa.DataType, name: str, file: LogFile) -> pa.DataType:
    """Return the type in which ids of this type will be kept."""
    return TEXT if file.types is None else _simplified(kind, Column(name, "episode", "key"), file)


def _settled(ids: pa.Array, kind: pa.DataType) -> pa.Array:
    """Return ids as they will be kept, so that 5.0 in one file and 5 in another are one id; 5.5 is left for the conversion."""
    try:
        return ids if ids.type == kind else pc.cast(ids, kind)
    except pa.ArrowInvalid:
        return ids


def _refuse_nulls(ids: Sequence[pa.ChunkedArray], names: Sequence[str], findings: Findings) -> None:
    said = "the episode id is missing (null); every row belongs to an episode; give it an id"
    for column, name in zip(ids, names, strict=True):
        if column.null_count:
            findings.add(np.flatnonzero(column.is_null().to_numpy()), name, lambda _: said)
    findings.settle()


def _type(column: Column, files: Sequence[LogFile], guesses: Mapping[tuple[int, str], Guess]) -> pa.DataType:
    """Return the one type that a column gets in all files."""
    found: pa.DataType | None = None
    for index, file in enumerate(files):
        types = file.types
        here = guesses[index, column.key].left[0] if types is None else _simplified(types[column.name], column, file)
        found = here if found is None else _joined(found, here, column, files[0], file)
    return found


def _simplified(kind: pa.DataType, column: Column, file: LogFile) -> pa.DataType:
    """Return the type in which a column of a typed file is kept."""
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    if is_text(kind):
        return TEXT
    if pa.types.is_timestamp(kind) or pa.types.is_date(kind):
        return kind
    if pa.types.is_integer(kind):
        return pa.int64()
    if pa.types.is_boolean(kind):
        return TEXT if column.kind == "key" else kind
    if pa.types.is_floating(kind) or pa.types.is_decimal(kind):
        # Ids that became floats on their way (5.0) are whole numbers; the conversion refuses 5.5 by row.
        return pa.int64() if column.kind == "key" else pa.float64()
    raise LogError(
        f"{file.name}, column '{column.name}': the {column.what} has the type {kind}; text, numbers, flags and dates can be read"
    )


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
