"""Ids of one or several columns: where runs of equal ids start, 64-bit hashes, codes."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from aegis.logs.texts import TEXT, is_text
from aegis.problem import AnyArray

Hashes = npt.NDArray[np.uint64]

_ODD = np.uint64(0x9E3779B97F4A7C15)
_HASHED_AT_ONCE = 16384  # rows; hashing needs some 24 bytes for each byte of text


def changes(columns: Sequence[pa.ChunkedArray]) -> npt.NDArray[np.bool_]:
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


def last_start(columns: Sequence[pa.ChunkedArray]) -> int:
    """Return the row at which the last id starts: that after the last row with another one."""
    length, tail = len(columns[0]), 2048
    while True:
        rows = min(tail, length)
        found = np.flatnonzero(changes([column.slice(length - rows) for column in columns])[1:])
        if found.size:
            return length - rows + 1 + int(found[-1])
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
            parts.append(_plain(chunk.take(pa.array(rows[start:stop] - first))))
    return parts[0] if len(parts) == 1 else pa.concat_arrays(parts) if parts else _plain(pa.array([], column.type))


def id_parts(ids: AnyArray) -> list[AnyArray]:
    """Return the columns `[n]` of ids: the fields of a structured array, or the ids themselves."""
    return [ids[name] for name in ids.dtype.names] if ids.dtype.names else [ids]


def hashes(columns: Sequence[pa.Array]) -> Hashes:
    """Return a 64-bit hash `[n]` of each id, by its text: the number 5 and the text "5" are one id.

    A column with one entry is that of all ids.

    Equal ids have equal hashes on every machine. Different ids have different hashes but for a chance of 2^-64 a pair;
    what is built on it must survive that (a log sorted without need, not two episodes taken for one).
    """
    combined = np.zeros(1, dtype=np.uint64)
    for column in columns:
        combined = _mix(combined * _ODD + _hash_text(column if column.type == TEXT else pc.cast(column, TEXT)))
    return combined


def codes(column: pa.Array) -> npt.NDArray[np.int64]:
    """Return codes `i64[n]` from 0 in the order in which values appear; for columns without nulls."""
    return column.dictionary_encode().indices.to_numpy(zero_copy_only=False).astype(np.int64)


def joint_codes(columns: Sequence[pa.Array]) -> npt.NDArray[np.int64]:
    """Return codes `i64[n]` of the ids made of several columns, in the order in which they appear."""
    joint = codes(columns[0])
    for column in columns[1:]:
        further = codes(column)
        joint = codes(pa.array(joint * (further.max(initial=0) + 1) + further))
    return joint


def ranks(column: pa.Array) -> npt.NDArray[np.int64]:
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


def _plain(values: pa.Array) -> pa.Array:
    if pa.types.is_dictionary(values.type):
        values = values.dictionary_decode()
    return values.cast(TEXT) if is_text(values.type) and values.type != TEXT else values


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
        return _mix(sums)
    position = np.arange(size) - np.repeat(starts, lengths)
    powers = np.cumprod(np.full(int(lengths.max(initial=0)) + 1, _ODD, dtype=np.uint64))
    running = np.concatenate([np.zeros(1, dtype=np.uint64), np.cumsum(_TABLE[content] * powers[position], dtype=np.uint64)])
    return _mix(running[starts + lengths] - running[starts])


def _mix(values: Hashes) -> Hashes:
    """Spread every bit over all 64 (the finaliser of splitmix64)."""
    mixed = values.copy()
    mixed ^= mixed >> np.uint64(30)
    mixed *= np.uint64(0xBF58476D1CE4E5B9)
    mixed ^= mixed >> np.uint64(27)
    mixed *= np.uint64(0x94D049BB133111EB)
    mixed ^= mixed >> np.uint64(31)
    return mixed


_TABLE = _mix(np.arange(1, 257, dtype=np.uint64) * _ODD)
