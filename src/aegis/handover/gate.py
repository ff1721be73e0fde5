"""The gate as a pure transition: `step(state, received) -> (state, events)` (docs/theory.md, The gate).

The input is one closed episode with its evidence, challengers to be frozen, an operator's action, a reason to pause, or a
decision that came too late. An input that cannot be true raises and changes nothing. When challengers are frozen is decided in
`schedule`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from aegis.audit import SEVERAL_LOGGERS
from aegis.errors import InputError, RefusedError, SettingError, check_choice
from aegis.handover.challenge import GAIN, VALUE, Challenge, ClaimState, check_claim, check_logs
from aegis.handover.events import (
    ARMS,
    BEFORE,
    LEGACY,
    MIXED,
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
from aegis.handover.gate_state import GateState, apply_event, check_next_unit
from aegis.handover.risk_budget import challenge_share
from aegis.handover.schedule import freeze_is_due, next_freeze
from aegis.policies import check_cap

# What an operator may say to a gate.
ACTIONS = ("approve", "pause", "resume", "revert", "live", "ask", "shadow")

MODE_ACTIONS = {"live": "live", "ask": "approve", "shadow": "shadow"}  # what an operator says, and the mode that is meant

HANDOVER, UPGRADE = "handover", "upgrade"


@dataclass(frozen=True, slots=True)
class ProposedChallenge:
    """A challenger at a level, frozen already: the digest of its policy, its cap, and what would be claimed of it.

    claims: a gain, a value and one for each guard; their risks are set by the gate. seal: the digest of what it answered when it
    was frozen, if it is code.
    """

    level: str
    cap: float
    policy: str
    claims: tuple[ClaimState, ...]
    seal: str | None = None


# What a gate takes in.
GateInput = UnitCounted | Sequence[ProposedChallenge] | OperatorAction | Paused | LateDecision

# Events that keep a gate from deciding.
Interruption = Paused | Postponed


@dataclass(frozen=True, slots=True)
class AuditResponse:
    """What the audit of the episodes so far asks for.

    instead: what comes in the place of anything that would be decided now. notes: what happens beside it.
    """

    instead: Interruption | None = None
    notes: tuple[AuditNote | DoubtPassed, ...] = ()


NO_RESPONSE = AuditResponse()  # nothing was asked, or nothing was found


def step(
    state: GateState, received: GateInput, started: int | None = None, audited: AuditResponse = NO_RESPONSE
) -> tuple[GateState, tuple[Event, ...]]:
    """Return the state after what is given, and the events that lead to it.

    started: how many episodes have started so far, if some of them are still open; what is decided now holds for later ones.
    audited: what the audit of the episodes so far asks for, this one among them.
    """
    if isinstance(received, UnitCounted):
        return _count_unit(state, received, _latest(started, max(state.started, received.episode)), audited)
    latest = _latest(started, state.started)
    if isinstance(received, OperatorAction):
        events = _operator(state, received, latest, audited.instead)
    elif isinstance(received, Paused):
        events = _pause(state, received)
    elif isinstance(received, LateDecision):
        events = _late_decision(state, received, latest)
    else:
        events = [_freeze(state, tuple(received), latest)]
    return _after(state, events), tuple(events)


def _after(state: GateState, events: Sequence[Event]) -> GateState:
    for event in events:
        state = apply_event(state, event)
    return state


def _latest(stated: int | None, known: int) -> int:
    if stated is not None and stated < known:
        raise InputError(
            f"{stated} episodes were reported to have started, but {known} are known to have: give the larger number"
        )
    return known if stated is None else stated


def _pause(state: GateState, pause: Paused) -> list[Event]:
    if not pause.why.strip():
        raise InputError("a gate that pauses says why")
    return [] if state.paused is not None else [replace(pause, episode=state.episode)]


def _late_decision(state: GateState, late: LateDecision, started: int) -> list[Event]:
    """Return what follows if a unit was counted as whole and was not: all that rests on it is given up, or doubted.

    A test that is given up claims nothing, so that this is valid whatever made the decision late. The tests of a paused gate are
    given up when it is resumed.
    """
    if not 1 <= late.unit <= state.episode:
        raise InputError(f"a late decision belongs to one of the {state.episode} episodes that were counted, found {late.unit}")
    levels = tuple(item.level for item in state.deployed if any(first <= late.unit <= last for first, last in item.tested))
    events: list[Event] = [replace(late, episode=state.episode, levels=levels)]
    if state.paused is None and state.counting(late.unit):
        events.append(Restarted(state.episode, started + 1, late.why))
    return events


# ---- freezing ----------------------------------------------------------------------------------------------------------------


def _freeze(state: GateState, proposed: tuple[ProposedChallenge, ...], started: int) -> Frozen:
    if not freeze_is_due(state):
        why = state.paused or f"the next freeze is due after episode {next_freeze(state)}"
        raise InputError(f"challengers cannot be frozen now, after episode {state.episode}: {why}")
    freeze, since = state.freeze + 1, started + 1
    upgrades = sum(state.at(item.level) is not None for item in proposed)
    opened = tuple(_challenge(state, item, freeze, since, len(proposed), upgrades) for item in proposed)
    names = [item.name for item in opened]
    if len(set(names)) < len(names):
        raise SettingError(f"challengers of one freeze differ in level or cap, found {', '.join(sorted(names))}")
    return Frozen(freeze, state.episode, since, opened)


def _challenge(state: GateState, item: ProposedChallenge, freeze: int, since: int, count: int, upgrades: int) -> Challenge:
    check_choice(item.level, state.levels, "level of a challenger")
    deployed = state.at(item.level)
    if deployed is not None and not state.settings.upgrades:
        raise SettingError(f"level '{item.level}' has been handed over, and this gate makes no upgrades")
    tested = [claim for claim in item.claims if claim.what != VALUE]
    names = [claim.what for claim in item.claims]
    if GAIN not in names or len(set(names)) < len(names):
        raise SettingError(f"a challenger claims one gain, and everything else at most once; found {names}")
    for claim in item.claims:
        check_claim(claim)
    own, others = (count - upgrades, upgrades) if deployed is None else (upgrades, count - upgrades)
    risk = challenge_share(state.settings.delta, freeze, own, deployed is not None, others) / len(tested)
    watch = challenge_share(state.settings.alarm_floor, freeze, count)
    claims = tuple(replace(claim, delta=watch if claim.what == VALUE else risk) for claim in item.claims)
    cap = check_cap(item.cap)
    return Challenge(
        name=f"{freeze}-{item.level}-{cap:g}",
        freeze=freeze,
        level=item.level,
        kind=HANDOVER if deployed is None else UPGRADE,
        policy=item.policy,
        since=since,
        cap=cap,
        seal=item.seal,
        claims=claims,
    )


# ---- units -------------------------------------------------------------------------------------------------------------------


def is_decision(events: Sequence[Event]) -> bool:
    """Say whether events certify anything or hand it over: then what they rest on has to be audited first."""
    return any(isinstance(event, ChallengeCertified | Waiting | Flipped) for event in events)


def _count_unit(state: GateState, unit: UnitCounted, started: int, audited: AuditResponse) -> tuple[GateState, tuple[Event, ...]]:
    _check(state, unit)
    counted = unit if state.paused is None else replace(unit, evidence={})
    events: list[Event] = [counted]
    after = apply_event(state, counted)
    if state.paused is None:
        notes = fresh_notes(after, audited)
        events += notes
        after = _after(after, notes)
        try:
            decided = _decisions(after, unit.episode, started)
        except RefusedError as error:
            decided = [_contradiction(unit.episode, error)]
        if audited.instead is not None and not any(isinstance(event, Paused) for event in decided):
            decided = _instead(state, audited.instead, unit.episode)
        elif unit.arm == MIXED and state.counting(unit.episode):
            # Whether the legacy had to step in may depend on how the episode went: no test goes on without such a unit.
            why = f"the legacy took decisions of episode {unit.episode} that were not its own: what was being tested is given up"
            decided = [Restarted(unit.episode, started + 1, why)]
        events += decided
        after = _after(after, decided)
    # Also while the gate is paused, since the policies in control stay in control.
    if after.monitor is not None and after.monitor.alarm(after.settings.alarm):
        events.append(Alarm(unit.episode, after.monitor.evidence, after.monitor.floor))
        after = apply_event(after, events[-1])
    return after, tuple(events)


def _instead(state: GateState, instead: Interruption, episode: int) -> list[Event]:
    """Return the event that replaces a decision: a pause, or a postponement, reported once for each reason."""
    before = state.put_off
    again = isinstance(instead, Postponed) and before is not None and before.code == instead.code
    return [] if again else [replace(instead, episode=episode)]


def fresh_notes(state: GateState, audited: AuditResponse) -> list[AuditNote | DoubtPassed]:
    """Return what happens beside a decision after the last episode of a state: each finding is noted once.

    A policy in control may act by one of several drawn for each episode: only what the legacy controls is noted.
    """
    known = {(item.code, item.level) for item in state.notes}
    known |= {(SEVERAL_LOGGERS, level) for level in state.moving}  # that it moves says more
    fresh = [
        item
        for item in audited.notes
        if isinstance(item, DoubtPassed) or (state.at(item.level) is None and (item.code, item.level) not in known)
    ]
    return [replace(item, episode=state.episode) for item in fresh]


def _contradiction(episode: int, error: RefusedError) -> Paused:
    """Return the pause after evidence that cannot be: more of it would not help, and nothing may be decided by it."""
    return Paused(episode, f"the evidence contradicts what it rests on: {error}")


def _decisions(state: GateState, episode: int, started: int) -> list[Event]:
    """Return what follows from one more unit: what is certified now, and the flip or the wait that this leads to."""
    events: list[Event] = []
    for item in state.counting(episode):
        if item.crossed is None and item.certified:
            events.append(ChallengeCertified(item.name, item.level, episode, item.units, item.claim(GAIN).lower))
            state = apply_event(state, events[-1])
    for level in state.levels:
        winner = _winner(state, level)
        if winner is not None:
            events += _decide(state, winner, episode, started)
            if events and isinstance(events[-1], Flipped):
                return events  # a new phase: what else was certified is certified again, on data of the new hybrid
    return events


def _check(state: GateState, unit: UnitCounted) -> None:
    check_next_unit(state, unit)
    check_choice(unit.arm, ARMS, "arm of an episode", InputError)
    _check_arm(state, unit)
    number = isinstance(unit.reward, int | float) and not isinstance(unit.reward, bool)
    if unit.reward is not None and not (number and 0.0 <= unit.reward <= 1.0):
        raise InputError(f"episode {unit.episode}: the scaled reward lies between 0 and 1, found {unit.reward!r}")
    if state.paused is not None:
        return  # nothing is counted
    expected = {item.name for item in state.counting(unit.episode)} if unit.arm in TESTED_ARMS else set()
    if set(unit.evidence) != expected:
        raise InputError(
            f"episode {unit.episode}: expected evidence for the challenges {sorted(expected)}, found {sorted(unit.evidence)}"
        )
    for claims in unit.evidence.values():
        for parts in claims.values():
            for logs in parts:
                check_logs(logs)


def _check_arm(state: GateState, unit: UnitCounted) -> None:
    """Raise InputError if an episode cannot have been left to another policy: who acts is drawn before it, not chosen after."""
    if unit.episode <= state.start or unit.arm not in (BEFORE, LEGACY):
        return  # it started before what is tested now
    settings = state.settings
    if unit.arm == LEGACY:
        possible = bool(state.deployed) and settings.holdback > 0
        needed = "a 'holdback' and a level that was handed over"
    else:
        latest = max((item.since for item in state.deployed), default=0)
        possible = bool(state.deployed) and settings.share < 1 and unit.episode < latest + settings.stage
        needed = "a 'share' and one of the first 'stage' episodes after a flip"
    if not possible:
        raise InputError(
            f"episode {unit.episode} cannot have been left to '{unit.arm}': that takes {needed}. The arm is drawn "
            "before an episode starts"
        )


def _winner(state: GateState, level: str) -> Challenge | None:
    """Return the challenge that wins a level now: the largest certified cap, once patience is over."""
    crossed = [item for item in state.challenges if item.level == level and item.crossed is not None]
    if not any(item.units >= _wait(state.settings.patience, item.crossed or 0) for item in crossed):
        return None
    return max(crossed, key=lambda item: (item.cap, item.freeze))


def _wait(patience: float, crossed: int) -> int:
    """Return after how many units patience with a first crossing is over; 2.2 times 25 is 55, also in binary numbers."""
    return math.ceil(round(patience * crossed, 9))


def _decide(state: GateState, winner: Challenge, episode: int, started: int) -> list[Event]:
    if state.settings.mode == "live":
        return [_flip(winner, episode, started)]
    if any(item.challenge == winner.name for item in state.waiting):
        return []
    why = "an operator has to approve it" if state.settings.mode == "approve" else "the gate is in shadow: nothing changes hands"
    return [Waiting(winner.level, winner.name, episode, why)]


def _flip(winner: Challenge, episode: int, started: int) -> Flipped:
    """Return the flip. The bound of the gain holds at all units at once: that of the crossing is not lost while waiting."""
    gain = max(winner.claim(GAIN).lower, -math.inf if winner.gain_lower is None else winner.gain_lower)
    values = [claim.lower for claim in winner.claims if claim.what == VALUE]
    return Flipped(
        winner.level,
        winner.name,
        winner.kind,
        None if math.isinf(winner.cap) else winner.cap,
        winner.policy,
        episode,
        started + 1,
        winner.units,
        gain,
        max(values, default=0.0),
    )


# ---- operators ---------------------------------------------------------------------------------------------------------------


def _operator(state: GateState, action: OperatorAction, started: int, instead: Interruption | None) -> list[Event]:
    check_choice(action.action, ACTIONS, "action of an operator", InputError)
    if not action.who.strip() or not action.why.strip():
        raise InputError(f"an operator who wants to {action.action} says who and why")
    action = replace(action, episode=state.episode)
    if action.action == "pause":
        return [action] if state.paused is not None else [action, Paused(state.episode, f"by {action.who}: {action.why}")]
    if action.action in MODE_ACTIONS:
        mode = MODE_ACTIONS[action.action]
        if mode == state.settings.mode:
            raise InputError(f"the gate is in the mode '{mode}' already")
        if mode == "shadow" and state.deployed:
            names = ", ".join(repr(item.level) for item in state.deployed)
            raise InputError(f"in shadow the legacy always acts: give back first what was handed over ({names})")
        return [action, ModeChanged(state.episode, mode)]
    if action.action == "resume":
        if state.paused is None:
            raise InputError("the gate is not paused: there is nothing to resume")
        # What happened meanwhile was not counted; tests that it was left out of are given up.
        return [action, Restarted(state.episode, started + 1, f"resumed by {action.who}")]
    if action.level is None:
        raise InputError(f"an operator who wants to {action.action} names a level of {', '.join(state.levels)}")
    check_choice(action.level, state.levels, "level", InputError)
    if action.action == "approve":
        winner = _approved_challenge(state, action.level)
        if instead is not None:
            return [action, replace(instead, episode=state.episode)]
        try:
            return [action, _flip(winner, state.episode, started)]
        except RefusedError as error:
            return [action, _contradiction(state.episode, error)]
    if state.at(action.level) is None:
        raise InputError(f"level '{action.level}' is controlled by the legacy: there is nothing to revert")
    return [action, Reverted(action.level, state.episode, started + 1)]


def _approved_challenge(state: GateState, level: str) -> Challenge:
    if state.settings.mode != "approve":
        raise InputError(f"this gate is in the mode '{state.settings.mode}': nothing waits for an operator")
    if state.paused is not None:
        raise InputError(f"the gate is paused ({state.paused}): resume it first")
    waiting = next((item for item in state.waiting if item.level == level), None)
    if waiting is None:
        raise InputError(f"no certified flip of level '{level}' waits for approval")
    return state.challenge(waiting.challenge)
