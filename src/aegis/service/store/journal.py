"""The journal of a gate: records that are only ever added, each with the hash of the one before.

One write is one transaction. A write that was not confirmed may have happened or not: the journal is read again before the
next one.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from hashlib import sha256
from typing import Any

import sqlalchemy as sa
from sqlalchemy.exc import IntegrityError

from aegis.service.http_errors import Conflict, StoreDamaged, StoreUnavailable
from aegis.service.store.database import Database, challengers_table, journal_table

START = "0" * 64  # the hash before the first record
PAGE = 2000  # records that are read at a time
FEW = 200  # where what is looked for is near


@dataclass(frozen=True, slots=True)
class JournalEntry:
    """Something to be written. episode: the number it belongs to, if any. key, request, caller: of the request behind it."""

    kind: str
    body: Mapping[str, Any]
    episode: int | None = None
    key: str | None = None
    request: str | None = None
    caller: str | None = None


@dataclass(frozen=True, slots=True)
class JournalRecord:
    """Something that was written."""

    seq: int
    at: str
    kind: str
    body: dict[str, Any]
    episode: int | None
    key: str | None
    request: str | None
    hash: str
    caller: str | None = None


@dataclass(slots=True)
class Journal:
    """The journal of one gate in a database. last, head: number and hash of the newest record that is known here."""

    database: Database
    gate: str
    last: int = 0
    head: str = START
    doubtful: bool = field(default=False, init=False)  # the store was away: it has to be read before the next write
    _writing_since: float | None = field(default=None, init=False)

    @property
    def in_doubt(self) -> bool:
        """Return whether the last write was not confirmed, and none is going on."""
        return self.doubtful and self._writing_since is None

    def unconfirmed(self, patience: float) -> bool:
        """Say whether the last write was not confirmed, or the store has been asked for longer than `patience` seconds."""
        since = self._writing_since
        return self.doubtful if since is None else time.monotonic() - since > patience

    def append(
        self, entries: Sequence[JournalEntry], challengers: Mapping[str, tuple[str, bytes]] | None = None
    ) -> list[JournalRecord]:
        """Write entries in one transaction and return them as records.

        challengers: to be stored with them, by challenge, each with the digest of its policy. Raises Conflict if a key was used
        before, StoreUnavailable if they could not be written: nothing is acknowledged then.
        """
        if self.doubtful:
            raise StoreUnavailable("the store was away; what is in it has to be looked at first")
        rows, seq, head, at = [], self.last, self.head, datetime.now(UTC).isoformat(timespec="microseconds")
        for entry in entries:
            seq += 1
            body = json.dumps(entry.body, allow_nan=False, separators=(",", ":"), sort_keys=True)
            head = _chained(head, seq, at, entry.kind, entry.episode, entry.key, entry.request, body, caller=entry.caller)
            row = (self.gate, seq, at, entry.kind, entry.episode, entry.key, entry.request, body, head, entry.caller)
            rows.append(dict(zip(journal_table.c.keys(), row, strict=True)))
        self._writing_since, self.doubtful = time.monotonic(), True
        try:
            with self.database.transaction() as connection:
                connection.execute(journal_table.insert(), rows)
                for name, (policy, content) in (challengers or {}).items():
                    values = {"gate": self.gate, "name": name, "policy": policy, "content": content}
                    connection.execute(challengers_table.insert(), values)
        except IntegrityError as error:
            if self.last == self._last():
                self.doubtful = False  # it was refused, and no other process has written
                raise Conflict("this key was used before") from error
            raise StoreUnavailable(f"another process writes to gate '{self.gate}'") from error
        else:
            self.doubtful = False
            self.last, self.head = seq, head
        finally:
            self._writing_since = None
        return [_record(row) for row in rows]

    def news(self) -> list[JournalRecord]:
        """Return the records in the store that were not known here."""
        records = list(self.read(self.last))
        self.accept(records)
        return records

    def accept(self, records: Sequence[JournalRecord]) -> None:
        """Take note of all records in the store that were not known here."""
        if records:
            self.last, self.head = records[-1].seq, records[-1].hash
        self.doubtful = False

    def read(self, after: int = 0) -> Iterator[JournalRecord]:
        """Yield the records after a number, in order; StoreDamaged if one is missing or was altered."""
        head = self.head if after == self.last else self._hash(after)
        while True:
            rows = self._rows(after, PAGE)
            for row in rows:
                head = check_row(row, after + 1, head)
                after += 1
                yield _record(row)
            if len(rows) < PAGE:
                return

    def under(self, key: str) -> JournalRecord | None:
        """Return what was written under a key."""
        return self._one(journal_table.c.key == key)

    def number_of(self, episode: str, after: int) -> int | None:
        """Return the number of an episode by its id; None if nothing was decided in it. after: the record that opened it.

        The first record of an episode with a number is its first decision; one without decisions has no number when it is closed.
        """
        about = journal_table.c.episode.is_not(None) | (journal_table.c.kind == "closed")
        while rows := self._rows(after, FEW, about):
            for row in rows:
                if json.loads(row["body"]).get("episode") == episode:
                    return None if row["episode"] is None else int(row["episode"])
            after = rows[-1]["seq"]
        return None

    def events(self, after: int, kind: str, limit: int) -> list[JournalRecord]:
        """Return records of one kind after a number, oldest first."""
        return [_record(row) for row in self._rows(after, limit, journal_table.c.kind == kind)]

    def challenger(self, name: str) -> bytes:
        """Return a challenger that was stored with its freeze, unchecked."""
        table = challengers_table.c
        with self.database.reading() as connection:
            query = sa.select(table.content).where(table.gate == self.gate, table.name == name)
            content = connection.execute(query).scalar()
        if content is None:
            raise StoreDamaged(f"gate '{self.gate}': the challenger of challenge '{name}' is not in the store; restore a backup")
        return bytes(content)

    def head_of_all(self) -> str:
        """Return the hash of the newest record in the store."""
        return self._hash(self._last())

    def _last(self) -> int:
        with self.database.reading() as connection:
            query = sa.select(sa.func.max(journal_table.c.seq)).where(journal_table.c.gate == self.gate)
            return int(connection.execute(query).scalar() or 0)

    def _hash(self, seq: int) -> str:
        if seq == 0:
            return START
        record = self._one(journal_table.c.seq == seq)
        if record is None:
            raise StoreDamaged(f"gate '{self.gate}': record {seq} is missing; restore a backup")
        return record.hash

    def _rows(self, after: int, limit: int, *conditions: sa.ColumnElement[bool]) -> Sequence[Any]:
        query = journal_table.select().where(journal_table.c.gate == self.gate, journal_table.c.seq > after, *conditions)
        with self.database.reading() as connection:
            return connection.execute(query.order_by(journal_table.c.seq).limit(limit)).mappings().all()

    def _one(self, condition: sa.ColumnElement[bool]) -> JournalRecord | None:
        self._writing_since = time.monotonic()
        try:
            with self.database.reading() as connection:
                query = journal_table.select().where(journal_table.c.gate == self.gate, condition)
                row = connection.execute(query).mappings().first()
        except StoreUnavailable:
            self.doubtful = True  # the lease may be lost as well
            raise
        finally:
            self._writing_since = None
        return None if row is None else _record(row)


def list_gates(database: Database) -> list[str]:
    """Return the names of the gates in a store."""
    return sorted(name for name, _ in list_openings(database))


def list_openings(database: Database) -> list[tuple[str, dict[str, Any]]]:
    """Return the gates in a store in the order in which they were opened, each with the body of its first record."""
    query = journal_table.select().where(journal_table.c.seq == 1).order_by(journal_table.c.at, journal_table.c.gate)
    with database.reading() as connection:
        return [(row["gate"], json.loads(row["body"])) for row in connection.execute(query).mappings()]


def _chained(head: str, *fields: object, caller: str | None) -> str:
    """Return the hash of a record. One without a caller has the hash that it had before callers were written down."""
    chained = [*fields, *([] if caller is None else [caller])]
    return sha256("\n".join([head, *("" if field is None else str(field) for field in chained)]).encode("utf-8")).hexdigest()


def check_row(row: Any, expected: int, head: str) -> str:
    """Return the hash of a row after checking that it follows the one before."""
    if row["seq"] != expected:
        raise StoreDamaged(f"gate '{row['gate']}': record {expected} is missing; restore a backup")
    names = ("seq", "at", "kind", "episode", "key", "request", "body")
    chained = _chained(head, *(row[name] for name in names), caller=row["caller"])
    if chained != row["hash"]:
        raise StoreDamaged(f"gate '{row['gate']}': record {expected} was altered, or one before it; restore a backup")
    return chained


def _record(row: Any) -> JournalRecord:
    plain = {name: row[name] for name in ("seq", "at", "kind", "episode", "key", "request", "hash", "caller")}
    return JournalRecord(body=json.loads(row["body"]), **plain)
