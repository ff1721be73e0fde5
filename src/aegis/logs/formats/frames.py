"""Logs in memory: Arrow tables, and data frames of other libraries, which need not be installed."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from aegis.errors import LogError
from aegis.logs.column_values import TEXT_TYPE, decode_column
from aegis.logs.formats.base import WHOLE_FILE, LogFile, RowRange, even_blocks, first_line

_DIGESTED_AT_ONCE = 65536  # rows


@dataclass(frozen=True, slots=True, kw_only=True)
class FrameLog(LogFile):
    """A table in memory, read like a file."""

    table: pa.Table

    @classmethod
    def of(cls, name: str, table: pa.Table) -> FrameLog:
        """Return a table as a log."""
        types = dict(zip(table.schema.names, table.schema.types, strict=True))
        return cls(name=name, names=tuple(table.column_names), types=types, table=table)

    def blocks(
        self, columns: Sequence[str], rows: int, repeated: Sequence[str] = (), row_range: RowRange = WHOLE_FILE
    ) -> Iterator[pa.Table]:
        """Yield blocks of rows."""
        wanted = list(columns) or list(self.names[:1])
        # Dictionaries of other libraries may list a value twice; codes are only compared where they cannot.
        for table in even_blocks(self.table.select(wanted).to_batches(), wanted, rows):
            yield pa.table({name: decode_column(table[name]) for name in wanted})


def is_frame(value: object) -> bool:
    """Say whether a value is a table in memory that `as_table` can take."""
    marks = ("__arrow_c_stream__", "__arrow_c_array__", "__dataframe__")
    return isinstance(value, pa.Table | pa.RecordBatch) or any(hasattr(value, mark) for mark in marks) or _from_pandas(value)


def as_table(value: Any, name: str) -> pa.Table:
    """Return a frame as an Arrow table, without its index if it has one; a stream is read to its end.

    Raises LogError if the frame cannot be handed over, or if a column's name is not a text.
    """
    try:
        return _handed_over(value)
    # Frames of other libraries raise any of these if a column cannot be handed over.
    except (pa.ArrowException, TypeError, ValueError, NotImplementedError) as error:
        raise LogError(
            f"{name} ({type(value).__name__}) cannot be taken over as an Arrow table: {first_line(error)}; give each column one "
            "type, or write the log to a Parquet file"
        ) from error


def frame_digest(table: pa.Table) -> bytes:
    """Return a digest of names, types and values; how the table is cut into chunks or encoded does not matter."""
    total = hashlib.sha256(str(table.num_rows).encode())
    for name, column in zip(table.column_names, table.columns, strict=True):
        one = hashlib.sha256()
        for start in range(0, table.num_rows, _DIGESTED_AT_ONCE):
            _update(one, decode_column(column.slice(start, _DIGESTED_AT_ONCE)))
        kind = decode_column(column.slice(0, 0)).type
        total.update(json.dumps([name, str(kind), one.hexdigest()]).encode())
    return total.digest()


def _handed_over(value: Any) -> pa.Table:
    if isinstance(value, pa.Table):
        return value
    if isinstance(value, pa.RecordBatch):
        return pa.Table.from_batches([value])
    if hasattr(value, "__arrow_c_stream__"):
        return pa.RecordBatchReader.from_stream(value).read_all()
    if hasattr(value, "__arrow_c_array__"):
        return pa.Table.from_batches([pa.record_batch(value)])
    if _from_pandas(value):
        return pa.Table.from_pandas(value, preserve_index=False)
    from pyarrow.interchange import from_dataframe  # only for libraries that know nothing better

    return from_dataframe(value)


def _from_pandas(value: object) -> bool:
    """Recognise pandas without importing it; older versions do not hand over streams."""
    kind = type(value)
    return kind.__module__.partition(".")[0] == "pandas" and kind.__name__ == "DataFrame"


def _update(digest: Any, values: pa.Array) -> None:
    """Add the values of a block to a digest, in a form that depends on nothing but the values."""
    digest.update(np.packbits(values.is_valid().to_numpy(zero_copy_only=False)).tobytes())
    kind = values.type
    if kind == TEXT_TYPE:
        known = values.fill_null("")
        _, offsets, data = known.buffers()
        bounds = np.frombuffer(offsets, dtype=np.int64)[known.offset : known.offset + len(known) + 1]
        digest.update(np.diff(bounds).tobytes())
        if data is not None:
            digest.update(data.slice(int(bounds[0]), int(bounds[-1] - bounds[0])))
    elif pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_boolean(kind):
        digest.update(pc.fill_null(values, pa.scalar(0).cast(kind)).to_numpy(zero_copy_only=False).tobytes())
    elif pa.types.is_timestamp(kind):
        digest.update(values.cast(pa.int64()).fill_null(0).to_numpy(zero_copy_only=False).tobytes())
    else:
        digest.update(json.dumps([str(value) for value in values.to_pylist()]).encode())
