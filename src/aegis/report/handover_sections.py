"""What the page of a handover says, section by section."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from aegis.certificate.measures import Measure
from aegis.handover.events import Event, Frozen
from aegis.handover.turns import Turn
from aegis.report.handover_standing import Standing
from aegis.report.handover_words import NOT_A_CERTIFICATE, cap_words, event_words, frozen_words, waits_words
from aegis.report.numbers import DOWN, UNKNOWN, UP, brief, count, percent, risk
from aegis.report.sections.summary import Tile
from aegis.report.words import ALERT, GLASS, TICK, Face

NO_PROMISE = "this gate may hand over to a worse agent"
AVERAGE = "an average over this run, not a certificate"


@dataclass(frozen=True, slots=True)
class Control:
    """One level: who is in control, since when, what was certified, and who challenges that."""

    level: str
    face: Face
    since: str
    gain: str
    challenge: str
    evidence: str


@dataclass(frozen=True, slots=True)
class Told:
    """An event in words."""

    episode: str
    kind: str
    text: str


@dataclass(frozen=True, slots=True)
class Freeze:
    """A freeze in the ledger: what it opened, what it may spend, and what all freezes so far may spend together."""

    number: int
    episode: str
    opened: str
    spends: str
    spent: str
    meter: int


@dataclass(frozen=True, slots=True)
class Top:
    """What somebody sees who looks at the page for ten seconds."""

    face: Face
    action: str
    sentence: str
    tiles: tuple[Tile, ...]
    next_step: str


def top(summary: Mapping[str, Any], found: Sequence[Standing], settings: Mapping[str, Any], certificate: bool) -> Top:
    """Return the verdict, the five numbers and what to do next."""
    handed = [item.level for item in found if item.since is not None]
    return Top(
        *_verdict(summary, handed, len(found), certificate),
        summary["sentence"],
        _tiles(summary, handed, len(found), settings, certificate),
        _next(summary, found, settings, certificate),
    )


def controls(
    found: Sequence[Standing], measure: Measure, certificate: bool, past: Sequence[Turn] = (), mode: str = "live"
) -> tuple[Control, ...]:
    """Return who is in control of each level, outermost first, as people say it. past: turns of agents. mode: of the gate."""
    return tuple(
        _control(item, measure, certificate, [turn for turn in past if turn.level == item.level], mode)
        for item in reversed(found)
    )


def told(events: Sequence[Event], measure: Measure, certificate: bool) -> tuple[Told, ...]:
    """Return the events that are no single episodes and no freezes."""
    found = [(event, event_words(event, measure, certificate)) for event in events]
    return tuple(Told(count(getattr(event, "episode", None)), *words) for event, words in found if words is not None)


def ledger(events: Sequence[Event], delta: float) -> tuple[Freeze, ...]:
    """Return every freeze with its share of the risk; spent risk is rounded up."""
    spent, found = 0.0, []
    for event in events:
        if isinstance(event, Frozen):
            share = sum(item.spent for item in event.challenges)
            spent += share
            meter = min(100, round(100 * spent / delta))
            shown = (brief(share, UP), brief(spent, UP))
            found.append(Freeze(event.freeze, count(event.episode), frozen_words(event) or "none", *shown, meter))
    return tuple(found)


def entries(about: Mapping[str, Any], settings: Mapping[str, Any]) -> tuple[tuple[str, str], ...]:
    """Return what the run was asked to do, and every setting of its gate, as names and values."""
    lines = [(name, value) for name, value in about.items() if value not in (None, {}, ())]
    return tuple((name.replace("_", " "), _plain(value)) for name, value in [*lines, *settings.items()])


def _verdict(summary: Mapping[str, Any], handed: Sequence[str], levels: int, certificate: bool) -> tuple[Face, str]:
    if not certificate:
        return Face("Not a certificate", "refused", ALERT), "Do not rely on this: the published gate promises nothing"
    if summary["paused"]:
        return Face("Paused", "refused", ALERT), "The gate has stopped counting; the policies in control stay in control"
    if summary["audit"]["doubted"]:
        doubted = _every(summary["audit"]["doubted"])
        return Face("In doubt", "refused", ALERT), f"Nothing is promised about {doubted}: the audit refused what it rests on"
    if len(handed) == levels:
        return Face("Handed over", "certified", TICK), f"The agent controls {_every(handed)}"
    if handed:
        return Face("Handed over in part", "certified", TICK), f"The agent controls {_every(handed)}; the legacy keeps the rest"
    if summary["waiting"]:
        return Face("Waiting", "not-yet", GLASS), "A gain is certified; the legacy stays in control until an operator decides"
    if any(level["held"] for level in summary["levels"]):
        return Face("Given back", "not-yet", GLASS), "The legacy controls every level again"
    return Face("Not yet", "not-yet", GLASS), "The legacy controls every level: no gain is certified"


def _tiles(
    summary: Mapping[str, Any], handed: Sequence[str], levels: int, settings: Mapping[str, Any], certificate: bool
) -> tuple[Tile, ...]:
    rewards, unit = summary["rewards"], summary["unit"]
    changed = rewards["before_first_flip"] is not None
    before = rewards["before_first_flip"] if changed else rewards["all"]
    after = rewards["now"]
    given_back = any(level["reverts"] for level in summary["levels"])
    bounded = certificate and not summary["audit"]["doubted"]
    rounded = risk(settings["delta"]) if bounded else "not bounded"
    gates = summary["gates"]
    promise = "that anything worse than it replaces is ever put in control" if certificate else NO_PROMISE
    if certificate and not bounded:
        promise = "the audit refused what was certified from"
    elif certificate and gates is not None and gates["number"] > 1:
        promise += f" by this gate; {risk(gates['risk'])} by all {gates['number']} gates of this plant"
    return (
        Tile("Handed over", f"{len(handed)} of {levels}", "levels", ", ".join(handed) or "none", style="first"),
        Tile("Reward before", _reward(before), unit if before is not None else "", f"under the legacy alone; {AVERAGE}"),
        Tile(
            "Reward now",
            _reward(after),
            unit if after is not None else "",
            f"since control changed last; {AVERAGE}" if handed or given_back else "nothing was handed over",
        ),
        Tile("Risk", rounded, "", promise, "at most" if bounded else ""),
        Tile("Evidence", count(summary["episodes"]), "episodes", f"alarms of the monitor: {count(summary['alarms'])}"),
    )


def _next(summary: Mapping[str, Any], found: Sequence[Standing], settings: Mapping[str, Any], certificate: bool) -> str:
    if not certificate:
        return "Run the same plant with the gate \u2018challenger\u2019, whose risk is bounded, before anything changes hands."
    refused = summary["audit"]["refused"]
    if summary["paused"] and refused and refused[-1]["why"] == summary["paused"]:
        held = f" Give {_every(summary['audit']['doubted'])} back meanwhile." if summary["audit"]["doubted"] else ""
        return f"To mend what the audit found: {refused[-1]['fix']}. Then an operator resumes the gate and says why.{held}"
    if summary["paused"]:
        return f"Mend what stopped the gate, then run it again: {summary['paused']}"
    if summary["audit"]["doubted"]:
        return f"Give {_every(summary['audit']['doubted'])} back to the legacy; the gate tests it anew from then on."
    if summary["alarms"]:
        return "The monitor has raised an alarm: find out what changed on the plant before control stays where it is."
    if summary["untested"]:
        levels, others = list(summary["untested"]), sorted({name for names in summary["untested"].values() for name in names})
        return (
            f"The gain at {_every(levels)} was certified beside the agent at {_every(others)}, which was given back: nothing was "
            f"tested about what acts now. Give {_every(levels)} back too, or compare the reward with that of the legacy."
        )
    waiting = sorted(item["level"] for item in summary["waiting"])
    if waiting and summary["mode"] == "approve":
        return f"Approve the certified flip of {_every(waiting)}, or leave the legacy in control."
    if waiting:
        return f"In shadow nothing changes hands. To hand over {_every(waiting)}, run the gate live or with approval."
    kept = [item for item in found if item.since is None]
    if not kept:
        return "Nothing has to be done: the monitor watches the reward" + (
            ", and better policies are still put to the test." if settings.get("upgrades") else "."
        )
    return " ".join(_wanted(item) for item in kept)


def _wanted(item: Standing) -> str:
    lead = item.leading
    if lead is None or lead.further is None:
        return (
            f"At \u2018{item.level}\u2019 no evidence of a gain grows yet: it needs more episodes, more exploration or a "
            "better host."
        )
    return (
        f"At \u2018{item.level}\u2019 about {count(max(lead.further, 1))} more episodes like these would do (an estimate, not a "
        "certificate): run it again with more of them."
    )


def _control(item: Standing, measure: Measure, certificate: bool, past: Sequence[Turn], mode: str) -> Control:
    unit = f" {measure.unit}" if measure.unit else ""
    if item.since is None:
        face, since, gain = Face("Legacy", "neutral", GLASS), _legacy_since(past), "-"
    else:
        word = "at least" if certificate else f"{NOT_A_CERTIFICATE}:"
        face, since = (
            Face("Agent", "certified" if certificate else "refused", TICK if certificate else ALERT),
            f"episode {count(item.since)}",
        )
        gain = f"{word} {brief(item.gain_lower, DOWN, sign=True)}{unit}"
    lead = item.leading
    if lead is None:
        return Control(item.level, face, since, gain, "none open", "-")
    bound = f"{'at least' if certificate else 'computed:'} {brief(lead.bound, DOWN, sign=True)}{unit}"
    what = f"{lead.kind}, {cap_words(lead.cap)}: {bound}, needs more than {brief(lead.margin)}"
    if lead.certified:
        what += f"; {waits_words(mode)}"
    if lead.evidence is None:
        return Control(item.level, face, since, gain, what, f"{count(lead.units)} episodes")
    evidence = f"{percent(max(lead.evidence.share, 0.0), DOWN)} of what certifies it, after {count(lead.units)} episodes"
    return Control(item.level, face, since, gain, what, evidence)


def _legacy_since(past: Sequence[Turn]) -> str:
    """Return since when the legacy has a level."""
    ended = [turn for turn in past if turn.until is not None]
    if not ended:
        return "from the start"
    spans = ", ".join(f"{count(turn.since)} to {count(turn.until)}" for turn in ended if turn.until is not None)
    return f"again since episode {count((ended[-1].until or 0) + 1)} (the agent had it from {spans})"


def _reward(value: float | None) -> str:
    return UNKNOWN if value is None else brief(value)


def _every(names: Sequence[str]) -> str:
    return " and ".join(f"\u2018{name}\u2019" for name in names)


def _plain(value: Any) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{name or 'all'} = {_plain(item)}" for name, item in value.items()) or "none"
    if isinstance(value, list | tuple):
        return ", ".join("no cap" if item is None else _plain(item) for item in value) or "all"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return "none" if value is None else f"{value:g}" if isinstance(value, float) else str(value)
