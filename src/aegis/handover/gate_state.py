"""The state of a gate: open challenges, deployed policies, the monitor, and when the next freeze is due."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from aegis.errors import InputError
from aegis.evidence import Monitor
from aegis.handover.challenge import Challenge
from aegis.handover.events import AuditNote, Paused, Postponed, Restarted, UnitCounted, Waiting
from aegis.handover.gate_settings import GateSettings


@dataclass(frozen=True, slots=True)
class Deployed:
    """The policy in control of a level: the challenge it won, and since which episode it acts.

    floor: the bound of the value that was certified with it. beside: who was in control of other levels then, level and
    challenge; where a level is not named, the legacy. What was certified speaks of all of them together. apart: those of
    these levels that have been given back since. doubted: the audit has refused the stream since; nothing is promised of it.
    """

    level: str
    challenge: str
    policy: str
    cap: float | None
    since: int
    gain_lower: float
    floor: float = 0.0
    beside: tuple[tuple[str, str], ...] = ()
    apart: tuple[str, ...] = ()
    doubted: bool = False


@dataclass(frozen=True, slots=True)
class MonitorState:
    """A monitor as plain numbers, so that states can be compared. floor: the value it watches for. wealth: of each stake."""

    floor: float
    count: int
    wealth: tuple[float, ...]

    @classmethod
    def start(cls, floor: float) -> MonitorState:
        """Return the monitor before its first unit."""
        return cls._of(Monitor(floor))

    @classmethod
    def _of(cls, monitor: Monitor) -> MonitorState:
        return cls(monitor.floor, monitor.count, tuple(monitor.wealth.tolist()))

    @property
    def _monitor(self) -> Monitor:
        return Monitor(self.floor, self.count, np.array(self.wealth))

    def step(self, value: float) -> MonitorState:
        """Return the monitor after one more unit."""
        return self._of(self._monitor.step(value))

    @property
    def evidence(self) -> float:
        """Return the evidence that the value has fallen."""
        return self._monitor.evidence

    def alarm(self, alpha: float) -> bool:
        """Say whether an alarm is due at level alpha."""
        return self._monitor.alarm(alpha)


@dataclass(frozen=True, slots=True)
class GateState:
    """Where a gate stands.

    levels: that may be handed over, innermost first. episode: the last unit that was counted; units come in the order in which
    they started. start: the phase began with the first unit after it, at the opening, a flip or a restart. phases: how many there
    have been. audited: units of the phase that are evidence, which the audit of the stream has to have seen. freeze: t, the
    global counter. freezes: since the phase began. spent: risk of all challenges ever opened. deployed: by level. retired:
    policies that acted before the last flip at their level. monitor: of the policies in control, None while the legacy controls
    every level. alarmed: the episode of the last alarm, None if a new phase has begun since. paused: why, None if it counts.
    refusals: pauses that the audit of the stream asked for, ever. resumed: the last restart after one of them.
    put_off: why what would be certified or handed over waits, None if it does not. notes: what the audit found that
    changes what a gain means. waiting: certified flips that wait for an operator, by level.
    """

    settings: GateSettings
    levels: tuple[str, ...]
    episode: int = 0
    start: int = 0
    phases: int = 1
    audited: int = 0
    freeze: int = 0
    freezes: int = 0
    spent: float = 0.0
    challenges: tuple[Challenge, ...] = ()
    deployed: tuple[Deployed, ...] = ()
    retired: tuple[Deployed, ...] = ()
    monitor: MonitorState | None = None
    monitored_since: int = 0
    alarms: int = 0
    alarmed: int | None = None
    paused: str | None = None
    refusals: tuple[Paused, ...] = ()
    resumed: Restarted | None = None
    put_off: Postponed | None = None
    notes: tuple[AuditNote, ...] = ()
    waiting: tuple[Waiting, ...] = ()

    @property
    def next_freeze(self) -> int:
        """Return the unit after which challengers are to be frozen next."""
        return freeze_due(self.start, self.settings.first, self.freezes)

    @property
    def freeze_is_due(self) -> bool:
        """Say whether challengers are to be frozen now."""
        return self.paused is None and self.episode >= self.next_freeze

    @property
    def started(self) -> int:
        """Return how many episodes are known to have started: all that closed, and those in flight at what was decided."""
        return max([self.episode, self.start, *(item.since - 1 for item in self.challenges)])

    def audits(self, unit: UnitCounted) -> bool:
        """Say whether the next unit is one that the audit of the stream has to see."""
        return unit.arm == "agent" and unit.episode > self.start and self.paused is None

    def at(self, level: str) -> Deployed | None:
        """Return the policy in control of a level; None for the legacy."""
        return next((item for item in self.deployed if item.level == level), None)

    @property
    def moving(self) -> frozenset[str]:
        """Return the levels at which the audit found that the legacy is not one policy: it moves, or several take turns."""
        return frozenset(item.level for item in self.notes)

    @property
    def untested(self) -> dict[str, list[str]]:
        """Return, by level that an agent has, the levels that had one when it was certified and have been given back since.

        Its gain was certified beside those agents; beside the legacy in their place nothing was compared with anything. An
        upgrade does not change that: it was compared with what it replaced, not with the legacy.
        """
        return {item.level: list(item.apart) for item in self.deployed if item.apart}

    def challenge(self, name: str) -> Challenge:
        """Return an open challenge by its name."""
        found = next((item for item in self.challenges if item.name == name), None)
        if found is None:
            raise InputError(f"there is no open challenge '{name}'; open: {', '.join(item.name for item in self.challenges)}")
        return found

    def counting(self, episode: int) -> tuple[Challenge, ...]:
        """Return the challenges that count an episode: it started after they were frozen."""
        return tuple(item for item in self.challenges if item.since <= episode)


def freeze_due(start: int, first: int, freezes: int) -> int:
    """Return the unit after which the next freeze is due: `start + first 2^freezes`, freezes so far since `start`."""
    return start + first * 2**freezes
