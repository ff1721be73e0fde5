"""Archives: records of a journal that were moved out of the store into Parquet files, and what the store keeps of them.

A record of the kind `archived` notes the last record of a run and its hash, so that the chain goes on. The store keeps the first
record, those that name journal keys and those that note archives. Of the keys of all others it keeps digests, so that no request
is done twice.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from hashlib import sha256
from itertools import zip_longest
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import sqlalchemy as sa

from aegis.errors import OutputError
from aegis.files import atomic_write
from aegis.service.http_errors import StoreDamaged
from aegis.service.store.chain import JOURNAL_KEY, SIGNED_COLUMNS
from aegis.service.store.database import Database, archived_keys_table, journal_table

ARCHIVED = "archived"  # kind of the records that note an archive
KEPT_KINDS = ("opened", JOURNAL_KEY, ARCHIVED)  # of records that stay in the store
RECORDS = "journal.parquet"
GROUP = 20_000  # records of a row group
COLUMNS = (*SIGNED_COLUMNS, "hash")
SCHEMA = pa.schema([(name, pa.int64() if name in ("seq", "episode") else pa.string()) for name in COLUMNS])
Row = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class ArchiveMark:
    """A run: records `first` to `last` left the store. hash: of the last one. discarded: they are in no archive.

    keys: digest of what the store keeps of their keys. kept: digest of the records up to `last` that stay in the store.
    """

    number: int
    first: int
    last: int
    hash: str
    discarded: bool
    keys: str
    kept: str

    @classmethod
    def of(cls, gate: str, seq: int, kind: str, body: Mapping[str, Any]) -> ArchiveMark:
        """Return the mark that a record notes; StoreDamaged if it notes none."""
        try:
            mark = cls(**body)
            if kind == ARCHIVED and 0 < mark.first <= mark.last < seq:
                return mark
        except TypeError:
            pass
        raise StoreDamaged(f"gate '{gate}': record {seq} was altered; restore a backup")

    def plain(self) -> dict[str, Any]:
        """Return it for JSON."""
        return asdict(self)

    def place(self, folder: str | Path, gate: str) -> Path:
        """Return the folder of the run inside an archive."""
        return Path(folder) / gate / f"{self.first:012d}-{self.last:012d}"


def mark_key(number: int) -> str:
    """Return the key of the record that notes a run. It has a space, which no key of a caller may have."""
    return f"{ARCHIVED} {number}"


# ---- the file ----------------------------------------------------------------------------------------------------------------


def write_records(path: Path, rows: Iterable[Row]) -> None:
    """Write rows of a journal into a Parquet file in one step; OutputError if it cannot be written."""
    options: dict[str, Any] = {"compression": "zstd", "write_page_checksum": True}
    with atomic_write(path, private=True) as aside, pq.ParquetWriter(aside, SCHEMA, **options) as writer:
        page = list[Row]()
        for row in rows:
            page.append(row)
            if len(page) >= GROUP:
                writer.write_table(_table(page))
                page = []
        writer.write_table(_table(page))


def _table(rows: Sequence[Row]) -> pa.Table:
    return pa.Table.from_pylist([{name: row[name] for name in COLUMNS} for row in rows], schema=SCHEMA)


def read_records(path: Path, after: int = 0) -> Iterator[dict[str, Any]]:
    """Yield the rows in a file after a record; StoreDamaged if it cannot be read."""
    try:
        with pq.ParquetFile(path, page_checksum_verification=True) as file:
            for batch in file.iter_batches(batch_size=2000, columns=list(COLUMNS)):
                yield from (row for row in batch.to_pylist() if row["seq"] > after)
    except (OSError, pa.ArrowException, KeyError) as error:
        words = str(error).strip().splitlines() or [type(error).__name__]
        raise StoreDamaged(f"cannot read the archive {path}: {words[0]}") from error


def compare_records(path: Path, rows: Iterable[Row]) -> None:
    """Read a file that was just written; OutputError unless it holds these rows."""
    for written, row in zip_longest(read_records(path), rows):
        if written is None or row is None or any(written[name] != row[name] for name in COLUMNS):
            number = (row or written or {}).get("seq")
            raise OutputError(f"record {number} does not come back from {path} as it was written: nothing was removed")


# ---- what the store keeps ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ArchivedKey:
    """What is kept of a key. number: of the episode that it opened, None if it opened none or nothing was decided in it."""

    key: bytes
    number: int | None
    caller: str | None


def key_digest(key: str) -> bytes:
    """Return the digest by which a key is kept."""
    return sha256(key.encode()).digest()


def keys_digest(keys: Iterable[ArchivedKey]) -> str:
    """Return the digest of keys in the order of their digests."""
    digest = sha256()
    for item in keys:
        digest.update(item.key + json.dumps([item.number, item.caller]).encode())
    return digest.hexdigest()


def kept_digest(rows: Iterable[Any]) -> str:
    """Return the digest of the records that stay in the store, in their order."""
    digest = sha256()
    for row in rows:
        digest.update(json.dumps([row[name] for name in COLUMNS]).encode() + b"\n")
    return digest.hexdigest()


def find_key(database: Database, gate: str, key: str) -> ArchivedKey | None:
    """Return what is kept of a key; None if it was not archived."""
    table = archived_keys_table.c
    with database.reading() as connection:
        query = sa.select(table.key, table.number, table.caller).where(table.gate == gate, table.key == key_digest(key))
        row = connection.execute(query).first()
    return None if row is None else ArchivedKey(bytes(row[0]), row[1], row[2])


def remove_records(connection: sa.engine.Connection, gate: str, mark: ArchiveMark, keys: Sequence[ArchivedKey]) -> None:
    """Remove the records of a run, and keep what there is to keep of their keys, in a transaction of the caller's."""
    if connection.dialect.name != "sqlite":
        connection.execute(sa.text("SET LOCAL statement_timeout = 0"))
    table = journal_table.c
    for start in range(0, len(keys), GROUP):
        rows = [{"gate": gate, "run": mark.number, **asdict(item)} for item in keys[start : start + GROUP]]
        connection.execute(archived_keys_table.insert(), rows)
    old = (table.gate == gate) & (table.seq <= mark.last)
    connection.execute(journal_table.delete().where(old, table.kind.not_in(KEPT_KINDS)))


def check_kept(connection: sa.engine.Connection, gate: str, marks: Sequence[ArchiveMark]) -> None:
    """Raise StoreDamaged unless the store keeps of archived records what the journal notes."""
    table, keys = journal_table.c, archived_keys_table.c
    for mark in marks:
        query = sa.select(keys.key, keys.number, keys.caller).where(keys.gate == gate, keys.run == mark.number)
        rows = connection.execute(query.order_by(keys.key)).yield_per(GROUP)
        if keys_digest(ArchivedKey(bytes(key), number, caller) for key, number, caller in rows) != mark.keys:
            raise StoreDamaged(
                f"gate '{gate}': the keys of records {mark.first} to {mark.last} are not those that were archived; restore a "
                "backup"
            )
    for mark in marks[-1:]:
        old = journal_table.select().where(table.gate == gate, table.seq <= mark.last).order_by(table.seq)
        if kept_digest(connection.execute(old).mappings()) != mark.kept:
            raise StoreDamaged(
                f"gate '{gate}': a record up to {mark.last} was altered, or is not one that was kept; restore a backup"
            )
