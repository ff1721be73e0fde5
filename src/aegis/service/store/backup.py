"""Backups: everything in a store as lines of JSON in one compressed file, the same for SQLite and PostgreSQL."""

from __future__ import annotations

import base64
import gzip
import json
import zlib
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from aegis.errors import InputError, SettingError
from aegis.files import atomic_write
from aegis.service.integrity import StoreCheck
from aegis.service.store.archive import ARCHIVED, ArchiveMark, check_kept
from aegis.service.store.chain import ChainHead
from aegis.service.store.database import (
    ENDLESS,
    Database,
    archived_keys_table,
    blocks_table,
    challengers_table,
    journal_table,
    snapshots_table,
    tokens_table,
)
from aegis.service.store.journal_keys import JournalKeys

BACKUP_TABLES = {
    table.name: table
    for table in (journal_table, challengers_table, tokens_table, snapshots_table, blocks_table, archived_keys_table)
}
BACKUP_PAGE = 1000


@dataclass(frozen=True, slots=True)
class Backup:
    """How many rows a backup has, and the newest record of each gate in it.

    archived: the last record of each gate that is in an archive, and not in the backup.
    """

    rows: int
    heads: tuple[ChainHead, ...]
    archived: Mapping[str, int] = field(default_factory=dict)


def write_backup(database: Database, path: str | Path) -> Backup:
    """Write everything that is committed now into a file, and return what that is, unchecked. The gate may go on meanwhile.

    The store may have an older schema, which has fewer tables and columns.
    """
    count, heads, version = 0, dict[str, ChainHead](), database.version()
    with atomic_write(path, private=True) as aside, gzip.open(aside, "wt", encoding="utf-8") as file:
        file.write(json.dumps({"aegis store": version}) + "\n")
        with database.reading(ENDLESS) as connection:
            for name, table in BACKUP_TABLES.items():
                columns = list(table.c) if version == database.newest() else _columns_in(connection, table)
                if not columns:
                    continue
                query = sa.select(*columns).order_by(*table.primary_key.columns)
                for row in connection.execute(query).yield_per(BACKUP_PAGE).mappings():
                    if name == journal_table.name:
                        heads[row["gate"]] = ChainHead(row["gate"], row["seq"], row["hash"])
                    plain = {key: _text(value) for key, value in row.items()}
                    file.write(json.dumps([name, plain]) + "\n")
                    count += 1
        file.write(json.dumps({"rows": count}) + "\n")
    return Backup(count, tuple(heads.values()))


def restore_backup(
    database: Database, path: str | Path, keys: JournalKeys | None = None, unsigned: Collection[str] = ()
) -> Backup:
    """Fill an empty store from a backup, and return what that is: all of it, if its chains are whole and its challengers are
    those that were frozen, or nothing. Records that are in an archive are not checked, nor are challengers frozen by them.

    Parameters
    ----------
    keys : of the journals; with them every gate must be signed to its end by the current one.
    unsigned : gates for which that is not asked, since they have no key.

    Raises
    ------
    InputError : the file is not a backup. StoreDamaged : something in it was altered or is missing. SettingError : the store is
    not empty, or a journal is signed by a key that is not among `keys`.
    """
    database.upgrade()
    with database.reading() as connection:
        for table in BACKUP_TABLES.values():
            if connection.execute(sa.select(sa.func.count()).select_from(table)).scalar():
                raise SettingError(f"the store {database.shown} is not empty: restore into a new one")
    count, heads = 0, dict[str, ChainHead]()
    checking: dict[str, StoreCheck] = {}
    archives = _archives(path)
    with database.transaction(ENDLESS) as connection:
        for name, row in _rows(path):
            if name == journal_table.name:
                head = heads.get(row["gate"], ChainHead(row["gate"]))
                heads[row["gate"]] = _follow(head, row, archives.get(row["gate"], []), keys)
                checking.setdefault(row["gate"], StoreCheck(row["gate"])).record(row["kind"], json.loads(row["body"]))
            elif name == challengers_table.name and row["gate"] in checking:
                checking[row["gate"]].piece(row["name"], row["content"])
            try:
                connection.execute(BACKUP_TABLES[name].insert(), row)
            except sa.exc.IntegrityError as error:
                raise InputError(f"cannot read the backup {path}: row {count + 1} is there twice, or not whole") from error
            count += 1
        for gate in checking.values():
            gate.done()
        for head in heads.values():
            head.check_end(None if head.gate in unsigned and head.signing is None else keys)
        for name, marks in archives.items():
            check_kept(connection, name, marks)
    return Backup(count, tuple(heads.values()), {name: marks[-1].last for name, marks in archives.items()})


def _columns_in(connection: sa.engine.Connection, table: sa.Table) -> list[sa.Column[Any]]:
    """Return the columns of a table that a store of an older schema has; none if it does not have the table."""
    stored = sa.inspect(connection)
    if not stored.has_table(table.name):
        return []
    names = {column["name"] for column in stored.get_columns(table.name)}
    return [column for column in table.c if column.name in names]


def _archives(path: str | Path) -> dict[str, list[ArchiveMark]]:
    """Return the archives that each gate of a backup notes."""
    archives: dict[str, list[ArchiveMark]] = {}
    for name, row in _rows(path):
        if name == journal_table.name and row["kind"] == ARCHIVED:
            mark = ArchiveMark.of(row["gate"], row["seq"], row["kind"], json.loads(row["body"]))
            archives.setdefault(row["gate"], []).append(mark)
    return archives


def _follow(head: ChainHead, row: Mapping[str, Any], marks: Sequence[ArchiveMark], keys: JournalKeys | None) -> ChainHead:
    """Return the head of a chain after one more row. Rows up to the last archive, but for the first, are checked by digest."""
    if not marks or row["seq"] == 1:
        return head.check(row, keys)
    if row["seq"] <= marks[-1].last:
        return head.skip_to(row)
    if head.seq <= marks[-1].last:
        head = replace(head, seq=marks[-1].last, hash=marks[-1].hash)
    return head.check(row, keys)


def _rows(path: str | Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the rows of a backup, by table. Every schema so far adds tables, and columns that may be empty, to the one before."""
    versions = Database.versions()
    try:
        with gzip.open(path, "rt", encoding="utf-8") as file:
            head = json.loads(file.readline())
            if not isinstance(head, dict) or "aegis store" not in head:
                raise InputError(f"{path} is not a backup of a store")
            version = head["aegis store"]
            if version not in versions:
                raise InputError(
                    f"{path} was made with the schema {version}, which this release does not know (it knows "
                    f"{', '.join(versions)}): restore it with the release that made it"
                )
            count, stated = 0, None
            for line in file:
                entry = json.loads(line)
                if isinstance(entry, dict):
                    stated = entry["rows"]
                    continue
                name, row = entry
                count += 1
                columns = BACKUP_TABLES[name].c
                later = [] if version == versions[-1] else [column.name for column in columns if column.nullable]
                if not set(columns.keys()) - set(later) <= set(row) <= set(columns.keys()):
                    raise ValueError(f"a row of '{name}' has other columns than this release")
                yield name, dict.fromkeys(later) | {key: _value(value) for key, value in row.items()}
            if stated != count:
                raise ValueError(f"it has {count} rows, and says that there are {stated}")
    except (OSError, EOFError, ValueError, TypeError, KeyError, zlib.error) as error:
        raise InputError(f"cannot read the backup {path}: {error}") from error


def _text(value: Any) -> Any:
    return {"bytes": base64.b64encode(value).decode("ascii")} if isinstance(value, bytes | memoryview) else value


def _value(value: Any) -> Any:
    return base64.b64decode(value["bytes"]) if isinstance(value, dict) else value
