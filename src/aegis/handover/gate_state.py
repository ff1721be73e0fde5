"""The state of a gate (open challenges, deployed policies, the monitor), and how each event changes it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from aegis.errors import InputError
from aegis.evidence import Monitor
from aegis.handover.challenge import Challenge
from aegis.handover.events import (
    OVERRULED,
    TESTED_ARMS,
    Alarm,
    AuditNote,
    ChallengeCertified,
    DoubtPassed,
    Event,
    Flipped,
    Frozen,
    LateDecision,
    ModeChanged,
    OperatorAction,
    Paused,
    Postponed,
    Restarted,
    Reverted,
    UnitCounted,
    Waiting,
)
from aegis.handover.gate_settings import GateSettings


@dataclass(frozen=True, slots=True)
class Deployed:
    """The policy in control of a level: the challenge it won, and since which episode it acts.

    floor: the bound of the value that was certified with it. beside: who was in control of other levels then, level and
    challenge; where a level is not named, the legacy. What was certified speaks of all of them together. apart: those of
    these levels that have been given back since. doubted: the audit has refused the stream since; nothing is promised of it.
    tested: the first and the last unit of its test, after those of the policies it upgraded. late: one of these units that was
    counted as whole and was not; nothing is promised then either.
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
    tested: tuple[tuple[int, int], ...] = ()
    late: int | None = None

    @property
    def in_doubt(self) -> bool:
        """Return whether nothing is promised about it any more."""
        return self.doubted or self.late is not None


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
    changes what a gain means. waiting: certified flips that wait for an operator, by level. late: units of which a decision came
    after they were counted.
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
    late: int = 0

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
        challenge = next((item for item in self.challenges if item.name == name), None)
        if challenge is None:
            raise InputError(f"there is no open challenge '{name}'; open: {', '.join(item.name for item in self.challenges)}")
        return challenge

    def counting(self, episode: int) -> tuple[Challenge, ...]:
        """Return the challenges that count an episode: it started after they were frozen."""
        return tuple(item for item in self.challenges if item.since <= episode)


def check_next_unit(state: GateState, unit: UnitCounted) -> None:
    """Raise InputError unless a unit is the next one."""
    if unit.episode != state.episode + 1:
        raise InputError(
            f"episodes are counted in the order in which they started: expected episode {state.episode + 1}, found {unit.episode}"
        )


def _unit(state: GateState, event: UnitCounted) -> GateState:
    check_next_unit(state, event)
    closed = event.evidence.keys() - {item.name for item in state.counting(event.episode)}
    if closed:
        raise InputError(f"episode {event.episode} started before challenge '{min(closed)}' was frozen, or it is not open")
    challenges = tuple(item.add(event.evidence[item.name]) if item.name in event.evidence else item for item in state.challenges)
    monitor = state.monitor
    if monitor is not None and event.arm in TESTED_ARMS and event.episode >= state.monitored_since:
        # A missing reward may be the best, and so may that of an episode without what replaced an action in it.
        monitor = monitor.step(1.0 if event.reward is None or event.arm == OVERRULED else event.reward)
    audited = state.audited + state.audits(event)
    return replace(state, episode=event.episode, challenges=challenges, monitor=monitor, audited=audited)


def _certified(state: GateState, event: ChallengeCertified) -> GateState:
    winner = replace(state.challenge(event.challenge), crossed=event.units, gain_lower=event.gain_lower)
    challenges = tuple(winner if item.name == winner.name else item for item in state.challenges)
    return replace(state, challenges=challenges, put_off=None)


def _frozen(state: GateState, event: Frozen) -> GateState:
    oldest = event.freeze - state.settings.generations
    # What has been certified and waits for a larger cap stays.
    lasting = tuple(item for item in state.challenges if item.freeze > oldest or item.crossed is not None)
    return replace(
        state,
        freeze=event.freeze,
        freezes=state.freezes + 1,
        spent=state.spent + sum(item.spent for item in event.challenges),
        challenges=(*lasting, *event.challenges),
    )


def _flipped(state: GateState, event: Flipped) -> GateState:
    floor = min(max(event.value_lower, 0.0), 1.0 - 2.0**-20)
    beside = tuple((item.level, item.challenge) for item in state.deployed if item.level != event.level)
    before = tuple(item for item in state.deployed if item.level == event.level)
    apart = tuple(name for item in before for name in item.apart)
    first = next((item.since for item in state.challenges if item.name == event.challenge), 1)
    new = Deployed(
        level=event.level,
        challenge=event.challenge,
        policy=event.policy,
        cap=event.cap,
        since=event.since,
        gain_lower=event.gain_lower,
        floor=floor,
        beside=beside,
        apart=apart,
        tested=(*(span for item in before for span in item.tested), (first, event.episode)),
        late=next((item.late for item in before), None),
    )
    others = tuple(item for item in state.deployed if item.level != event.level)
    older = tuple(item for item in state.retired if item.level != event.level)
    after = replace(
        state,
        deployed=(*others, new),
        retired=(*older, *before),
        monitor=MonitorState.start(floor),
        monitored_since=event.since,
    )
    return _new_phase(after, event.since)


def _waiting(state: GateState, event: Waiting) -> GateState:
    others = tuple(item for item in state.waiting if item.level != event.level)
    return replace(state, waiting=(*others, event))


def _alarm(state: GateState, event: Alarm) -> GateState:
    return replace(
        state,
        monitor=MonitorState.start(event.floor),
        monitored_since=event.episode + 1,
        alarms=state.alarms + 1,
        alarmed=event.episode,
    )


def _mode(state: GateState, event: ModeChanged) -> GateState:
    # What waits is looked at again with the next unit, and says why it waits now.
    return replace(state, settings=state.settings.model_copy(update={"mode": event.mode}), waiting=())


def _restarted(state: GateState, event: Restarted) -> GateState:
    resumed = event if state.refusals and state.paused is not None else state.resumed
    return _new_phase(replace(state, paused=None, resumed=resumed), event.since)


def _late(state: GateState, event: LateDecision) -> GateState:
    deployed = tuple(replace(item, late=event.unit) if item.level in event.levels else item for item in state.deployed)
    return replace(state, deployed=deployed, late=state.late + 1)


def _reverted(state: GateState, event: Reverted) -> GateState:
    left = tuple(_after_return(item, event.level) for item in state.deployed if item.level != event.level)
    retired = tuple(item for item in state.retired if item.level != event.level)
    watched = _monitor_after(state, left)
    after = replace(state, deployed=left, retired=retired, monitor=watched, monitored_since=event.since)
    return _new_phase(after, event.since)


def _paused(state: GateState, event: Paused) -> GateState:
    """Return the state of a gate that has stopped counting. What the audit refuses is no evidence: open tests are void."""
    if event.code is None:
        return replace(state, paused=event.why)
    return replace(
        state,
        paused=event.why,
        refusals=(*state.refusals, event),
        deployed=tuple(replace(item, doubted=True) for item in state.deployed),
        challenges=(),
        waiting=(),
        put_off=None,
    )


def _after_return(item: Deployed, level: str) -> Deployed:
    """Return a policy in control after another level was given back."""
    gone = level not in item.apart and any(other == level for other, _ in item.beside)
    return replace(item, apart=(*item.apart, level)) if gone else item


def _monitor_after(state: GateState, left: tuple[Deployed, ...]) -> MonitorState | None:
    """Return the monitor of the policies left in control after a level was given back; None if that is the legacy alone.

    If the very policies that are left were certified together, it watches for the value that was certified then; otherwise for
    the one it watched for so far: nothing is known of these together, and to earn less than what was certified is worth an alarm.
    """
    if not left or state.monitor is None:
        return None
    names = {(item.level, item.challenge) for item in left}
    for item in left:
        if names == {(item.level, item.challenge), *item.beside}:
            return MonitorState.start(item.floor)
    return MonitorState.start(state.monitor.floor)


def _new_phase(state: GateState, since: int) -> GateState:
    """Return the state with a new phase: wealth, counts and the schedule start again; the counter and the budget do not."""
    fresh = replace(state, freezes=0, challenges=(), waiting=(), put_off=None, alarmed=None)
    return replace(fresh, start=since - 1, phases=state.phases + 1, audited=0)


_CHANGES: Mapping[type[Any], Callable[[GateState, Any], GateState]] = {
    UnitCounted: _unit,
    Frozen: _frozen,
    ChallengeCertified: _certified,
    Flipped: _flipped,
    Waiting: _waiting,
    Alarm: _alarm,
    Paused: _paused,
    Postponed: lambda state, event: replace(state, put_off=event),
    DoubtPassed: lambda state, event: replace(state, put_off=None),
    AuditNote: lambda state, event: replace(state, notes=(*state.notes, event)),
    ModeChanged: _mode,
    Restarted: _restarted,
    LateDecision: _late,
    Reverted: _reverted,
    OperatorAction: lambda state, event: state,  # other events carry it out
}


def apply_event(state: GateState, event: Event) -> GateState:
    """Return the state after an event; InputError if it is not the next episode or names a challenge that is not open."""
    return _CHANGES[type(event)](state, event)
