"""The writer of a gate: the process that holds its lease, knows its state and adds to its journal.

Memory follows from the journal alone. A write that was not confirmed changes nothing here until the journal has been read again.
"""

from __future__ import annotations

import contextlib
import json
import logging
import threading
import time
import unicodedata
import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from aegis.errors import SettingError
from aegis.files import json_digest
from aegis.handover import (
    GateCount,
    GateSettings,
    event_from_plain,
    event_to_plain,
    open_gate,
    refuse_interval_actions,
    without_margins,
)
from aegis.problem import Problem, dump_problem
from aegis.service.gate_problem import live_problem
from aegis.service.http_errors import (
    NotWriter,
    StoreDamaged,
    StoreUnavailable,
)
from aegis.service.live_state import OPENED, WRITER, LiveState
from aegis.service.store.blocks import LARGEST, BlockBuffer
from aegis.service.store.database import Database
from aegis.service.store.journal import Journal, JournalEntry, JournalRecord, list_openings
from aegis.service.store.journal_keys import JournalKeys
from aegis.service.store.lease import Lease
from aegis.service.store.snapshots import Follower, restore_newest
from aegis.version import __version__

StoredPieces = Mapping[str, tuple[str, bytes]]
LONGEST_GATE = 64  # characters of the name of a gate, which becomes part of the name of a file
PLACE = "place"  # in the first record: how many gates were in the store before it
SLOW = 1.0  # seconds after which a write that is not confirmed makes the gate unhealthy
log = logging.getLogger("aegis.service")
AWAY = "the store does not answer, or was away and is looked at now: nothing was done, try again"


@dataclass(slots=True)
class GateWriter:
    """A gate and its journal. `start` it before anything else; `stop` lets another process take over.

    stated: the problem as its file says. keys: to sign the journal with. changed: guards everything, and is notified after every
    write. follower: follows the events, and is stored and taken up with the state. watched: another thread calls `check_store`,
    so that no request waits for a server that is away.
    """

    database: Database
    name: str
    stated: Problem
    settings: GateSettings
    seed: int
    keys: JournalKeys | None = field(default=None, repr=False)
    problem: Problem = field(init=False)
    state: LiveState = field(init=False)
    journal: Journal = field(init=False)
    lease: Lease = field(init=False)
    writer: str = field(default_factory=lambda: uuid.uuid4().hex, init=False)
    started: bool = field(default=False, init=False)
    resumed: bool = field(default=False, init=False)  # whether it was ever started: before, it only follows another process
    changed: threading.Condition = field(default_factory=threading.Condition, init=False)
    follower: Follower | None = field(default=None, init=False)
    watched: bool = field(default=False, init=False)
    recovery: threading.Event = field(default_factory=threading.Event, init=False)
    _recovering: threading.Lock = field(default_factory=threading.Lock, init=False)
    _count: GateCount | None = field(default=None, init=False)
    _checking_since: float | None = field(default=None, init=False)  # the store is asked whether this process is the writer
    _caller: str | None = field(default=None, init=False)  # of the request that is being answered

    def __post_init__(self) -> None:
        if not _is_gate_name(self.name):
            raise SettingError(
                f"{self.name!r} cannot be the name of a gate: up to {LONGEST_GATE} letters, digits and signs that letters carry, "
                "spaces and ._:-, a letter or digit first. Without --name it is that of the problem file: give --name, or rename "
                "the file"
            )
        refuse_interval_actions(self.stated)
        if self.settings.explore:
            raise SettingError(
                "gate: 'explore' is for a gate that runs a plant; beside a real controller the controller explores, and the "
                "problem file states its incumbent"
            )
        self.problem = live_problem(self.stated)
        self.state = LiveState(self.problem, self.seed, uncovered=BlockBuffer(self.problem))
        self.journal = Journal(self.database, self.name, keys=self.keys)
        self.lease = Lease(self.database, self.name)

    # ---- starting and stopping ---------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Become the writer of the gate and resume it; NotWriter if another process is the writer."""
        if not self.lease.take():
            raise NotWriter(
                f"another process is the writer of gate '{self.name}' in {self.database.shown}: stop it first, or let this one "
                "wait beside it (--standby)"
            )
        try:
            self.lease.keep_alive()
            self._resume()
        except BaseException:
            self.lease.let_go()  # another process may be able to start
            raise
        if self.watched:
            self.lease.leave()

    def watch(self) -> None:
        """Take note that another thread calls `check_store` from now on, every second and whenever `recovery` is set."""
        self.watched = True
        self.lease.leave()

    def follow(self) -> None:
        """Know what the writer of the gate has written, so that taking over takes no longer than its last records."""
        with self.changed:
            if self.started or (not self.journal.last and self.journal.first() is None):
                return
            if not self.journal.last:
                self._check_same(self._opening())
            self._catch_up()

    def _catch_up(self) -> None:
        """Know what is in the store and was not known here; from the newest snapshot on if nothing was. Holds `changed`."""
        uncovered = self.state.uncovered
        behind = bool(self.journal.last) and self.journal.has_fallen_behind()
        if behind and uncovered is not None:
            uncovered.trees, uncovered.packed = [], []
        if behind or not self.journal.last:
            restore_newest(self.journal, self.state, self.follower)
        for record in self.journal.news():
            self.state.apply(record)
            if uncovered is not None and len(uncovered.trees) >= 8 * LARGEST:
                uncovered.pack()  # a journal without snapshots does not fit into memory as episodes

    def _resume(self) -> None:
        with self.changed:
            self._catch_up()
            self.journal.chain.check_end(self.keys)
            if self.state.gate is None:
                opening = {**self._opening(), PLACE: len(list_openings(self.database))}
                self._write([JournalEntry(OPENED, opening), *([] if self.keys is None else [self.journal.key_entry()])])
            else:
                self._check_same(self._opening())
            self._write([JournalEntry(WRITER, {"writer": self.writer, "aegis": __version__})])
            self.started = self.resumed = True

    def _opening(self) -> dict[str, Any]:
        """Return what the first record says."""
        problem = dump_problem(self.problem)
        _, event = open_gate(self.settings, tuple(reversed(self.problem.names)), json_digest(problem))
        return {"event": event_to_plain(event), "seed": self.seed, "problem": problem}

    @property
    def count(self) -> GateCount:
        """Return which gate of its plant this is, among those in the store whose problem differs in its margins only.

        The order is that of their places, never that of a clock. A gate counts unless it is certain that it was opened later:
        those of earlier releases have no place.
        """
        if self._count is not None:
            return self._count
        own, gates = json.loads(json.dumps(without_margins(dump_problem(self.problem)))), list_openings(self.database)
        place = gates.get(self.name, {}).get(PLACE)
        risks = [
            float(body["event"]["settings"]["delta"])
            for name, body in gates.items()
            if name != self.name
            and without_margins(body["problem"]) == own
            and (place is None or (body.get(PLACE) or 0) <= place)
        ]
        count = GateCount(len(risks) + 1, sum(risks) + self.settings.delta, self.settings.delta)
        if self.name in gates:
            self._count = count
        return count

    def stop(self) -> None:
        """Let another process take over."""
        waited = self._acquire()  # otherwise a write hangs: it was not acknowledged, and is looked for by the next writer
        try:
            self.started = False
            self.lease.let_go()
            self.database.outage.known = False  # from here on no thread looks whether it is back
            self.recovery.set()
            if waited:
                self.changed.notify_all()
        finally:
            if waited:
                self.changed.release()

    def wake(self) -> None:
        """Wake threads that wait for a change; while a write hangs they look again by themselves."""
        if self._acquire():
            self.changed.notify_all()
            self.changed.release()

    @property
    def failure(self) -> str | None:
        """Return why this process cannot write now; None if it can, as far as it is known."""
        if not self.started:
            return "not the writer"
        since = self._checking_since
        if since is not None and time.monotonic() - since > SLOW:
            return "the store does not answer"  # a read waits for it as long as a write does
        return "the last write was not confirmed" if self.journal.unconfirmed(SLOW) else None

    def check_store(self) -> None:
        """Find out whether this process still is the writer, and, if a write was not confirmed, whether it can write again.

        Requests do not wait for it. Raises StoreUnavailable if it cannot; NotWriter if another process has taken over.
        """
        self._checking_since = time.monotonic()
        try:
            if not self.journal.in_doubt and self.lease.held():
                return
            with self.reading():
                self.journal.doubtful = True  # the lease is taken again, or another process has it
            self._recover()
            with self.reading():
                self.check_writer()
                self._write([JournalEntry(WRITER, {"writer": self.writer, "aegis": __version__})])
        finally:
            self._checking_since = None

    def _check_same(self, about: Mapping[str, Any]) -> None:
        first = self.journal.first()
        if first is None:
            raise StoreDamaged(f"gate '{self.name}': record 1 is missing; restore a backup")
        now = json.loads(json.dumps(about))
        # Read as an event: settings that came with a later release have the default that the gate was opened with.
        before = {**first.body, "event": json.loads(json.dumps(event_to_plain(event_from_plain(first.body["event"]))))}
        for what, word in (("problem", "problem file"), ("event", "settings")):
            if before[what] != now[what]:
                raise SettingError(
                    f"gate '{self.name}' in {self.database.shown} was opened with another {word}: a gate keeps what it was "
                    "opened with; use those, or open another gate with --name"
                )

    # ---- writing -----------------------------------------------------------------------------------------------------------

    def _write(self, entries: Sequence[JournalEntry], challengers: StoredPieces | None = None) -> list[JournalRecord]:
        """Write entries and apply them. The caller holds `changed`. What a request leads to carries the name of its token."""
        if self._caller is not None:
            entries = [replace(item, caller=self._caller) for item in entries]
        records = self.journal.append(entries, challengers)
        for record in records:
            self.state.apply(record)
        self.changed.notify_all()
        return records

    def note(self, entry: JournalEntry) -> None:
        """Write an entry that no request asked for."""
        with self._writing():
            self._write([entry])

    def _acquire(self) -> bool:
        """Take `changed`; False if the thread that has it waits for a store that does not answer."""
        while not self.changed.acquire(timeout=SLOW / 4):
            if self.journal.unconfirmed(SLOW):
                return False
        return True

    @contextlib.contextmanager
    def _writing(self, caller: str | None = None) -> Iterator[None]:
        """Hold `changed` as the writer. Raises NotWriter if it is another process, StoreUnavailable while the store is away.

        caller: whose request it is; None inside of another request keeps that one's.
        """
        if self.started and self.journal.in_doubt:
            if self.watched and self.database.file is None:
                self.recovery.set()
                raise StoreUnavailable(AWAY)
            self._recover()
        with self.reading():
            before, self._caller = self._caller, caller or self._caller
            try:
                self.check_writer()
                yield
            finally:
                self._caller = before

    @contextlib.contextmanager
    def reading(self) -> Iterator[None]:
        """Hold `changed`; StoreUnavailable, after a moment, if the thread that has it waits for a store that does not answer."""
        if not self._acquire():
            raise StoreUnavailable(AWAY)
        try:
            yield
        finally:
            self.changed.release()

    def check_writer(self) -> None:
        """Raise NotWriter unless this process is the writer, StoreUnavailable while the store is away. Holds `changed`."""
        if not self.started:
            raise NotWriter(f"gate '{self.name}' is not served by this process, or not yet")
        if self.journal.doubtful:
            raise StoreUnavailable(AWAY)

    def _recover(self) -> None:
        """Take the lease again after an outage, and read what was written: outside of `changed`, and in one thread at a time.

        Nothing is written meanwhile, since the journal is in doubt until it has been read.
        """
        if not self._recovering.acquire(blocking=False):
            raise StoreUnavailable(AWAY)
        try:
            with self.database.reconnecting():
                taken = self.lease.take()
                if taken and not self.watched:
                    self.lease.keep_alive()
                records = list(self.journal.read(self.journal.last)) if taken else []
            with self.changed:
                if taken and self.started:
                    self.journal.accept(records)
                    for record in records:
                        self.state.apply(record)
                if not taken or self.state.writer != self.writer:
                    log.warning("another process has become the writer of gate '%s': this one writes no more", self.name)
                    self.stop()
                    raise NotWriter(f"another process has become the writer of gate '{self.name}'")
        finally:
            self._recovering.release()


def _is_gate_name(name: str) -> bool:
    """Say whether a gate can have a name. Marks belong to letters: many scripts, and some file systems, write them apart."""
    allowed = (sign.isalnum() or sign in " ._:-" or unicodedata.category(sign)[0] == "M" for sign in name)
    return 0 < len(name) <= LONGEST_GATE and name[0].isalnum() and all(allowed)
