"""Files with columns that are not in them: of folders like `day=7`, and the number of each row."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from aegis.logs.blocks import LogFile
from aegis.logs.spans import WHOLE, Stretch
from aegis.logs.texts import TEXT, readable

ROW = "row"  # an episode id of this name counts rows, unless the log has such a column
_FILE = 10**12  # more than the rows of a file: rows of the second file are counted from here


@dataclass(frozen=True, slots=True)
class KeyedLog:
    """A file and the columns that its folders add: whole numbers where they look like it, else text."""

    file: LogFile
    keys: Mapping[str, str | None]

    @classmethod
    def of(cls, file: LogFile, keys: Mapping[str, str | None]) -> KeyedLog:
        """Return the file with those keys that it has no column for."""
        return cls(file, {key: value for key, value in keys.items() if key not in file.names})

    @property
    def name(self) -> str:
        """Return the path; see LogFile."""
        return self.file.name

    @property
    def names(self) -> tuple[str, ...]:
        """Return the columns of the file, then those of its folders; see LogFile."""
        return (*self.file.names, *self.keys)

    @property
    def types(self) -> Mapping[str, pa.DataType] | None:
        """Return the type of each column; see LogFile."""
        if self.file.types is None:
            return None
        return {**self.file.types, **{key: _kind(value) for key, value in self.keys.items()}}

    @property
    def decimals(self) -> Mapping[str, str]:
        """Return decimal marks by column; see LogFile."""
        return self.file.decimals

    @property
    def dialect(self) -> str:
        """Return how the file is read; see LogFile."""
        return self.file.dialect

    def stretches(self) -> tuple[Stretch, ...]:
        """Return those of the file; see LogFile."""
        return self.file.stretches()

    def blocks(
        self, columns: Sequence[str], rows: int, repeated: Sequence[str] = (), stretch: Stretch = WHOLE
    ) -> Iterator[pa.Table]:
        """Yield blocks of rows; see LogFile."""
        own = [name for name in columns if name not in self.keys]
        typed = self.types is not None
        for table in self.file.blocks(own, rows, [name for name in repeated if name in own], stretch):
            added = {key: _repeated(self.keys[key], table.num_rows, typed) for key in columns if key in self.keys}
            yield pa.table({name: added[name] if name in added else table[name] for name in columns or table.column_names})


@dataclass(frozen=True, slots=True)
class CountedLog:
    """A file and one more column: the number of each row, from 1; file: its index, so that no two rows of a log are one id."""

    counted: LogFile
    file: int

    @property
    def name(self) -> str:
        """Return the path; see LogFile."""
        return self.counted.name

    @property
    def names(self) -> tuple[str, ...]:
        """Return the columns of the file, then the number of the row; see LogFile."""
        return (*self.counted.names, ROW)

    @property
    def types(self) -> Mapping[str, pa.DataType] | None:
        """Return the type of each column; see LogFile."""
        return None if self.counted.types is None else {**self.counted.types, ROW: pa.int64()}

    @property
    def decimals(self) -> Mapping[str, str]:
        """Return decimal marks by column; see LogFile."""
        return self.counted.decimals

    @property
    def dialect(self) -> str:
        """Return how the file is read; see LogFile."""
        return self.counted.dialect

    def stretches(self) -> tuple[Stretch, ...]:
        """Return those of the file; see LogFile."""
        return self.counted.stretches()

    def blocks(
        self, columns: Sequence[str], rows: int, repeated: Sequence[str] = (), stretch: Stretch = WHOLE
    ) -> Iterator[pa.Table]:
        """Yield blocks of rows; see LogFile."""
        own = [name for name in columns if name != ROW]
        first = self.file * _FILE + stretch.first
        for table in self.counted.blocks(own, rows, [name for name in repeated if name != ROW], stretch):
            numbers = pa.array(np.arange(first, first + table.num_rows))
            first += table.num_rows
            added = numbers if self.types is not None else numbers.cast(TEXT)
            yield pa.table({name: added if name == ROW else table[name] for name in columns or table.column_names})


def with_row_numbers(files: Sequence[LogFile], episode: Iterable[str]) -> tuple[LogFile, ...]:
    """Return the files, with numbered rows if the episode is the row and no file has a column of that name."""
    if tuple(episode) != (ROW,) or any(ROW in file.names for file in files):
        return tuple(files)
    return tuple(CountedLog(file, index) for index, file in enumerate(files))


def _kind(value: str | None) -> pa.DataType:
    return pa.int64() if value is not None and readable(pa.array([value], TEXT), pa.int64()) else TEXT


def _repeated(value: str | None, count: int, typed: bool) -> pa.Array:
    text = pa.nulls(count, TEXT) if value is None else pa.repeat(pa.scalar(value, TEXT), count)
    return text.cast(_kind(value)) if typed else text
