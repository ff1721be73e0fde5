"""Snapshots: what the writer of a gate knows at a record of its journal, stored as lines of JSON, never as code.

The first line holds the gate and what was followed for display, each further line an episode that is not counted yet. The
digest of all lines is in the journal, so that its chain covers them. A snapshot that does not fit is never used.
"""

from __future__ import annotations

import json
import logging
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from hashlib import sha256
from typing import Any, Protocol

import sqlalchemy as sa

from aegis.errors import AegisError
from aegis.handover import gate_state_from_plain, gate_state_to_plain
from aegis.service.http_errors import StoreDamaged
from aegis.service.live_episodes import DecisionResult, LiveEpisode
from aegis.service.live_state import DECISIONS, SNAPSHOT, ChallengerSeal, LiveState
from aegis.service.store.blocks import BlockMark
from aegis.service.store.database import LARGE, Database, snapshots_table
from aegis.service.store.journal import Journal, JournalEntry, JournalRecord
from aegis.version import __version__

FORMAT = 1  # of the lines; change it with what they hold
KEPT = 3  # snapshots that are kept
log = logging.getLogger("aegis.service")


class Follower(Protocol):
    """Follows the events of a gate, and can be stored."""

    def kept(self) -> dict[str, Any]:
        """Return what it knows as plain data that do not change later."""
        ...

    def restore(self, kept: Mapping[str, Any]) -> None:
        """Know what `kept` returned."""
        ...


# ---- the lines ---------------------------------------------------------------------------------------------------------------


def state_line(state: LiveState, journal: Journal, followed: Mapping[str, Any] | None, blocks: BlockMark) -> dict[str, Any]:
    """Return the first line of a snapshot as plain data that do not change later. blocks: with all episodes counted so far."""
    return {
        "format": FORMAT,
        "seq": journal.last,
        "hash": journal.head,
        "seed": state.seed,
        "gate": state.opened,  # it never changes; `encode_line` makes it plain, which takes time
        "started": state.started,
        "changed": dict(state.changed),
        "sealed": dict(state.sealed),
        "silent": state.silent,
        "writer": state.writer,
        "blocks": blocks,
        "followed": followed,
    }


def encode_line(line: Mapping[str, Any]) -> bytes:
    """Return the first line of a snapshot."""
    sealed = {name: asdict(seal) for name, seal in line["sealed"].items()}
    plain = {**line, "gate": gate_state_to_plain(line["gate"]), "sealed": sealed, "blocks": [*_mark(line["blocks"])]}
    return _line(plain)


def encode_episode(tree: LiveEpisode) -> bytes:
    """Return the line of an episode that is not counted yet."""
    plain = {name: getattr(tree, name) for name in _PLAIN}
    decisions = [DECISIONS.dump_python(item, mode="json") for item in tree.decisions.values()]
    results = [[name, item.reward, item.outcome, item.guards] for name, item in tree.results.items()]
    return _line({**plain, "policies": dict(tree.policies), "decisions": decisions, "results": results})


_PLAIN = ("id", "at", "time", "number", "arm", "closed", "last", "cut", "owner")


def _line(plain: Mapping[str, Any]) -> bytes:
    return json.dumps(plain, separators=(",", ":")).encode() + b"\n"


def _mark(mark: BlockMark) -> tuple[int, str]:
    return mark.last, mark.link


def _episode(line: bytes) -> LiveEpisode:
    plain = json.loads(line)
    return LiveEpisode(
        **{name: plain[name] for name in _PLAIN},
        policies=plain["policies"],
        decisions={item["id"]: DECISIONS.validate_python(item) for item in plain["decisions"]},
        results={name: DecisionResult(reward, outcome, guards) for name, reward, outcome, guards in plain["results"]},
    )


# ---- the table ---------------------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class SnapshotText:
    """Lines as they are put together: their digest, and their bytes compressed."""

    _digest: Any
    _packer: Any
    _parts: list[bytes]

    @classmethod
    def empty(cls) -> SnapshotText:
        """Return one without lines."""
        return cls(sha256(), zlib.compressobj(1), [])

    def add(self, lines: Iterable[bytes]) -> None:
        """Add lines."""
        text = b"".join(lines)
        self._digest.update(text)
        self._parts.append(self._packer.compress(text))

    def done(self) -> tuple[str, bytes]:
        """Return digest and content."""
        return self._digest.hexdigest(), b"".join([*self._parts, self._packer.flush()])


def snapshot_entry(seq: int, head: str, digest: str, blocks: BlockMark, followed: bool) -> JournalEntry:
    """Return the entry that makes a stored snapshot part of the journal."""
    body = {
        "at": seq,
        "hash": head,
        "digest": digest,
        "blocks": [*_mark(blocks)],
        "followed": followed,
        "format": FORMAT,
        "aegis": __version__,
    }
    return JournalEntry(SNAPSHOT, body, key=snapshot_key(seq))


def snapshot_key(seq: int) -> str:
    """Return the key of the journal's record of a snapshot. It has a space, which no key of a caller may have."""
    return f"{SNAPSHOT} {seq}"


def store_snapshot(database: Database, gate: str, seq: int, digest: str, content: bytes) -> None:
    """Store a snapshot. It counts once its entry is in the journal."""
    table = snapshots_table.c
    with database.transaction(LARGE) as connection:
        connection.execute(snapshots_table.delete().where(table.gate == gate, table.seq == seq))
        connection.execute(snapshots_table.insert(), {"gate": gate, "seq": seq, "digest": digest, "content": content})


def drop_old_snapshots(database: Database, gate: str) -> None:
    """Remove all but the newest snapshots."""
    old = list_snapshots(database, gate)[KEPT:]
    table = snapshots_table.c
    if old:
        with database.transaction(LARGE) as connection:
            connection.execute(snapshots_table.delete().where(table.gate == gate, table.seq.in_(old)))


def drop_snapshots_before(connection: sa.engine.Connection, gate: str, seq: int) -> None:
    """Remove the snapshots before a record, from which no start is possible any more, in a transaction of the caller's."""
    table = snapshots_table.c
    connection.execute(snapshots_table.delete().where(table.gate == gate, table.seq < seq))


def list_snapshots(database: Database, gate: str) -> list[int]:
    """Return the records at which there are snapshots, newest first."""
    table = snapshots_table.c
    with database.reading() as connection:
        query = sa.select(table.seq).where(table.gate == gate).order_by(table.seq.desc())
        return [int(seq) for (seq,) in connection.execute(query)]


def newest_mark(journal: Journal) -> BlockMark:
    """Return where the stored blocks end, as the newest snapshot that is part of the journal says."""
    for seq in list_snapshots(journal.database, journal.gate):
        record = journal.under(snapshot_key(seq))
        if record is not None:
            return BlockMark(*record.body["blocks"])
    return BlockMark()


def restore_newest(journal: Journal, state: LiveState, follower: Follower | None = None) -> bool:
    """Let a state that knows nothing yet know what the newest snapshot that fits holds; say whether there is one.

    One that does not fit is named in the log and skipped. The journal goes on after the record of the snapshot.
    """
    return _restore_first(journal, list_snapshots(journal.database, journal.gate), state, follower)


def restore_oldest(journal: Journal, state: LiveState, follower: Follower | None = None) -> bool:
    """Do the same with the oldest snapshot that fits."""
    return _restore_first(journal, list_snapshots(journal.database, journal.gate)[::-1], state, follower)


def check_stored_snapshots(journal: Journal) -> None:
    """Raise StoreDamaged unless each stored snapshot has the content that its record in the journal notes."""
    for seq in list_snapshots(journal.database, journal.gate):
        record = journal.under(snapshot_key(seq))
        if record is None:
            continue  # the writer ended before the snapshot became part of the journal
        try:
            content = _content(journal, seq)
            if content is None:
                continue  # the writer has removed it meanwhile
            for _ in _lines(content, record.body["digest"]):
                pass
        except (StoreDamaged, zlib.error, TypeError) as error:
            raise StoreDamaged(
                f"gate '{journal.gate}': the stored snapshot at record {seq} is not the one that was made: {error}. The gate "
                "starts without it, from an older one or the whole journal, if the store has it, and makes newer ones. Find out "
                "who altered the store, or whether its disk fails; or restore a backup"
            ) from error


def _restore_first(journal: Journal, places: Sequence[int], state: LiveState, follower: Follower | None) -> bool:
    for seq in places:
        record = journal.under(snapshot_key(seq))
        if record is None:
            continue  # the writer ended before the snapshot became part of the journal
        try:
            _restore(journal, record, seq, state, follower)
            return True
        except (AegisError, zlib.error, ValueError, LookupError, TypeError, AttributeError) as error:
            log.warning("gate '%s': the snapshot at record %d does not fit and is skipped: %s", journal.gate, seq, error)
    return False


def _restore(journal: Journal, record: JournalRecord, seq: int, state: LiveState, follower: Follower | None) -> None:
    if record.body["format"] != FORMAT:
        raise StoreDamaged(f"it has the format {record.body['format']}, this release reads {FORMAT}")
    if record.seq <= seq or record.kind != SNAPSHOT:  # it must be among the records that are read, and checked, from here on
        raise StoreDamaged("its record in the journal does not follow it")
    if record.body["at"] != seq or record.body["hash"] != journal.hash_at(seq):
        raise StoreDamaged("it is not of this journal")
    content = _content(journal, seq)
    if content is None:
        raise StoreDamaged("it is not in the store any more")
    lines = _lines(content, record.body["digest"])
    first = json.loads(next(lines))
    gate, trees = gate_state_from_plain(first["gate"]), [_episode(line) for line in lines]
    if (first["seq"], first["hash"]) != (seq, record.body["hash"]):
        raise StoreDamaged("it is of another record")
    if follower is not None:
        if first["followed"] is None:
            raise StoreDamaged("it was made without what the page shows")
        follower.restore(first["followed"])
    state.gate, state.seed, state.started, state.silent = gate, first["seed"], first["started"], first["silent"]
    state.changed, state.writer, state.blocks = first["changed"], first["writer"], BlockMark(*first["blocks"])
    state.sealed = {name: ChallengerSeal(**seal) for name, seal in first["sealed"].items()}
    state.take_up(trees)
    state.snapshot = journal.last = seq
    journal.head = record.body["hash"]


def _content(journal: Journal, seq: int) -> bytes | None:
    table = snapshots_table.c
    with journal.database.reading(LARGE) as connection:
        query = sa.select(table.content).where(table.gate == journal.gate, table.seq == seq)
        content = connection.execute(query).scalar()
    return None if content is None else bytes(content)


def _lines(content: bytes, expected: str) -> Iterator[bytes]:
    """Yield the lines of a snapshot, read piece by piece; StoreDamaged at the end unless their digest is the expected one."""
    digest, unpacker, rest = sha256(), zlib.decompressobj(), b""
    view = memoryview(content)
    for start in range(0, len(content), PIECE):
        text = unpacker.decompress(view[start : start + PIECE])
        digest.update(text)
        *lines, rest = (rest + text).split(b"\n")
        yield from lines
    if rest or not unpacker.eof or digest.hexdigest() != expected:
        raise StoreDamaged("its content is not that of its record in the journal")


PIECE = 1 << 18  # bytes that are unpacked at a time
