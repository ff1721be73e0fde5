"""Small gates: claims on a grid of bets, challengers, and evidence of units whose values are chosen by the test."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Sequence
from functools import cache

from aegis.evidence import gain_grid
from aegis.handover import (
    Challenge,
    ClaimState,
    Event,
    GateSettings,
    GateState,
    ProposedChallenge,
    UnitCounted,
    event_from_plain,
    event_to_plain,
    open_gate,
    step,
)
from aegis.handover.challenge import PartState
from aegis.handover.schedule import next_freeze

REACH = 0.5  # the gain of a challenger in these tests lies in [-REACH, REACH]
GRID = gain_grid(REACH, 1)
ONE = 2**32


def gain(margin: float = 0.0) -> ClaimState:
    """Return the claim that a gain exceeds a margin, on water-filled bets."""
    return ClaimState("gain", margin, 0.5, -REACH, REACH, (PartState.start(0.0, GRID),))


def value() -> ClaimState:
    """Return the claim of a value, on a few bets."""
    return ClaimState("value", 0.0, 0.5, 0.0, 1.0, (PartState(0.0, (0.5, 2.0), (math.log(0.5),) * 2, (0, 0)),))


def guard(name: str = "guard scrap", margin: float = -0.1) -> ClaimState:
    """Return the claim that a guard does not worsen by more than -margin."""
    return ClaimState(name, margin, 0.5, -REACH, REACH, (PartState.start(0.0, GRID),))


def propose(level: str, cap: float, *claims: ClaimState, policy: str = "") -> ProposedChallenge:
    """Return a challenger with a digest of its own."""
    return ProposedChallenge(level, cap, policy or f"policy of {level} at {cap:g}", claims or (gain(), value()))


@cache
def logs_of(bets: tuple[float, ...], lifted: float) -> tuple[int | None, ...]:
    """Return the evidence of one unit of a lifted value; a value so low that a bet loses everything kills it."""
    return tuple(math.floor(math.log1p(bet * lifted) * ONE) if bet * lifted > -1 else None for bet in bets)


def evidence_of(challenge: Challenge, values: Callable[[str], float]) -> dict[str, tuple[tuple[int | None, ...], ...]]:
    """Return a unit's evidence for a challenge. values: of each claim."""
    return {
        claim.what: tuple(logs_of(part.bets, values(claim.what) + part.offset) for part in claim.parts)
        for claim in challenge.claims
    }


Values = Callable[[Challenge, str], float]


def unit(state: GateState, values: Values, reward: float | None = 0.5, arm: str = "agent") -> UnitCounted:
    """Return the next unit with evidence for all that count it."""
    episode = state.episode + 1
    counting = state.counting(episode) if arm == "agent" and state.paused is None else ()
    found = {item.name: evidence_of(item, lambda what, item=item: values(item, what)) for item in counting}  # type: ignore[misc]
    return UnitCounted(episode, reward, arm, found)


def nothing(challenge: Challenge, what: str) -> float:
    """Say that a unit shows no gain at all."""
    return 0.0


def opened(levels: Sequence[str] = ("dose",), **settings: object) -> tuple[GateState, list[Event]]:
    """Return a gate that freezes after its first unit, and its events so far."""
    state, event = open_gate(GateSettings.of({"first": 1, **settings}), levels)
    return state, [event]


def run(state: GateState, units: int, values: Values, events: list[Event] | None = None) -> GateState:
    """Return the gate after so many units."""
    for _ in range(units):
        state, told = step(state, unit(state, values))
        if events is not None:
            events += told
    return state


def frozen(*proposed: ProposedChallenge, levels: Sequence[str] = ("dose",), **settings: object) -> tuple[GateState, list[Event]]:
    """Return a gate after its first freeze."""
    state, events = opened(levels, **settings)
    state = run(state, next_freeze(state), nothing, events)
    state, told = step(state, list(proposed or [propose("dose", 2.0)]))
    return state, [*events, *told]


def through_json(event: Event) -> Event:
    """Return an event written as strict JSON and read again."""
    return event_from_plain(json.loads(json.dumps(event_to_plain(event), allow_nan=False)))
