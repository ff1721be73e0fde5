"""Runs of equal episode ids: do the rows of each episode follow each other?

Ids that grow from run to run answer at once. Others are hashed: two runs with one hash are an episode in two places.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from aegis.errors import LogError
from aegis.logs.blocks import LogFile
from aegis.logs.findings import Findings
from aegis.logs.keys import Hashes, changes, hashes, values_at
from aegis.logs.schema import Column
from aegis.logs.texts import TEXT, is_text
from aegis.problem import AnyArray
from aegis.problem.places import Places

Id = tuple[Any, ...]


@dataclass(slots=True)
class Runs:
    """The runs of a span so far. hashed: keep the hash of each; else only while ids do not grow.

    kinds: the types in which ids are kept. first, last: the first and the last id. growing: each is larger than the one before.
    count: how many runs there are.
    """

    hashed: bool = False
    kinds: tuple[pa.DataType, ...] = ()
    first: Id | None = None
    last: Id | None = None
    growing: bool = True
    count: int = 0
    found: list[Hashes] = field(default_factory=list)

    def add(self, ids: Sequence[pa.ChunkedArray], names: Sequence[str], file: LogFile, places: Callable[[], Places]) -> None:
        """Add the ids of a block of rows; LogError if one is missing. places: tells where they are, if it has to be told."""
        if any(column.null_count for column in ids):
            _refuse_nulls(ids, names, Findings(places()))
        self.kinds = tuple(_kept_as(column.type, name, file) for column, name in zip(ids, names, strict=True))
        starts = np.flatnonzero(changes(ids))
        values = [_settled(values_at(column, starts), kind) for column, kind in zip(ids, self.kinds, strict=True)]
        first, last = (tuple(column[place].as_py() for column in values) for place in (0, -1))
        goes_on = self.last == first
        self.count += starts.size - int(goes_on)
        self.growing = self.growing and _grow(values) and (self.last is None or goes_on or _below(self.last, first))
        self.first, self.last = self.first if self.first is not None else first, last
        if self.hashed:
            own = hashes(values)
            self.found.append(own[1:] if goes_on else own)


def contiguous(spans: Sequence[Runs], hashed: Callable[[Sequence[int]], Iterable[Runs]]) -> bool:
    """Say whether no id comes again once another one has come. hashed: gives the runs of some spans with their hashes."""
    known = [(place, runs) for place, runs in enumerate(spans) if runs.first is not None]
    if _growing([runs for _, runs in known]):
        return True
    missing = [place for place, runs in known if not runs.hashed]
    later = dict(zip(missing, hashed(missing), strict=True)) if missing else {}
    parts: list[Hashes] = []
    previous: np.uint64 | None = None
    for place, runs in known:
        for own in later.get(place, runs).found:
            parts.append(own[1:] if previous is not None and own.size and own[0] == previous else own)
            previous = own[-1] if own.size else previous
        later.pop(place, None)
    ordered = np.concatenate(parts)
    del parts
    ordered.sort()
    return not bool(np.any(ordered[1:] == ordered[:-1]))


def _growing(spans: Sequence[Runs]) -> bool:
    if not all(runs.growing and runs.kinds == spans[0].kinds for runs in spans):
        return False
    pairs = itertools.pairwise(spans)
    return all(one.last == other.first or _below(one.last or (), other.first or ()) for one, other in pairs)


def id_type(kind: pa.DataType, column: Column, file: LogFile) -> pa.DataType:
    """Return the type in which a column of a typed file is kept; LogError if it cannot be."""
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


def _kept_as(kind: pa.DataType, name: str, file: LogFile) -> pa.DataType:
    return TEXT if file.types is None else id_type(kind, Column(name, "episode", "key"), file)


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


def _grow(columns: Sequence[pa.Array]) -> bool:
    """Say whether each id, of one column or several, is larger than the one before."""
    undecided: AnyArray = np.ones(len(columns[0]) - 1, dtype=bool)
    for column in columns:
        before, after = column.slice(0, len(column) - 1), column.slice(1)
        if column is columns[0] and pc.all(pc.less(before, after)).as_py():
            return True  # the usual answer, at the price of one comparison
        if pc.any(pc.and_(pc.greater(before, after), pa.array(undecided))).as_py():
            return False
        undecided &= pc.equal(before, after).to_numpy(zero_copy_only=False)
    return not undecided.any()


def _below(one: Id, other: Id) -> bool:
    try:
        return one < other
    except TypeError:  # text in one file, a number in another
        return False
