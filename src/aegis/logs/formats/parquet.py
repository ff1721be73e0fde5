"""Logs in Parquet files."""

from __future__ import annotations

import functools
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from aegis.logs.column_values import is_text
from aegis.logs.formats.base import READ_ERRORS, WHOLE_FILE, RowRange, even_blocks, guard_reads, row_group_ranges, unreadable_file
from aegis.logs.storage import StoredFile


@dataclass(frozen=True, slots=True)
class ParquetLog:
    """A Parquet file; row groups are streamed and page checksums, where there are any, are verified.

    groups: the number of rows of each row group.
    """

    place: StoredFile
    names: tuple[str, ...]
    types: Mapping[str, pa.DataType] | None
    groups: tuple[int, ...]
    stamp: Hashable = None
    decimals: Mapping[str, str] = field(default_factory=dict)
    dialect: str = ""

    @property
    def name(self) -> str:
        """Return the path; see LogFile."""
        return str(self.place)

    @classmethod
    def open(cls, place: StoredFile) -> ParquetLog:
        """Read the footer; far away only once, as long as the file has not changed."""
        try:
            return _opened(place) if place.local is not None else _opened_once(place, place.stamp())
        except READ_ERRORS as error:
            raise unreadable_file(place, "Parquet", error) from error

    def stretches(self) -> tuple[RowRange, ...]:
        """Return row groups, as many as make a piece; see LogFile."""
        return row_group_ranges(self.groups)

    def blocks(
        self, columns: Sequence[str], rows: int, repeated: Sequence[str] = (), stretch: RowRange = WHOLE_FILE
    ) -> Iterator[pa.Table]:
        """Yield blocks of rows; see LogFile."""
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
                # Without columns the row count still has to come out right; any one column tells it.
                wanted = list(columns) or list(self.names[:1])
                numbers = range(len(self.groups)) if stretch.groups is None else stretch.groups
                stream = file.iter_batches(batch_size=rows, row_groups=list(numbers), columns=wanted)
                yield from even_blocks(guard_reads(stream, self.place, "Parquet", stretch.first), wanted, rows)


def _opened(place: StoredFile, stamp: Hashable = None) -> ParquetLog:
    with _file(place) as file:
        schema = file.schema_arrow
        groups = tuple(file.metadata.row_group(number).num_rows for number in range(file.num_row_groups))
        return ParquetLog(place, tuple(schema.names), dict(zip(schema.names, schema.types, strict=True)), groups, stamp)


@functools.lru_cache(maxsize=4096)
def _opened_once(place: StoredFile, stamp: Hashable) -> ParquetLog:
    return _opened(place, stamp)


def _packed(metadata: pq.FileMetaData, names: Sequence[str]) -> list[str]:
    """Return those columns of text that the file holds as numbers of a dictionary.

    As text every entry would take at least the four bytes of its length. Such text is read faster as text: reading it with a
    dictionary would have to make one.
    """
    found = []
    groups = [metadata.row_group(number) for number in range(metadata.num_row_groups)]
    for place in range(metadata.num_columns) if names and groups else ():
        name = groups[0].column(place).path_in_schema
        if name in names:
            parts = [group.column(place) for group in groups]
            if sum(part.total_uncompressed_size for part in parts) < 4 * sum(part.num_values for part in parts):
                found.append(name)
    return found


def _file(place: StoredFile, repeated: Sequence[str] = (), metadata: Any = None) -> pq.ParquetFile:
    return pq.ParquetFile(
        place.seekable(),
        metadata=metadata,
        # Far away as here, a column of a row group is one read; fetching row groups ahead would keep all of them in memory.
        pre_buffer=False,
        page_checksum_verification=True,
        read_dictionary=list(repeated) or None,
    )
