"""Whether a store is whole: nothing in its journals was altered or removed, and every challenger is the one that was frozen."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from aegis.handover.events import Frozen, event_of
from aegis.problem import Problem, parse_problem
from aegis.problem.strict_yaml import write_yaml
from aegis.service.errors import Damaged
from aegis.service.sealing import Seal, checked_policy, sealed
from aegis.service.state import EVENT, OPENED
from aegis.service.store import Database, Journal


@dataclass(slots=True)
class Checking:
    """Checks kept challengers of a gate against its journal: first all records, then all pieces, then `done`."""

    gate: str
    problem: Problem | None = field(default=None, init=False)
    seals: dict[str, Seal] = field(default_factory=dict, init=False)
    found: set[str] = field(default_factory=set, init=False)

    def record(self, kind: str, body: Mapping[str, Any]) -> None:
        """Take up a record."""
        if kind == OPENED:
            self.problem = parse_problem(write_yaml(body["problem"]), self.gate)
        elif kind == EVENT and body["event"]["kind"] == "frozen":
            event = event_of(body["event"])
            if isinstance(event, Frozen):
                self.seals |= sealed(event, body)

    def row(self, kind: str, text: str) -> None:
        """Take up a record as a store holds it; those that say nothing about challengers are not even read."""
        if kind == OPENED or (kind == EVENT and '"frozen"' in text):
            self.record(kind, json.loads(text))

    def piece(self, challenge: str, digest: str, content: bytes) -> None:
        """Check a challenger; Damaged if it is not the one that was frozen. One that no freeze speaks of is never used."""
        if challenge in self.seals:
            if self.problem is None:
                raise Damaged(f"gate '{self.gate}': its journal does not begin with 'opened'; restore a backup")
            checked_policy(self.gate, challenge, self.seals[challenge], (digest, content), self.problem)
            self.found.add(challenge)

    def done(self) -> int:
        """Return how many challengers there are; Damaged if one is missing."""
        missing = sorted(set(self.seals) - self.found)
        if missing:
            raise Damaged(f"gate '{self.gate}': the challenger of challenge '{missing[0]}' is not in the store; restore a backup")
        return len(self.found)


def check_gate(database: Database, gate: str) -> tuple[int, int]:
    """Return how many records and challengers a gate has; Damaged if one of them is missing or was altered."""
    journal, checking, records = Journal(database, gate), Checking(gate), 0
    for record in journal.read():
        checking.record(record.kind, record.body)
        records += 1
    for challenge in checking.seals:
        checking.piece(challenge, *journal.kept(challenge))
    return records, checking.done()
