"""Choices of a client: what to do at a decision, and decisions that have no result yet."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from aegis.service.client.spool import KeptChoice


@dataclass(frozen=True, slots=True)
class ActionChoice:
    """What to do. by: 'agent', 'legacy', or 'fallback' if the gate did not help. propensity: its probability, None if not known.

    action: None only if the gate has never answered and the client has no problem file; then `index` says which one it is, in
    the order of the problem file.
    """

    id: str
    level: str
    action: Any
    propensity: float | None
    by: str
    index: int | None = None


@dataclass(frozen=True, slots=True)
class UnreportedChoice:
    """A decision without a result. choice: None if it was asked for before a crash and its answer was never seen."""

    episode: str
    id: str
    level: str
    choice: ActionChoice | None

    @property
    def answered(self) -> bool:
        """Say whether the answer was seen: if not, what the plant did is not known."""
        return self.choice is not None

    @classmethod
    def of(cls, kept: KeptChoice) -> UnreportedChoice:
        """Return it from what the spool keeps."""
        choice = read_choice(kept)
        return cls(kept.episode, kept.id, kept.id.rpartition("-")[0] if choice is None else choice.level, choice)


def same_action(action: Any, used: Any) -> bool:
    """Say whether two values are the same action; 1 is not true."""
    return bool(action == used) and isinstance(action, bool) == isinstance(used, bool)


def read_choice(kept: KeptChoice) -> ActionChoice | None:
    """Return a choice from the spool; None if it was never answered, or cannot be read."""
    try:
        return None if kept.choice is None else ActionChoice(**kept.choice)
    except TypeError:
        return None
