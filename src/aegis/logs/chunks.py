"""A log in chunks that several processes can read, each giving whole episodes and handing back the rows at its two ends.

An episode may begin in one chunk and end in another. The process that handed out the chunks joins their ends in the order
of the log. The chunks depend on the log alone.
"""

from __future__ import annotations

import functools
import socket
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import pyarrow as pa

from aegis.errors import LogError
from aegis.logs.columns import column_key
from aegis.logs.episodes import group_episodes
from aegis.logs.formats.base import FileRange
from aegis.logs.ids import id_changes, last_id_start
from aegis.logs.log_files import LogPart
from aegis.logs.reader import ReadPlan, decode_table, join_tables, whole_episodes
from aegis.problem import Batch, Problem


@dataclass(frozen=True, slots=True)
class LogChunks:
    """A log whose episodes' rows follow each other. ranges: those of each chunk. rows: of a block. parts: the files.

    digests: of the parts, where workers may have another file under the same name; else none.
    """

    plan: ReadPlan
    problem: Problem
    ranges: tuple[tuple[FileRange, ...], ...]
    rows: int
    parts: tuple[LogPart, ...] = ()
    digests: tuple[bytes, ...] = ()

    def __len__(self) -> int:
        return len(self.ranges)

    @property
    def episodes(self) -> int:
        """Return about how many episodes there are; those that go on from one chunk to the next count twice."""
        return self.plan.survey.runs

    def sealed(self, digests: Sequence[bytes]) -> LogChunks:
        """Return the chunks of these very files: a worker that has others is refused."""
        return replace(self, digests=tuple(digests))

    def check(self, index: int) -> None:
        """Raise LogError if a file is not the one that the process with the log has."""
        if not self.digests or self.parts[index].place is None or self.parts[index].path is None:
            return  # versions of objects in a store are compared when they are read
        part = self.parts[index]
        where = f"the worker on {socket.gethostname()}"
        try:
            same = _digest(part, part.stamp()) == self.digests[index]
        except (LogError, OSError) as error:
            raise LogError(
                f"{part} cannot be read by {where}: {error}; all workers need the log under this path, or at an address such as s3://"
            ) from error
        if not same:
            raise LogError(f"{part}: {where} has another file under this path than the one that was given; nothing was certified")

    def read(self, number: int) -> ChunkReader:
        """Return a chunk, from 0, to be read."""
        return ChunkReader(self, number)

    def edges(self) -> ChunkEdges:
        """Return the joint of the chunks' ends."""
        return ChunkEdges(self)

    def batch(self, table: pa.Table) -> Batch:
        """Return whole episodes as a batch."""
        return group_episodes(table, self.plan.columns, self.problem, self.plan.names)

    @property
    def keys(self) -> list[str]:
        """Return the columns of the episode's id in converted tables."""
        return [column_key("episode", name) for name in self.problem.episode]


@dataclass(slots=True)
class ChunkReader:
    """One chunk while it is read: iterating gives the episodes that are whole in it, `ends` afterwards the rows of the others.

    The first episode of the log is whole, though the first of its chunk.
    """

    chunks: LogChunks
    number: int
    ends: list[pa.Table] = field(default_factory=list)

    def __iter__(self) -> Iterator[Batch]:
        """Yield batches of whole episodes; raises LogError as `Source.batches` does."""
        for index in sorted({one.file for one in self.chunks.ranges[self.number]}):
            self.chunks.check(index)
        keys = self.chunks.keys
        tables = whole_episodes(self.chunks.plan.tables(self.chunks.rows, self.chunks.ranges[self.number]), keys)
        table = next(tables, None)
        if table is not None and self.number > 0:
            starts = np.flatnonzero(id_changes([table[key] for key in keys]))
            first = int(starts[1]) if starts.size > 1 else table.num_rows
            self.ends.append(_copied(table.slice(0, first)))
            table = table.slice(first)
        while table is not None:
            following = next(tables, None)
            if following is None and table.num_rows:
                last = last_id_start([table[key] for key in keys])
                self.ends.append(_copied(table.slice(last)))
                table = table.slice(0, last)
            if table.num_rows:
                yield self.chunks.batch(table)
            table = following


@dataclass(slots=True)
class ChunkEdges:
    """The ends of chunks, added in the order of the log; episodes are given back when they are whole."""

    chunks: LogChunks
    tables: list[pa.Table] = field(default_factory=list)

    def add(self, ends: Sequence[pa.Table]) -> Iterator[Batch]:
        """Add the ends of the next chunk; yield episodes that are whole, once there are enough rows of them."""
        self.tables += ends
        if sum(table.num_rows for table in self.tables) < self.chunks.rows:
            return
        table = join_tables(self.tables)
        last = last_id_start([table[key] for key in self.chunks.keys])
        self.tables = [table.slice(last)]
        if last:
            yield self.chunks.batch(table.slice(0, last))

    def close(self) -> Iterator[Batch]:
        """Yield what is left."""
        if self.tables:
            yield self.chunks.batch(join_tables(self.tables))
        self.tables = []


@functools.lru_cache(maxsize=1024)
def _digest(part: LogPart, stamp: object) -> bytes:
    return part.digest()


def _copied(table: pa.Table) -> pa.Table:
    """Return a few rows in memory of their own: a slice would keep, and send, all that it was cut from."""
    return decode_table(table.take(pa.array(np.arange(table.num_rows))))
