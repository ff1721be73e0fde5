"""Who had a level when: turns of the agent, and since when those have acted that act now."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from aegis.handover.events import Event, Flipped, Reverted, Unit


@dataclass(frozen=True, slots=True)
class Turn:
    """Episodes in which an agent had a level: from `since` up to and including `until`, None if it still has it."""

    level: str
    since: int
    until: int | None = None


def turns(events: Sequence[Event]) -> tuple[Turn, ...]:
    """Return the turns of agents in the order in which they began; an upgrade goes on with a turn."""
    found: list[Turn] = []
    for event in events:
        open_at = next((place for place, turn in enumerate(found) if _at(turn, event) and turn.until is None), None)
        if isinstance(event, Flipped) and open_at is None:
            found.append(Turn(event.level, event.since))
        if isinstance(event, Reverted) and open_at is not None:
            found[open_at] = Turn(event.level, found[open_at].since, event.since - 1)
    return tuple(found)


def last_change(events: Sequence[Event]) -> int:
    """Return from which episode on the policies that act now have acted: the last flip or revert; 1 if there was none."""
    return max((event.since for event in events if isinstance(event, Flipped | Reverted)), default=1)


def handed_over(events: Sequence[Event]) -> npt.NDArray[np.bool_]:
    """Return `[episodes]`: whether any level was handed over at the time of each closed episode."""
    size = sum(isinstance(event, Unit) for event in events)
    found = np.zeros(size, dtype=np.bool_)
    for turn in turns(events):
        found[turn.since - 1 : turn.until] = True
    return found


def _at(turn: Turn, event: Event) -> bool:
    return isinstance(event, Flipped | Reverted) and event.level == turn.level
