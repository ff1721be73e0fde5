"""A published text file as columns: every row is kept; an error names file, row and column."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from aegis.errors import LogError, did_you_mean

Texts = npt.NDArray[np.str_]
Flags = npt.NDArray[np.bool_]
Numbers = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class PublishedTable:
    """The columns of a text file as texts `[n]` without blanks around them; rows are counted from 1, without the header."""

    file: str
    columns: Mapping[str, Texts]

    def __len__(self) -> int:
        return len(next(iter(self.columns.values()), ()))

    def text(self, column: str, allowed: Sequence[str] | None = None) -> Texts:
        """Return a column; LogError names the first row whose value is not one of `allowed` (if given)."""
        texts = self.columns[column]
        if allowed is not None:
            self.refuse(~np.isin(texts, allowed), column, f"expected one of {', '.join(repr(value) for value in allowed)}")
        return texts

    def numbers(self, column: str, what: str, low: float = -np.inf, high: float = np.inf, missing: bool = False) -> Numbers:
        """Return a column of numbers in [low, high], NaN where it is empty; an empty field is an error unless `missing`."""
        texts = self.columns[column]
        values = np.array([_number(text) for text in texts], dtype=np.float64)
        wrong = np.isnan(values) & ((texts != "") | (not missing)) | (values < low) | (values > high)
        self.refuse(wrong, column, f"expected {what}")
        return values

    def zero_one(self, column: str) -> Numbers:
        """Return a column of 0 and 1."""
        values = self.numbers(column, "0 or 1")
        self.refuse((values != 0) & (values != 1), column, "expected 0 or 1")
        return values

    def flags(self, column: str, missing: bool = False) -> tuple[Flags, Flags]:
        """Return what a column of TRUE and FALSE says, and where it says anything; empty fields are errors unless `missing`."""
        texts = self.text(column, ["TRUE", "FALSE", ""] if missing else ["TRUE", "FALSE"])
        return texts == "TRUE", texts != ""

    def refuse(self, wrong: Flags, column: str, expected: str) -> None:
        """Raise LogError that names the first of the rows `wrong[n]`, and says how many there are."""
        if wrong.any():
            row, more = int(np.argmax(wrong)), int(wrong.sum()) - 1
            value = f"found {str(self.columns[column][row])!r}; " if column in self.columns else ""
            rest = f" (and {more:,} more row{'s' if more > 1 else ''} like it)" if more else ""
            raise LogError(f"{self.file}, row {row + 1}, column '{column}': {value}{expected}{rest}")

    def rows(self, which: Flags, most: int = 5) -> str:
        """Return the rows `which[n]` as words: `rows 3, 8 and 17 more`."""
        places = np.flatnonzero(which) + 1
        rest = f" and {places.size - most:,} more" if places.size > most else ""
        return f"row{'s' if places.size > 1 else ''} {', '.join(map(str, places[:most]))}{rest}"


def read_published_table(
    content: bytes, file: str, wanted: Iterable[str], encoding: str = "utf-8", separator: str = ","
) -> PublishedTable:
    """Return the columns `wanted` of a text file; LogError if one is missing or a row has another number of fields.

    file: how messages name it.
    """
    try:
        text = content.decode(encoding)
    except UnicodeDecodeError as error:
        raise LogError(f"{file}: byte {error.start + 1} is not {encoding} text; expected the file as it was published") from error
    lines = csv.reader(io.StringIO(text, newline=""), delimiter=separator)
    header = [name.strip() for name in next(lines, [])]
    places = {name: _place(name, header, file) for name in wanted}
    rows: list[list[str]] = []
    for fields in lines:
        if not fields:
            continue
        if len(fields) != len(header):
            raise LogError(f"{file}, row {len(rows) + 1}: found {len(fields)} fields; expected {len(header)}, as in the header")
        rows.append([fields[place].strip() for place in places.values()])
    if not rows:
        raise LogError(f"{file} has no rows below its header; expected the file as it was published")
    return PublishedTable(file, {name: np.array(column) for name, column in zip(places, zip(*rows, strict=True), strict=True)})


def read_only_file(
    paths: Sequence[Path], what: str, wanted: Iterable[str], encoding: str = "utf-8", separator: str = ","
) -> PublishedTable:
    """Return the columns `wanted` of the single file; LogError says which one is meant if there are others, or it is missing."""
    if len(paths) != 1:
        raise LogError(f"found {len(paths)} files; expected one, {what}")
    if not paths[0].is_file():
        raise LogError(f"{paths[0]} {'is a folder' if paths[0].is_dir() else 'does not exist'}; expected {what}")
    return read_published_table(paths[0].read_bytes(), str(paths[0]), wanted, encoding, separator)


def columns_of(**columns: Any) -> dict[str, list[Any]]:
    """Return plain lists by name, NaN as missing: what an Arrow table is made of."""
    lists = {name: np.asarray(values).tolist() for name, values in columns.items()}
    return {name: [None if value != value else value for value in values] for name, values in lists.items()}


def _place(name: str, header: list[str], file: str) -> int:
    if header.count(name) != 1:
        how = "twice" if name in header else "not at all"
        hint = "" if name in header else did_you_mean(name, header)
        raise LogError(
            f"{file}: the column '{name}' is there {how}{hint}; expected the file as it was published, whose header has it once"
        )
    return header.index(name)


def _number(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        return np.nan
    return value if np.isfinite(value) else np.nan
