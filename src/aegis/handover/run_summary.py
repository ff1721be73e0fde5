"""The summary of a run as plain data: who controls each level, since when, at which certified gain, and the rewards."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable
from typing import Any

import numpy as np

from aegis.errors import InputError
from aegis.handover.events import (
    NOT_A_CERTIFICATE,
    Alarm,
    Event,
    Flipped,
    Frozen,
    GateOpened,
    Reverted,
    UnitCounted,
    event_to_plain,
)
from aegis.handover.gate_state import Deployed, GateState
from aegis.handover.plant_runner import GateRun
from aegis.handover.run_history import handed_over_episodes, has_gate, last_change_of_control, turns
from aegis.ope import Measure, describe_comparator, reward_measure
from aegis.problem import Scope

FEWEST = 30  # episodes on each side of a handover whose means are compared
LOWER = 4.0  # standard errors by which the mean after a handover is lower
# What a run without a gate is called.
NO_GATE = "no gate: the agent acts from the start"
ASSUMES = (
    "Assumed, and audited as far as the stream shows it: logged probabilities are those acted with; decisions and episodes "
    "affect what the problem file says; every episode that started is counted once with what it earned. Outside the promise: "
    "episodes that were aborted, or done again, and left no trace; effects between episodes that are not neighbours, such as a "
    "shared capacity, which takes longer to see than a handover."
)


def summarise_run(handover: GateRun) -> dict[str, Any]:
    """Return plain data: `levels`, `events` (all but single units), `ledger`, `rewards`, in the units of the reward as logged."""
    measure = reward_measure(handover.problem)
    state = handover.state
    hidden = UnitCounted | GateOpened if has_gate(handover.events) else UnitCounted | GateOpened | Frozen | Flipped
    return {
        "sentence": verdict_sentence(handover),
        "certificate": handover.certificate,
        **({} if handover.certificate else {"gated": has_gate(handover.events)}),
        "episodes": state.episode,
        "unit": measure.unit,
        "levels": [_level(handover, measure, name) for name in state.levels],
        "events": [
            event_in_reward_units(event, measure, handover.certificate)
            for event in handover.events
            if not isinstance(event, hidden)
        ],
        "mode": state.settings.mode,
        "waiting": [
            {"level": item.level, "challenge": item.challenge, "episode": item.episode, "why": item.why} for item in state.waiting
        ],
        "untested": state.untested,
        "ledger": {"delta": state.settings.delta, "spent": state.spent, "freezes": state.freeze},
        "rewards": _rewards(handover, measure),
        "alarms": state.alarms,
        "paused": state.paused,
        "audit": _audit(handover),
        "gates": None if handover.counted is None else handover.counted.plain(),
        "assumes": ASSUMES if handover.certificate else "",
    }


def _audit(handover: GateRun) -> dict[str, Any]:
    """Return what the audit of the gate's own stream found: what paused the gate, ever, and what puts off a decision now."""
    state = handover.state
    names = ("episode", "code", "level", "why", "fix")
    return {
        "refused": [{name: getattr(item, name) for name in names} for item in state.refusals],
        "doubted": [item.level for item in state.deployed if item.in_doubt],
        "put_off": None if state.put_off is None else {name: getattr(state.put_off, name) for name in names[:-1]},
        "noted": [{name: getattr(item, name) for name in names} for item in state.notes],
    }


def format_lower_bound(value: float, sign: str = "") -> str:
    """Return a lower bound in four digits, never rounded up; sign: '+' to write that of a gain."""
    if value == 0.0 or not math.isfinite(value):
        return f"{value:{sign}g}"
    unit = 10.0 ** (math.floor(math.log10(abs(value))) - 3)
    return f"{math.floor(value / unit) * unit:{sign}.4g}"


def verdict_sentence(handover: GateRun) -> str:
    """Return the verdict in one sentence, then what limits it.

    These are: what was not tested after a revert, a legacy that moves, an alarm, a reward that fell, whether the
    gate is paused or puts off what it would decide, and which gate of its plant it is.

    Raises InputError if more of the risk is spent than there is: then nothing can be said to hold at that risk.
    """
    state = handover.state
    if handover.certificate and state.spent > state.settings.delta * (1.0 + 1e-9):
        raise InputError(
            f"the challenges of this gate have spent {state.spent:.6g} of a risk of {state.settings.delta:g}: its events are not "
            "those of a gate; restore them or start anew"
        )
    warnings: list[str] = []
    if handover.certificate:
        warnings = [
            *untested_warnings(state),
            *(exploration_words(state) or legacy_change_warnings(state, handover.comparator.levels)),
            *alarm_warnings(state),
            *lower_mean_warnings(handover),
        ]
    gates = "" if handover.counted is None else handover.counted.words
    return " ".join(filter(None, [_verdict(handover), *warnings, _stopped(state), gates]))


def _stopped(state: GateState) -> str:
    """Return that a gate is paused, was stopped by its audit, or waits for more episodes; empty if it goes on as ever."""
    if state.paused is not None:
        fix = f" What to do: {state.refusals[-1].fix}." if state.refusals and state.refusals[-1].why == state.paused else ""
        return f"The gate is paused: {state.paused}.{fix}"
    if state.put_off is not None:
        return (
            f"What would be handed over is put off since episode {state.put_off.episode}: there is some evidence against the "
            f"stream, too little to pause ({state.put_off.code}): {state.put_off.why}."
        )
    if state.refusals and not state.deployed and state.resumed is not None:
        return f"The audit stopped it after episode {state.refusals[-1].episode}; it was {state.resumed.why}."
    return ""


def risk_promise(state: GateState, several: bool = False) -> str:
    """Return what holds of everything that is handed over. several: there are other gates of this plant."""
    risk = f"{state.settings.delta:.3g}"
    words = [
        f"Nothing is promised about level '{item.level}': a decision of episode {item.late} came after its test had counted that "
        "episode as whole. Give the level back to the legacy (revert), unless you know that the decision belongs elsewhere."
        for item in state.deployed
        if item.late is not None and not item.doubted
    ]
    if not state.refusals:
        other = " other" if words else ""
        if not words or any(item.late is None for item in state.deployed):
            words.append(f"Probability of any{other} wrong handover{' by this gate' if several else ''}: at most {risk}.")
        return " ".join(words)
    last = state.refusals[-1]
    doubted = _named(item.level for item in state.deployed if item.doubted)
    if doubted:
        words.append(
            f"Nothing is promised about what was handed over up to episode {last.episode}: after the handover the audit found "
            f"that an assumption is broken ({last.code}). Give {doubted} back to the legacy (revert)."
        )
    if state.resumed is not None and any(not item.in_doubt for item in state.deployed):
        words.append(
            f"Probability of any wrong handover since the gate was {state.resumed.why}, from episode {state.resumed.since} on: "
            f"at most {risk}, if what the audit found ({last.code}) has been mended."
        )
    return " ".join(words)


def legacy_change_warnings(state: GateState, stated: Collection[str]) -> list[str]:
    """Return what gains mean at each level whose legacy moves. stated: levels whose incumbent the problem states."""
    warnings = []
    for item in {item.level: item for item in state.notes}.values():  # the latest of each level
        means = (
            f"Gains at '{item.level}' over the stated incumbent hold all the same; over the log as it was they would be over the "
            "average of a legacy that changes."
            if item.level in stated
            else f"Gains at '{item.level}' are over the average of a legacy that changes, not over one policy."
        )
        held = state.at(item.level)
        capped = "" if held is None or held.cap is None else " The policy in control there is capped by it and changes with it."
        warnings.append(f"Found after episode {item.episode}: {item.why} ({item.code}). {means}{capped} What to do: {item.fix}.")
    return warnings


def exploration_words(state: GateState) -> list[str]:
    """Return that the gate explores by itself, which is why logged probabilities move; empty if it does not.

    A plant that logs other probabilities than those of the policy that was asked to act is paused: nothing else moves them.
    """
    share = state.settings.explore
    if not share:
        return []
    return [
        f"Exploration: at levels that the legacy controls a share {share:g} of the decisions follows the host's exploring plan, "
        "made anew at each freeze; the log holds the exact probabilities, and gains are over the legacy without it. Learn from "
        "this log with a split in time."
    ]


def alarm_warnings(state: GateState) -> list[str]:
    """Return that the reward has fallen below what was certified since the handover, and what to do; empty if it has not."""
    if state.alarmed is None or not state.deployed:
        return []
    names = _named(item.level for item in state.deployed)
    return [
        f"The monitor raised an alarm after episode {state.alarmed}: the reward is below the value that was certified. An "
        f"assumption is broken, or the plant has changed. Give {names} back to the legacy (revert) until you know which."
    ]


def lower_mean_warnings(handover: GateRun) -> list[str]:
    """Return that less is earned since control changed last than before the first handover; empty if that may be chance.

    It needs no exploration: where a policy in control explores no more, the audit is blind, and a capacity that episodes share
    shows in the mean alone. A standard score for one look at the run, which a trend of the plant moves as well. A gate that
    explores is left out: both means contain what its plan earned.
    """
    if handover.state.settings.explore:
        return []
    flips = [event.since - 1 for event in handover.events if isinstance(event, Flipped)]
    if not flips or not handover.state.deployed:
        return []
    values, arms = np.array(handover.rewards), np.array(handover.arms)
    now = (np.arange(values.size) >= last_change_of_control(handover.events) - 1) & (arms == "agent")
    parts = [part[np.isfinite(part)] for part in (values[: flips[0]], values[now])]
    if min(part.size for part in parts) < FEWEST:
        return []
    (before, spread), (after, later) = ((float(part.mean()), float(part.var()) / part.size) for part in parts)
    if after - before >= -LOWER * math.sqrt(spread + later) or after >= before:
        return []
    measure = reward_measure(handover.problem)
    names = _named(item.level for item in handover.state.deployed)
    return [
        f"Since the handover the mean reward is {measure.value(after):.4g}{_unit(measure)}, before it was "
        f"{measure.value(before):.4g}: more than chance explains. Episodes affect each other, and then no risk is promised, or "
        f"the plant has changed. Give {names} back to the legacy (revert) until you know which."
    ]


def untested_warnings(state: GateState) -> list[str]:
    """Return a warning for each level whose gain was certified beside an agent that has been given back since."""
    return [
        f"The gain at '{level}' was certified with the agent at {_named(others)}, given back since: this combination was not "
        "tested."
        for level, others in state.untested.items()
    ]


def _verdict(handover: GateRun) -> str:
    state, measure = handover.state, reward_measure(handover.problem)
    risk = f"{state.settings.delta:.3g}"
    if not handover.certificate:
        return _no_certificate(handover, measure)
    if not state.deployed and state.waiting:
        names = _named(item.level for item in state.waiting)
        return (
            f"Certified at risk {risk}, not handed over: {names}. After {state.episode} episodes the legacy controls every "
            f"level; {state.waiting[0].why}."
        )
    if not state.deployed and (past := dict.fromkeys(turn.level for turn in turns(handover.events))):
        return (
            f"Given back: after {state.episode} episodes the legacy controls every level again; the agent has had {_named(past)}."
        )
    if not state.deployed and (certified := [item for item in state.challenges if item.crossed is not None]):
        names = _named(dict.fromkeys(item.level for item in certified))
        return (
            f"Certified at risk {risk}, not handed over yet: {names}. After {state.episode} episodes the legacy controls every "
            "level; the gate waits for a policy with a larger cap (patience)."
        )
    if not state.deployed:
        return (
            f"Not yet: after {state.episode} episodes the legacy controls every level; no gain could be certified at risk {risk}."
        )
    ordered = sorted(state.deployed, key=lambda item: item.since)
    parts = [_held(handover, item, measure) for item in ordered]
    legacy_levels = [name for name in state.levels if state.at(name) is None]
    rest = f"; the legacy keeps {', '.join(map(repr, legacy_levels))}" if legacy_levels else ""
    several = handover.counted is not None and handover.counted.number > 1
    included = ", exploration included" if state.settings.explore else ""
    beside = f" Each gain is certified while the other levels act as they did then{included}." if len(state.levels) > 1 else ""
    return f"Handed over: {' and '.join(parts)}{rest}.{beside} {risk_promise(state, several)}"


def _held(handover: GateRun, item: Deployed, measure: Measure) -> str:
    """Return since when a level is handed over, and what was certified of the policy that is in control."""
    gain = f"{format_lower_bound(measure.gain(item.gain_lower))}{_unit(measure)}"
    since = _since(handover, item)
    if since == item.since:
        return f"'{item.level}' since episode {since} (a gain of at least {gain} over {comparator_words(handover, item.level)})"
    return f"'{item.level}' since episode {since}, upgraded at {item.since} (at least {gain} more than the policy before)"


def comparator_words(handover: GateRun, level: str) -> str:
    """Return who a challenger at a level that the legacy controls is compared with."""
    return describe_comparator(handover.problem, handover.comparator, Scope(level), handover.state.moving)


def _since(handover: GateRun, item: Deployed) -> int:
    """Return since which episode an agent controls the level of a deployed policy."""
    flips = [event for event in handover.events if isinstance(event, Flipped) and event.level == item.level]
    # The last handover, if the level was given back in between.
    return next((event.since for event in reversed(flips) if event.action == "handover"), item.since)


def _no_certificate(handover: GateRun, measure: Measure) -> str:
    """Return what a gate did that certifies nothing; its numbers are not called gains."""
    state = handover.state
    if not state.deployed:
        return f"Not a certificate: after {state.episode} episodes this gate leaves every level to the legacy."
    if not has_gate(handover.events):
        names = _named(item.level for item in state.deployed)
        return (
            f"{NOT_A_CERTIFICATE.capitalize()}, and {NO_GATE}, at {names}. Nothing bounds how much worse it is than the legacy."
        )
    parts = [
        f"'{item.level}' since episode {item.since} (estimated difference {measure.gain(item.gain_lower):.4g}{_unit(measure)})"
        for item in sorted(state.deployed, key=lambda item: item.since)
    ]
    return (
        f"Not a certificate: this gate has handed over {' and '.join(parts)}, by an estimate with nothing "
        "subtracted for chance, and nothing bounds how often that is wrong."
    )


def event_in_reward_units(event: Event, measure: Measure, certificate: bool = True) -> dict[str, Any]:
    """Return an event without its evidence, gains and values in the units of the reward as logged.

    certificate: what is no bound is not called one.
    """
    plain = event_to_plain(event)
    if "challenges" in plain:
        names = ("name", "level", "kind", "cap", "policy")
        plain["challenges"] = [
            {**{name: item[name] for name in names}, "delta": sum(c["delta"] for c in item["claims"] if c["what"] != "value")}
            for item in plain["challenges"]
        ]
    if "gain_lower" in plain:
        plain["gain_lower" if certificate else "difference"] = measure.gain(plain.pop("gain_lower"))
    if "value_lower" in plain:
        value = measure.value(plain.pop("value_lower"))
        plain |= {"value_lower": value} if certificate else {}
    if isinstance(event, Alarm):
        plain["floor"] = measure.value(event.floor)
    return plain


def _level(handover: GateRun, measure: Measure, name: str) -> dict[str, Any]:
    now, gated = handover.state.at(name), has_gate(handover.events)
    flips = [event for event in handover.events if gated and isinstance(event, Flipped) and event.level == name]
    return {
        "level": name,
        "comparator": comparator_words(handover, name),
        "control": "legacy" if now is None else "agent",
        "since": None if now is None else _since(handover, now),
        "policy_since": None if now is None else now.since,
        "cap": None if now is None else now.cap,
        "gain_lower" if handover.certificate else "difference": (
            None if now is None or not gated else measure.gain(now.gain_lower)
        ),
        "first_flip": next((event.episode for event in flips if event.action == "handover"), None),
        "held": [[turn.since, turn.until] for turn in turns(handover.events) if turn.level == name],
        "upgrades": sum(event.action == "upgrade" for event in flips),
        "reverts": [event.episode for event in handover.events if isinstance(event, Reverted) and event.level == name],
    }


def _rewards(handover: GateRun, measure: Measure) -> dict[str, Any]:
    """Return means of realised rewards: of everything, before the first flip, after the last, and of the policies in control now.

    held_back, beside: of episodes that stayed with the legacy, and of the others while anything was handed over.
    """
    values = np.array(handover.rewards)
    flips = [event.since - 1 for event in handover.events if isinstance(event, Flipped)]

    def mean(chosen: Any) -> float | None:
        known = values[chosen][np.isfinite(values[chosen])]
        return measure.value(float(known.mean())) if known.size else None

    places, arms = np.arange(values.size), np.array(handover.arms)
    handed = handed_over_episodes(handover.events)[: values.size]
    agent, held = arms == "agent", arms == "legacy"
    return {
        "all": mean(slice(None)),
        "before_first_flip": mean(places < flips[0]) if flips else None,
        "after_last_flip": mean((places >= flips[-1]) & agent) if flips else None,
        "now": mean((places >= last_change_of_control(handover.events) - 1) & agent) if flips else None,
        "held_back": mean(held),
        "held_back_episodes": int(held.sum()),
        "beside": mean(handed & agent) if held.any() else None,
        "beside_episodes": int((handed & agent).sum()) if held.any() else 0,
    }


def _unit(measure: Measure) -> str:
    return f" {measure.unit}" if measure.unit else ""


def _named(levels: Iterable[str]) -> str:
    return " and ".join(f"'{level}'" for level in levels)
