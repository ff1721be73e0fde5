"""Where rows came from, so that a message can name the file and the row."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

AnyArray = npt.NDArray[Any]
Ints = npt.NDArray[np.int32]


@dataclass(frozen=True, slots=True)
class Places:
    """The origin of each row of a table: `files[file[i]]`, data row `row[i]`.

    file `i32[n]`, row `i64[n]`, counted from 1 within its file, header and blank lines not counted.
    """

    files: tuple[str, ...]
    file: Ints
    row: npt.NDArray[np.int64]

    @classmethod
    def following(cls, files: tuple[str, ...], file: int, first: int, rows: int) -> Places:
        """Return the origins of rows that follow each other in one of the files."""
        return cls(files, np.full(rows, file, dtype=np.int32), np.arange(first, first + rows, dtype=np.int64))

    def at(self, index: int) -> str:
        """Return `log.csv, row 3`."""
        return f"{self.files[self.file[index]]}, row {self.row[index]}"

    def order(self, index: int) -> tuple[int, int]:
        """Return what sorts rows as they are in the files."""
        return int(self.file[index]), int(self.row[index])

    def take(self, indices: AnyArray) -> Places:
        """Return the origins of some of the rows."""
        return Places(self.files, self.file[indices], self.row[indices])

    def earliest(self, indices: AnyArray) -> int:
        """Return which of the row indices given comes first in the files."""
        order = np.lexsort((self.row[indices], self.file[indices]))
        return int(indices[order[0]])


def shown(value: object) -> str:
    """Return a value as messages show it: text in quotes, numbers as they are, long text cut."""
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:77]}..."
