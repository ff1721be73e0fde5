"""The integrity of a store: the gate's events follow from each other, and every stored challenger is the one that was frozen.

A seal covers the policy, the predictions that its bets use and the terms of its claims.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any

from aegis.errors import AegisError
from aegis.handover import Event, Frozen, check_code_files, event_from_plain, unpack_policy, verify_events
from aegis.problem import Policy, Problem, parse_problem, write_yaml
from aegis.service.http_errors import StoreDamaged
from aegis.service.live_state import EVENT, KEPT_KEY, OPENED, ChallengerSeal, LiveState, seals_of_freeze
from aegis.service.store.database import Database
from aegis.service.store.journal import Journal


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


def check_gate(database: Database, gate: str) -> tuple[int, int]:
    """Return how many records and challengers a gate has; StoreDamaged if one of them is missing or was altered.

    Every event must follow from the ones before it: a journal that was rewritten as a whole, its chain too, is found as well
    unless its units were rewritten with it.
    """
    journal, checking, records = Journal(database, gate), StoreCheck(gate), 0
    events: list[Event] = []
    for record in journal.read():
        checking.record(record.kind, record.body)
        records += 1
        if record.kind in (OPENED, EVENT):
            events.append(event_from_plain(record.body["event"]))
    try:
        verify_events(events)
    except AegisError as error:
        raise StoreDamaged(f"gate '{gate}': {error}; the journal was altered: restore a backup") from error
    for challenge in checking.seals:
        checking.piece(challenge, journal.challenger(challenge))
    return records, checking.done()
