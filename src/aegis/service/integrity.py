"""The integrity of a store: every stored challenger is the one that the hash-chained journal says was frozen.

A seal covers the policy, the predictions that its bets use and the terms of its claims.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any

from aegis.errors import AegisError
from aegis.handover import Frozen, check_code_files, event_from_plain, unpack_policy
from aegis.policies import policy_digest
from aegis.problem import Policy, Problem, parse_problem, write_yaml
from aegis.service.http_errors import StoreDamaged
from aegis.service.live_state import EVENT, OPENED, ChallengerSeal, LiveState, seals_of_freeze
from aegis.service.store.database import Database
from aegis.service.store.journal import Journal


def piece_digest(piece: bytes) -> str:
    """Return the digest of a kept challenger."""
    return sha256(piece).hexdigest()


def check_stored_policy(
    gate: str, challenge: str, seal: ChallengerSeal | None, kept: tuple[str, bytes], problem: Problem
) -> Policy:
    """Return the policy of a kept challenger; Damaged unless it is the one that was frozen. kept: its digest, and the piece."""
    digest, piece = kept
    if seal is None:
        raise StoreDamaged(f"gate '{gate}': the journal knows of no challenge '{challenge}'; restore a backup")
    try:
        if digest != seal.policy:
            raise StoreDamaged(f"it is kept under the digest {digest[:16]}, and {seal.policy[:16]} was frozen")
        if seal.piece not in (None, piece_digest(piece)):
            raise StoreDamaged("its content is not that of the freeze")
        policy = unpack_policy(piece, problem)
        found = policy_digest(policy)
        if found != seal.policy:
            raise StoreDamaged(f"its policy has the digest {found[:16]}, and {seal.policy[:16]} was frozen")
    except AegisError as error:
        raise StoreDamaged(
            f"gate '{gate}': the challenger that is kept for challenge '{challenge}' is not the one that was frozen ({error}): "
            "the store was altered; restore a backup"
        ) from error
    try:
        check_code_files(seal.code, policy, f"gate '{gate}', challenge '{challenge}'")
    except AegisError as error:
        raise StoreDamaged(str(error)) from error
    return policy


@dataclass(slots=True)
class ChallengerKeeper:
    """Finds kept challengers of a gate by the names of their challenges; Damaged if one is gone or was altered."""

    journal: Journal
    state: LiveState
    problem: Problem
    _policies: dict[str, Policy] = field(default_factory=dict, init=False)

    def policy(self, challenge: str) -> Policy:
        """Return a policy. Once it was found to be right it stays in memory, whatever becomes of the store."""
        if challenge not in self._policies:
            self._policies[challenge] = self._checked(challenge, self.journal.kept(challenge))
        return self._policies[challenge]

    def piece(self, challenge: str) -> bytes:
        """Return a challenger as one piece, as it is in the store now."""
        kept = self.journal.kept(challenge)
        self._checked(challenge, kept)
        return kept[1]

    def _checked(self, challenge: str, kept: tuple[str, bytes]) -> Policy:
        return check_stored_policy(self.journal.gate, challenge, self.state.sealed.get(challenge), kept, self.problem)


@dataclass(slots=True)
class StoreCheck:
    """Checks kept challengers of a gate against its journal: first all records, then all pieces, then `done`."""

    gate: str
    problem: Problem | None = field(default=None, init=False)
    seals: dict[str, ChallengerSeal] = field(default_factory=dict, init=False)
    found: set[str] = field(default_factory=set, init=False)

    def record(self, kind: str, body: Mapping[str, Any]) -> None:
        """Take up a record."""
        if kind == OPENED:
            self.problem = parse_problem(write_yaml(body["problem"]), self.gate)
        elif kind == EVENT and body["event"]["kind"] == "frozen":
            event = event_from_plain(body["event"])
            if isinstance(event, Frozen):
                self.seals |= seals_of_freeze(event, body)

    def row(self, kind: str, text: str) -> None:
        """Take up a record as a store holds it; those that say nothing about challengers are not even read."""
        if kind == OPENED or (kind == EVENT and '"frozen"' in text):
            self.record(kind, json.loads(text))

    def piece(self, challenge: str, digest: str, content: bytes) -> None:
        """Check a challenger; Damaged if it is not the one that was frozen. One that no freeze speaks of is never used."""
        if challenge in self.seals:
            if self.problem is None:
                raise StoreDamaged(f"gate '{self.gate}': its journal does not begin with 'opened'; restore a backup")
            check_stored_policy(self.gate, challenge, self.seals[challenge], (digest, content), self.problem)
            self.found.add(challenge)

    def done(self) -> int:
        """Return how many challengers there are; Damaged if one is missing."""
        missing = sorted(set(self.seals) - self.found)
        if missing:
            raise StoreDamaged(
                f"gate '{self.gate}': the challenger of challenge '{missing[0]}' is not in the store; restore a backup"
            )
        return len(self.found)


def check_gate(database: Database, gate: str) -> tuple[int, int]:
    """Return how many records and challengers a gate has; Damaged if one of them is missing or was altered."""
    journal, checking, records = Journal(database, gate), StoreCheck(gate), 0
    for record in journal.read():
        checking.record(record.kind, record.body)
        records += 1
    for challenge in checking.seals:
        checking.piece(challenge, *journal.kept(challenge))
    return records, checking.done()
