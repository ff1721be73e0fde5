"""Files that a log may come in: Parquet and comma-separated text, read block by block."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq

from aegis.errors import LogError
from aegis.logs.texts import TEXT

_CSV_BLOCK = 8 << 20  # bytes read at a time
_TROUBLE = (pa.ArrowException, OSError, UnicodeDecodeError)


class LogFile(Protocol):
    """One file of a log: what its columns are called, what they hold, and its rows in order."""

    @property
    def path(self) -> Path:
        """Return where the file is."""
        ...

    @property
    def names(self) -> tuple[str, ...]:
        """Return the columns in the order of the file."""
        ...

    @property
    def types(self) -> Mapping[str, pa.DataType] | None:
        """Return the type of each column, or None if the file is text and its types are to be guessed."""
        ...

    def blocks(self, columns: Sequence[str], rows: int) -> Iterator[pa.Table]:
        """Yield the columns asked for in tables of `rows` rows (the last one shorter), from the first row to the last."""
        ...


@dataclass(frozen=True, slots=True)
class ParquetLog:
    """A Parquet file; row groups are streamed and page checksums, where there are any, are verified."""

    path: Path
    names: tuple[str, ...]
    types: Mapping[str, pa.DataType] | None

    @classmethod
    def open(cls, path: Path) -> ParquetLog:
        """Read the footer."""
        try:
            with cls._file(path) as file:
                schema = file.schema_arrow
                return cls(path, tuple(schema.names), dict(zip(schema.names, schema.types, strict=True)))
        except _TROUBLE as error:
            raise _unreadable(path, "Parquet", error) from error

    def blocks(self, columns: Sequence[str], rows: int) -> Iterator[pa.Table]:
        """Yield blocks of rows; see LogFile."""
        try:
            file = self._file(self.path)
        except _TROUBLE as error:
            raise _unreadable(self.path, "Parquet", error) from error
        with file:
            # Without columns the row count still has to come out right; any one column tells it.
            wanted = list(columns) or list(self.names[:1])
            stream = file.iter_batches(batch_size=rows, columns=wanted)
            yield from _evenly(_guarded(stream, self.path, "Parquet"), wanted, rows)

    @staticmethod
    def _file(path: Path) -> pq.ParquetFile:
        return pq.ParquetFile(path, pre_buffer=False, page_checksum_verification=True)


@dataclass(frozen=True, slots=True)
class CsvLog:
    """A text file with commas and a header, in UTF-8; all columns come as text, empty fields as null.

    What a field means is decided where its role is known, so that a label `NA` or an id `007` stays what it is.
    """

    path: Path
    names: tuple[str, ...]
    types: Mapping[str, pa.DataType] | None = None

    @classmethod
    def open(cls, path: Path) -> CsvLog:
        """Read the header."""
        try:
            with cls._reader(path, None) as reader:
                return cls(path, tuple(reader.schema.names))
        except _TROUBLE as error:
            raise _unreadable(path, "CSV", error) from error

    def blocks(self, columns: Sequence[str], rows: int) -> Iterator[pa.Table]:
        """Yield blocks of rows; see LogFile."""
        wanted = list(columns) or list(self.names[:1])
        try:
            reader = self._reader(self.path, wanted)
        except _TROUBLE as error:
            raise _unreadable(self.path, "CSV", error) from error
        with reader:
            yield from _evenly(_guarded(reader, self.path, "CSV"), wanted, rows)

    @staticmethod
    def _reader(path: Path, columns: list[str] | None) -> pa.csv.CSVStreamingReader:
        return pa.csv.open_csv(
            path,
            # One thread, so that the parser knows and tells the row it stumbles over.
            read_options=pa.csv.ReadOptions(block_size=_CSV_BLOCK, use_threads=False),
            parse_options=pa.csv.ParseOptions(newlines_in_values=True),
            convert_options=pa.csv.ConvertOptions(
                column_types=None if columns is None else dict.fromkeys(columns, TEXT),
                include_columns=columns,
                null_values=[""],
                strings_can_be_null=True,
                quoted_strings_can_be_null=False,
            ),
        )


FORMATS: dict[str, type[ParquetLog] | type[CsvLog]] = {".parquet": ParquetLog, ".pq": ParquetLog, ".csv": CsvLog}


def open_log(path: Path) -> LogFile:
    """Return the file as a log of the format its name ends in; raises LogError if it cannot be one."""
    if path.is_dir():
        raise LogError(f"{path} is a folder; give the files in it")
    if not path.exists():
        raise LogError(f"{path} does not exist")
    form = FORMATS.get(path.suffix.lower())
    if form is None:
        raise LogError(f"{path}: a log ends in {', '.join(FORMATS)}; found '{path.suffix}'. Save it as one of these")
    return form.open(path)


def _guarded(stream: Iterable[pa.RecordBatch], path: Path, form: str) -> Iterator[pa.RecordBatch]:
    """Yield from a reader; what goes wrong in reading becomes a LogError, what goes wrong in using does not."""
    blocks = iter(stream)
    while True:
        try:
            block = next(blocks)
        except StopIteration:
            return
        except _TROUBLE as error:
            raise _unreadable(path, form, error) from error
        yield block


def _evenly(blocks: Iterable[pa.RecordBatch], columns: list[str], rows: int) -> Iterator[pa.Table]:
    """Yield tables of `rows` rows from blocks of any size."""
    held: list[pa.RecordBatch] = []
    count = 0
    for block in blocks:
        rest = block.select(columns)
        while count + rest.num_rows >= rows:
            held.append(rest.slice(0, rows - count))
            yield pa.Table.from_batches(held)
            rest, held, count = rest.slice(rows - count), [], 0
        if rest.num_rows:
            held.append(rest)
            count += rest.num_rows
    if count:
        yield pa.Table.from_batches(held)


def _unreadable(path: Path, form: str, error: Exception) -> LogError:
    said = str(error).splitlines()[0] if str(error) else type(error).__name__
    hints = {"UTF8": "; save it as UTF-8", "utf-8": "; save it as UTF-8", "Empty CSV": "; it needs a header and rows"}
    hint = next((text for mark, text in hints.items() if mark in said), "")
    return LogError(f"{path}: cannot be read as {form} (truncated, damaged or something else?): {said}{hint}")
