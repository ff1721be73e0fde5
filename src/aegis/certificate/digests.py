"""Digests of the data that a certificate is about: of every part of the log, and checksums of its rows by block.

Let h_i be a hash of row i of a file, of everything that is read of it. A block keeps `sum h_i`, `sum i h_i` and `sum i^2 h_i`
modulo the prime 2^31 - 1. If one row was changed, by d, the sums change by d, i d and i^2 d: the ratio of the first two names
the row, and the third confirms that it was only one. Sizes of blocks are powers of two, so that blocks of logs of different
length can be compared.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from aegis.logs import Source, hash_ids, id_parts, ids_as_text, part_digests, total_digest
from aegis.problem import Batch, row_hashes

PRIME = 2**31 - 1
MOST_HASHED_ROWS = 2**20  # of a log; of longer ones only the digests of the files are kept
MOST_BLOCKS = 1024  # of all files together
LEAST_ROWS = 32  # in a block

_Ints = npt.NDArray[np.int64]


@dataclass(slots=True)
class RowChecksums:
    """Hashes of rows as batches come by; given up if there are too many rows."""

    rows: int = 0
    parts: list[tuple[_Ints, _Ints, _Ints]] = field(default_factory=list)

    def add(self, batch: Batch) -> None:
        """Add all rows of a batch."""
        count = len(batch.levels[list(batch.levels)[-1]])
        if self.rows <= MOST_HASHED_ROWS:
            self.rows += count
            if batch.places is None or self.rows > MOST_HASHED_ROWS:
                self.rows = MOST_HASHED_ROWS + 1
                self.parts.clear()
                return
            ids = [values for values in (batch.episode, batch.cluster, batch.time) if values is not None]
            known = [hash_ids([ids_as_text(part)]) for values in ids for part in id_parts(values)]
            hashes = (row_hashes(batch, known) >> np.uint64(33)).astype(np.int64) % PRIME
            self.parts.append((batch.places.file.astype(np.int64), batch.places.row, hashes))

    def files(self, count: int) -> list[dict[str, Any]] | None:
        """Return the blocks of each of `count` files as plain data; None if they were given up."""
        if not self.parts:
            return None
        file, row, hashes = (np.concatenate(parts) for parts in zip(*self.parts, strict=True))
        most = max(1, MOST_BLOCKS // count)
        return [_blocks(row[file == index], hashes[file == index], most) for index in range(count)]


def _blocks(row: _Ints, hashes: _Ints, most: int) -> dict[str, Any]:
    """Return the blocks of a file with rows `[n]`, counted from 1, and their hashes `[n]`: three numbers of 32 bits each."""
    last = int(row.max(initial=0))
    size = LEAST_ROWS
    while size * most < last:
        size *= 2
    sums = np.zeros((3, -(-last // size)), dtype=np.int64)
    place, weight = (row - 1) // size, hashes
    for power in range(3):
        np.add.at(sums[power], place, weight)
        weight = weight * (row % PRIME) % PRIME
    return {"rows": last, "size": size, "sums": (sums % PRIME).T.astype(">u4").tobytes().hex()}


def changed_rows(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[str]:
    """Return in words which rows of a file differ, from its blocks before and after: empty if none does."""
    size = max(before["size"], after["size"])
    was, now = _resized(before, size), _resized(after, size)
    differ = [place for place in range(min(len(was), len(now))) if was[place] != now[place]]
    if before["rows"] != after["rows"]:
        first = differ[0] if differ else min(len(was), len(now))
        return [
            f"{before['rows']} rows before, {after['rows']} now; the first difference is in "
            f"{_row_range(first, size, after['rows'])}"
        ]
    return [_changed_words(was[place], now[place], place, size, after["rows"]) for place in differ]


def rows_reordered(before: Mapping[str, Any], after: Mapping[str, Any]) -> bool:
    """Say whether a file holds the same rows as before in another order, as far as the sum of all their hashes tells."""
    size = max(before["size"], after["size"])
    was, now = _resized(before, size), _resized(after, size)
    total = [sum(block[0] for block in blocks) % PRIME for blocks in (was, now)]
    return before["rows"] == after["rows"] and was != now and total[0] == total[1]


def rows_begin_with(longer: Mapping[str, Any], shorter: Mapping[str, Any]) -> bool:
    """Say whether the rows of a file begin with those of another one, as far as whole blocks tell."""
    size = max(longer["size"], shorter["size"])
    whole = min(longer["rows"], shorter["rows"]) // size
    return whole > 0 and _resized(longer, size)[:whole] == _resized(shorter, size)[:whole]


def _resized(blocks: Mapping[str, Any], size: int) -> list[tuple[int, ...]]:
    """Return the sums of blocks of a larger size."""
    sums = np.frombuffer(bytes.fromhex(blocks["sums"]), dtype=">u4").astype(np.int64).reshape(-1, 3)
    totals = np.add.reduceat(sums, np.arange(0, len(sums), size // blocks["size"]), axis=0) if len(sums) else sums
    return [tuple(values) for values in (totals % PRIME).tolist()]


def _changed_words(was: tuple[int, ...], now: tuple[int, ...], place: int, size: int, rows: int) -> str:
    first, second, third = ((after - before) % PRIME for before, after in zip(was, now, strict=True))
    if first:
        row = second * pow(first, -1, PRIME) % PRIME
        if place * size < row <= min((place + 1) * size, rows) and row * row * first % PRIME == third:
            return f"row {row}: changed"
    return f"{_row_range(place, size, rows)}: several changed"


def _row_range(place: int, size: int, rows: int) -> str:
    return f"rows {place * size + 1} to {max(min((place + 1) * size, rows), place * size + 1)}"


@dataclass(frozen=True, slots=True)
class DataDigest:
    """The digest of all parts in their order, the same as `log_digest` gives, and the parts by name."""

    total: str
    files: tuple[dict[str, Any], ...]

    @classmethod
    def of(cls, source: Source) -> DataDigest:
        """Read every part once; LogError if one cannot be read."""
        digests = part_digests(source.files)
        files = zip(source.files, digests, strict=True)
        return cls(
            total_digest(digests).hex(),
            tuple({"name": Path(part.name).name, "digest": digest.hex()} for part, digest in files),
        )

    @property
    def digests(self) -> tuple[str, ...]:
        """Return the digest of each part."""
        return tuple(file["digest"] for file in self.files)

    def with_rows(self, sums: RowChecksums) -> DataDigest:
        """Return the parts with the checksums of their rows (None where the log is too long for them)."""
        blocks = sums.files(len(self.files))
        rows = (None,) * len(self.files) if blocks is None else tuple(blocks)
        return replace(self, files=tuple({**file, "rows": own} for file, own in zip(self.files, rows, strict=True)))

    def known_by(self, head: Sequence[Batch]) -> tuple[dict[str, Any], ...]:
        """Return the parts with checksums of the rows in the head of the log, by which the ledger knows a log that grew.

        Further columns that candidates read do not count, so that the checksums are the same for every candidate.
        """
        sums = RowChecksums()
        for batch in head:
            sums.add(replace(batch, extra={}))
        return self.with_rows(sums).files

    @property
    def named(self) -> list[dict[str, str]]:
        """Return name and digest of each part."""
        return [{"name": file["name"], "digest": file["digest"]} for file in self.files]

    @property
    def rows(self) -> list[dict[str, Any]] | None:
        """Return the checksums of the rows of each part; None if they are not known."""
        blocks = [file["rows"] for file in self.files if file.get("rows") is not None]
        return blocks if len(blocks) == len(self.files) else None

    def learned_parts(self, log: Mapping[str, Any]) -> list[str]:
        """Return the names of the parts that are among those of the log that a policy's record names."""
        known = set(log.get("digests", ()))
        total = log.get("digest")
        return [
            file["name"]
            for file in self.files
            # A log of one part has the digest of that part's digest: older records name no parts.
            if file["digest"] in known or total_digest([bytes.fromhex(file["digest"])]).hex() == total
        ]
