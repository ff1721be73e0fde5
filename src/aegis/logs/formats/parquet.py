"""Logs in Parquet files."""

from __future__ import annotations

import functools
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from aegis.logs.column_values import is_text
from aegis.logs.formats.base import (
    READ_ERRORS,
    WHOLE_FILE,
    LogFile,
    RowRange,
    StoredFile,
    even_blocks,
    guard_reads,
    row_group_ranges,
    unreadable_file,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ParquetLog(LogFile):
    """A Parquet file; row groups are streamed, and page checksums are verified where there are any.

    groups: the number of rows of each row group. stamp: the version of a file in a store.
    """

    place: StoredFile
    groups: tuple[int, ...]
    stamp: Hashable = None

    @classmethod
    def open(cls, place: StoredFile) -> ParquetLog:
        """Read the footer; in a store only once, as long as the file has not changed."""
        try:
            return _opened(place) if place.local is not None else _opened_once(place, place.stamp())
        except READ_ERRORS as error:
            raise unreadable_file(place, "Parquet", error) from error

    def row_ranges(self) -> tuple[RowRange, ...]:
        """Return row groups, as many as make a chunk."""
        return row_group_ranges(self.groups)

    def blocks(
        self, columns: Sequence[str], rows: int, repeated: Sequence[str] = (), row_range: RowRange = WHOLE_FILE
    ) -> Iterator[pa.Table]:
        """Yield blocks of rows."""
        with self.place.watched(self.stamp):
            try:
                file = _file(self.place)
                packed = _packed(file.metadata, [name for name in repeated if is_text((self.types or {})[name])])
                if packed:
                    file.close()
                    file = _file(self.place, packed, file.metadata)
            except READ_ERRORS as error:
                raise unreadable_file(self.place, "Parquet", error) from error
            with file:
                wanted = list(columns) or list(self.names[:1])
                groups = range(len(self.groups)) if row_range.groups is None else row_range.groups
                stream = file.iter_batches(batch_size=rows, row_groups=list(groups), columns=wanted)
                yield from even_blocks(guard_reads(stream, self.place, "Parquet", row_range.first), wanted, rows)


def _opened(place: StoredFile, stamp: Hashable = None) -> ParquetLog:
    with _file(place) as file:
        schema = file.schema_arrow
        return ParquetLog(
            name=str(place),
            names=tuple(schema.names),
            types=dict(zip(schema.names, schema.types, strict=True)),
            place=place,
            groups=tuple(file.metadata.row_group(number).num_rows for number in range(file.num_row_groups)),
            stamp=stamp,
        )


@functools.lru_cache(maxsize=4096)
def _opened_once(place: StoredFile, stamp: Hashable) -> ParquetLog:
    return _opened(place, stamp)


def _packed(metadata: pq.FileMetaData, names: Sequence[str]) -> list[str]:
    """Return those columns of text that the file holds as numbers of a dictionary.

    As text every entry would take at least the four bytes of its length. Such text is read faster as text: reading it with a
    dictionary would have to build one.
    """
    packed = []
    groups = [metadata.row_group(number) for number in range(metadata.num_row_groups)]
    for index in range(metadata.num_columns) if names and groups else ():
        name = groups[0].column(index).path_in_schema
        columns = [group.column(index) for group in groups] if name in names else []
        if sum(one.total_uncompressed_size for one in columns) < 4 * sum(one.num_values for one in columns):
            packed.append(name)
    return packed


def _file(place: StoredFile, repeated: Sequence[str] = (), metadata: Any = None) -> pq.ParquetFile:
    return pq.ParquetFile(
        place.seekable(),
        metadata=metadata,
        # A column of a row group is one read; fetching row groups ahead would keep all of them in memory.
        pre_buffer=False,
        page_checksum_verification=True,
        read_dictionary=list(repeated) or None,
    )
