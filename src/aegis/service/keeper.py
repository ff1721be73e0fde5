"""Kept challengers as a live gate uses them: never one that is not what the journal says was frozen."""

from __future__ import annotations

from dataclasses import dataclass, field

from aegis.problem import Policy, Problem
from aegis.service.sealing import checked_policy
from aegis.service.state import LiveState
from aegis.service.store import Journal


@dataclass(slots=True)
class Keeper:
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
        return checked_policy(self.journal.gate, challenge, self.state.sealed.get(challenge), kept, self.problem)
