"""Events of a gate: plain data, one line of JSON each. The state of a gate is the replay of its events.

`UnitCounted` carries the evidence of one episode for every open challenge.
"""

from __future__ import annotations

import base64
import struct
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from types import NoneType
from typing import Any, ClassVar, get_args

from aegis.errors import InputError
from aegis.handover.challenge import Challenge, Logs
from aegis.handover.gate_settings import GateSettings

Evidence = Mapping[str, Mapping[str, tuple[Logs, ...]]]  # by challenge and claim, the numbers of each part

DEAD = -(2**63)

PLAIN_TYPES: dict[str, tuple[type, ...]] = {  # by the annotation of a field
    "int": (int,),
    "str": (str,),
    "str | None": (str, NoneType),
    "float": (int, float),
    "float | None": (int, float, NoneType),
}


@dataclass(frozen=True, slots=True)
class GateOpened:
    """The gate was opened, for a problem and with settings that will not change."""

    kind: ClassVar[str] = "opened"
    settings: GateSettings
    levels: tuple[str, ...]
    problem: str = ""


@dataclass(frozen=True, slots=True)
class Frozen:
    """Challengers were frozen after unit `episode`; their challenges count units from `since` on."""

    kind: ClassVar[str] = "frozen"
    freeze: int
    episode: int
    since: int
    challenges: tuple[Challenge, ...]


@dataclass(frozen=True, slots=True)
class UnitCounted:
    """One closed episode, in the order in which episodes started.

    arm: 'agent' if the policy in control acted, which is the legacy at levels that have not changed hands, 'legacy' if the
    episode was held back, 'before' if it was left to what acted before the last flip, 'mixed' if the legacy took decisions that
    were not its own. reward: scaled mean reward, None if it is missing. evidence: of the challenges that count it.
    """

    kind: ClassVar[str] = "unit"
    episode: int
    reward: float | None
    arm: str = "agent"
    evidence: Evidence = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ChallengeCertified:
    """Everything that was claimed in a challenge is certified, after so many units of it."""

    kind: ClassVar[str] = "certified"
    challenge: str
    level: str
    episode: int
    units: int
    gain_lower: float


@dataclass(frozen=True, slots=True)
class Flipped:
    """A level was handed over to a frozen challenger, or its policy upgraded; it acts in episodes from `since` on.

    gain_lower, value_lower: scaled lower bounds at that moment.
    """

    kind: ClassVar[str] = "flip"
    level: str
    challenge: str
    action: str
    cap: float | None
    policy: str
    episode: int
    since: int
    units: int
    gain_lower: float
    value_lower: float


@dataclass(frozen=True, slots=True)
class Waiting:
    """A certified flip waits for an operator, or would have happened if the gate were not in shadow."""

    kind: ClassVar[str] = "waiting"
    level: str
    challenge: str
    episode: int
    why: str


@dataclass(frozen=True, slots=True)
class Alarm:
    """The monitor has evidence that the value has fallen below what was certified. It alerts; only an operator reverts."""

    kind: ClassVar[str] = "alarm"
    episode: int
    evidence: float
    floor: float


@dataclass(frozen=True, slots=True)
class Paused:
    """The gate stopped counting and says why; the policies in control stay in control.

    code, level, fix: of the finding, if the audit of its own stream stopped it, and what to do.
    """

    kind: ClassVar[str] = "paused"
    episode: int
    why: str
    code: str | None = None
    level: str | None = None
    fix: str | None = None


@dataclass(frozen=True, slots=True)
class Postponed:
    """What would have been certified or handed over waits: the audit has some evidence against the stream, too little to pause.

    code, level: of the finding.
    """

    kind: ClassVar[str] = "put off"
    episode: int
    why: str
    code: str
    level: str | None = None


@dataclass(frozen=True, slots=True)
class DoubtPassed:
    """Nothing is put off any more: with more episodes the audit no longer has that evidence against the stream.

    code, level: of the finding that had put a decision off.
    """

    kind: ClassVar[str] = "doubt passed"
    episode: int
    code: str
    level: str | None = None


@dataclass(frozen=True, slots=True)
class AuditNote:
    """The audit found something about the stream that changes what a gain means, and neither pauses nor delays anything.

    code, level, fix: of the finding.
    """

    kind: ClassVar[str] = "noted"
    episode: int
    why: str
    code: str
    level: str
    fix: str


@dataclass(frozen=True, slots=True)
class Restarted:
    """All open challenges were given up; units from `since` on count for those that are frozen next."""

    kind: ClassVar[str] = "restarted"
    episode: int
    since: int
    why: str


@dataclass(frozen=True, slots=True)
class Reverted:
    """An operator gave a level back to the legacy, from `since` on."""

    kind: ClassVar[str] = "reverted"
    level: str
    episode: int
    since: int


@dataclass(frozen=True, slots=True)
class ModeChanged:
    """An operator changed what a certified flip leads to: 'live', 'approve' or 'shadow'."""

    kind: ClassVar[str] = "mode"
    episode: int
    mode: str


@dataclass(frozen=True, slots=True)
class OperatorAction:
    """What an operator did, and why: approve, pause, resume or revert; or go live, ask first, or into shadow."""

    kind: ClassVar[str] = "operator"
    action: str
    who: str
    why: str
    episode: int
    level: str | None = None


# An event of a gate.
Event = (
    GateOpened
    | Frozen
    | UnitCounted
    | ChallengeCertified
    | Flipped
    | Waiting
    | Alarm
    | Paused
    | Postponed
    | DoubtPassed
    | AuditNote
    | Restarted
    | Reverted
    | ModeChanged
    | OperatorAction
)

EVENT_KINDS: dict[str, type[Any]] = {kind.kind: kind for kind in get_args(Event)}


def event_to_plain(event: Event) -> dict[str, Any]:
    """Return an event as plain data; `event_of` makes the same event of it."""
    found: dict[str, Any] = {"kind": event.kind, **{item.name: getattr(event, item.name) for item in fields(event)}}
    if isinstance(event, GateOpened):
        found |= {"settings": event.settings.plain(), "levels": list(event.levels)}
    if isinstance(event, Frozen):
        found["challenges"] = [challenge.plain() for challenge in event.challenges]
    if isinstance(event, UnitCounted):
        found["evidence"] = {
            name: {claim: [pack_logs(logs) for logs in parts] for claim, parts in claims.items()}
            for name, claims in event.evidence.items()
        }
    return found


def event_from_plain(given: Mapping[str, Any]) -> Event:
    """Return the event that plain data stand for; InputError if they stand for none."""
    if not isinstance(given, Mapping):
        raise InputError(f"an event is a mapping with its kind, found {given!r}")
    kind = EVENT_KINDS.get(str(given.get("kind")))
    if kind is None:
        raise InputError(f"an event has one of the kinds {', '.join(EVENT_KINDS)}, found {given.get('kind')!r}")
    found = {name: value for name, value in given.items() if name != "kind"}
    try:
        _check_types(kind, found)
        if kind is GateOpened:
            found |= {"settings": GateSettings.of(given["settings"]), "levels": tuple(given["levels"])}
        if kind is Frozen:
            found["challenges"] = tuple(Challenge.of(challenge) for challenge in given["challenges"])
        if kind is UnitCounted:
            found["evidence"] = {
                name: {claim: tuple(unpack_logs(part) for part in parts) for claim, parts in claims.items()}
                for name, claims in given["evidence"].items()
            }
        event: Event = kind(**found)
    except (AttributeError, KeyError, TypeError, ValueError, struct.error) as error:
        raise InputError(f"the event of kind '{kind.kind}' is damaged: {error}") from error
    return event


def _check_types(kind: type[Any], given: Mapping[str, Any]) -> None:
    """Raise TypeError if a plain field is not what it should be; a name that is missing or unknown is found later."""
    for item in fields(kind):
        allowed = PLAIN_TYPES.get(str(item.type))
        value = given.get(item.name)
        if allowed is not None and item.name in given and (isinstance(value, bool) or not isinstance(value, allowed)):
            raise TypeError(f"'{item.name}' is {value!r}, expected {item.type}")


def pack_logs(logs: Logs) -> str:
    """Return whole numbers as text: 64-bit integers in base 64; a dead bet is the smallest of them."""
    numbers = [DEAD if value is None else value for value in logs]
    return base64.b64encode(struct.pack(f"<{len(numbers)}q", *numbers)).decode("ascii")


def unpack_logs(text: str) -> Logs:
    """Return what `packed` made into text."""
    raw = base64.b64decode(text, validate=True)
    numbers = struct.unpack(f"<{len(raw) // 8}q", raw)
    return tuple(None if value == DEAD else value for value in numbers)


# Who acted in an episode: the policies in control, those before the last flip, or the legacy.
AGENT, BEFORE, LEGACY = "agent", "before", "legacy"


# The arm of an episode in which control changed hands.
MIXED = "mixed"

ARMS = (AGENT, BEFORE, LEGACY, MIXED)
