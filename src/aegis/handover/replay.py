"""Replay of a gate: the state after its events, and where recorded events differ from those that come out again.

`replay_events` adds events up. `verify_events` derives them again from what the gate was given; a run on a plant does the same by
running the plant again (`check_same`).
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from typing import Any

from aegis.errors import InputError, PolicyError
from aegis.handover.challenge import SEAL_FILES
from aegis.handover.events import (
    AuditNote,
    DoubtPassed,
    Event,
    Flipped,
    Frozen,
    GateOpened,
    LateDecision,
    OperatorAction,
    Paused,
    Postponed,
    Restarted,
    Reverted,
    UnitCounted,
    event_to_plain,
)
from aegis.handover.gate import AuditResponse, ProposedChallenge, step
from aegis.handover.gate_settings import GateSettings
from aegis.handover.gate_state import GateState, apply_event

CHANGED = (
    "it comes out differently, so plant, host or code have changed since, or the events were edited; restore the file or start "
    "anew"
)


def open_gate(settings: GateSettings, levels: Sequence[str], problem: str = "") -> tuple[GateState, GateOpened]:
    """Return a new gate for levels, innermost first, and the event that says so."""
    chosen = settings.levels or tuple(levels)
    unknown = [name for name in chosen if name not in levels]
    if unknown:
        raise InputError(f"gate: there is no level '{unknown[0]}' to hand over; levels: {', '.join(levels)}")
    event = GateOpened(settings, tuple(name for name in levels if name in chosen), problem)
    return replay_events([event]), event


def replay_events(events: Iterable[Event]) -> GateState:
    """Return the state that events add up to; InputError unless they begin with that a gate was opened."""
    state: GateState | None = None
    for event in events:
        if isinstance(event, GateOpened):
            if state is not None:
                raise InputError("a gate is opened once; found a second 'opened' among its events")
            state = GateState(event.settings, event.levels)
        elif state is None:
            raise InputError(f"the events of a gate begin with 'opened', found '{event.kind}'")
        else:
            state = apply_event(state, event)
    if state is None:
        raise InputError("the events of a gate begin with 'opened', found none")
    return state


def verify_events(events: Sequence[Event], state: GateState | None = None) -> GateState:
    """Return the state of a challenger gate; InputError, naming the line, if an event does not follow from what came before.

    Units, proposals, operators' actions and the findings of the audit are taken from the events and given to `step` again.
    state: before the first of the events; None if that opens the gate.
    """
    place = 0
    if state is None:
        state, place = replay_events(events[:1]), 1
    while place < len(events):
        event = events[place]
        following = list(itertools.takewhile(lambda item: not isinstance(item, _INPUTS), events[place + 1 :]))
        received = [_proposal(item) for item in event.challenges] if isinstance(event, Frozen) else event
        if not isinstance(received, list | UnitCounted | OperatorAction | Paused | LateDecision):
            raise InputError(f"line {place + 1} of the events: '{event.kind}' cannot have happened there")
        try:
            state, derived = step(state, received, _started(event, following), _audit_response(state, following))
        except InputError as error:
            raise InputError(f"line {place + 1} of the events: {error}") from error
        recorded = events[place : place + max(1, len(derived))]
        check_complete(recorded, derived, place)
        if len(recorded) < len(derived):
            raise InputError(f"the events end before '{derived[len(recorded)].kind}', which follows from the last one")
        place += len(recorded)
    return state


_INPUTS = (UnitCounted, Frozen, OperatorAction, LateDecision)


def _proposal(item: Any) -> ProposedChallenge:
    return ProposedChallenge(item.level, item.cap, item.policy, item.claims, item.seal)


def _started(event: Event, following: Sequence[Event]) -> int | None:
    """Return how many episodes had started, which decisions that hold for later ones tell."""
    later = (item.since - 1 for item in (event, *following) if isinstance(item, Frozen | Flipped | Restarted | Reverted))
    return next(later, None)


def _audit_response(state: GateState, following: Sequence[Event]) -> AuditResponse:
    """Return what the audit asked for at an event, from the events that follow it; a doubt that lasts is not repeated."""
    instead = (item for item in following if isinstance(item, Postponed) or (isinstance(item, Paused) and item.code is not None))
    notes = tuple(item for item in following if isinstance(item, AuditNote | DoubtPassed))
    return AuditResponse(next(instead, None if following else state.put_off), notes)


def check_same(recorded: Sequence[Event], again: Sequence[Event], first: int = 0, code: Sequence[str] = ()) -> None:
    """Raise PolicyError, naming the line and what differs, unless events are the same as far as both go.

    first: lines before the first event. code: the modules, with their files, that challengers are defined in.
    """
    for line, (one, other) in enumerate(zip(recorded, again, strict=False), start=first + 1):
        if one != other:
            name = _altered_source(one, other)
            if name is not None:
                raise PolicyError(
                    f"line {line} of the events: the source of challenger '{name}' has changed since this run began, in "
                    f"{' or '.join(code) or 'the module that defines it'}. To go on, put the file back as it was; to use the new "
                    "source, start a run in another folder"
                )
            raise PolicyError(f"line {line} of the events: run again, {describe_difference(one, other)}: {CHANGED}")


def check_complete(recorded: Sequence[Event], again: Sequence[Event], first: int = 0) -> None:
    """Raise PolicyError, naming the line and what differs, unless events begin with all that are recorded."""
    check_same(recorded, again, first)
    if len(again) < len(recorded):
        kind, line = recorded[len(again)].kind, first + len(again) + 1
        raise PolicyError(f"line {line} of the events: replaying the run does not produce '{kind}': {CHANGED}")


def describe_difference(recorded: Event, again: Event) -> str:
    """Return in words by what a recorded event differs from the one that comes out: the first field, and both values."""
    if recorded.kind != again.kind:
        return f"'{recorded.kind}' is recorded where '{again.kind}' comes out"
    path, one, other = _first_difference(event_to_plain(recorded), event_to_plain(again))
    return f"'{recorded.kind}', {path}: {one!r:.60} is recorded, and {other!r:.60} comes out"


def _first_difference(one: Any, other: Any, path: str = "") -> tuple[str, Any, Any]:
    """Return the place where two trees of plain data differ first, such as `claims.0.margin`, and both values there."""
    if isinstance(one, list) and isinstance(other, list) and len(one) == len(other):
        one, other = dict(enumerate(one)), dict(enumerate(other))
    if isinstance(one, dict) and isinstance(other, dict):
        for name in {**other, **one}:
            if one.get(name) != other.get(name):
                return _first_difference(one.get(name), other.get(name), f"{path}.{name}" if path else str(name))
    return path, one, other


def _altered_source(recorded: Event, again: Event) -> str | None:
    """Return the first challenger whose files are other ones now than when it was frozen; None if there is none."""
    if not isinstance(recorded, Frozen) or not isinstance(again, Frozen):
        return None
    now = {item.name: item.seal.partition(SEAL_FILES)[2] for item in again.challenges if item.seal is not None}
    files = {item.name: (item.seal or "").partition(SEAL_FILES)[2] for item in recorded.challenges if item.name in now}
    return next((name for name, digest in files.items() if digest and digest != now[name]), None)
