"""The integrity of a store: the gate's events follow from each other, and every stored challenger is the one that was frozen.

A seal covers the policy, the predictions that its bets use and the terms of its claims.
"""

from __future__ import annotations

import uuid
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from hashlib import sha256
from pathlib import Path
from typing import Any

from aegis.errors import AegisError, InputError
from aegis.handover import Event, Frozen, check_code_files, event_from_plain, unpack_policy, verify_events
from aegis.problem import Policy, Problem, parse_problem, write_yaml
from aegis.service.http_errors import NotWriter, StoreDamaged
from aegis.service.live_state import EVENT, KEPT_KEY, OPENED, WRITER, ChallengerSeal, LiveState, seals_of_freeze
from aegis.service.store.archive import check_kept
from aegis.service.store.chain import ChainHead
from aegis.service.store.database import ENDLESS, Database
from aegis.service.store.journal import Journal, JournalEntry, list_gates
from aegis.service.store.journal_keys import JournalKeys
from aegis.service.store.lease import Lease
from aegis.service.store.snapshots import restore_oldest
from aegis.version import __version__


def piece_digest(piece: bytes) -> str:
    """Return the digest of a stored challenger."""
    return sha256(piece).hexdigest()


def check_stored_policy(gate: str, challenge: str, seal: ChallengerSeal | None, piece: bytes, problem: Problem) -> Policy:
    """Return the policy of a stored challenger; StoreDamaged unless it is the one that was frozen."""
    if seal is None:
        raise StoreDamaged(f"gate '{gate}': the journal knows of no challenge '{challenge}'; restore a backup")
    if seal.piece != piece_digest(piece):
        raise StoreDamaged(
            f"gate '{gate}': the challenger that is kept for challenge '{challenge}' is not the one that was frozen (its content "
            "is not that of the freeze): the store was altered; restore a backup"
        )
    try:
        policy = unpack_policy(piece, problem)
        check_code_files(seal.code, policy, f"gate '{gate}', challenge '{challenge}'")
    except AegisError as error:
        raise StoreDamaged(str(error)) from error
    return policy


@dataclass(slots=True)
class ChallengerKeeper:
    """Loads stored challengers of a gate by the names of their challenges; StoreDamaged if one is gone or was altered."""

    journal: Journal
    state: LiveState
    problem: Problem
    _policies: dict[str, Policy] = field(default_factory=dict, init=False)

    def policy(self, challenge: str) -> Policy:
        """Return a policy. It stays in memory once it was checked, even if the store is altered later."""
        if challenge not in self._policies:
            self._policies[challenge] = self._load(challenge)[0]
        return self._policies[challenge]

    def piece(self, challenge: str) -> bytes:
        """Return a challenger as one piece, as it is in the store now."""
        return self._load(challenge)[1]

    def _load(self, challenge: str) -> tuple[Policy, bytes]:
        piece, seal = self.journal.challenger(challenge), self.state.sealed.get(challenge)
        return check_stored_policy(self.journal.gate, challenge, seal, piece, self.problem), piece


@dataclass(slots=True)
class StoreCheck:
    """Checks stored challengers of a gate against its journal: first all records, then all pieces, then `done`."""

    gate: str
    problem: Problem | None = field(default=None, init=False)
    seals: dict[str, ChallengerSeal] = field(default_factory=dict, init=False)
    checked: set[str] = field(default_factory=set, init=False)

    def record(self, kind: str, body: Mapping[str, Any]) -> None:
        """Take up a record."""
        if kind == OPENED:
            self.problem = parse_problem(write_yaml(body["problem"]), self.gate)
        elif kind == EVENT and KEPT_KEY in body:
            event = event_from_plain(body["event"])
            if isinstance(event, Frozen):
                self.seals |= seals_of_freeze(event, body)

    def piece(self, challenge: str, content: bytes) -> None:
        """Check a challenger; StoreDamaged if it is not the one that was frozen. One without a freeze is never used."""
        if challenge in self.seals:
            if self.problem is None:
                raise StoreDamaged(f"gate '{self.gate}': its journal does not begin with 'opened'; restore a backup")
            check_stored_policy(self.gate, challenge, self.seals[challenge], content, self.problem)
            self.checked.add(challenge)

    def done(self) -> int:
        """Return how many challengers there are; StoreDamaged if one is missing."""
        missing = sorted(set(self.seals) - self.checked)
        if missing:
            raise StoreDamaged(
                f"gate '{self.gate}': the challenger of challenge '{missing[0]}' is not in the store; restore a backup"
            )
        return len(self.checked)


@dataclass(frozen=True, slots=True)
class RecordRun:
    """Records that are no longer in the store. discarded: they are in no archive. read: they were checked in an archive."""

    first: int
    last: int
    discarded: bool
    read: bool = False


@dataclass(frozen=True, slots=True)
class GateCheck:
    """What a check of a gate covered. keys: ids of those that sign its records, from `signed_from` on. kept: heads it has.

    after: the record after which it began. before: what there was up to it. follows: the record of the snapshot from which on
    events were derived, 0 if all were. archived: the last record that was read from an archive. unknown: heads that could not be
    compared.
    """

    head: ChainHead
    challengers: int
    events: int
    signed_from: int | None
    keys: tuple[str, ...]
    key_known: bool
    kept: tuple[int, ...]
    after: int = 0
    before: tuple[RecordRun, ...] = ()
    follows: int = 0
    archived: int = 0
    unknown: tuple[int, ...] = ()

    @property
    def gate(self) -> str:
        """Return the name of the gate."""
        return self.head.gate

    @property
    def records(self) -> int:
        """Return how many records it has."""
        return self.head.seq

    @property
    def checked(self) -> tuple[str, ...]:
        """Return what was verified, in sentences."""
        last, plain, first = self.records, (self.signed_from or self.records + 1) - 1, self.after + 1
        where = f", up to {self.archived} in the archive" if self.archived else ""
        statements = [f"records {first} to {last} are there, in sequence{where}"]
        for run in self.before:
            if run.read:
                statements.append(
                    f"records {run.first} to {run.last} are there, in sequence, in the archive, and end with the hash that the "
                    "journal notes"
                )
        if self.after:
            statements.append(
                f"the hash of record {self.after}, the keys up to it and what is kept of it are as the journal notes"
            )
        if plain > self.after:
            statements.append(f"the hash of each of records {first} to {plain} follows from the record and the hash before it")
        if self.signed_from is not None and self.key_known:
            before = ", which cover what is before them" if plain > self.after else ""
            statements.append(f"records {self.signed_from} to {last} have the signature of {_listed_keys(self.keys)}{before}")
        since = f" after the snapshot at record {self.follows}" if self.follows else ""
        statements.append(f"each of {self.events} events{since} follows from those before it")
        statements.append(f"{self.challengers} challengers are the ones that were frozen")
        if self.kept:
            statements.append(f"records {', '.join(map(str, self.kept))} have the hashes of the heads kept elsewhere")
        return tuple(statements)

    @property
    def unchecked(self) -> tuple[str, ...]:
        """Return what was not verified, in sentences."""
        statements, newest = [], max(self.kept, default=0)
        for run in self.before:
            where = "which were discarded" if run.discarded else "which are in an archive: name it with --archive"
            records = f"records {run.first} to {run.last}"
            statements.append(f"whether the events in {records} follow from each other" if run.read else f"{records}, {where}")
        if self.unknown:
            statements.append(f"the heads at records {', '.join(map(str, self.unknown))}, which are not in the store")
        if self.signed_from is None and newest < self.records:
            rewritten = f"after record {newest}" if newest else "in it"
            statements.append(f"whether something {rewritten} was altered and every hash computed anew: the journal has no key")
        if self.signed_from is not None and not self.key_known:
            signed = f"records {self.signed_from} to {self.records}, signed by {_listed_keys(self.keys)}"
            statements.append(f"the hashes of {signed}, and with them what these records say: name the key with --journal-key")
        statements.append(
            f"whether records after {self.records} were cut off" + ("" if newest else ": no head was kept (--head)")
        )
        statements.append("tokens, which are not in the journal")
        return tuple(statements)


def _listed_keys(names: Sequence[str]) -> str:
    return f"the key{'s' if len(names) > 1 else ''} {', '.join(names)}"


def check_gate(
    database: Database,
    gate: str,
    keys: JournalKeys | None = None,
    heads: Sequence[ChainHead] = (),
    archive: str | Path | None = None,
) -> GateCheck:
    """Check the journal of a gate and its challengers, and return what that covered.

    Always: no number is missing between 1 and the last record; the hash of every record that no key signs follows from the record
    and the hash before it; every event follows from the events before it; every challenger is the one that was frozen.

    With `keys`: every record from the first one that names a key on has the signature of the key in force, and so has the last
    one that of the current key. The signatures cover everything before them. What is not found is that the newest records were
    cut off.

    With `heads`: the journal contains these records, with these hashes. Where hashes are checked, this covers everything up to
    them; where they are signed and the keys are not known, it covers the hashes alone.

    Not found without keys: records that were altered if every hash after them, and every event that follows from them, were
    computed anew. Not found without heads: newest records that were cut off, an older state that was put in place.

    Records that are in an archive are read from there. Without `archive`, or where they were discarded, the check begins after
    them, with the hash that the journal notes; events are derived from the oldest snapshot on. Archived records that come before
    discarded ones are checked apart.

    Parameters
    ----------
    keys : of the journal; None to leave signatures unchecked.
    heads : of this gate, kept elsewhere.
    archive : the folder that `aegis store archive` has written to.

    Raises
    ------
    StoreDamaged : something is missing or was altered. SettingError : a record is signed by a key that is not among `keys`.
    """
    journal, checking = Journal(database, gate, keys=keys, archive=None if archive is None else Path(archive)), StoreCheck(gate)
    events: list[Event] = []
    begin, state = journal.beginning, _state_after(journal, checking)
    follows = 0 if state is None else state.snapshot
    chain, signed_from, signers = ChainHead(gate, begin, journal.hash_at(begin)), None, dict[str, None]()
    before = _runs_before(journal)
    apart = [run for run in before if run.read]
    known = [head for head in heads if head.seq >= max(begin, 1) or any(run.first <= head.seq <= run.last for run in apart)]
    for head in known:
        _check_head(head, chain)
    for place, _ in journal.walk_archived():
        for head in known:
            _check_head(head, place)
    with database.reading(ENDLESS) as connection:
        check_kept(connection, gate, journal.marks)
    for chain, record in journal.walk(begin):
        if chain.signer is not None:
            signers[chain.signer] = None
            signed_from = signed_from or chain.seq
        for head in known:
            _check_head(head, chain)
        try:
            checking.record(record.kind, record.body)
            if record.kind in (OPENED, EVENT) and record.seq > follows:
                events.append(event_from_plain(record.body["event"]))
        except (KeyError, TypeError, ValueError) as error:  # where hashes are not checked
            raise StoreDamaged(f"gate '{gate}': record {record.seq} cannot be read; restore a backup") from error
    newest = max((head.seq for head in heads), default=0)
    if newest > chain.seq:
        raise StoreDamaged(
            f"gate '{gate}': {newest - chain.seq} records are missing at the end: the journal ends with record {chain.seq}, the "
            f"head that was kept elsewhere is record {newest}; restore a backup"
        )
    if keys is not None:
        chain.check_end(keys)
    try:
        verify_events(events, None if state is None else state.gate)
    except AegisError as error:
        raise StoreDamaged(f"gate '{gate}': {error}; the journal was altered: restore a backup") from error
    for challenge in checking.seals:
        checking.piece(challenge, journal.challenger(challenge))
    return GateCheck(
        head=chain,
        challengers=checking.done(),
        events=len(events),
        signed_from=signed_from,
        keys=tuple(signers),
        key_known=keys is not None,
        kept=tuple(sorted({head.seq for head in known})),
        after=begin,
        before=before,
        follows=follows,
        archived=journal.archived_to if journal.archived_to > begin else 0,
        unknown=tuple(sorted({head.seq for head in heads if head not in known})),
    )


def _runs_before(journal: Journal) -> tuple[RecordRun, ...]:
    """Return what there was up to the beginning of a journal, in as few runs as say it."""
    runs = list[RecordRun]()
    for mark in journal.marks:
        if mark.last > journal.beginning:
            break
        run = RecordRun(mark.first, mark.last, mark.discarded, read=not mark.discarded and journal.archive is not None)
        if runs and runs[-1].discarded == run.discarded:
            run = replace(run, first=runs.pop().first)
        runs.append(run)
    return tuple(runs)


def _check_head(head: ChainHead, chain: ChainHead) -> None:
    if head.seq == chain.seq and head.hash != chain.hash:
        raise StoreDamaged(
            f"gate '{head.gate}': record {head.seq} does not have the hash of the head that was kept elsewhere: the journal "
            "was written anew; restore a backup"
        )


def _state_after(journal: Journal, checking: StoreCheck) -> LiveState | None:
    """Return the state of the oldest snapshot, and take up its seals; None if the journal can be read from its beginning."""
    if not journal.beginning:
        return None
    first = journal.first()
    if first is None:
        raise StoreDamaged(f"gate '{journal.gate}': record 1 is missing; restore a backup")
    checking.record(first.kind, first.body)
    if checking.problem is None:
        raise StoreDamaged(f"gate '{journal.gate}': its journal does not begin with 'opened'; restore a backup")
    state = LiveState(checking.problem)
    if not restore_oldest(Journal(journal.database, journal.gate, keys=journal.keys), state):
        raise StoreDamaged(f"gate '{journal.gate}': no snapshot after record {journal.beginning} fits; restore a backup")
    checking.seals |= state.sealed
    return state


def check_store(
    database: Database,
    keys: JournalKeys | None = None,
    heads: Sequence[ChainHead] = (),
    unsigned: Collection[str] = (),
    archive: str | Path | None = None,
) -> list[GateCheck]:
    """Check every gate of a store (`check_gate`), and that every gate is there of which a head was kept.

    unsigned: gates that are not expected to have a key although there are `keys`. archive: with records of these gates.
    """
    gates = list_gates(database)
    for head in heads:
        if head.gate not in gates:
            raise StoreDamaged(
                f"gate '{head.gate}' is not in {database.shown}: {head.seq} records are missing, as a head kept elsewhere says"
            )
    checks = []
    for gate in gates:
        own = [head for head in heads if head.gate == gate]
        free = gate in unsigned and Journal(database, gate).newest().signing is None
        checks.append(check_gate(database, gate, None if free else keys, own, archive))
    return checks


def rekey_gate(database: Database, gate: str, keys: JournalKeys) -> ChainHead:
    """Let the current key sign the journal of a gate from now on, and return its end. The gate must not be served meanwhile.

    Everything so far is checked before: a journal that was signed goes on only if `keys` hold the key that signed it.
    """
    lease = Lease(database, gate)
    if not lease.take():
        raise NotWriter(f"another process is the writer of gate '{gate}' in {database.shown}: stop it first")
    try:
        lease.keep_alive()
        journal = Journal(database, gate, keys=keys)
        journal.begin()
        for _ in journal.news():
            pass
        if journal.last == 0:
            raise InputError(f"there is no gate '{gate}' in {database.shown}")
        if journal.chain.signing != keys.current:
            # One transaction: a journal that names a key ends with a record of that key, see `ChainHead.check_end`.
            writer = JournalEntry(WRITER, {"writer": uuid.uuid4().hex, "aegis": __version__})
            journal.append([journal.key_entry(), writer])
        journal.chain.check_end(keys)
        return journal.chain
    finally:
        lease.let_go()
