"""The journal of a gate: records that are only ever added, each with the hash of the one before (`chain`).

One write is one transaction. A write that was not confirmed may have happened or not: the journal is read again before the
next one.
"""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection
from sqlalchemy.exc import IntegrityError

from aegis.errors import SettingError
from aegis.service.http_errors import Conflict, StoreDamaged, StoreUnavailable
from aegis.service.store.archive import RECORDS, ArchivedKey, ArchiveMark, find_key, mark_key, read_records
from aegis.service.store.chain import JOURNAL_KEY, START, ChainHead, named_key
from aegis.service.store.database import ENDLESS, Database, challengers_table, journal_table
from aegis.service.store.journal_keys import JournalKeys

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
    """The journal of one gate in a database. last, head: number and hash of the newest record that is known here.

    keys: to sign records and to check what was signed. Without them a journal that has a key can be read, its signatures
    unchecked, and not written. archive: the folder with records that are no longer in the store, None to do without them.
    """

    database: Database
    gate: str
    last: int = 0
    head: str = START
    keys: JournalKeys | None = field(default=None, repr=False)
    archive: Path | None = None
    doubtful: bool = field(default=False, init=False)  # the store was away: it has to be read before the next write
    _writing_since: float | None = field(default=None, init=False)
    _chain: ChainHead | None = field(default=None, init=False)  # of `last` and `head`, once it was asked for
    _marks: tuple[ArchiveMark, ...] | None = field(default=None, init=False)  # once they were asked for

    @property
    def chain(self) -> ChainHead:
        """Return the newest record that is known here, with the keys that sign it and the next one."""
        if self._chain is None or (self._chain.seq, self._chain.hash) != (self.last, self.head):
            self._chain = self._chain_at(self.last, self.head)
        return self._chain

    def key_entry(self) -> JournalEntry:
        """Return the entry from which on the current key signs."""
        if self.keys is None:
            raise SettingError("there is no journal key to sign with")
        return JournalEntry(JOURNAL_KEY, {"id": self.keys.current}, None, f"{JOURNAL_KEY} {len(self._key_records()) + 1}")

    @property
    def in_doubt(self) -> bool:
        """Return whether the last write was not confirmed, and none is going on."""
        return self.doubtful and self._writing_since is None

    def unconfirmed(self, patience: float) -> bool:
        """Say whether the last write was not confirmed, or the store has been asked for longer than `patience` seconds."""
        since = self._writing_since
        return self.doubtful if since is None else time.monotonic() - since > patience

    def append(
        self,
        entries: Sequence[JournalEntry],
        challengers: Mapping[str, tuple[str, bytes]] | None = None,
        also: Callable[[Connection], None] | None = None,
    ) -> list[JournalRecord]:
        """Write entries in one transaction and return them as records.

        challengers: to be stored with them, by challenge, each with the digest of its policy. also: does more in the
        transaction, which may take as long as it takes then. Raises Conflict if a key was used before, StoreUnavailable if they
        could not be written: nothing is acknowledged then.
        """
        if self.doubtful:
            raise StoreUnavailable("the store was away; what is in it has to be looked at first")
        rows, chain, at = [], self.chain, datetime.now(UTC).isoformat(timespec="microseconds")
        for entry in entries:
            row: dict[str, Any] = {name: getattr(entry, name) for name in ("kind", "episode", "key", "request", "caller")}
            row |= {"gate": self.gate, "seq": chain.seq + 1, "at": at}
            row["body"] = json.dumps(entry.body, allow_nan=False, separators=(",", ":"), sort_keys=True)
            chain = chain.follow(row, self.keys)
            rows.append({**row, "hash": chain.hash})
        if self.keys is not None and chain.signer != self.keys.current:  # its key record was removed while it was served
            raise StoreDamaged(f"gate '{self.gate}': the journal does not name the key that signs it; restore a backup")
        self._writing_since, self.doubtful = time.monotonic(), True
        try:
            with self.database.transaction(None if also is None else ENDLESS) as connection:
                connection.execute(journal_table.insert(), rows)
                for name, (policy, content) in (challengers or {}).items():
                    values = {"gate": self.gate, "name": name, "policy": policy, "content": content}
                    connection.execute(challengers_table.insert(), values)
                if also is not None:
                    also(connection)
        except IntegrityError as error:
            if self.last == self._last():
                self.doubtful = False  # it was refused, and no other process has written
                raise Conflict("this key was used before") from error
            raise StoreUnavailable(f"another process writes to gate '{self.gate}'") from error
        else:
            self.doubtful = False
            self.last, self.head, self._chain, self._marks = chain.seq, chain.hash, chain, self._marks if also is None else None
        finally:
            self._writing_since = None
        return [_record(row) for row in rows]

    def news(self) -> Iterator[JournalRecord]:
        """Yield the records in the store that were not known here; each is known once it is yielded."""
        self._marks = None
        for chain, record in self.walk(self.last):
            self.last, self.head, self._chain = chain.seq, chain.hash, chain
            yield record
        self.doubtful = False

    def accept(self, records: Sequence[JournalRecord]) -> None:
        """Take note of all records in the store that were not known here."""
        if records:
            self.last, self.head, self._marks = records[-1].seq, records[-1].hash, None
        self.doubtful = False

    def read(self, after: int = 0) -> Iterator[JournalRecord]:
        """Yield the records after a number, in order; StoreDamaged if one is missing or was altered."""
        for _, record in self.walk(after):
            yield record

    def walk(self, after: int = 0) -> Iterator[tuple[ChainHead, JournalRecord]]:
        """Yield the same, each with its place in the chain."""
        chain = self.chain if after == self.last else self._chain_at(after, self.hash_at(after))
        for row in self.rows(after):
            chain = chain.check(row, self.keys)
            yield chain, _record(row)

    def walk_archived(self) -> Iterator[tuple[ChainHead, JournalRecord]]:
        """Yield the archived records that were followed by discarded ones, each with its place in the chain of its run.

        They come before the `beginning`, and no chain leads from them to it.
        """
        for mark in () if self.archive is None else self.marks:
            if mark.last < self.beginning and not mark.discarded:
                chain = self._chain_at(mark.first - 1, self.hash_at(mark.first - 1))
                for row in self._archived_rows(mark, mark.first - 1):
                    chain = chain.check(row, self.keys)
                    yield chain, _record(row)

    def rows(self, after: int = 0) -> Iterator[Mapping[str, Any]]:
        """Yield the rows of the records after a number, from the archive and from the store, unchecked."""
        for mark in self.marks:
            if after < mark.last:
                yield from self._archived_rows(mark, after)
                after = mark.last
        while True:
            rows = self._rows(after, PAGE)
            yield from rows
            if len(rows) < PAGE:
                return
            after = rows[-1]["seq"]

    # ---- archives ----------------------------------------------------------------------------------------------------------

    @property
    def marks(self) -> tuple[ArchiveMark, ...]:
        """Return the archives that the journal notes, oldest first."""
        if self._marks is None:
            marks = list[ArchiveMark]()
            while (record := self.under(mark_key(len(marks) + 1))) is not None:
                marks.append(ArchiveMark.of(self.gate, record.seq, record.kind, record.body))
            self._marks = tuple(marks)
        return self._marks

    @property
    def archived_to(self) -> int:
        """Return the last record that is no longer in the store; 0 if there is none."""
        return self.marks[-1].last if self.marks else 0

    @property
    def beginning(self) -> int:
        """Return the record after which all can be read: from the store, and from the archive if there is one."""
        return max((mark.last for mark in self.marks if mark.discarded or self.archive is None), default=0)

    def begin(self) -> None:
        """Know the record after which all can be read. Only for a journal of which nothing is known here."""
        self.last = self.beginning
        self.head = self.hash_at(self.last)

    def has_fallen_behind(self) -> bool:
        """Say whether records after the last one that is known here are no longer in the store."""
        self._marks = None
        return self.last < self.archived_to

    def archived(self, key: str) -> ArchivedKey | None:
        """Return what is kept of the key of a record that is no longer in the store."""
        if not self.marks:
            return None
        with self._asking():
            return find_key(self.database, self.gate, key)

    def _archived_rows(self, mark: ArchiveMark, after: int) -> Iterator[Mapping[str, Any]]:
        which = f"gate '{self.gate}': records {mark.first} to {mark.last}"
        if mark.discarded:
            raise StoreDamaged(f"{which} were discarded, and no snapshot after them fits; restore a backup")
        if self.archive is None:
            raise StoreDamaged(f"{which} are in an archive, and no snapshot after them fits; restore a backup")
        seq, digest = 0, ""
        for row in read_records(mark.place(self.archive, self.gate) / RECORDS, after):
            seq, digest = row["seq"], row["hash"]
            yield row
        if (seq, digest) != (mark.last, mark.hash):
            raise StoreDamaged(f"{which} in the archive {self.archive} are not those that the journal notes")

    def first(self) -> JournalRecord | None:
        """Return the first record, which opened the gate; None if there is none. StoreDamaged if it was altered."""
        rows = self._rows(0, 1)
        if not rows:
            return None
        ChainHead(self.gate).check(rows[0], self.keys)
        return _record(rows[0])

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

    def decision(self, number: int, name: str) -> dict[str, Any] | None:
        """Return the body of the newest record of a decision of an episode, by the number of the episode; None without one."""
        newest, after = None, 0
        own = (journal_table.c.episode == number, journal_table.c.kind.in_(("decision", "overruled")))
        while rows := self._rows(after, FEW, *own):
            bodies: list[dict[str, Any]] = [json.loads(row["body"]) for row in rows]
            newest = next((body for body in reversed(bodies) if body["id"] == name), newest)
            after = rows[-1]["seq"]
        return newest

    def events(self, after: int, kind: str, limit: int) -> list[JournalRecord]:
        """Return records of one kind after a number, oldest first."""
        return [_record(row) for row in self._rows(after, limit, journal_table.c.kind == kind)]

    def every(self, kind: str) -> Iterator[JournalRecord]:
        """Yield all records of one kind, unchecked."""
        after = self.beginning
        if after < self.archived_to:
            yield from (_record(row) for row in self.rows(after) if row["kind"] == kind and row["seq"] <= self.archived_to)
            after = self.archived_to
        while rows := self._rows(after, PAGE, journal_table.c.kind == kind):
            yield from map(_record, rows)
            after = rows[-1]["seq"]

    def challenger(self, name: str) -> bytes:
        """Return a challenger that was stored with its freeze, unchecked."""
        table = challengers_table.c
        with self.database.reading() as connection:
            query = sa.select(table.content).where(table.gate == self.gate, table.name == name)
            content = connection.execute(query).scalar()
        if content is None:
            raise StoreDamaged(f"gate '{self.gate}': the challenger of challenge '{name}' is not in the store; restore a backup")
        return bytes(content)

    def newest(self) -> ChainHead:
        """Return the newest record in the store, unchecked."""
        last = self._last()
        return self._chain_at(last, self.hash_at(last))

    def _chain_at(self, seq: int, digest: str) -> ChainHead:
        signer = signing = None
        for record in self._key_records() if seq > 0 else ():
            if record.seq <= seq:
                name = named_key(record.body)
                signer, signing = signing if signing is not None and record.seq == seq else name, name
        return ChainHead(self.gate, seq, digest, signer, signing)

    def _key_records(self) -> list[JournalRecord]:
        records: list[JournalRecord] = []
        while (record := self.under(f"{JOURNAL_KEY} {len(records) + 1}")) is not None:
            if record.kind != JOURNAL_KEY:
                raise StoreDamaged(f"gate '{self.gate}': record {record.seq} was altered; restore a backup")
            records.append(record)
        return records

    def _last(self) -> int:
        with self.database.reading() as connection:
            query = sa.select(sa.func.max(journal_table.c.seq)).where(journal_table.c.gate == self.gate)
            return int(connection.execute(query).scalar() or 0)

    def hash_at(self, seq: int) -> str:
        """Return the hash of a record, unchecked; StoreDamaged if it is missing."""
        if seq == 0:
            return START
        for mark in self.marks:
            if mark.last == seq:
                return mark.hash
        record = self._one(journal_table.c.seq == seq)
        if record is None:
            raise StoreDamaged(f"gate '{self.gate}': record {seq} is missing; restore a backup")
        return record.hash

    def _rows(self, after: int, limit: int, *conditions: sa.ColumnElement[bool]) -> Sequence[Any]:
        query = journal_table.select().where(journal_table.c.gate == self.gate, journal_table.c.seq > after, *conditions)
        with self.database.reading() as connection:
            return connection.execute(query.order_by(journal_table.c.seq).limit(limit)).mappings().all()

    def _one(self, condition: sa.ColumnElement[bool]) -> JournalRecord | None:
        with self._asking(), self.database.reading() as connection:
            query = journal_table.select().where(journal_table.c.gate == self.gate, condition)
            row = connection.execute(query).mappings().first()
        return None if row is None else _record(row)

    @contextlib.contextmanager
    def _asking(self) -> Iterator[None]:
        """Note that the store is asked, and whether it answers."""
        self._writing_since = time.monotonic()
        try:
            yield
        except StoreUnavailable:
            self.doubtful = True  # the lease may be lost as well
            raise
        finally:
            self._writing_since = None


def list_gates(database: Database) -> list[str]:
    """Return the names of the gates in a store: of all that have a record."""
    with database.reading() as connection:
        return sorted(connection.execute(sa.select(journal_table.c.gate).distinct()).scalars())


def list_heads(database: Database) -> list[ChainHead]:
    """Return the newest record of every gate in a store, unchecked."""
    return [Journal(database, gate).newest() for gate in list_gates(database)]


def list_openings(database: Database) -> dict[str, dict[str, Any]]:
    """Return the body of the first record of every gate in a store, by name."""
    table, rows = journal_table.c, list[Any]()
    with database.reading() as connection:
        # Gate by gate: a search for all first records at once would look at every record.
        gate = connection.execute(sa.select(sa.func.min(table.gate))).scalar()
        while gate is not None:
            rows += connection.execute(journal_table.select().where(table.gate == gate, table.seq == 1)).mappings().all()
            gate = connection.execute(sa.select(sa.func.min(table.gate)).where(table.gate > gate)).scalar()
    return {row["gate"]: json.loads(row["body"]) for row in rows}


def _record(row: Any) -> JournalRecord:
    plain = {name: row[name] for name in ("seq", "at", "kind", "episode", "key", "request", "hash", "caller")}
    try:
        body = json.loads(row["body"])
    except (ValueError, TypeError) as error:  # where nothing was checked before
        raise StoreDamaged(f"gate '{row['gate']}': record {row['seq']} cannot be read; restore a backup") from error
    return JournalRecord(body=body, **plain)
