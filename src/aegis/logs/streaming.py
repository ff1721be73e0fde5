"""Whole episodes from a stream of rows, also when the rows of an episode are scattered over the log."""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa

from aegis.errors import OutputError
from aegis.logs.convert import plain
from aegis.logs.keys import hashes, joint_codes, last_start

_MOST_PARTITIONS = 128  # files open at a time


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
        last = table.num_rows if following is None else last_start([table[key] for key in keys])
        if (last == 0 or following is None) and held and not _same_episode(held[-1], table, keys):
            yield joined(held)
            held = []
        if last > 0:
            yield joined([*held, table.slice(0, last)])
            held = []
        held.append(table.slice(last))
        table = following


def joined(tables: Sequence[pa.Table]) -> pa.Table:
    """Return tables as one; dictionaries go if not all of them have them, as where one file ends and another begins."""
    alike = all(table.schema == tables[0].schema for table in tables)
    return pa.concat_tables(tables if alike else [decoded(table) for table in tables])


@contextlib.contextmanager
def gathered(tables: Iterable[pa.Table], keys: Sequence[str], total: int, rows: int) -> Iterator[Iterator[pa.Table]]:
    """Give tables of about `rows` rows in which the rows of an episode follow each other, whatever their order was.

    Rows go to temporary files by a hash of the episode id and are read back file by file, so that one file is in memory
    at a time (total / 128 rows, or `rows` if that is more). Within a file episodes come in the order of their first row;
    rows of an episode keep their order. The files are removed on leaving, also after an error. Raises OutputError if
    they cannot be written.
    """
    partitions = min(_MOST_PARTITIONS, -(-total // rows))
    try:
        folder = tempfile.TemporaryDirectory(prefix="aegis-")
    except OSError as error:
        raise _no_room(error) from error
    with folder as name:
        paths = [Path(name) / f"{number}.arrow" for number in range(partitions)]
        _spill(tables, keys, paths)
        yield _read_back(paths, keys, rows)


def _spill(tables: Iterable[pa.Table], keys: Sequence[str], paths: Sequence[Path]) -> None:
    with contextlib.ExitStack() as stack:
        writers: list[pa.RecordBatchStreamWriter] = []
        for table in tables:
            table = decoded(table)
            part = (hashes(_ids(table, keys)) % np.uint64(len(paths))).astype(np.int64)
            if not writers:
                writers = _open_writers(paths, table.schema, stack)
            order = np.argsort(part, kind="stable")
            bounds = np.searchsorted(part[order], np.arange(len(paths) + 1))
            arranged = table.take(pa.array(order))
            for number in np.flatnonzero(np.diff(bounds)):
                try:
                    writers[number].write_table(arranged.slice(bounds[number], bounds[number + 1] - bounds[number]))
                except OSError as error:
                    raise _no_room(error) from error


def decoded(table: pa.Table) -> pa.Table:
    """Return the table without dictionaries, which would be written once more for every block and file."""
    names = [name for name in table.column_names if pa.types.is_dictionary(table[name].type)]
    for name in names:
        table = table.set_column(table.column_names.index(name), name, plain(table[name]))
    return table


def _open_writers(paths: Sequence[Path], schema: pa.Schema, stack: contextlib.ExitStack) -> list[pa.RecordBatchStreamWriter]:
    try:
        return [stack.enter_context(pa.ipc.new_stream(stack.enter_context(pa.OSFile(str(p), "wb")), schema)) for p in paths]
    except OSError as error:
        raise _no_room(error) from error


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
    return [plain(table[key]) for key in keys]


def _same_episode(before: pa.Table, after: pa.Table, keys: Sequence[str]) -> bool:
    return all(before[key][-1].as_py() == after[key][0].as_py() for key in keys)


def _no_room(error: OSError) -> OutputError:
    return OutputError(
        f"cannot write temporary files in {tempfile.gettempdir()}: {error.strerror or error}; the rows of an episode are "
        "scattered over this log and have to be gathered first: make room there, set TMPDIR, or sort the log by episode"
    )
