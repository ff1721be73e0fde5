"""The live gate: answers decisions, takes results, and keeps everything in a journal.

Every change is one record, or a few in one transaction, and memory follows from the journal alone. A write that was not
confirmed changes nothing here until the journal has been read again.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from hashlib import sha256
from typing import Any

from aegis.errors import InputError
from aegis.handover import (
    NO_RESPONSE,
    AuditResponse,
    Event,
    Frozen,
    GateInput,
    GateState,
    LateDecision,
    OperatorAction,
    Paused,
    event_to_plain,
    is_decision,
    step,
)
from aegis.problem import Policy
from aegis.service.auth import is_same_machine
from aegis.service.gate_problem import legacy_columns, live_legacy, uniform_rates
from aegis.service.gate_writer import GateWriter, StoredPieces
from aegis.service.http_errors import (
    Conflict,
    LateRequest,
    NotAllowed,
    ServiceError,
    StoreDamaged,
    StoreUnavailable,
)
from aegis.service.integrity import ChallengerKeeper, piece_digest
from aegis.service.journal_entries import EntryFactory
from aegis.service.live_episodes import LiveDecision
from aegis.service.live_state import CUT, DECISIONS, EVENT, KEPT_KEY, KEYED, LATE
from aegis.service.request_checks import LegacyChecks, check_operator
from aegis.service.schemas import Ask, Report
from aegis.service.store.archive import ArchivedKey
from aegis.service.store.journal import JournalEntry, JournalRecord

Answers = dict[str, Any]
Audit = Callable[[GateState], tuple[bool, AuditResponse]]
TRIES, PAUSE = 100, 0.05  # how often an approval waits until everything is audited, and seconds in between


@dataclass(slots=True)
class LiveGate(GateWriter):
    """A gate beside a running controller: it answers decisions, takes results, and does what operators want.

    audit: of the units of a state, run before anything is approved.
    """

    columns: dict[str, tuple[str, ...]] = field(init=False)
    legacy: Policy = field(init=False)
    keeper: ChallengerKeeper = field(init=False)
    audit: Audit | None = field(default=None, init=False)
    _entries: EntryFactory = field(init=False)

    def __post_init__(self) -> None:
        GateWriter.__post_init__(self)  # `super()` does not know a class with slots
        self.columns = legacy_columns(self.problem)
        self.legacy = live_legacy(self.problem)
        self.keeper = ChallengerKeeper(self.journal, self.state, self.problem)
        checks = LegacyChecks(uniform=not self.columns, rates=uniform_rates(self.stated))
        self._entries = EntryFactory(
            problem=self.problem,
            state=self.state,
            columns=self.columns,
            legacy_checks=checks,
            policy=self._policy,
            known=self._known,
            counted_decision=self._counted_decision,
        )

    # ---- writing once --------------------------------------------------------------------------------------------------------

    def _once(
        self,
        key: str,
        request: Mapping[str, Any],
        entry: Callable[[], JournalEntry],
        episodes: Sequence[str],
        caller: str | None,
    ) -> JournalRecord:
        """Return what is written under a key: now, or before if the same request comes again; Conflict if it is another one.

        episodes: those that the request writes to; NotAllowed if another controller has opened one of them.
        """
        digest = _digest(request)
        with self._writing(caller):
            try:
                self._refuse_archived(key)
                self._check_owner(episodes)
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
        """Take note that an episode had more decisions than were known when it was closed: it is no evidence."""
        tree = self.state.trees.get(episode)
        if tree is not None and not tree.cut:
            self._write([JournalEntry(CUT, {"episode": episode}, tree.number)])
        if tree is None:
            self._cut_counted(episode)

    def _cut_counted(self, episode: str) -> None:
        """Take note of the first late decision of a counted episode: the gate gives up the tests that counted it, and goes on.

        More of them change nothing, since no test that starts later counts the episode. One that the gate itself had cut off was
        never evidence, and one without decisions was never counted.
        """
        under, opened = internal_key("late", episode), self._find(internal_key("episode", episode))
        if opened is None or self._find(under) is not None:
            return
        abandoned = self.journal.under(internal_key("abandoned", episode))
        if abandoned is not None and abandoned.body.get("incomplete"):
            return
        number = opened.number if isinstance(opened, ArchivedKey) else self.journal.number_of(episode, opened.seq)
        if number is not None:
            why = f"a decision of episode '{episode}' came after it was closed and counted as whole"
            self.step(LateDecision(self.state.opened.episode, number, why), under)

    def _check_owner(self, episodes: Sequence[str]) -> None:
        """Raise NotAllowed if an episode belongs to another controller than the caller, also if it was counted already."""
        for episode in dict.fromkeys(episodes) if self._caller is not None else ():
            tree = self.state.trees.get(episode)
            opened = self._find(internal_key("episode", episode)) if tree is None else None
            owner = tree.owner if tree is not None else opened.caller if opened is not None else None
            if not is_same_machine(owner, self._caller):
                raise NotAllowed(
                    f"episode '{episode}' was opened by another controller: only the controller that opened an episode may write "
                    "to it (its next token is called MACHINE/..., see 'aegis token make')"
                )

    def _before(self, key: str, digest: str) -> JournalRecord | None:
        """Return the record of the same request under a key; Conflict if another request, or another caller, used the key."""
        before = self.journal.under(key)
        if before is None:
            self._refuse_archived(key)
        if before is not None and not is_same_machine(before.caller, self._caller):
            raise Conflict(f"the key '{key}' was used before, by another caller")
        if before is not None and before.request != digest:
            raise Conflict(f"the key '{key}' was used before, for another request")
        return before

    # ---- episodes ----------------------------------------------------------------------------------------------------------

    def open_episode(
        self, key: str, name: str | None = None, time: str | float | None = None, caller: str | None = None
    ) -> Answers:
        """Open an episode, under its own name or one made from the key; Conflict if it was opened before, under another key."""
        chosen = name or sha256(key.encode()).hexdigest()[:20]
        digest = _digest({"open": chosen, "time": time})
        with self._writing(caller):
            before = self._before(key, digest)
            if before is None:
                if self._known(chosen):
                    raise Conflict(f"episode '{chosen}' was opened before")
                opened = replace(self._entries.episode(chosen, time), key=internal_key("episode", chosen), request=digest)
                before = self._write([opened, JournalEntry(KEYED, {"episode": chosen}, None, key, digest)])[0]
            return {"episode": chosen, "opened": before.at}  # one transaction: both records are of the same moment

    def decide(self, key: str, episode: str, ask: Ask, caller: str | None = None) -> Answers:
        """Answer what is to be done at a decision."""
        request = {"decide": episode, "ask": _plain(ask)}
        return self._answer(self._once(key, request, lambda: self._entries.decision(episode, ask), [episode], caller))

    def overrule(self, key: str, episode: str, ask: Ask, used: Any, explored: bool = False, caller: str | None = None) -> Answers:
        """Take note that the legacy's own action was used, since the gate did not answer in time.

        explored: it was drawn with the probabilities that the legacy says.
        """
        request = {"overrule": episode, "ask": _plain(ask), "used": used, "explored": explored}
        entry = lambda: self._entries.overruled(episode, ask, used, explored)  # noqa: E731
        return self._answer(self._once(key, request, entry, [episode], caller))

    def replace(
        self, key: str, episode: str, decision: str, used: Any, why: str | None = None, caller: str | None = None
    ) -> Answers:
        """Take note that an interlock or a person replaced the action of a decision: the episode counts at its worst."""
        request = {"replace": episode, "decision": decision, "used": used, "why": why}
        entry = lambda: self._entries.replaced(episode, decision, used, why)  # noqa: E731
        record = self._once(key, request, entry, [episode], caller)
        return {"episode": episode, "decision": decision, "replaced": record.body["replaced"], "at": record.at}

    def report(self, key: str, items: Sequence[Report], caller: str | None = None) -> Answers:
        """Take note of results of decisions; all of them, or none."""
        request = {"report": [item.model_dump() for item in items]}
        record = self._once(key, request, lambda: self._entries.results(items), [item.episode for item in items], caller)
        return {"accepted": len(record.body["items"]), "late": record.kind == LATE, "at": record.at}

    def close(
        self, key: str, episode: str, abandoned: bool = False, incomplete: bool = False, caller: str | None = None
    ) -> Answers:
        """Close an episode: it takes no more decisions. abandoned: rewards that have not come are missing for good.

        incomplete: some of its decisions are not known, so that it is no evidence of anything.
        """
        request = {"close": episode, "abandoned": abandoned} | ({"incomplete": True} if incomplete else {})
        record = self._once(key, request, lambda: self._entries.closed(episode, abandoned, incomplete), [episode], caller)
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
        return self._find(internal_key("episode", episode)) is not None

    def _counted_decision(self, episode: str, decision: str) -> LiveDecision | None:
        """Return a decision of a counted episode; None if there is none, or if it was archived."""
        opened = self.journal.under(internal_key("episode", episode))
        number = None if opened is None else self.journal.number_of(episode, opened.seq)
        body = None if number is None else self.journal.decision(number, decision)
        return None if body is None else DECISIONS.validate_python(body)

    def _find(self, key: str) -> JournalRecord | ArchivedKey | None:
        """Return what was written under a key, or what is kept of it."""
        return self.journal.under(key) or self.journal.archived(key)

    def _refuse_archived(self, key: str) -> None:
        """Raise Conflict if the record of a request is no longer in the store: it was done, and is not done again."""
        if self.journal.archived(key) is not None:
            raise Conflict(f"the key '{key}' was used before, for a request whose record was archived: it is not done again")

    # ---- the gate ----------------------------------------------------------------------------------------------------------

    def say(
        self,
        key: str,
        action: str,
        who: str,
        why: str,
        level: str | None = None,
        challenge: str | None = None,
        caller: str | None = None,
    ) -> Answers:
        """Do what an operator wants; WrongRequest if no gate can do it, Conflict if it cannot be done now.

        challenge: the one that they have read is waiting at the level.
        """
        request = {"operator": action, "who": who, "why": why, "level": level, "challenge": challenge}
        digest, audited_gate, audited = _digest(request), None, NO_RESPONSE
        for _ in range(TRIES):
            with self._writing(caller):
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
        with self._writing():
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
        self.step(Paused(self.state.opened.episode, why))


def _plain(ask: Ask) -> dict[str, Any]:
    """Return a question as plain data. A field that the first requests did not have is left out where it is not used.

    A request that is sent again after an upgrade of AEGIS is still the same.
    """
    plain = ask.model_dump()
    if plain["legacy"] is not None and plain["legacy"]["incumbent"] is None:
        del plain["legacy"]["incumbent"]
    return plain


def _digest(request: Mapping[str, Any]) -> str:
    """Return the digest by which requests are compared."""
    return sha256(json.dumps(request, sort_keys=True, allow_nan=False).encode()).hexdigest()


def internal_key(what: str, episode: str) -> str:
    """Return a key of the gate's own. It has a space, which no key of a caller may have (`routes.base.Key`)."""
    return f"{what} {episode}"
