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
from dataclasses import dataclass, field
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
from aegis.service.gate_problem import is_legacy_known, legacy_columns, live_legacy, live_problem, uniform_rates
from aegis.service.http_errors import Conflict, LateRequest, NotWriter, ServiceError, StoreDamaged, StoreUnavailable
from aegis.service.integrity import ChallengerKeeper, piece_digest
from aegis.service.journal_entries import EntryFactory
from aegis.service.live_state import CUT, EVENT, KEPT_KEY, KEYED, LATE, OPENED, WRITER, LiveState
from aegis.service.schemas import Ask, Report, check_operator
from aegis.service.store.database import Database
from aegis.service.store.journal import Journal, JournalEntry, JournalRecord, list_openings
from aegis.service.store.lease import Lease
from aegis.version import __version__

Answers = dict[str, Any]
NAMES = re.compile(r"[^\W_][\w .:-]{0,63}")  # of gates: they become part of the name of a file
StoredPieces = Mapping[str, tuple[str, bytes]]
Audit = Callable[[GateState], tuple[bool, AuditResponse]]
TRIES, PAUSE = 100, 0.05  # how often an approval waits until everything is audited, and seconds in between


@dataclass(slots=True)
class LiveGate:
    """A gate beside a running controller. `start` it before anything else; `stop` lets another process take over.

    given: the problem as its file says. changed: guards everything, and is notified after every write. watchers: called with
    every record, also those that are read at the start. audit: of the units of a state, asked before anything is approved.
    """

    database: Database
    name: str
    given: Problem
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
    changed: threading.Condition = field(default_factory=threading.Condition, init=False)
    watchers: list[Callable[[JournalRecord], None]] = field(default_factory=list, init=False)
    audit: Audit | None = field(default=None, init=False)
    _count: GateCount | None = field(default=None, init=False)
    _entries: EntryFactory = field(init=False)

    def __post_init__(self) -> None:
        if not NAMES.fullmatch(self.name):
            raise SettingError(f"the name of a gate has up to 64 letters, digits, spaces and ._:-, found {self.name!r}")
        refuse_interval_actions(self.given)
        self.problem = live_problem(self.given)
        self.columns = {} if is_legacy_known(self.problem) else legacy_columns(self.problem)
        self.legacy = live_legacy(self.problem)
        self.state = LiveState(self.problem, self.seed)
        self.journal = Journal(self.database, self.name)
        self.lease = Lease(self.database, self.name)
        self.keeper = ChallengerKeeper(self.journal, self.state, self.problem)
        rates = uniform_rates(self.given)
        self._entries = EntryFactory(self.problem, self.state, self.columns, self._policy, self._known, rates)

    # ---- starting and stopping ---------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Become the writer of the gate and take up where it was; Standby if another process is it."""
        if not self.lease.take():
            raise NotWriter(
                f"another process is the writer of gate '{self.name}' in {self.database.shown}: stop it first, or let this one "
                "wait beside it (--standby)"
            )
        try:
            self._take_up()
        except BaseException:
            self.lease.let_go()  # whoever can start may
            raise

    def _take_up(self) -> None:
        with self.changed:
            for record in self.journal.news():
                self._apply(record)
            _, event = open_gate(self.settings, tuple(reversed(self.problem.names)), json_digest(dump_problem(self.problem)))
            about = {"event": event_to_plain(event), "seed": self.seed, "problem": dump_problem(self.problem)}
            if self.state.gate is None:
                self._write([JournalEntry(OPENED, about)])
            else:
                self._check_same(about)
            self._write([JournalEntry(WRITER, {"writer": self.writer, "aegis": __version__})])
            self.started = True

    @property
    def count(self) -> GateCount:
        """Return which gate of its plant this is: gates in the same store whose problem is the same, whatever the margins."""
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

    def _check_same(self, about: Mapping[str, Any]) -> None:
        first = next(iter(Journal(self.database, self.name).read()))
        now = json.loads(json.dumps(about))
        for what, word in (("problem", "problem file"), ("event", "settings")):
            if first.body[what] != now[what]:
                raise SettingError(
                    f"gate '{self.name}' in {self.database.shown} was opened with another {word}: a gate keeps what it was "
                    "opened with; use those, or open another gate with --name"
                )

    # ---- writing -----------------------------------------------------------------------------------------------------------

    def _write(self, entries: Sequence[JournalEntry], kept: StoredPieces | None = None) -> list[JournalRecord]:
        """Write entries and go on by them. Whoever calls holds `changed`."""
        records = self.journal.append(entries, kept)
        for record in records:
            self._apply(record)
        self.changed.notify_all()
        return records

    def _ready(self) -> None:
        """Raise Standby unless this process is the writer; look at the journal if the store was away."""
        if not self.started:
            raise NotWriter(f"gate '{self.name}' is not served by this process, or not yet")
        if not self.journal.doubtful:
            return
        if not self.lease.take():
            self.started = False
            raise NotWriter(f"another process has become the writer of gate '{self.name}'")
        for record in self.journal.news():
            self._apply(record)
        if self.state.writer != self.writer:
            self.stop()
            raise NotWriter(f"another process has become the writer of gate '{self.name}'")

    def _apply(self, record: JournalRecord) -> None:
        self.state.apply(record)
        for watcher in self.watchers:
            watcher(record)

    def _once(self, key: str, request: Mapping[str, Any], entry: Callable[[], JournalEntry]) -> JournalRecord:
        """Return what is written under a key: now, or before if the same request comes again; Conflict if it is another one."""
        digest = _digest(request)
        with self.changed:
            self._ready()
            try:
                made = entry()
                return self._write([JournalEntry(made.kind, made.body, made.episode, key, digest)])[0]
            except ServiceError as error:
                if self.journal.doubtful:  # what is in the store is looked at before the next request
                    raise
                before = self._before(key, digest)
                if before is not None:
                    return before
                if isinstance(error, LateRequest):
                    self._cut(error.episode)
                raise

    def _cut(self, episode: str) -> None:
        """Go on from there that an episode had more decisions than were known when it was closed: it is no evidence.

        If it has been counted already, the gate is paused: what was being tested with it is given up when it is resumed. One that
        the gate itself had closed was never evidence.
        """
        tree = self.state.trees.get(episode)
        if tree is not None and not tree.cut:
            self._write([JournalEntry(CUT, {"episode": episode}, tree.number)])
        if tree is None and self.state.opened.paused is None and self.journal.under(internal_key("abandoned", episode)) is None:
            self.pause(
                f"episode '{episode}' had decisions that came after it was closed and counted: it was counted as all of it"
            )

    def _before(self, key: str, digest: str) -> JournalRecord | None:
        """Return what was written under a key by the same request; Conflict if it was another one."""
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
                made = self._entries.episode(chosen, time)
                opened = JournalEntry(made.kind, made.body, made.episode, internal_key("episode", chosen), digest)
                before = self._write([opened, JournalEntry(KEYED, {"episode": chosen}, None, key, digest)])[0]
            return {"episode": chosen, "opened": before.at}  # one transaction: both records are of the same moment

    def decide(self, key: str, episode: str, ask: Ask) -> Answers:
        """Answer what is to be done at a decision."""
        request = {"decide": episode, "ask": _plain_request(ask)}
        return self._answer(self._once(key, request, lambda: self._entries.decision(episode, ask)))

    def overrule(self, key: str, episode: str, ask: Ask, used: Any, explored: bool = False) -> Answers:
        """Take note that the legacy's own action was used, since the gate did not answer in time.

        explored: it was drawn with the probabilities that the legacy says.
        """
        request = {"overrule": episode, "ask": _plain_request(ask), "used": used, "explored": explored}
        return self._answer(self._once(key, request, lambda: self._entries.overruled(episode, ask, used, explored)))

    def report(self, key: str, items: Sequence[Report]) -> Answers:
        """Take note of what came of decisions; all of them, or none."""
        request = {"report": [item.model_dump() for item in items]}
        record = self._once(key, request, lambda: self._entries.results(items))
        return {"accepted": len(record.body["items"]), "late": record.kind == LATE, "at": record.at}

    def close(self, key: str, episode: str, abandoned: bool = False, incomplete: bool = False) -> Answers:
        """Close an episode: it takes no more decisions. abandoned: rewards that have not come are missing for good.

        incomplete: some of its decisions could not be told, so that it is no evidence of anything.
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
        """Do what an operator says; WrongRequest if no gate can do it, Conflict if it cannot be done now.

        challenge: what they have seen waiting at the level.
        """
        request = {"operator": action, "who": who, "why": why, "level": level, "challenge": challenge}
        digest, known_of, audited = _digest(request), None, NO_RESPONSE
        for _ in range(TRIES):
            with self.changed:
                self._ready()
                check_operator(self.state.opened.levels, action, why, level)
                before = self._before(key, digest)
                if before is not None:
                    return {"done": action, "at": before.at}
                self._check_waiting(level, challenge)
                gate, said = self.state.opened, OperatorAction(action, who, why, self.state.opened.episode, level)
                try:
                    if self.audit is None or gate is known_of or not is_decision(self.after(said)):
                        return self._done(action, self.step(said, key, digest, audited=audited))
                except InputError as error:
                    raise Conflict(str(error)) from error
            known, audited = self.audit(gate)
            known_of = gate if known else None
            if not known:
                time.sleep(PAUSE)
        raise Conflict("what was counted last is not audited yet: say it once more")

    def _done(self, action: str, records: Sequence[JournalRecord]) -> Answers:
        """Return what was done, and what came in its place if the audit did not let it happen."""
        last = records[-1].body["event"]
        instead = last if last["kind"] in ("paused", "put off") and action == "approve" else None
        return {"done": action, "at": records[0].at, "instead": None if instead is None else f"{last['kind']}: {last['why']}"}

    def after(self, given: GateInput) -> tuple[Event, ...]:
        """Return the events that would follow from what is given; nothing is written. Whoever calls holds `changed`."""
        gate = self.state.opened
        return step(gate, given, max(self.state.started, gate.started))[1]

    def _check_waiting(self, level: str | None, challenge: str | None) -> None:
        """Raise Conflict if something else waits at a level by now than what somebody has seen."""
        waiting = {item.level: item.challenge for item in self.state.opened.waiting}
        if challenge is not None and waiting.get(level or "") != challenge:
            now = waiting.get(level or "", "nothing")
            raise Conflict(f"'{challenge}' no longer waits at level '{level}' ({now} does): look again")

    def step(
        self,
        given: GateInput,
        key: str | None = None,
        request: str | None = None,
        kept: Callable[[Sequence[str]], StoredPieces] | None = None,
        audited: AuditResponse = NO_RESPONSE,
    ) -> list[JournalRecord]:
        """Take the gate one step and write what follows. kept: challengers to be kept, asked for by the names of challenges.

        audited: what the audit of the episodes so far asks for.
        """
        with self.changed:
            self._ready()
            gate = self.state.opened
            _, events = step(gate, given, max(self.state.started, gate.started), audited)
            if not events:
                return []
            names = [item.name for event in events if isinstance(event, Frozen) for item in event.challenges]
            pieces = {} if kept is None else kept(names)
            seals = {KEPT_KEY: {name: piece_digest(piece) for name, (_, piece) in pieces.items()}}
            entries = [
                JournalEntry(EVENT, {"event": event_to_plain(event), **(seals if isinstance(event, Frozen) else {})})
                for event in events
            ]
            entries[0] = JournalEntry(EVENT, entries[0].body, None, key, request)
            return self._write(entries, pieces)

    def pause(self, why: str) -> None:
        """Pause the gate; whoever is in control stays."""
        with self.changed:
            self.step(Paused(self.state.opened.episode, why))


def _plain_request(ask: Ask) -> Answers:
    """Return a question as plain data. A field that earlier releases did not have is left out where it is not used: a request
    that is sent again after an upgrade is still the same."""
    found = ask.model_dump()
    if found["legacy"] is not None and found["legacy"]["incumbent"] is None:
        del found["legacy"]["incumbent"]
    return found


def _digest(request: Mapping[str, Any]) -> str:
    """Return what tells one request from another."""
    return sha256(json.dumps(request, sort_keys=True, allow_nan=False).encode()).hexdigest()


def internal_key(what: str, episode: str) -> str:
    """Return a key of the gate's own. It has a space, which no key of a caller may have (`routes.common.Key`)."""
    return f"{what} {episode}"
