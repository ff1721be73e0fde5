"""Events of a gate: plain data, one line of JSON each. The state of a gate is the replay of its events.

`UnitCounted` carries the evidence of one episode for every open challenge.
"""

from __future__ import annotations

import base64
import struct
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal, get_args, get_type_hints

from pydantic import ConfigDict, Field, PlainSerializer, PlainValidator, Strict, TypeAdapter, ValidationError

from aegis.errors import InputError
from aegis.handover.challenge import Challenge, Logs
from aegis.handover.gate_settings import GateSettings

DEAD = -(2**63)

# The mark of a gate whose numbers bound nothing.
NOT_A_CERTIFICATE = "not a certificate"

Whole = Annotated[int, Strict()]
Number = Annotated[float, Strict()]


def pack_logs(logs: Logs) -> str:
    """Return whole numbers as text: 64-bit integers in base 64; a dead bet is the smallest of them."""
    numbers = [DEAD if value is None else value for value in logs]
    return base64.b64encode(struct.pack(f"<{len(numbers)}q", *numbers)).decode("ascii")


def unpack_logs(text: str) -> Logs:
    """Return the numbers that `pack_logs` wrote; ValueError if it did not write this."""
    if not isinstance(text, str) or len(raw := base64.b64decode(text, validate=True)) % 8:
        raise ValueError("not 64-bit integers in base 64")
    numbers = struct.unpack(f"<{len(raw) // 8}q", raw)
    return tuple(None if value == DEAD else value for value in numbers)


PackedLogs = Annotated[Logs, PlainValidator(unpack_logs), PlainSerializer(pack_logs)]

Evidence = dict[str, dict[str, tuple[PackedLogs, ...]]]  # by challenge and claim, the numbers of each part


@dataclass(frozen=True, slots=True)
class GateOpened:
    """The gate was opened, for a problem and with settings that will not change."""

    settings: GateSettings
    levels: tuple[str, ...]
    problem: str = ""
    kind: Literal["opened"] = "opened"


@dataclass(frozen=True, slots=True)
class Frozen:
    """Challengers were frozen after unit `episode`; their challenges count units from `since` on."""

    freeze: Whole
    episode: Whole
    since: Whole
    challenges: tuple[Challenge, ...]
    kind: Literal["frozen"] = "frozen"


@dataclass(frozen=True, slots=True)
class UnitCounted:
    """One closed episode, in the order in which episodes started.

    arm: 'agent' if the policy in control acted, which is the legacy at levels that have not changed hands, 'legacy' if the
    episode was held back, 'before' if it was left to what acted before the last flip, 'mixed' if the legacy took decisions that
    were not its own, 'overruled' if an interlock or a person replaced an action: its evidence is the least possible. reward:
    scaled mean reward, None if it is missing. evidence: of the challenges that count it.
    """

    episode: Whole
    reward: Number | None
    arm: str = "agent"
    evidence: Evidence = field(default_factory=dict)
    kind: Literal["unit"] = "unit"


@dataclass(frozen=True, slots=True)
class ChallengeCertified:
    """Everything that was claimed in a challenge is certified, after so many units of it."""

    challenge: str
    level: str
    episode: Whole
    units: Whole
    gain_lower: Number
    kind: Literal["certified"] = "certified"


@dataclass(frozen=True, slots=True)
class Flipped:
    """A level was handed over to a frozen challenger, or its policy upgraded; it acts in episodes from `since` on.

    gain_lower, value_lower: scaled lower bounds at that moment. certificate: False, and written so, where they are no bounds:
    gain_lower is then the estimate that convinced the gate.
    """

    level: str
    challenge: str
    action: str
    cap: Number | None
    policy: str
    episode: Whole
    since: Whole
    units: Whole
    gain_lower: Number
    value_lower: Number
    certificate: bool = True
    kind: Literal["flip"] = "flip"


@dataclass(frozen=True, slots=True)
class Waiting:
    """A certified flip waits for an operator, or would have happened if the gate were not in shadow."""

    level: str
    challenge: str
    episode: Whole
    why: str
    kind: Literal["waiting"] = "waiting"


@dataclass(frozen=True, slots=True)
class Alarm:
    """The monitor has evidence that the value has fallen below what was certified. It alerts; only an operator reverts."""

    episode: Whole
    evidence: Number
    floor: Number
    kind: Literal["alarm"] = "alarm"


@dataclass(frozen=True, slots=True)
class Paused:
    """The gate stopped counting and says why; the policies in control stay in control.

    code, level, fix: of the finding, if the audit of its own stream stopped it, and what to do.
    """

    episode: Whole
    why: str
    code: str | None = None
    level: str | None = None
    fix: str | None = None
    kind: Literal["paused"] = "paused"


@dataclass(frozen=True, slots=True)
class Postponed:
    """What would have been certified or handed over waits: the audit has some evidence against the stream, too little to pause.

    code, level: of the finding.
    """

    episode: Whole
    why: str
    code: str
    level: str | None = None
    kind: Literal["put off"] = "put off"


@dataclass(frozen=True, slots=True)
class DoubtPassed:
    """Nothing is put off any more: with more episodes the audit no longer has that evidence against the stream.

    code, level: of the finding that had put a decision off.
    """

    episode: Whole
    code: str
    level: str | None = None
    kind: Literal["doubt passed"] = "doubt passed"


@dataclass(frozen=True, slots=True)
class AuditNote:
    """The audit found something about the stream that changes what a gain means, and neither pauses nor delays anything.

    code, level, fix: of the finding.
    """

    episode: Whole
    why: str
    code: str
    level: str
    fix: str
    kind: Literal["noted"] = "noted"


@dataclass(frozen=True, slots=True)
class Restarted:
    """All open challenges were given up; units from `since` on count for those that are frozen next."""

    episode: Whole
    since: Whole
    why: str
    kind: Literal["restarted"] = "restarted"


@dataclass(frozen=True, slots=True)
class LateDecision:
    """A decision of unit `unit` came after it was counted as whole: what rests on it claims nothing any more.

    levels: those in control by a test that counted it.
    """

    episode: Whole
    unit: Whole
    why: str
    levels: tuple[str, ...] = ()
    kind: Literal["late"] = "late"


@dataclass(frozen=True, slots=True)
class Reverted:
    """An operator gave a level back to the legacy, from `since` on."""

    level: str
    episode: Whole
    since: Whole
    kind: Literal["reverted"] = "reverted"


@dataclass(frozen=True, slots=True)
class ModeChanged:
    """An operator changed what a certified flip leads to: 'live', 'approve' or 'shadow'."""

    episode: Whole
    mode: str
    kind: Literal["mode"] = "mode"


@dataclass(frozen=True, slots=True)
class OperatorAction:
    """What an operator did, and why: approve, pause, resume or revert; or go live, ask first, or into shadow."""

    action: str
    who: str
    why: str
    episode: Whole
    level: str | None = None
    kind: Literal["operator"] = "operator"


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
    | LateDecision
    | Reverted
    | ModeChanged
    | OperatorAction
)

_EVENTS: TypeAdapter[Event] = TypeAdapter(Annotated[Event, Field(discriminator="kind")], config=ConfigDict(extra="forbid"))

EVENT_KINDS: tuple[str, ...] = tuple(get_args(get_type_hints(kind)["kind"])[0] for kind in get_args(Event))


def event_to_plain(event: Event) -> dict[str, Any]:
    """Return an event as plain data; `event_from_plain` returns the same event. What is a certificate is not marked as one."""
    plain = {"kind": event.kind, **_EVENTS.dump_python(event, mode="json")}
    return {name: value for name, value in plain.items() if name != "certificate" or not value}


def event_from_plain(plain: Mapping[str, Any]) -> Event:
    """Return the event of plain data; InputError if they are not an event."""
    kind = plain.get("kind") if isinstance(plain, Mapping) else None
    if kind not in EVENT_KINDS:
        raise InputError(f"an event is a mapping with one of the kinds {', '.join(EVENT_KINDS)}, found {plain!r:.80}")
    try:
        return _EVENTS.validate_python(plain)
    except ValidationError as error:
        finding = error.errors()[0]
        place = ".".join(map(str, finding["loc"][1:]))
        words = f"'{place}': {finding['msg']}, found {finding['input']!r:.80}"
        raise InputError(f"the event of kind '{kind}' is damaged: {words}") from error


# Who acted in an episode: the policies in control, those before the last flip, or the legacy.
AGENT, BEFORE, LEGACY = "agent", "before", "legacy"


MIXED = "mixed"  # the arm of an episode in which control changed hands

OVERRULED = "overruled"  # the arm of an episode in which an interlock or a person replaced an action

ARMS = (AGENT, BEFORE, LEGACY, MIXED, OVERRULED)

TESTED_ARMS = (AGENT, OVERRULED)  # of episodes that tests count
