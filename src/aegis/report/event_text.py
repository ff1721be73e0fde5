"""Events, caps and gains of a gate in words, for the terminal and the page."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from aegis.handover import (
    NOT_A_CERTIFICATE,
    Alarm,
    AuditNote,
    ChallengeCertified,
    DoubtPassed,
    Event,
    Flipped,
    Frozen,
    LateDecision,
    OperatorAction,
    Paused,
    Postponed,
    Restarted,
    Reverted,
    Waiting,
)
from aegis.ope import Measure
from aegis.report.numbers import DOWN, NEAREST, format_brief, format_count

NOTHING_SUBTRACTED = "nothing subtracted for chance"


def describe_event(event: Event, measure: Measure, certificate: bool = True) -> tuple[str, str] | None:
    """Return what happened, as a short name and a sentence; None for events shown elsewhere (single episodes, freezes).

    certificate: whether the gate certifies anything; the numbers of one that does not are called what they are.
    """
    if isinstance(event, Flipped):
        doing = "handed over to the agent" if event.action == "handover" else "upgraded to a better policy"
        says = f"certified gain at least {format_gain(event.gain_lower, measure)}"
        if not certificate:
            gain = format_gain(event.gain_lower, measure, NEAREST)
            says = f"the published estimate of the gain is {gain}, {NOTHING_SUBTRACTED}: {NOT_A_CERTIFICATE}"
        return "flip", f"Level '{event.level}' is {doing} from episode {event.since} on ({describe_cap(event.cap)}; {says})."
    if isinstance(event, ChallengeCertified):
        gain = format_gain(event.gain_lower, measure)
        return "certified", f"Level '{event.level}': {event.challenge} gains at least {gain}, after {event.units} episodes of it."
    if isinstance(event, Alarm):
        floor = format_brief(measure.value(event.floor))
        return "alarm", f"The reward has fallen below {floor}, which was certified. Only an operator gives a level back."
    if isinstance(event, Paused):
        fix = "" if event.fix is None else f" What to do: {event.fix}."
        return "paused", f"The gate has stopped counting: {event.why}.{fix} The policy in control stays in control."
    if isinstance(event, OperatorAction):
        where = "" if event.level is None else f" at level '{event.level}'"
        return "operator", f"{event.who}: {event.action}{where}, because {event.why}."
    name, sentence = SENTENCES.get(type(event), ("", ""))
    return (name, sentence.format(event)) if name else None


SENTENCES: Mapping[type[Event], tuple[str, str]] = {
    Waiting: ("waiting", "Level '{0.level}': {0.challenge} is certified and waits: {0.why}."),
    Postponed: ("put off", "What would be decided waits for more episodes; there is some evidence against the stream: {0.why}."),
    DoubtPassed: ("doubt passed", "Nothing is put off any more: the evidence against the stream ({0.code}) is gone."),
    AuditNote: ("noted", "The audit found: {0.why}. What to do: {0.fix}."),
    Restarted: ("restarted", "All open challenges were given up: {0.why}. Episodes count again from {0.since} on."),
    LateDecision: ("late", "{0.why}. It was counted as whole: what rests on it is given up or in doubt."),
    Reverted: ("reverted", "Level '{0.level}' was given back to the legacy, from episode {0.since} on."),
}


def describe_freeze(event: Frozen) -> str:
    """Return which challengers were frozen: by level, their caps."""
    caps: dict[str, list[str]] = {}
    for item in event.challenges:
        caps.setdefault(item.level, []).append(describe_cap(item.cap))
    return "; ".join(f"{level}: {', '.join(own)}" for level, own in caps.items())


def describe_cap(cap: float | None) -> str:
    """Return a cap as it is written."""
    return "no cap" if cap is None or math.isinf(cap) else f"W = {cap:g}"


def describe_held_back(summary: Mapping[str, Any]) -> str:
    """Return how episodes that were held back compare with the others, as plain averages; empty if none were."""
    rewards, unit = summary["rewards"], f" {summary['unit']}" if summary["unit"] else ""
    legacy, agent = rewards["held_back"], rewards["beside"]
    if legacy is None or agent is None:
        return ""
    return (
        f"Held back for comparison: the legacy earned {format_brief(legacy)}{unit} in "
        f"{format_count(rewards['held_back_episodes'])} episodes, the policies in control {format_brief(agent)}{unit} in "
        f"{format_count(rewards['beside_episodes'])} beside them: a difference of {format_brief(agent - legacy, sign=True)}"
        f"{unit}. Plain averages, not a certificate."
    )


def describe_wait(mode: str) -> str:
    """Return what a level waits for whose gain is certified already. mode: of the gate."""
    if mode == "approve":
        return "certified, waits for an operator"
    return "certified, nothing changes hands in shadow" if mode == "shadow" else "certified, waits for a larger cap (patience)"


def describe_need(margin: str, certificate: bool) -> str:
    """Return what a number must be for a level to change hands: the published gate hands over at equality too."""
    return f"needs {'more than' if certificate else 'at least'} {margin}"


def format_gain(scaled_gain: float, measure: Measure, rounding: str = DOWN) -> str:
    """Return a gain in units of the reward; one that is certified is rounded down."""
    return f"{format_brief(measure.gain(scaled_gain), rounding, sign=True)}{f' {measure.unit}' if measure.unit else ''}"
