"""What cannot have happened to a gate: events that do not follow from the state they are said to have happened in.

Evidence, shares of the risk and bounds are looked at again, so that replayed events hand over nothing that was not certified.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from aegis.errors import InputError, RefusedError
from aegis.handover.budget import freeze_share
from aegis.handover.challenge import GAIN, SLACK, VALUE, Challenge, ClaimState
from aegis.handover.events import Alarm, Certified, Flipped, Frozen, Restarted, Reverted, Unit, Waiting

if TYPE_CHECKING:
    from aegis.handover.state import GateState

NEAR = 1e-9  # by how much numbers computed again may differ, on another machine


def check_unit(state: GateState, event: Unit) -> None:
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
    missing = [name for name, item in counting.items() if tested(item) and name not in event.evidence]
    if missing:
        raise InputError(f"episode {event.episode} counts for challenge '{missing[0]}', and its evidence is missing")


def check_frozen(state: GateState, event: Frozen) -> None:
    """Raise InputError unless a freeze is the next one, looks ahead, and takes no more of the risk than its share."""
    if event.freeze != state.freeze + 1:
        raise InputError(f"freezes are counted over the life of a gate: expected freeze {state.freeze + 1}, found {event.freeze}")
    _now(state, event.episode, f"freeze {event.freeze}")
    for item in event.challenges:
        if (item.freeze, item.since) != (event.freeze, event.since) or item.level not in state.levels:
            raise InputError(
                f"challenge '{item.name}' is of freeze {item.freeze}, level '{item.level}' and counts from episode {item.since}; "
                f"expected freeze {event.freeze}, a level of {', '.join(state.levels)} and episode {event.since}"
            )
        if tested(item) and item.since <= state.started:
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


def check_certified(state: GateState, event: Certified) -> None:
    """Raise InputError unless the evidence of a challenge reaches every threshold in this state."""
    item = state.challenge(event.challenge)
    _now(state, event.episode, f"what is certified of challenge '{item.name}'")
    claims = [claim for claim in item.claims if claim.what != VALUE]
    if not claims or not all(_reached(claim) for claim in claims) or state.paused is not None or item.crossed is not None:
        raise InputError(f"challenge '{item.name}' is said to be certified after episode {event.episode}: its evidence says no")
    if (event.level, event.units) != (item.level, item.units):
        raise InputError(
            f"challenge '{item.name}' at level '{item.level}' has counted {item.units} episodes; what is certified names "
            f"'{event.level}' and {event.units}"
        )
    _close(event.gain_lower, _lower(item.claim(GAIN), item), f"the bound of challenge '{item.name}'")


def check_flipped(state: GateState, event: Flipped) -> None:
    """Raise InputError unless a flip puts in control what was certified, as it was frozen."""
    frozen = state.challenge(event.challenge)
    if (frozen.level, frozen.policy) != (event.level, event.policy):
        raise InputError(
            f"challenge '{event.challenge}' froze the policy {frozen.policy[:16]} at level '{frozen.level}'; the flip names "
            f"{event.policy[:16]} at '{event.level}'. Only what was certified is put in control"
        )
    _now(state, event.episode, f"the flip of level '{event.level}'")
    _later(state, event.since, f"the flip of level '{event.level}'")
    cap = None if math.isinf(frozen.cap) else frozen.cap
    if (event.action, event.cap) != (frozen.kind, cap):
        raise InputError(f"the flip of level '{event.level}' names another action or cap than challenge '{frozen.name}'")
    if not tested(frozen) and not frozen.name.startswith(f"{frozen.freeze}-"):
        return  # a gate that looks at its log from time to time: its numbers are not those of tests
    if frozen.crossed is None:
        raise InputError(f"level '{event.level}' is said to change hands, and challenge '{frozen.name}' is not certified")
    if state.paused is not None:
        raise InputError(f"level '{event.level}' is said to change hands, and the gate is paused: {state.paused}")
    waits = any(item.challenge == frozen.name for item in state.waiting)
    if state.settings.mode == "shadow" or (state.settings.mode == "approve" and not waits):
        raise InputError(f"level '{event.level}' is said to change hands, and in the mode '{state.settings.mode}' it does not")
    known = -math.inf if frozen.gain_lower is None else frozen.gain_lower
    _close(event.gain_lower, max(_lower(frozen.claim(GAIN), frozen), known), f"the bound of challenge '{frozen.name}'")
    values = [_lower(claim, frozen) for claim in frozen.claims if claim.what == VALUE]
    _close(event.value_lower, max(values, default=0.0), f"the bound of the value of challenge '{frozen.name}'")
    if event.units != frozen.units:
        raise InputError(f"challenge '{frozen.name}' has counted {frozen.units} episodes, the flip names {event.units}")


def check_waiting(state: GateState, event: Waiting) -> None:
    """Raise InputError unless what waits is certified."""
    _now(state, event.episode, f"what waits at level '{event.level}'")
    item = state.challenge(event.challenge)
    if item.level != event.level or item.crossed is None:
        raise InputError(f"challenge '{item.name}' is said to wait at level '{event.level}', and is not certified there")


def check_alarm(state: GateState, event: Alarm) -> None:
    """Raise InputError unless the monitor has reached its threshold."""
    _now(state, event.episode, "an alarm")
    monitor = state.monitor
    if monitor is None or monitor.evidence * state.settings.alarm < 1.0 - SLACK:
        raise InputError(f"an alarm is said to have been raised after episode {event.episode}: the monitor has no such evidence")
    _close(event.floor, monitor.floor, "the floor of an alarm")


def check_turn(state: GateState, event: Restarted | Reverted) -> None:
    """Raise InputError unless a new phase begins after all that has started, and a level that is given back was handed over."""
    what = "a restart" if isinstance(event, Restarted) else f"giving back level '{event.level}'"
    _now(state, event.episode, what)
    _later(state, event.since, what)
    if isinstance(event, Reverted) and state.at(event.level) is None:
        raise InputError(f"level '{event.level}' is controlled by the legacy: it cannot have been given back")


def tested(item: Challenge) -> bool:
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


def _close(found: float, wanted: float, what: str) -> None:
    if not math.isclose(found, wanted, rel_tol=NEAR, abs_tol=NEAR):
        raise InputError(f"{what} is {wanted:.6g}, found {found:.6g}")


def _now(state: GateState, episode: int, what: str) -> None:
    if episode != state.episode:
        raise InputError(f"{what} is said to have come after episode {episode}, and {state.episode} are counted")


def _later(state: GateState, since: int, what: str) -> None:
    if since <= state.episode:
        raise InputError(f"{what} holds for episodes that start later: {state.episode} are counted, found {since}")
