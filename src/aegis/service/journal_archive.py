"""Archiving a gate: records of counted episodes leave the store for Parquet files, or are discarded, and the chain goes on.

The gate must not be served meanwhile. The files are written and read back before anything is removed. Removing is one
transaction, together with the record that notes it: an interrupted run has removed nothing. Until then the folder of a run holds
a file that marks it as unfinished, so that the next run removes what an interrupted one has left.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from itertools import takewhile
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import sqlalchemy as sa

from aegis.errors import InputError, OutputError
from aegis.files import create_private_file, folder_lock, is_partial_file, make_private_folder
from aegis.handover import OTHERS_FILE
from aegis.logs import to_table
from aegis.service.http_errors import NotWriter, StoreDamaged
from aegis.service.journal_export import LOG, PROBLEM, EpisodeReplay, JournalFacts, write_episodes
from aegis.service.live_gate import LiveGate, internal_key
from aegis.service.live_state import LiveState
from aegis.service.snapshot_writer import SnapshotWriter, unstarted_gate
from aegis.service.status import GateStatus
from aegis.service.store.archive import (
    ARCHIVED,
    KEPT_KINDS,
    RECORDS,
    ArchivedKey,
    ArchiveMark,
    compare_records,
    kept_digest,
    key_digest,
    keys_digest,
    mark_key,
    remove_records,
    write_records,
)
from aegis.service.store.blocks import BlockMark, discard_blocks, list_blocks
from aegis.service.store.database import ENDLESS, Database, journal_table
from aegis.service.store.journal import Journal, JournalEntry
from aegis.service.store.journal_keys import JournalKeys
from aegis.service.store.snapshots import drop_snapshots_before, restore_newest

UNFINISHED = "unfinished"  # name of the file in the folder of a run whose records are still in the store
RUN_FILES = (RECORDS, LOG, PROBLEM, OTHERS_FILE, UNFINISHED)  # in the order in which they are removed


@dataclass(frozen=True, slots=True)
class ArchiveReport:
    """What a run has done. records: removed from the store, `first` to `last`; 0 if there was nothing to do. episodes: opened in
    them. folder: of the run, None if they were discarded. waits_for: an open episode that keeps later records in the store.
    """

    gate: str
    records: int
    first: int
    last: int
    episodes: int = 0
    folder: str | None = None
    waits_for: str | None = None

    def plain(self) -> dict[str, Any]:
        """Return it for JSON."""
        return asdict(self)


def archive_gate(
    database: Database, gate: str, before: datetime, folder: str | Path | None, keys: JournalKeys | None = None
) -> ArchiveReport:
    """Move the records of a gate that were written before a time into an archive, or discard them.

    All records up to one of them go: the last one before `before` and before the first episode that is not counted. The first
    record, those that name journal keys and those that note archives stay. A snapshot is made first if there is none after them.

    Parameters
    ----------
    before : a time with its zone.
    folder : gets `GATE/FIRST-LAST/`; None to discard the records.
    keys : of the journal.

    Raises
    ------
    NotWriter : the gate is served. InputError : there is no such gate. OutputError : the archive cannot be written. In each case
    nothing was removed.
    """
    journal = Journal(database, gate, keys=keys)
    if journal.first() is None:
        raise InputError(f"there is no gate '{gate}' in {database.shown}")
    live = unstarted_gate(journal)
    GateStatus(live)  # what the page shows is part of a snapshot
    try:
        live.start()
    except NotWriter as error:
        raise NotWriter(
            f"gate '{gate}' in {database.shown} is served: another process is the writer; stop it, and its standby, first"
        ) from error
    try:
        return _archive(live, before, None if folder is None else Path(folder))
    finally:
        live.stop()


def _archive(live: LiveGate, before: datetime, folder: Path | None) -> ArchiveReport:
    journal, gate = live.journal, live.name
    start = journal.archived_to
    last, waits_for = _last_record(live, before)
    if last <= start:
        return ArchiveReport(gate, 0, start + 1, start, waits_for=waits_for)
    if not _has_snapshot(live, last):
        SnapshotWriter(live).write()
        if not _has_snapshot(live, last):
            raise StoreDamaged(f"gate '{gate}': no snapshot could be made that fits; nothing was removed")
    facts = JournalFacts(live.problem)
    replay = EpisodeReplay(live.problem, facts, last)
    for record in journal.read(start):
        replay.apply(record)
    own = {name for name, seq in replay.opened_at.items() if seq <= last}
    facts.end()
    keys = _keys(journal, start, last, replay.numbered)
    mark = ArchiveMark(
        number=len(journal.marks) + 1,
        first=start + 1,
        last=last,
        hash=journal.hash_at(last),
        discarded=folder is None,
        keys=keys_digest(keys),
        kept=_kept_digest(live, last),
    )
    place = None if folder is None else mark.place(folder, gate)
    if place is not None:
        _remove_unfinished(journal, place.parent)
        _write_run(live, place, mark, facts)
    # The audit needs the episodes since the gate has started anew.
    later = (replay.numbered[name] for name, seq in replay.opened_at.items() if seq > last and name in replay.numbered)
    unused = min(min(later, default=live.state.started + 1) - 1, live.state.opened.start)
    blocks = list_blocks(live.database, gate, live.state.blocks) if folder is None else list[BlockMark]()

    def remove(connection: sa.engine.Connection) -> None:
        remove_records(connection, gate, mark, keys)
        drop_snapshots_before(connection, gate, last)
        discard_blocks(connection, gate, blocks, unused)

    with live.changed:
        journal.append([JournalEntry(ARCHIVED, mark.plain(), key=mark_key(mark.number))], also=remove)
    if place is not None:
        with suppress(OSError):  # the next run removes it
            (place / UNFINISHED).unlink()
    shown = None if place is None else str(place)
    return ArchiveReport(gate, last - start, start + 1, last, len(own), shown, waits_for)


def _last_record(live: LiveGate, before: datetime) -> tuple[int, str | None]:
    """Return the last record that may go, and the open episode that keeps later ones, if one does."""
    journal, table = live.journal, journal_table.c
    text = before.astimezone(UTC).isoformat(timespec="microseconds")
    with live.database.reading(ENDLESS) as connection:
        late = (table.gate == live.name) & (table.at >= text) & (table.seq > journal.archived_to)
        first = connection.execute(sa.select(sa.func.min(table.seq)).where(late)).scalar()
    last = journal.last if first is None else int(first) - 1
    waits_for = None
    for name in live.state.trees:
        opened = journal.under(internal_key("episode", name))
        if opened is not None and opened.seq <= last:
            last, waits_for = opened.seq - 1, name
    return last, waits_for


def _has_snapshot(live: LiveGate, last: int) -> bool:
    """Say whether what the gate knows comes back from a snapshot at a record, or after it."""
    state, journal = LiveState(live.problem), Journal(live.database, live.name, keys=live.keys)
    if live.state.snapshot < last or not restore_newest(journal, state) or state.snapshot < last:
        return False
    for record in journal.news():
        state.apply(record)
    names = ("gate", "trees", "numbers", "started", "changed", "sealed", "silent", "blocks")
    return all(getattr(state, name) == getattr(live.state, name) for name in names)


def _keys(journal: Journal, start: int, last: int, numbers: dict[str, int]) -> list[ArchivedKey]:
    """Return what is kept of the keys of records, in the order of their digests."""
    prefix, keys = internal_key("episode", ""), list[ArchivedKey]()
    for row in _rows(journal, start + 1, last):
        key = row["key"]
        if key is not None and row["kind"] not in KEPT_KINDS:
            number = numbers.get(key.removeprefix(prefix)) if key.startswith(prefix) else None
            keys.append(ArchivedKey(key_digest(key), number, row["caller"]))
    return sorted(keys, key=lambda item: item.key)


def _kept_digest(live: LiveGate, last: int) -> str:
    table = journal_table.c
    old = (table.gate == live.name) & (table.seq <= last) & table.kind.in_(KEPT_KINDS)
    with live.database.reading() as connection:
        return kept_digest(connection.execute(journal_table.select().where(old).order_by(table.seq)).mappings())


def _remove_unfinished(journal: Journal, runs: Path) -> None:
    """Remove what interrupted runs have written: their records are in the store. Files of others in their folders stay."""
    named = {mark.place(runs.parent, journal.gate) for mark in journal.marks}
    for marker in runs.glob(f"*/{UNFINISHED}"):
        place = marker.parent
        with suppress(OSError, OutputError):  # it cannot be removed, or another process is writing into it
            if place in named:  # it was interrupted after its records were removed
                marker.unlink()
                continue
            with folder_lock(place):
                parts = [path for path in place.iterdir() if is_partial_file(path)]
                for path in [*parts, *(place / name for name in RUN_FILES)]:
                    path.unlink(missing_ok=True)
            place.rmdir()


def _write_run(live: LiveGate, place: Path, mark: ArchiveMark, facts: JournalFacts) -> None:
    """Write the files of a run and read them back; OutputError if they do not come back as they were."""
    try:
        make_private_folder(place)
    except OSError as error:
        raise OutputError(f"cannot write into {place}: {error.strerror or error}") from error
    with folder_lock(place):
        create_private_file(place / UNFINISHED)
        write_records(place / RECORDS, _rows(live.journal, mark.first, mark.last))
        compare_records(place / RECORDS, _rows(live.journal, mark.first, mark.last))
        if facts.trees:
            batch = write_episodes(place, live.problem, facts)
            if not pq.read_table(place / LOG, page_checksum_verification=True).equals(to_table(batch, live.problem)):
                raise OutputError(f"the episodes do not come back from {place / LOG} as they were written: nothing was removed")
            for path in place.iterdir():
                with suppress(OSError):  # a file system without modes
                    path.chmod(0o600)


def _rows(journal: Journal, first: int, last: int) -> Iterator[Mapping[str, Any]]:
    return takewhile(lambda row: row["seq"] <= last, journal.rows(first - 1))
