"""The page of a handover, section by section: one HTML file with its styles and pictures inside."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from aegis.files import write_text
from aegis.handover import NO_GATE, NOT_A_CERTIFICATE, Event, Flipped, Frozen, Handover, Turn, has_gate, summarise_run, turns
from aegis.ope import Measure, reward_measure
from aegis.report.certificate_page import Tile, page_environment
from aegis.report.charts.handover_charts import bound_figures, evidence_figures, flips_of, reward_figure
from aegis.report.document import ALERT, GLASS, TICK, Face, Row
from aegis.report.event_text import (
    describe_cap,
    describe_event,
    describe_freeze,
    describe_held_back,
    describe_need,
    describe_wait,
)
from aegis.report.gate_standing import LevelStanding, level_standings, look_trajectory, replay_trajectory
from aegis.report.numbers import DOWN, NEAREST, UNKNOWN, UP, format_brief, format_count, format_percent, format_risk

NO_PROMISE = "this gate may hand over to a worse agent"
UNTESTED = "nothing tests the agent against the legacy"
AVERAGE_NOTE = "an average over this run, not a certificate"
CERTIFIED_TITLE = "Certified gain of the leading challenge"
NOT_CERTIFIED_TITLE = "The published estimate of the gain, which is not a certificate,"


def handover_top(
    summary: Mapping[str, Any], standings: Sequence[LevelStanding], settings: Mapping[str, Any], certificate: bool
) -> Row:
    """Return the verdict, the five numbers and what to do next."""
    handed = [item.level for item in standings if item.since is not None]
    face, action = _verdict(summary, handed, len(standings), certificate)
    return {
        "face": face,
        "action": action,
        "sentence": summary["sentence"],
        "tiles": _tiles(summary, handed, len(standings), settings, certificate),
        "next_step": _next_step(summary, standings, settings, certificate),
    }


def level_controls(
    standings: Sequence[LevelStanding],
    measure: Measure,
    certificate: bool,
    past: Sequence[Turn] = (),
    mode: str = "live",
    gated: bool = True,
) -> tuple[Row, ...]:
    """Return who is in control of each level, outermost first, as people say it. past: turns of agents. mode: of the gate.

    gated: False where no gate decides, so that no number has put the agent in control.
    """
    rows = tuple(
        _control(item, measure, certificate, [turn for turn in past if turn.level == item.level], mode)
        for item in reversed(standings)
    )
    return rows if gated else tuple({**row, "since": "from the start", "gain": "-"} for row in rows)


def event_lines(events: Sequence[Event], measure: Measure, certificate: bool) -> tuple[Row, ...]:
    """Return the events that are no single episodes and no freezes; without a gate no flips either."""
    shown = events if has_gate(events) else [event for event in events if not isinstance(event, Flipped)]
    described = ((event, describe_event(event, measure, certificate)) for event in shown)
    return tuple(
        {"episode": format_count(getattr(event, "episode", None)), "kind": words[0], "text": words[1]}
        for event, words in described
        if words
    )


def freeze_rows(events: Sequence[Event], delta: float) -> tuple[Row, ...]:
    """Return every freeze with its share of the risk; spent risk is rounded up."""
    spent, rows = 0.0, []
    for event in events:
        if isinstance(event, Frozen):
            share = sum(item.spent for item in event.challenges)
            spent += share
            rows.append(
                {
                    "number": event.freeze,
                    "episode": format_count(event.episode),
                    "opened": describe_freeze(event) or "none",
                    "spends": format_brief(share, UP),
                    "spent": format_brief(spent, UP),
                    "meter": min(100, round(100 * spent / delta)),  # percent
                }
            )
    return tuple(rows)


def setting_entries(about: Mapping[str, Any], settings: Mapping[str, Any]) -> tuple[tuple[str, str], ...]:
    """Return what the run was asked to do, and every setting of its gate, as names and values."""
    lines = [(name, value) for name, value in about.items() if value not in (None, {}, ())]
    return tuple((name.replace("_", " "), _setting_text(value)) for name, value in [*lines, *settings.items()])


def _verdict(summary: Mapping[str, Any], handed: Sequence[str], levels: int, certificate: bool) -> tuple[Face, str]:
    if not summary.get("gated", True):
        return Face("Not a certificate", "refused", ALERT), NO_GATE.capitalize()
    if not certificate:
        return Face("Not a certificate", "refused", ALERT), "Do not rely on this: the published gate promises nothing"
    if summary["paused"]:
        return Face("Paused", "refused", ALERT), "The gate has stopped counting; the policies in control stay in control"
    if summary["audit"]["doubted"]:
        doubted = _quoted_names(summary["audit"]["doubted"])
        return Face("In doubt", "refused", ALERT), f"Nothing is promised about {doubted}: the audit refused what it rests on"
    if handed:
        rest, word = ("", "Handed over") if len(handed) == levels else ("; the legacy keeps the rest", "Handed over in part")
        return Face(word, "certified", TICK), f"The agent controls {_quoted_names(handed)}{rest}"
    if summary["waiting"]:
        return Face("Waiting", "not-yet", GLASS), "A gain is certified; the legacy stays in control until an operator decides"
    if any(level["held"] for level in summary["levels"]):
        return Face("Given back", "not-yet", GLASS), "The legacy controls every level again"
    return Face("Not yet", "not-yet", GLASS), "The legacy controls every level: no gain is certified"


def _tiles(
    summary: Mapping[str, Any], handed: Sequence[str], levels: int, settings: Mapping[str, Any], certificate: bool
) -> tuple[Tile, ...]:
    rewards, unit = summary["rewards"], summary["unit"]
    gated = summary.get("gated", True)
    changed = rewards["before_first_flip"] is not None or not gated
    before = rewards["before_first_flip"] if changed else rewards["all"]
    after = rewards["now"]
    given_back = any(level["reverts"] for level in summary["levels"])
    bounded = certificate and not summary["audit"]["doubted"]
    rounded = format_risk(settings["delta"]) if bounded else "not bounded"
    gates = summary["gates"]
    legacy = "the legacy with exploration" if settings.get("explore") else "the legacy alone"
    promise = "that anything worse than it replaces is ever put in control" if certificate else NO_PROMISE if gated else UNTESTED
    if certificate and not bounded:
        promise = "the audit refused what was certified from"
    elif certificate and gates is not None and gates["number"] > 1:
        promise += f" by this gate; {format_risk(gates['risk'])} by all {gates['number']} gates of this plant"
    return (
        Tile(
            label="Handed over" if gated else "Under the agent",
            value=f"{len(handed)} of {levels}",
            unit="levels",
            caption=", ".join(handed) or "none",
            style="first",
        ),
        Tile(
            label="Reward before",
            value=_reward(before),
            unit=unit if before is not None else "",
            caption=f"under {legacy}; {AVERAGE_NOTE}" if gated else "the legacy alone has had no episode",
        ),
        Tile(
            label="Reward now",
            value=_reward(after),
            unit=unit if after is not None else "",
            caption=_reward_caption(gated, bool(handed) or given_back),
        ),
        Tile(label="Risk", value=rounded, unit="", caption=promise, limit="at most" if bounded else ""),
        Tile(
            label="Evidence",
            value=format_count(summary["episodes"]),
            unit="episodes",
            caption=f"alarms of the monitor: {format_count(summary['alarms'])}",
        ),
    )


def _reward_caption(gated: bool, changed: bool) -> str:
    if not gated:
        return f"under the agent from the start; {AVERAGE_NOTE}"
    return f"since control changed last; {AVERAGE_NOTE}" if changed else "nothing was handed over"


def _next_step(
    summary: Mapping[str, Any], standings: Sequence[LevelStanding], settings: Mapping[str, Any], certificate: bool
) -> str:
    if not certificate:
        return "Run the same plant with the gate \u2018challenger\u2019, whose risk is bounded, before anything changes hands."
    refused = summary["audit"]["refused"]
    if summary["paused"] and refused and refused[-1]["why"] == summary["paused"]:
        held = f" Give {_quoted_names(summary['audit']['doubted'])} back meanwhile." if summary["audit"]["doubted"] else ""
        return f"To mend what the audit found: {refused[-1]['fix']}. Then an operator resumes the gate and says why.{held}"
    if summary["paused"]:
        return f"Mend what stopped the gate, then run it again: {summary['paused']}"
    if summary["audit"]["doubted"]:
        return f"Give {_quoted_names(summary['audit']['doubted'])} back to the legacy; the gate tests it anew from then on."
    if summary["alarms"]:
        return "The monitor has raised an alarm: find out what changed on the plant before control stays where it is."
    if summary["untested"]:
        levels, others = list(summary["untested"]), sorted({name for names in summary["untested"].values() for name in names})
        return (
            f"The gain at {_quoted_names(levels)} was certified beside the agent at {_quoted_names(others)}, which was given "
            f"back: nothing was tested about what acts now. Give {_quoted_names(levels)} back too, or compare the reward with "
            "that of the legacy."
        )
    waiting = sorted(item["level"] for item in summary["waiting"])
    if waiting and summary["mode"] == "approve":
        return f"Approve the certified flip of {_quoted_names(waiting)}, or leave the legacy in control."
    if waiting:
        return f"In shadow nothing changes hands. To hand over {_quoted_names(waiting)}, run the gate live or with approval."
    of_legacy = [item for item in standings if item.since is None]
    if not of_legacy:
        return "Nothing has to be done: the monitor watches the reward" + (
            ", and better policies are still put to the test." if settings.get("upgrades") else "."
        )
    return " ".join(_missing_evidence(item) for item in of_legacy)


def _missing_evidence(item: LevelStanding) -> str:
    lead = item.leading
    if lead is None or lead.further is None:
        missing = "more episodes, more exploration or a better host"
        return f"At \u2018{item.level}\u2019 no evidence of a gain grows yet: it needs {missing}."
    return (
        f"At \u2018{item.level}\u2019 about {format_count(max(lead.further, 1))} more episodes like these would do (an "
        "estimate, not a certificate): run it again with more of them."
    )


def _control(item: LevelStanding, measure: Measure, certificate: bool, past: Sequence[Turn], mode: str) -> Row:
    unit = f" {measure.unit}" if measure.unit else ""
    if item.since is None:
        face, since, gain = Face("Legacy", "neutral", GLASS), _legacy_since(past), "-"
    else:
        face = Face("Agent", "certified", TICK) if certificate else Face("Agent", "refused", ALERT)
        since, word = f"episode {format_count(item.since)}", "at least" if certificate else f"{NOT_A_CERTIFICATE}:"
        gain = f"{word} {format_brief(item.gain_lower, DOWN if certificate else NEAREST, sign=True)}{unit}"
    lead, challenge, evidence = item.leading, "none open", "-"
    if lead is not None:
        bound = f"{'at least' if certificate else 'estimate'} {format_brief(lead.bound, DOWN, sign=True)}{unit}"
        needs = describe_need(format_brief(lead.margin), certificate)
        challenge = f"{lead.kind}, {describe_cap(lead.cap)}: {bound}, {needs}"
        challenge += f"; {describe_wait(mode)}" if lead.certified else ""
        evidence = f"{format_count(lead.units)} episodes"
        if lead.evidence is not None:
            share = format_percent(max(lead.evidence.share, 0.0), DOWN)
            evidence = f"{share} of what certifies it, after {evidence}"
    return {"level": item.level, "face": face, "since": since, "gain": gain, "challenge": challenge, "evidence": evidence}


def _legacy_since(past: Sequence[Turn]) -> str:
    """Return since when the legacy has a level."""
    ended = [turn for turn in past if turn.until is not None]
    if not ended:
        return "from the start"
    spans = ", ".join(f"{format_count(turn.since)} to {format_count(turn.until)}" for turn in ended if turn.until is not None)
    return f"again since episode {format_count((ended[-1].until or 0) + 1)} (the agent had it from {spans})"


def _reward(value: float | None) -> str:
    return UNKNOWN if value is None else format_brief(value)


def _quoted_names(names: Sequence[str]) -> str:
    return " and ".join(f"\u2018{name}\u2019" for name in names)


def _setting_text(value: Any) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{name or 'all'} = {_setting_text(item)}" for name, item in value.items()) or "none"
    if isinstance(value, list | tuple):
        return ", ".join("no cap" if item is None else _setting_text(item) for item in value) or "all"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return "none" if value is None else f"{value:g}" if isinstance(value, float) else str(value)


def write_handover_report(
    handover: Handover,
    path: str | Path,
    about: Mapping[str, Any] | None = None,
    truth: Mapping[str, float] | None = None,
    certificate: bool = True,
) -> Path:
    """Write the page of a run and return where it is; OutputError if the place cannot be written.

    about: plain data about plant, legacy and host. truth: what `legacy`, `agent` and `oracle` really earn, where a simulated
    plant knows it. certificate: whether what the gate says is one; a page of one that is not says so first.
    """
    target = Path(path)
    write_text(target, render_handover(handover, about, truth, certificate))
    return target


def render_handover(
    handover: Handover,
    about: Mapping[str, Any] | None = None,
    truth: Mapping[str, float] | None = None,
    certificate: bool = True,
) -> str:
    """Return the page of a run; the same text for the same run."""
    measure, state, events = reward_measure(handover.problem), handover.state, handover.events
    looks = getattr(handover, "looks", None)
    standings, settings = level_standings(state, measure, looks or ()), handover.settings.plain()
    path = replay_trajectory(events, measure) if looks is None else look_trajectory(looks, state.levels, measure)
    gated = has_gate(events)
    flips = flips_of(events) if gated else []
    title, number = (CERTIFIED_TITLE, "bound") if certificate else (NOT_CERTIFIED_TITLE, "estimate")
    rewards = np.array([measure.value(value) for value in handover.rewards], dtype=np.float64)
    content = summarise_run(handover)
    return (
        page_environment()
        .get_template("handover.html")
        .render(
            top=handover_top(content, standings, settings, certificate),
            controls=level_controls(standings, measure, certificate, turns(events), state.settings.mode, gated),
            held_back=describe_held_back(content),
            reward=reward_figure(rewards, flips, truth, measure.unit or f"({measure.column})"),
            bounds=bound_figures(path, flips, measure, state.episode, title, number),
            evidence=evidence_figures(path, flips, state.episode),
            events=event_lines(events, measure, certificate),
            ledger=freeze_rows(events, settings["delta"]),
            entries=setting_entries({**(about or {}), "seed": handover.seed, "episodes": state.episode}, settings),
            truth=truth,
            settings=settings,
            certificate=certificate,
            gated=gated,
            comparators="; ".join(f"{item['level']}: {item['comparator']}" for item in content["levels"]),
            risk=format_risk(settings["delta"]),
            count=format_count,
            unit=measure.unit,
        )
    )
