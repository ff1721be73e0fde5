"""The writer of snapshots: a thread that stores what the gate knows while decisions are answered, and the check of snapshots.

The lock of the gate is held for a moment to note where it stands, and for a few milliseconds at a time to write down open
episodes. One that is about to change before its turn is written down first.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from aegis.handover import GateOpened, event_from_plain
from aegis.problem import parse_problem, write_yaml
from aegis.service.http_errors import NotWriter, StoreDamaged, StoreUnavailable
from aegis.service.live_episodes import LiveEpisode
from aegis.service.live_gate import LiveGate
from aegis.service.live_state import SNAPSHOT, LiveState
from aegis.service.status import GateStatus
from aegis.service.store.blocks import (
    BlockMark,
    EpisodeBlock,
    PackedBlock,
    drop_unused_blocks,
    list_blocks,
    pack_episodes,
    read_block,
    write_blocks,
)
from aegis.service.store.database import Database
from aegis.service.store.journal import Journal
from aegis.service.store.journal_keys import JournalKeys
from aegis.service.store.snapshots import (
    FORMAT,
    SnapshotText,
    check_stored_snapshots,
    drop_old_snapshots,
    encode_episode,
    encode_line,
    restore_oldest,
    snapshot_entry,
    state_line,
    store_snapshot,
)
from aegis.version import __version__

EVERY = 20_000  # records from one snapshot to the next
AT_STOP = 1000  # records since the last snapshot for which one is made when the service stops
LOOK = 1.0  # seconds between two looks at the journal
SLICE = 0.005  # seconds for which decisions wait while open episodes are written down
MOST_CHANGED = 20_000  # episodes that may change before their turn; then the snapshot is given up, and made later
log = logging.getLogger("aegis.service")


@dataclass(slots=True)
class SnapshotCut:
    """Where a gate stands, while it goes on. waiting: open episodes that were not written down yet, `order` their ids. saved:
    those that have changed since, as they were. All of it is used under the lock of the gate.
    """

    line: dict[str, Any]
    blocks: BlockMark
    packed: list[PackedBlock]
    counted: list[LiveEpisode]
    waiting: dict[str, LiveEpisode]
    order: Iterator[str]
    saved: dict[str, bytes] = field(default_factory=dict)
    changed: int = 0

    @classmethod
    def of(cls, live: LiveGate) -> SnapshotCut:
        """Return where a gate stands."""
        state, followed = live.state, None if live.follower is None else live.follower.kept()
        line = state_line(state, live.journal, followed, state.blocks)
        packed, counted = ([], []) if state.uncovered is None else (list(state.uncovered.packed), list(state.uncovered.trees))
        return cls(line, state.blocks, packed, counted, dict(state.trees), iter(list(state.trees)))

    def save(self, tree: LiveEpisode) -> None:
        """Write an episode down that is about to change."""
        if tree.id not in self.saved and self.waiting.get(tree.id) is tree and self.changed <= MOST_CHANGED:
            self.saved[tree.id] = encode_episode(tree)
            self.changed += 1

    def next_lines(self) -> list[bytes]:
        """Return the lines of the next open episodes, as many as a slice of time allows; none if there are no more."""
        if self.changed > MOST_CHANGED:
            raise StoreUnavailable("too many open episodes change at once")
        end, lines = time.monotonic() + SLICE, list[bytes]()
        while self.waiting and (not lines or time.monotonic() < end):
            name = next(self.order)
            tree = self.waiting.pop(name)
            lines.append(self.saved.pop(name) if name in self.saved else encode_episode(tree))
        return lines


@dataclass(slots=True)
class SnapshotWriter:
    """Stores snapshots of a gate in a thread of its own: every so many records, and when it stops."""

    live: LiveGate
    every: int = EVERY
    _thread: threading.Thread | None = field(default=None, init=False)
    _stopping: threading.Event = field(default_factory=threading.Event, init=False)

    def start(self) -> None:
        """Start the thread, unless it runs."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="aegis-snapshots", daemon=True)
            self._thread.start()

    def stop(self) -> None:
        """End the thread. If this process is the writer, a last snapshot makes the next start quick."""
        self._stopping.set()
        if self._thread is not None:
            self._thread.join(60)
            self._try(min(AT_STOP, self.every))

    def _run(self) -> None:
        while not self._stopping.wait(LOOK):
            self._try(self.every)

    def _try(self, least: int) -> None:
        """Write a snapshot if there are enough records since the last one; the log says why if it cannot be written."""
        if not self.live.started or self.live.journal.last - self.live.state.snapshot < least:
            return
        try:
            self.write()
        except NotWriter:
            return  # another process goes on from here
        except Exception as error:
            log.warning("gate '%s': no snapshot was made: %s: %s", self.live.name, type(error).__name__, error)

    def write(self) -> int:
        """Store a snapshot of what the gate knows now, and return the record that it is of."""
        live, text = self.live, SnapshotText.empty()
        with live.reading():
            live.check_writer()
            before, cut = live.state.snapshot, SnapshotCut.of(live)
            live.state.on_change = cut.save
        try:
            blocks = [*cut.packed, *pack_episodes(live.problem, cut.counted)]
            mark = write_blocks(live.database, live.name, cut.blocks, blocks)
            text.add([encode_line({**cut.line, "blocks": mark})])
            while lines := self._next(cut):
                text.add(lines)
                time.sleep(SLICE)  # decisions come first
        finally:
            with live.changed:
                live.state.on_change = None
        digest, content = text.done()
        seq, head = cut.line["seq"], cut.line["hash"]
        store_snapshot(live.database, live.name, seq, digest, content)
        if live.state.snapshot != before:
            raise NotWriter("another process has made a snapshot meanwhile")
        live.note(snapshot_entry(seq, head, digest, mark, cut.line["followed"] is not None))
        self._clean(mark)
        return int(seq)

    def _clean(self, mark: BlockMark) -> None:
        """Remove what no start needs any more; what cannot be removed now goes after the next snapshot."""
        try:
            drop_old_snapshots(self.live.database, self.live.name)
            drop_unused_blocks(self.live.database, self.live.name, mark)
        except StoreUnavailable as error:
            log.warning("gate '%s': a snapshot was made, older ones could not be removed: %s", self.live.name, error)

    def _next(self, cut: SnapshotCut) -> list[bytes]:
        with self.live.reading():
            return cut.next_lines()


# ---- checking ----------------------------------------------------------------------------------------------------------------


def check_snapshots(
    database: Database, gate: str, keys: JournalKeys | None = None, archive: str | Path | None = None
) -> tuple[int, int]:
    """Replay a journal and compare what it adds up to with every snapshot ever made, and with the stored blocks.

    Where its first records cannot be read, it is replayed from the oldest snapshot on. Returns how many snapshots were compared,
    and how many could not be: that one, and those of another release or format. keys: of the journal. archive: with its first
    records. Raises StoreDamaged if one does not hold what the journal adds up to.
    """
    journal = Journal(database, gate, keys=keys, archive=None if archive is None else Path(archive))
    check_stored_snapshots(journal)
    made = {int(record.body["at"]): record.body for record in journal.every(SNAPSHOT)}
    live = unstarted_gate(journal)
    followed, state = GateStatus(live), live.state
    page = True
    if journal.beginning:
        page = restore_oldest(live.journal, state, followed)
        if not page and not restore_oldest(live.journal, state):
            raise StoreDamaged(f"gate '{gate}': no snapshot after record {journal.beginning} fits; restore a backup")
    comparable = {
        at: body
        for at, body in made.items()
        if (body["format"], body["aegis"]) == (FORMAT, __version__) and at > state.snapshot and (page or not body["followed"])
    }
    marks = [mark for mark in _stored_marks(database, gate, made) if mark.last > state.blocks.last]
    for record in live.journal.news():
        state.apply(record)
        if record.seq in comparable:
            body = comparable[record.seq]
            if _digest(live, followed if body["followed"] else None, BlockMark(*body["blocks"])) != body["digest"]:
                raise StoreDamaged(
                    f"gate '{gate}': the snapshot at record {record.seq} does not hold what the journal adds up to"
                )
        while marks and state.opened.episode >= marks[0].last:
            _check_block(database, gate, state, marks.pop(0))
    return len(comparable), len(made) - len(comparable)


def unstarted_gate(journal: Journal) -> LiveGate:
    """Return the gate of a journal as it was opened, with a journal of which nothing is known yet."""
    first = journal.first()
    body = {} if first is None else first.body
    event = event_from_plain(body.get("event", {}))
    if not isinstance(event, GateOpened):
        raise StoreDamaged(f"gate '{journal.gate}': its journal does not begin with 'opened'; restore a backup")
    problem = parse_problem(write_yaml(body["problem"]), journal.gate)
    live = LiveGate(journal.database, journal.gate, problem, event.settings, int(body["seed"]), journal.keys)
    live.journal.archive = journal.archive
    return live


def _digest(live: LiveGate, followed: GateStatus | None, blocks: BlockMark) -> str:
    """Return the digest of the snapshot that the writer would have made."""
    text = SnapshotText.empty()
    line = state_line(live.state, live.journal, None if followed is None else followed.kept(), blocks)
    text.add([encode_line(line), *map(encode_episode, live.state.trees.values())])
    return text.done()[0]


def _stored_marks(database: Database, gate: str, made: dict[int, dict[str, Any]]) -> list[BlockMark]:
    """Return the blocks that the newest snapshot names, in order."""
    return list_blocks(database, gate, BlockMark(*made[max(made)]["blocks"])) if made else []


def _check_block(database: Database, gate: str, state: LiveState, mark: BlockMark) -> None:
    """Raise StoreDamaged unless a stored block holds the episodes that were counted; they are forgotten then."""
    trees: Sequence[LiveEpisode] = [] if state.uncovered is None else state.uncovered.trees
    own = [tree for tree in trees if (tree.number or 0) <= mark.last]
    if (
        not own
        or EpisodeBlock.of(state.problem, own[0].number or 0, own).to_bytes() != read_block(database, gate, mark).to_bytes()
    ):
        raise StoreDamaged(f"gate '{gate}': the stored block of episodes up to {mark.last} is not what the journal adds up to")
    if state.uncovered is not None:
        state.uncovered.drop(mark.last)
