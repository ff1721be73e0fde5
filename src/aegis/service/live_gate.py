"""The live gate: answers decisions, takes results, and keeps everything in a journal.

Every change is one record, or a few in one transaction, and memory follows from the journal alone. A write that was not
confirmed changes nothing here until the journal has been read again.
"""

from __future__ import annotations

import json
import re
import threading
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from hashlib import sha256
from typing import Any

from aegis.errors import InputError, SettingError
from aegis.files import json_digest
from aegis.handover import (
    NO_RESPONSE,
    AuditResponse,
    Event,
    Frozen,
    GateCount,
    GateInput,
    GateSettings,
    GateState,
    OperatorAction,
    Paused,
    event_to_plain,
    is_decision,
    open_gate,
    refuse_interval_actions,
    step,
    without_margins,
)
from aegis.problem import Policy, Problem, dump_problem
from aegis.service.gate_problem import legacy_columns, live_legacy, live_problem, uniform_rates
from aegis.service.http_errors import Conflict, LateRequest, NotWriter, ServiceError, StoreDamaged, StoreUnavailable
from aegis.service.integrity import ChallengerKeeper, piece_digest
from aegis.service.journal_entries import EntryFactory
from aegis.service.live_state import CUT, EVENT, KEPT_KEY, KEYED, LATE, OPENED, WRITER, LiveState
from aegis.service.request_checks import LegacyChecks, check_operator
from aegis.service.schemas import Ask, Report
from aegis.service.store.blocks import LARGEST, BlockBuffer
from aegis.service.store.database import Database
from aegis.service.store.journal import Journal, JournalEntry, JournalRecord, list_openings
from aegis.service.store.lease import Lease
from aegis.service.store.snapshots import Follower, restore_newest
from aegis.version import __version__

Answers = dict[str, Any]
NAMES = re.compile(r"[^\W_][\w .:-]{0,63}")  # of gates: they become part of the name of a file
StoredPieces = Mapping[str, tuple[str, bytes]]
Audit = Callable[[GateState], tuple[bool, AuditResponse]]
SLOW = 1.0  # seconds after which a write that is not confirmed makes the gate unhealthy
TRIES, PAUSE = 100, 0.05  # how often an approval waits until everything is audited, and seconds in between


@dataclass(slots=True)
class LiveGate:
    """A gate beside a running controller. `start` it before anything else; `stop` lets another process take over.

    stated: the problem as its file says. changed: guards everything, and is notified after every write. audit: of the units of a
    state, run before anything is approved. follower: follows the events, and is stored and taken up with the state.
    """

    database: Database
    name: str
    stated: Problem
    settings: GateSettings
    seed: int
    problem: Problem = field(init=False)
    columns: dict[str, tuple[str, ...]] = field(init=False)
    legacy: Policy = field(init=False)
    state: LiveState = field(init=False)
    journal: Journal = field(init=False)
    lease: Lease = field(init=False)
    keeper: ChallengerKeeper = field(init=False)
    writer: str = field(default_factory=lambda: uuid.uuid4().hex, init=False)
    started: bool = field(default=False, init=False)
    resumed: bool = field(default=False, init=False)  # whether it was ever started: before, it only follows another process
    changed: threading.Condition = field(default_factory=threading.Condition, init=False)
    audit: Audit | None = field(default=None, init=False)
    follower: Follower | None = field(default=None, init=False)
    _count: GateCount | None = field(default=None, init=False)
    _entries: EntryFactory = field(init=False)

    def __post_init__(self) -> None:
        if not NAMES.fullmatch(self.name):
            raise SettingError(f"the name of a gate has up to 64 letters, digits, spaces and ._:-, found {self.name!r}")
        refuse_interval_actions(self.stated)
        self.problem = live_problem(self.stated)
        self.columns = legacy_columns(self.problem)
        self.legacy = live_legacy(self.problem)
        self.state = LiveState(self.problem, self.seed, uncovered=BlockBuffer(self.problem))
        self.journal = Journal(self.database, self.name)
        self.lease = Lease(self.database, self.name)
        self.keeper = ChallengerKeeper(self.journal, self.state, self.problem)
        checks = LegacyChecks(uniform=not self.columns, rates=uniform_rates(self.stated))
        self._entries = EntryFactory(
            problem=self.problem,
            state=self.state,
            columns=self.columns,
            legacy_checks=checks,
            policy=self._policy,
            known=self._known,
        )

    # ---- starting and stopping ---------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Become the writer of the gate and resume it; NotWriter if another process is the writer."""
        if not self.lease.take():
            raise NotWriter(
                f"another process is the writer of gate '{self.name}' in {self.database.shown}: stop it first, or let this one "
                "wait beside it (--standby)"
            )
        try:
            self._resume()
        except BaseException:
            self.lease.let_go()  # another process may be able to start
            raise

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
        if not self.journal.last:
            restore_newest(self.journal, self.state, self.follower)
        uncovered = self.state.uncovered
        for record in self.journal.news():
            self.state.apply(record)
            if uncovered is not None and len(uncovered.trees) >= 8 * LARGEST:
                uncovered.pack()  # a journal without snapshots does not fit into memory as episodes

    def _resume(self) -> None:
        with self.changed:
            self._catch_up()
            if self.state.gate is None:
                self._write([JournalEntry(OPENED, self._opening())])
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
        """Return which gate of its plant this is, among those in the store whose problem differs in its margins only."""
        if self._count is not None:
            return self._count
        own, number, risk = json.loads(json.dumps(without_margins(dump_problem(self.problem)))), 0, 0.0
        for name, body in list_openings(self.database):
            same = name == self.name or without_margins(body["problem"]) == own
            number, risk = number + same, risk + same * float(body["event"]["settings"]["delta"])
            if name == self.name:
                break
        self._count = GateCount(number, risk, self.settings.delta)
        return self._count

    def stop(self) -> None:
        """Let another process take over."""
        with self.changed:
            self.started = False
            self.lease.let_go()
            self.changed.notify_all()

    @property
    def failure(self) -> str | None:
        """Return why this process cannot write now; None if it can, as far as it is known."""
        if not self.started:
            return "not the writer"
        return "the last write was not confirmed" if self.journal.unconfirmed(SLOW) else None

    def check_store(self) -> None:
        """Find out whether this process still is the writer, and, if a write was not confirmed, whether it can write again.

        Raises StoreUnavailable if it cannot; NotWriter if another process has taken over.
        """
        if not self.lease.held():
            with self.changed:
                self.journal.doubtful = True  # the lease is taken again, or another process has it
        with self.changed:
            if self.journal.doubtful:
                self._ready()
                self._write([JournalEntry(WRITER, {"writer": self.writer, "aegis": __version__})])

    def _check_same(self, about: Mapping[str, Any]) -> None:
        first = self.journal.first()
        if first is None:
            raise StoreDamaged(f"gate '{self.name}': record 1 is missing; restore a backup")
        now = json.loads(json.dumps(about))
        for what, word in (("problem", "problem file"), ("event", "settings")):
            if first.body[what] != now[what]:
                raise SettingError(
                    f"gate '{self.name}' in {self.database.shown} was opened with another {word}: a gate keeps what it was "
                    "opened with; use those, or open another gate with --name"
                )

    # ---- writing -----------------------------------------------------------------------------------------------------------

    def _write(self, entries: Sequence[JournalEntry], challengers: StoredPieces | None = None) -> list[JournalRecord]:
        """Write entries and apply them. The caller holds `changed`."""
        records = self.journal.append(entries, challengers)
        for record in records:
            self.state.apply(record)
        self.changed.notify_all()
        return records

    def note(self, entry: JournalEntry) -> None:
        """Write an entry that no request asked for."""
        with self.changed:
            self._ready()
            self._write([entry])

    def check_writer(self) -> None:
        """Raise NotWriter unless this process is the writer and knows what is in the journal. Holds `changed`."""
        self._ready()

    def _ready(self) -> None:
        """Raise NotWriter unless this process is the writer; read the journal again if the store was away."""
        if not self.started:
            raise NotWriter(f"gate '{self.name}' is not served by this process, or not yet")
        if not self.journal.doubtful:
            return
        if not self.lease.take():
            self.started = False
            raise NotWriter(f"another process has become the writer of gate '{self.name}'")
        self._catch_up()
        if self.state.writer != self.writer:
            self.stop()
            raise NotWriter(f"another process has become the writer of gate '{self.name}'")

    def _once(self, key: str, request: Mapping[str, Any], entry: Callable[[], JournalEntry]) -> JournalRecord:
        """Return what is written under a key: now, or before if the same request comes again; Conflict if it is another one."""
        digest = _digest(request)
        with self.changed:
            self._ready()
            try:
                return self._write([replace(entry(), key=key, request=digest)])[0]
            except ServiceError as error:
                if self.journal.doubtful:  # the journal is read again before the next request
                    raise
                before = self._before(key, digest)
                if before is not None:
                    return before
                if isinstance(error, LateRequest):
                    self._cut(error.episode)
                raise

    def _cut(self, episode: str) -> None:
        """Take note that an episode had more decisions than were known when it was closed: it is no evidence.

        If it has been counted already, the gate pauses. The open tests are given up when it is resumed. An episode that the gate
        itself had closed was never evidence.
        """
        tree = self.state.trees.get(episode)
        if tree is not None and not tree.cut:
            self._write([JournalEntry(CUT, {"episode": episode}, tree.number)])
        if tree is None and self.state.opened.paused is None and self.journal.under(internal_key("abandoned", episode)) is None:
            self.pause(
                f"episode '{episode}' had decisions that came after it was closed and counted: it was counted as all of it"
            )

    def _before(self, key: str, digest: str) -> JournalRecord | None:
        """Return the record of the same request under a key; Conflict if another request used the key."""
        before = self.journal.under(key)
        if before is not None and before.request != digest:
            raise Conflict(f"the key '{key}' was used before, for another request")
        return before

    # ---- episodes ----------------------------------------------------------------------------------------------------------

    def open_episode(self, key: str, name: str | None = None, time: str | float | None = None) -> Answers:
        """Open an episode, under its own name or one made from the key; Conflict if it was opened before, under another key."""
        chosen = name or sha256(key.encode()).hexdigest()[:20]
        digest = _digest({"open": chosen, "time": time})
        with self.changed:
            self._ready()
            before = self._before(key, digest)
            if before is None:
                if self._known(chosen):
                    raise Conflict(f"episode '{chosen}' was opened before")
                opened = replace(self._entries.episode(chosen, time), key=internal_key("episode", chosen), request=digest)
                before = self._write([opened, JournalEntry(KEYED, {"episode": chosen}, None, key, digest)])[0]
            return {"episode": chosen, "opened": before.at}  # one transaction: both records are of the same moment

    def decide(self, key: str, episode: str, ask: Ask) -> Answers:
        """Answer what is to be done at a decision."""
        request = {"decide": episode, "ask": ask.model_dump()}
        return self._answer(self._once(key, request, lambda: self._entries.decision(episode, ask)))

    def overrule(self, key: str, episode: str, ask: Ask, used: Any, explored: bool = False) -> Answers:
        """Take note that the legacy's own action was used, since the gate did not answer in time.

        explored: it was drawn with the probabilities that the legacy says.
        """
        request = {"overrule": episode, "ask": ask.model_dump(), "used": used, "explored": explored}
        return self._answer(self._once(key, request, lambda: self._entries.overruled(episode, ask, used, explored)))

    def report(self, key: str, items: Sequence[Report]) -> Answers:
        """Take note of results of decisions; all of them, or none."""
        request = {"report": [item.model_dump() for item in items]}
        record = self._once(key, request, lambda: self._entries.results(items))
        return {"accepted": len(record.body["items"]), "late": record.kind == LATE, "at": record.at}

    def close(self, key: str, episode: str, abandoned: bool = False, incomplete: bool = False) -> Answers:
        """Close an episode: it takes no more decisions. abandoned: rewards that have not come are missing for good.

        incomplete: some of its decisions are not known, so that it is no evidence of anything.
        """
        request = {"close": episode, "abandoned": abandoned} | ({"incomplete": True} if incomplete else {})
        record = self._once(key, request, lambda: self._entries.closed(episode, abandoned, incomplete))
        return {"episode": record.body["episode"], "closed": record.at, "missing": len(record.body["missing"])}

    def _answer(self, record: JournalRecord) -> Answers:
        """Return the answer to a decision from what was written."""
        body = record.body
        return {
            "episode": body["episode"],
            "decision": body["id"],
            "level": body["level"],
            "action": self.problem.level(body["level"]).actions.values[body["action"]],
            "index": body["action"],
            "propensity": body["chances"][body["action"]],
            "by": body["by"],
            "version": body["version"],
            "at": record.at,
        }

    def _policy(self, challenge: str) -> Policy:
        """Return the policy that won a challenge; StoreUnavailable, so that the legacy acts, if it is not the one certified."""
        try:
            return self.keeper.policy(challenge)
        except StoreDamaged as error:
            self.pause(str(error))
            raise StoreUnavailable(f"the policy in control is not the one that was certified: {error}") from error

    def _known(self, episode: str) -> bool:
        return self.journal.under(internal_key("episode", episode)) is not None

    # ---- the gate ----------------------------------------------------------------------------------------------------------

    def say(self, key: str, action: str, who: str, why: str, level: str | None = None, challenge: str | None = None) -> Answers:
        """Do what an operator wants; WrongRequest if no gate can do it, Conflict if it cannot be done now.

        challenge: the one that they have read is waiting at the level.
        """
        request = {"operator": action, "who": who, "why": why, "level": level, "challenge": challenge}
        digest, audited_gate, audited = _digest(request), None, NO_RESPONSE
        for _ in range(TRIES):
            with self.changed:
                self._ready()
                check_operator(self.state.opened.levels, action, why, level)
                before = self._before(key, digest)
                if before is not None:
                    return {"done": action, "at": before.at}
                self._check_waiting(level, challenge)
                gate, operator = self.state.opened, OperatorAction(action, who, why, self.state.opened.episode, level)
                try:
                    if self.audit is None or gate is audited_gate or not is_decision(self.after(operator)):
                        return self._done(action, self.step(operator, key, digest, audited=audited))
                except InputError as error:
                    raise Conflict(str(error)) from error
            known, audited = self.audit(gate)
            audited_gate = gate if known else None
            if not known:
                time.sleep(PAUSE)
        raise Conflict("what was counted last is not audited yet: say it once more")

    def _done(self, action: str, records: Sequence[JournalRecord]) -> Answers:
        """Return what was done, and what was done instead if the audit did not let it happen."""
        last = records[-1].body["event"]
        instead = last if last["kind"] in ("paused", "put off") and action == "approve" else None
        return {"done": action, "at": records[0].at, "instead": None if instead is None else f"{last['kind']}: {last['why']}"}

    def after(self, gate_input: GateInput) -> tuple[Event, ...]:
        """Return the events that would follow from an input; nothing is written. The caller holds `changed`."""
        gate = self.state.opened
        return step(gate, gate_input, max(self.state.started, gate.started))[1]

    def _check_waiting(self, level: str | None, challenge: str | None) -> None:
        """Raise Conflict if another challenge waits at a level by now than the operator has read."""
        waiting = {item.level: item.challenge for item in self.state.opened.waiting}
        if challenge is not None and waiting.get(level or "") != challenge:
            now = waiting.get(level or "", "nothing")
            raise Conflict(f"'{challenge}' no longer waits at level '{level}' ({now} does): look again")

    def step(
        self,
        gate_input: GateInput,
        key: str | None = None,
        request: str | None = None,
        challengers: Callable[[Sequence[str]], StoredPieces] | None = None,
        audited: AuditResponse = NO_RESPONSE,
    ) -> list[JournalRecord]:
        """Take the gate one step and write what follows. challengers: returns those to be stored, by challenge.

        audited: what the audit of the episodes so far asks for.
        """
        with self.changed:
            self._ready()
            gate = self.state.opened
            _, events = step(gate, gate_input, max(self.state.started, gate.started), audited)
            if not events:
                return []
            names = [item.name for event in events if isinstance(event, Frozen) for item in event.challenges]
            pieces = {} if challengers is None else challengers(names)
            seals = {KEPT_KEY: {name: piece_digest(piece) for name, (_, piece) in pieces.items()}}
            entries = [
                JournalEntry(EVENT, {"event": event_to_plain(event), **(seals if isinstance(event, Frozen) else {})})
                for event in events
            ]
            entries[0] = JournalEntry(EVENT, entries[0].body, None, key, request)
            return self._write(entries, pieces)

    def pause(self, why: str) -> None:
        """Pause the gate; the policies in control stay."""
        with self.changed:
            self.step(Paused(self.state.opened.episode, why))


def _digest(request: Mapping[str, Any]) -> str:
    """Return the digest by which requests are compared."""
    return sha256(json.dumps(request, sort_keys=True, allow_nan=False).encode()).hexdigest()


def internal_key(what: str, episode: str) -> str:
    """Return a key of the gate's own. It has a space, which no key of a caller may have (`routes.base.Key`)."""
    return f"{what} {episode}"
