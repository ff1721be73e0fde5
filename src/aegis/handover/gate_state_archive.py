"""The state of a gate as plain data, so that it can be stored and taken up without the events that led to it.

Numbers survive bit for bit: floats as their shortest decimal form, sums of evidence as whole numbers of any size.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, fields, replace
from typing import Any

from aegis.errors import AegisError, InputError
from aegis.handover.challenge import Challenge, ClaimState, PartState
from aegis.handover.events import AuditNote, Paused, Postponed, Restarted, Waiting, event_from_plain, event_to_plain
from aegis.handover.gate_settings import GateSettings
from aegis.handover.gate_state import Deployed, GateState, MonitorState

_EVENTS = {"refusals": Paused, "notes": AuditNote, "waiting": Waiting}  # fields that hold events of one kind
_EVENT = {"resumed": Restarted, "put_off": Postponed}  # fields that hold one event, or None
_POLICIES = ("deployed", "retired")
_OWN = {"settings", "levels", "challenges", "monitor", *_EVENTS, *_EVENT, *_POLICIES}
_SIMPLE = tuple(item.name for item in fields(GateState) if item.name not in _OWN)  # numbers, texts or None, as they are


def gate_state_to_plain(state: GateState) -> dict[str, Any]:
    """Return a state as plain data; `gate_state_from_plain` returns the same state."""
    return {
        "settings": state.settings.plain(),
        "levels": list(state.levels),
        **{name: getattr(state, name) for name in _SIMPLE},
        **{name: [event_to_plain(item) for item in getattr(state, name)] for name in _EVENTS},
        **{name: None if (item := getattr(state, name)) is None else event_to_plain(item) for name in _EVENT},
        **{name: [asdict(item) for item in getattr(state, name)] for name in _POLICIES},
        "challenges": [{"opened": item.plain(), "progress": _progress(item)} for item in state.challenges],
        "monitor": None if state.monitor is None else asdict(state.monitor),
    }


def gate_state_from_plain(plain: Mapping[str, Any]) -> GateState:
    """Return the state of plain data; InputError if they are not one."""
    try:
        names = {field.name for field in fields(GateState)}
        if set(plain) != names:
            raise ValueError(f"expected the fields {', '.join(sorted(names))}, found {', '.join(sorted(plain))}")
        values: dict[str, Any] = {
            "settings": GateSettings.of(plain["settings"]),
            "levels": tuple(plain["levels"]),
            **{name: plain[name] for name in _SIMPLE},
            **{name: tuple(_event(item, kind) for item in plain[name]) for name, kind in _EVENTS.items()},
            **{name: None if plain[name] is None else _event(plain[name], kind) for name, kind in _EVENT.items()},
            **{name: tuple(_deployed(item) for item in plain[name]) for name in _POLICIES},
            "challenges": tuple(_challenge(item["opened"], item["progress"]) for item in plain["challenges"]),
            "monitor": None if plain["monitor"] is None else _monitor(plain["monitor"]),
        }
        return GateState(**values)
    except (AegisError, ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
        raise InputError(f"the stored state of a gate is damaged: {error}") from error


def _progress(challenge: Challenge) -> dict[str, Any]:
    """Return what the units so far have changed in a challenge."""
    return {
        "crossed": challenge.crossed,
        "gain_lower": challenge.gain_lower,
        "claims": [{"count": claim.count, "sums": [list(part.sums) for part in claim.parts]} for claim in challenge.claims],
    }


def _challenge(opened: Mapping[str, Any], progress: Mapping[str, Any]) -> Challenge:
    fresh = Challenge.of(opened)
    claims = tuple(_claim(claim, own) for claim, own in zip(fresh.claims, progress["claims"], strict=True))
    return replace(fresh, claims=claims, crossed=progress["crossed"], gain_lower=progress["gain_lower"])


def _claim(fresh: ClaimState, progress: Mapping[str, Any]) -> ClaimState:
    parts = tuple(_part(part, sums) for part, sums in zip(fresh.parts, progress["sums"], strict=True))
    return replace(fresh, parts=parts, count=progress["count"])


def _part(fresh: PartState, sums: Sequence[int | None]) -> PartState:
    if len(sums) != len(fresh.bets) or not all(value is None or type(value) is int for value in sums):
        raise ValueError(f"a test with {len(fresh.bets)} bets has as many whole numbers, found {sums!r:.80}")
    return replace(fresh, sums=tuple(sums))


def _event(plain: Mapping[str, Any], kind: type[Any]) -> Any:
    event = event_from_plain(plain)
    if not isinstance(event, kind):
        raise ValueError(f"expected a {kind.__name__}, found a {type(event).__name__}")
    return event


def _deployed(plain: Mapping[str, Any]) -> Deployed:
    """Return a policy in control. JSON has lists where it has tuples."""
    return Deployed(**{name: _tuples(value) for name, value in plain.items()})


def _tuples(value: Any) -> Any:
    return tuple(map(_tuples, value)) if isinstance(value, list | tuple) else value


def _monitor(plain: Mapping[str, Any]) -> MonitorState:
    return MonitorState(plain["floor"], plain["count"], tuple(plain["wealth"]))
