"""Who took a level over, when and why, and the alarm that nobody has answered: what a page says beside the state of a gate."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from aegis.handover.events import Alarm, Event, Flipped, Operator, Restarted, Reverted

MOST = 200  # changes that are kept to be drawn; the journal has all of them


@dataclass(slots=True)
class Changes:
    """Follows the events of a gate.

    kept: flips, levels given back and restarts, as plain data; where an operator wanted them, with `who` and `said`. alarm: the
    last one, until an operator gives a level back or resumes a paused gate. That is never done by the gate itself, so an alarm
    cannot pass unseen.
    """

    kept: list[dict[str, Any]] = field(default_factory=list)
    alarm: dict[str, Any] | None = None
    _held: dict[str, dict[str, Any]] = field(default_factory=dict)  # by level, since when and why who controls it does
    _said: Operator | None = None

    def told(self, event: Event, shown: Mapping[str, Any]) -> None:
        """Go on by an event; shown: the same as plain data, in units of the reward."""
        if isinstance(event, Operator):
            self._said = event  # what it leads to follows at once, in the same step
            return
        said = {} if self._said is None else {"who": self._said.who, "said": self._said.why}
        self._said = None
        if isinstance(event, Alarm):
            self.alarm = dict(shown)
        if isinstance(event, Reverted | Restarted):
            self.alarm = None
        if isinstance(event, Flipped | Reverted | Restarted):
            found = {**shown, **said}
            self.kept = [*self.kept[-MOST + 1 :], found]
            if not isinstance(event, Restarted):
                self._control(event, found)

    def _control(self, event: Flipped | Reverted, found: dict[str, Any]) -> None:
        before = self._held.get(event.level)
        upgraded = isinstance(event, Flipped) and event.action == "upgrade" and before is not None
        since = before["since"] if upgraded and before is not None else {"episode": event.since, "at": found["at"]}
        self._held[event.level] = {"since": since, "last": found}

    def held(self, level: str) -> dict[str, Any] | None:
        """Return since when a level is in the hands it is in, and the change that led to it; None if it never changed hands."""
        return self._held.get(level)
