"""Replay of a gate: the state after each event, and events that cannot have happened.

`replay_events(events)` is the only way to a state. Evidence, shares of the risk and bounds are computed again.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import replace

from aegis.errors import InputError, RefusedError
from aegis.handover.challenge import GAIN, SLACK, VALUE, Challenge, ClaimState
from aegis.handover.events import (
    Alarm,
    AuditNote,
    ChallengeCertified,
    DoubtPassed,
    Event,
    Flipped,
    Frozen,
    GateOpened,
    ModeChanged,
    Paused,
    Postponed,
    Restarted,
    Reverted,
    UnitCounted,
    Waiting,
)
from aegis.handover.gate_settings import GateSettings
from aegis.handover.gate_state import Deployed, GateState, MonitorState
from aegis.handover.risk_budget import freeze_share

NEAR = 1e-9  # by how much numbers computed again may differ, on another machine


def check_unit(state: GateState, event: UnitCounted) -> None:
    """Raise InputError if an episode is not the next one, or is evidence for other challenges than those that count it."""
    if event.episode != state.episode + 1:
        raise InputError(
            "episodes are counted in the order in which they started: "
            f"expected episode {state.episode + 1}, found {event.episode}"
        )
    counting = {item.name: item for item in state.counting(event.episode)}
    for name in event.evidence:
        if name not in counting:
            raise InputError(f"episode {event.episode} started before challenge '{name}' was frozen, or it is not open")
    if event.arm != "agent" or state.paused is not None:
        if event.evidence:
            why = f"its arm is '{event.arm}'" if event.arm != "agent" else f"the gate is paused: {state.paused}"
            raise InputError(f"episode {event.episode} is evidence for nothing ({why}), found some for {sorted(event.evidence)}")
        return
    missing = [name for name, item in counting.items() if has_tests(item) and name not in event.evidence]
    if missing:
        raise InputError(f"episode {event.episode} counts for challenge '{missing[0]}', and its evidence is missing")


def check_frozen(state: GateState, event: Frozen) -> None:
    """Raise InputError unless a freeze is the next one, looks ahead, and takes no more of the risk than its share."""
    if event.freeze != state.freeze + 1:
        raise InputError(f"freezes are counted over the life of a gate: expected freeze {state.freeze + 1}, found {event.freeze}")
    _check_now(state, event.episode, f"freeze {event.freeze}")
    for item in event.challenges:
        if (item.freeze, item.since) != (event.freeze, event.since) or item.level not in state.levels:
            raise InputError(
                f"challenge '{item.name}' is of freeze {item.freeze}, level '{item.level}' and counts from episode {item.since}; "
                f"expected freeze {event.freeze}, a level of {', '.join(state.levels)} and episode {event.since}"
            )
        if has_tests(item) and item.since <= state.started:
            raise InputError(
                f"challenge '{item.name}' counts episodes from {item.since} on, and {state.started} have started: a test is on "
                "episodes that start after its freeze"
            )
        wrong = [claim for claim in item.claims if claim.parts and not 0.0 < claim.delta < 1.0]
        if wrong:
            raise InputError(
                f"challenge '{item.name}': the risk of '{wrong[0].what}' lies between 0 and 1, found {wrong[0].delta}"
            )
    asked = sum(item.spent for item in event.challenges)
    watched = sum(claim.delta for item in event.challenges for claim in item.claims if claim.what == VALUE)
    for found, whole in ((asked, state.settings.delta), (watched, state.settings.alarm_floor)):
        share = freeze_share(whole, event.freeze)
        if found > share * (1.0 + NEAR):
            raise InputError(f"freeze {event.freeze} may spend {share:.6g} of the risk {whole:g}, found {found:.6g}")


def check_certified(state: GateState, event: ChallengeCertified) -> None:
    """Raise InputError unless the evidence of a challenge reaches every threshold in this state."""
    item = state.challenge(event.challenge)
    _check_now(state, event.episode, f"what is certified of challenge '{item.name}'")
    claims = [claim for claim in item.claims if claim.what != VALUE]
    if not claims or not all(_reached(claim) for claim in claims) or state.paused is not None or item.crossed is not None:
        raise InputError(f"challenge '{item.name}' is said to be certified after episode {event.episode}: its evidence says no")
    if (event.level, event.units) != (item.level, item.units):
        raise InputError(
            f"challenge '{item.name}' at level '{item.level}' has counted {item.units} episodes; what is certified names "
            f"'{event.level}' and {event.units}"
        )
    _check_close(event.gain_lower, _lower(item.claim(GAIN), item), f"the bound of challenge '{item.name}'")


def check_flipped(state: GateState, event: Flipped) -> None:
    """Raise InputError unless a flip puts in control what was certified, as it was frozen."""
    frozen = state.challenge(event.challenge)
    if (frozen.level, frozen.policy) != (event.level, event.policy):
        raise InputError(
            f"challenge '{event.challenge}' froze the policy {frozen.policy[:16]} at level '{frozen.level}'; the flip names "
            f"{event.policy[:16]} at '{event.level}'. Only what was certified is put in control"
        )
    _check_now(state, event.episode, f"the flip of level '{event.level}'")
    _check_later(state, event.since, f"the flip of level '{event.level}'")
    cap = None if math.isinf(frozen.cap) else frozen.cap
    if (event.action, event.cap) != (frozen.kind, cap):
        raise InputError(f"the flip of level '{event.level}' names another action or cap than challenge '{frozen.name}'")
    if not has_tests(frozen) and not frozen.name.startswith(f"{frozen.freeze}-"):
        return  # a gate that looks at its log from time to time: its numbers are not those of tests
    if frozen.crossed is None:
        raise InputError(f"level '{event.level}' is said to change hands, and challenge '{frozen.name}' is not certified")
    if state.paused is not None:
        raise InputError(f"level '{event.level}' is said to change hands, and the gate is paused: {state.paused}")
    waits = any(item.challenge == frozen.name for item in state.waiting)
    if state.settings.mode == "shadow" or (state.settings.mode == "approve" and not waits):
        raise InputError(f"level '{event.level}' is said to change hands, and in the mode '{state.settings.mode}' it does not")
    known = -math.inf if frozen.gain_lower is None else frozen.gain_lower
    _check_close(event.gain_lower, max(_lower(frozen.claim(GAIN), frozen), known), f"the bound of challenge '{frozen.name}'")
    values = [_lower(claim, frozen) for claim in frozen.claims if claim.what == VALUE]
    _check_close(event.value_lower, max(values, default=0.0), f"the bound of the value of challenge '{frozen.name}'")
    if event.units != frozen.units:
        raise InputError(f"challenge '{frozen.name}' has counted {frozen.units} episodes, the flip names {event.units}")


def check_waiting(state: GateState, event: Waiting) -> None:
    """Raise InputError unless what waits is certified."""
    _check_now(state, event.episode, f"what waits at level '{event.level}'")
    item = state.challenge(event.challenge)
    if item.level != event.level or item.crossed is None:
        raise InputError(f"challenge '{item.name}' is said to wait at level '{event.level}', and is not certified there")


def check_alarm(state: GateState, event: Alarm) -> None:
    """Raise InputError unless the monitor has reached its threshold."""
    _check_now(state, event.episode, "an alarm")
    monitor = state.monitor
    if monitor is None or monitor.evidence * state.settings.alarm < 1.0 - SLACK:
        raise InputError(f"an alarm is said to have been raised after episode {event.episode}: the monitor has no such evidence")
    _check_close(event.floor, monitor.floor, "the floor of an alarm")


def check_turn(state: GateState, event: Restarted | Reverted) -> None:
    """Raise InputError unless a new phase begins after all that has started, and a level that is given back was handed over."""
    what = "a restart" if isinstance(event, Restarted) else f"giving back level '{event.level}'"
    _check_now(state, event.episode, what)
    _check_later(state, event.since, what)
    if isinstance(event, Reverted) and state.at(event.level) is None:
        raise InputError(f"level '{event.level}' is controlled by the legacy: it cannot have been given back")


def has_tests(item: Challenge) -> bool:
    """Say whether a challenge has tests that episodes are evidence for."""
    return any(claim.parts for claim in item.claims)


def _reached(claim: ClaimState) -> bool:
    if not claim.parts or not claim.count or claim.margin >= claim.high:
        return False
    if claim.margin < claim.low:
        return claim.certified
    return claim.log_evidence >= math.log(1.0 / claim.delta) - SLACK


def _lower(claim: ClaimState, item: Challenge) -> float:
    try:
        return claim.lower
    except RefusedError as error:
        raise InputError(f"the evidence of challenge '{item.name}' contradicts what it rests on: {error}") from error


def _check_close(found: float, wanted: float, what: str) -> None:
    if not math.isclose(found, wanted, rel_tol=NEAR, abs_tol=NEAR):
        raise InputError(f"{what} is {wanted:.6g}, found {found:.6g}")


def _check_now(state: GateState, episode: int, what: str) -> None:
    if episode != state.episode:
        raise InputError(f"{what} is said to have come after episode {episode}, and {state.episode} are counted")


def _check_later(state: GateState, since: int, what: str) -> None:
    if since <= state.episode:
        raise InputError(f"{what} holds for episodes that start later: {state.episode} are counted, found {since}")


def apply_event(state: GateState, event: Event) -> GateState:
    """Return the state after an event; InputError if it cannot have happened in this state."""
    if isinstance(event, UnitCounted):
        return _unit(state, event)
    if isinstance(event, Frozen):
        return _frozen(state, event)
    if isinstance(event, ChallengeCertified):
        return _certified(state, event)
    if isinstance(event, Flipped):
        return _flipped(state, event)
    if isinstance(event, Waiting):
        check_waiting(state, event)
        others = tuple(item for item in state.waiting if item.level != event.level)
        return replace(state, waiting=(*others, event))
    if isinstance(event, Alarm):
        check_alarm(state, event)
        floor = event.floor
        return replace(
            state,
            monitor=MonitorState.start(floor),
            monitored_since=event.episode + 1,
            alarms=state.alarms + 1,
            alarmed=event.episode,
        )
    if isinstance(event, Paused):
        return _paused(state, event)
    if isinstance(event, Postponed):
        return replace(state, put_off=event)
    if isinstance(event, DoubtPassed):
        return replace(state, put_off=None)
    if isinstance(event, AuditNote):
        return replace(state, notes=(*state.notes, event))
    if isinstance(event, ModeChanged):
        # What waits is looked at again with the next unit, and says why it waits now.
        return replace(state, settings=replace(state.settings, mode=event.mode), waiting=())
    if isinstance(event, Restarted):
        check_turn(state, event)
        resumed = event if state.refusals and state.paused is not None else state.resumed
        return _new_phase(replace(state, paused=None, resumed=resumed), event.since)
    if isinstance(event, Reverted):
        check_turn(state, event)
        left = tuple(_after_return(item, event.level) for item in state.deployed if item.level != event.level)
        retired = tuple(item for item in state.retired if item.level != event.level)
        watched = _monitor_after(state, left)
        after = replace(state, deployed=left, retired=retired, monitor=watched, monitored_since=event.since)
        return _new_phase(after, event.since)
    return state  # what operators say is carried out by other events


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


def _unit(state: GateState, event: UnitCounted) -> GateState:
    check_unit(state, event)
    challenges = tuple(item.add(event.evidence[item.name]) if item.name in event.evidence else item for item in state.challenges)
    monitor = state.monitor
    if monitor is not None and event.arm == "agent" and event.episode >= state.monitored_since:
        monitor = monitor.step(1.0 if event.reward is None else event.reward)  # a missing reward may be the best
    audited = state.audited + state.audits(event)
    return replace(state, episode=event.episode, challenges=challenges, monitor=monitor, audited=audited)


def _certified(state: GateState, event: ChallengeCertified) -> GateState:
    check_certified(state, event)
    winner = replace(state.challenge(event.challenge), crossed=event.units, gain_lower=event.gain_lower)
    challenges = tuple(winner if item.name == winner.name else item for item in state.challenges)
    return replace(state, challenges=challenges, put_off=None)


def _frozen(state: GateState, event: Frozen) -> GateState:
    check_frozen(state, event)
    oldest = event.freeze - state.settings.generations
    # What has been certified and waits for a larger cap stays.
    kept = tuple(item for item in state.challenges if item.freeze > oldest or item.crossed is not None)
    return replace(
        state,
        freeze=event.freeze,
        freezes=state.freezes + 1,
        spent=state.spent + sum(item.spent for item in event.challenges),
        challenges=(*kept, *event.challenges),
    )


def _flipped(state: GateState, event: Flipped) -> GateState:
    check_flipped(state, event)
    floor = min(max(event.value_lower, 0.0), 1.0 - 2.0**-20)
    beside = tuple((item.level, item.challenge) for item in state.deployed if item.level != event.level)
    before = tuple(item for item in state.deployed if item.level == event.level)
    apart = tuple(name for item in before for name in item.apart)
    new = Deployed(event.level, event.challenge, event.policy, event.cap, event.since, event.gain_lower, floor, beside, apart)
    others = tuple(item for item in state.deployed if item.level != event.level)
    older = tuple(item for item in state.retired if item.level != event.level)
    found = replace(
        state,
        deployed=(*others, new),
        retired=(*older, *before),
        monitor=MonitorState.start(floor),
        monitored_since=event.since,
    )
    return _new_phase(found, event.since)


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


def open_gate(settings: GateSettings, levels: Sequence[str], problem: str = "") -> tuple[GateState, GateOpened]:
    """Return a new gate for levels, innermost first, and the event that says so."""
    chosen = settings.levels or tuple(levels)
    unknown = [name for name in chosen if name not in levels]
    if unknown:
        raise InputError(f"gate: there is no level '{unknown[0]}' to hand over; levels: {', '.join(levels)}")
    event = GateOpened(settings, tuple(name for name in levels if name in chosen), problem)
    return replay_events([event]), event
