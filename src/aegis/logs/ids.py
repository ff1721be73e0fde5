"""Ids of one or several columns: 64-bit hashes, codes, and runs of equal ids, which tell whether the rows of an episode adjoin.

Ids that grow from run to run answer that at once. Others are hashed: two runs with one hash are an episode in two places.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from aegis.errors import LogError
from aegis.logs.column_values import TEXT_TYPE, decode_column, is_text
from aegis.logs.columns import Column, Findings
from aegis.logs.formats.base import LogFile
from aegis.problem import AnyArray, Hashes, RowOrigins, mix_bits

_ODD = np.uint64(0x9E3779B97F4A7C15)
_HASHED_AT_ONCE = 16384  # rows; hashing needs some 24 bytes for each byte of text


def id_changes(columns: Sequence[pa.ChunkedArray]) -> npt.NDArray[np.bool_]:
    """Return where an id `bool[n]` differs from that of the row before; true in the first row. No entry is null.

    Dictionaries, where there are any, list a value once, and each chunk may have its own.
    """
    changed = np.zeros(len(columns[0]), dtype=np.bool_)
    changed[:1] = True
    for column in columns:
        first, before = 0, None
        for chunk in column.chunks:
            if not len(chunk):
                continue
            if first and chunk[0].as_py() != before:
                changed[first] = True
            if pa.types.is_dictionary(chunk.type):
                numbers = chunk.indices.to_numpy(zero_copy_only=False)
                differs = numbers[1:] != numbers[:-1]
            else:
                differs = pc.not_equal(chunk.slice(1), chunk.slice(0, len(chunk) - 1)).to_numpy(zero_copy_only=False)
            changed[first + 1 : first + len(chunk)] |= differs
            first, before = first + len(chunk), chunk[-1].as_py()
    return changed


def last_id_start(columns: Sequence[pa.ChunkedArray]) -> int:
    """Return the row at which the last id starts: that after the last row with another one."""
    length, tail = len(columns[0]), 2048
    while True:
        rows = min(tail, length)
        changes = np.flatnonzero(id_changes([column.slice(length - rows) for column in columns])[1:])
        if changes.size:
            return length - rows + 1 + int(changes[-1])
        if rows == length:
            return 0
        tail *= 8


def values_at(column: pa.ChunkedArray, rows: AnyArray) -> pa.Array:
    """Return the values at some rows, which never decrease, as one array without dictionaries, text as TEXT."""
    parts = []
    bounds = np.cumsum([0, *[len(chunk) for chunk in column.chunks]])
    places = np.searchsorted(rows, bounds)
    for chunk, first, start, stop in zip(column.chunks, bounds[:-1], places[:-1], places[1:], strict=True):
        if stop > start:
            parts.append(decode_column(pa.chunked_array([chunk.take(pa.array(rows[start:stop] - first))])))
    return parts[0] if len(parts) == 1 else pa.concat_arrays(parts) if parts else decode_column(column.slice(0, 0))


def id_parts(ids: AnyArray) -> list[AnyArray]:
    """Return the columns `[n]` of ids: the fields of a structured array, or the ids themselves."""
    return [ids[name] for name in ids.dtype.names] if ids.dtype.names else [ids]


def hash_ids(columns: Sequence[pa.Array]) -> Hashes:
    """Return a 64-bit hash `[n]` of each id, by its text: the number 5 and the text "5" are one id.

    A column with one entry is that of all ids.

    Equal ids have equal hashes on every machine. Different ids have different hashes but for a chance of 2^-64 a pair;
    what is built on it must survive that (a log sorted without need, not two episodes taken for one).
    """
    combined = np.zeros(1, dtype=np.uint64)
    for column in columns:
        combined = mix_bits(combined * _ODD + _hash_text(column if column.type == TEXT_TYPE else pc.cast(column, TEXT_TYPE)))
    return combined


def first_seen_codes(column: pa.Array) -> npt.NDArray[np.int64]:
    """Return codes `i64[n]` from 0 in the order in which values appear; for columns without nulls."""
    return column.dictionary_encode().indices.to_numpy(zero_copy_only=False).astype(np.int64)


def joint_codes(columns: Sequence[pa.Array]) -> npt.NDArray[np.int64]:
    """Return codes `i64[n]` of the ids made of several columns, in the order in which they appear."""
    joint = first_seen_codes(columns[0])
    for column in columns[1:]:
        further = first_seen_codes(column)
        joint = first_seen_codes(pa.array(joint * (further.max(initial=0) + 1) + further))
    return joint


def value_ranks(column: pa.Array) -> npt.NDArray[np.int64]:
    """Return the place `i64[n]` of each value among the distinct ones: numbers by size, text by character."""
    encoded = column.dictionary_encode()
    order = pc.array_sort_indices(encoded.dictionary).to_numpy(zero_copy_only=False)
    place = np.empty(order.size, dtype=np.int64)
    place[order] = np.arange(order.size)
    return place[encoded.indices.to_numpy(zero_copy_only=False)]


def codes_and_values(column: pa.ChunkedArray) -> tuple[npt.NDArray[np.int64], pa.Array]:
    """Return codes `i64[n]` and the values they stand for, which may be repeated; for columns without nulls."""
    whole = one_dictionary(column)
    return whole.indices.to_numpy(zero_copy_only=False).astype(np.int64), whole.dictionary


def one_dictionary(column: pa.ChunkedArray) -> pa.DictionaryArray:
    """Return a column as one dictionary-encoded array; nulls are null indices."""
    encoded = column.unify_dictionaries() if pa.types.is_dictionary(column.type) else column.dictionary_encode()
    if not encoded.num_chunks:
        return pa.DictionaryArray.from_arrays(pa.array([], pa.int32()), pa.array([], encoded.type.value_type))
    return encoded.chunk(0) if encoded.num_chunks == 1 else pa.concat_arrays(encoded.chunks)


def _hash_text(text: pa.Array) -> Hashes:
    parts = [_hash_some(text.slice(start, _HASHED_AT_ONCE)) for start in range(0, len(text), _HASHED_AT_ONCE)]
    return np.concatenate(parts) if parts else np.zeros(0, dtype=np.uint64)


def _hash_some(text: pa.Array) -> Hashes:
    """Return a polynomial hash of the bytes: sum of table[byte] * odd^position modulo 2^64, then mixed."""
    _, offsets, data = text.buffers()
    bounds = np.frombuffer(offsets, dtype=np.int64)[text.offset : text.offset + len(text) + 1]
    size = int(bounds[-1] - bounds[0])
    content = np.frombuffer(data, dtype=np.uint8, count=size, offset=int(bounds[0])) if size else np.zeros(0, dtype=np.uint8)
    starts, lengths = bounds[:-1] - bounds[0], np.diff(bounds)
    if len(text) and int(lengths[0]) * len(text) == size and bool((lengths == lengths[0]).all()):
        # Ids are often of one length: the same sums, without looking for where each entry starts.
        powers = np.cumprod(np.full(int(lengths[0]), _ODD, dtype=np.uint64))
        sums: Hashes = _TABLE[content].reshape(len(text), int(lengths[0])) @ powers  # type: ignore[assignment]
        return mix_bits(sums)
    position = np.arange(size) - np.repeat(starts, lengths)
    powers = np.cumprod(np.full(int(lengths.max(initial=0)) + 1, _ODD, dtype=np.uint64))
    running = np.concatenate([np.zeros(1, dtype=np.uint64), np.cumsum(_TABLE[content] * powers[position], dtype=np.uint64)])
    return mix_bits(running[starts + lengths] - running[starts])


_TABLE = mix_bits(np.arange(1, 257, dtype=np.uint64) * _ODD)
IdTuple = tuple[Any, ...]


@dataclass(slots=True)
class IdRuns:
    """Runs of equal ids in a row range. hashed: keep the hash of each.

    kinds: the types of the ids. first, last: the first and the last id. growing: each is larger than the one before. count: how
    many runs there are.
    """

    hashed: bool = False
    kinds: tuple[pa.DataType, ...] = ()
    first: IdTuple | None = None
    last: IdTuple | None = None
    growing: bool = True
    count: int = 0
    hashes: list[Hashes] = field(default_factory=list)

    def add(self, ids: Sequence[pa.ChunkedArray], names: Sequence[str], file: LogFile, places: Callable[[], RowOrigins]) -> None:
        """Add the ids of a block of rows; LogError if one is missing. places: their origins, for a message."""
        if any(column.null_count for column in ids):
            _refuse_nulls(ids, names, Findings(places()))
        typed = [Column(name, "episode", "key") for name in names] if file.types is not None else []
        self.kinds = tuple(id_type(ids[at].type, column, file) for at, column in enumerate(typed)) or (TEXT_TYPE,) * len(ids)
        starts = np.flatnonzero(id_changes(ids))
        values = [_settled(values_at(column, starts), kind) for column, kind in zip(ids, self.kinds, strict=True)]
        first, last = (tuple(column[place].as_py() for column in values) for place in (0, -1))
        goes_on = self.last == first
        self.count += starts.size - int(goes_on)
        self.growing = self.growing and _grow(values) and (self.last is None or goes_on or _below(self.last, first))
        self.first, self.last = self.first if self.first is not None else first, last
        if self.hashed:
            own = hash_ids(values)
            self.hashes.append(own[1:] if goes_on else own)


def are_contiguous(ranges: Sequence[IdRuns], hashed: Callable[[Sequence[int]], Iterable[IdRuns]]) -> bool:
    """Say whether no id comes again once another one has come. hashed: returns the runs of some ranges with their hashes."""
    known = [(place, runs) for place, runs in enumerate(ranges) if runs.first is not None]
    if _growing([runs for _, runs in known]):
        return True
    missing = [place for place, runs in known if not runs.hashed]
    later = dict(zip(missing, hashed(missing), strict=True)) if missing else {}
    parts: list[Hashes] = []
    previous: np.uint64 | None = None
    for place, runs in known:
        for own in later.pop(place, runs).hashes:
            parts.append(own[1:] if previous is not None and own.size and own[0] == previous else own)
            previous = own[-1] if own.size else previous
    ordered = np.concatenate(parts)
    del parts
    ordered.sort()
    return not bool(np.any(ordered[1:] == ordered[:-1]))


def _growing(ranges: Sequence[IdRuns]) -> bool:
    alike = all(runs.growing and runs.kinds == ranges[0].kinds for runs in ranges)
    pairs = itertools.pairwise(ranges)
    return alike and all(one.last == other.first or _below(one.last or (), other.first or ()) for one, other in pairs)


def id_type(kind: pa.DataType, column: Column, file: LogFile) -> pa.DataType:
    """Return the type in which a column of a typed file is kept; LogError if it cannot be."""
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    if is_text(kind):
        return TEXT_TYPE
    if pa.types.is_timestamp(kind) or pa.types.is_date(kind):
        return kind
    if pa.types.is_integer(kind):
        return pa.int64()
    if pa.types.is_boolean(kind):
        return TEXT_TYPE if column.kind == "key" else kind
    if pa.types.is_floating(kind) or pa.types.is_decimal(kind):
        # Ids that became floats on their way (5.0) are whole numbers; the conversion refuses 5.5 by row.
        return pa.int64() if column.kind == "key" else pa.float64()
    raise LogError(
        f"{file.name}, column '{column.name}': the {column.what} has the type {kind}; text, numbers, flags and dates can be read"
    )


def _settled(ids: pa.Array, kind: pa.DataType) -> pa.Array:
    """Return ids in their type, so that 5.0 in one file and 5 in another are one id; the conversion refuses 5.5."""
    try:
        return ids if ids.type == kind else pc.cast(ids, kind)
    except pa.ArrowInvalid:
        return ids


def _refuse_nulls(ids: Sequence[pa.ChunkedArray], names: Sequence[str], findings: Findings) -> None:
    text = "the episode id is missing (null); every row belongs to an episode; give it an id"
    for column, name in zip(ids, names, strict=True):
        if column.null_count:
            findings.add(np.flatnonzero(column.is_null().to_numpy()), name, lambda _: text)
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


def _below(one: IdTuple, other: IdTuple) -> bool:
    try:
        return one < other
    except TypeError:  # text in one file, a number in another
        return False


def ids_as_text(values: AnyArray) -> pa.Array:
    """Return ids as the text they are hashed by."""
    column = pa.array(values)
    if pa.types.is_timestamp(column.type) or pa.types.is_date(column.type):
        column = column.cast(pa.timestamp("us"), safe=False)
    return decode_column(pa.chunked_array([column])).cast(TEXT_TYPE)
