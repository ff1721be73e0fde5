"""The top of the page: the verdict, the five numbers, the reasons, and what to do next."""

from __future__ import annotations

from dataclasses import dataclass

from aegis.certificate import CERTIFIED, NOT_YET, REFUSED
from aegis.ope import AGAINST_AVERAGE, AGAINST_LOG
from aegis.report.document import Document, Plain, Row
from aegis.report.numbers import DOWN, UNKNOWN, format_confidence, format_count, format_percent, format_risk, one_in
from aegis.report.sections.gains import forecast_words, further_words, guard_line
from aegis.report.verdict_icons import ESTIMATE_NOTE, verdict_face


@dataclass(frozen=True, slots=True)
class Tile:
    """One of the five numbers: what it is, the number, its unit, what it means, and its exact value for a tooltip.

    limit: `at least` or `at most`, if the number is one end of what is certain.
    """

    label: str
    value: str
    unit: str
    caption: str
    limit: str = ""
    exact: str = ""
    style: str = ""


@dataclass(frozen=True, slots=True)
class Reason:
    """Why the verdict is what it is, and what would repair it, if something has to be."""

    text: str
    fix: str = ""


def summary_section(document: Document) -> Row:
    """Return the top of the page."""
    verdict = document.verdict
    return {
        "face": verdict_face(verdict["verdict"]),
        "action": _action(document),
        "sentence": verdict["sentence"],
        "tiles": _tiles(document),
        "reasons": _reasons(document),
        "next_step": verdict["next_step"],
    }


def _action(document: Document) -> str:
    kind = document.verdict["verdict"]
    if kind == CERTIFIED:
        title, against = document.title(document.verdict), (document.main or {}).get("against")
        if against == AGAINST_AVERAGE:
            return f"Better than the average of the log: {title}. State the incumbent before you hand over"
        if against == AGAINST_LOG:
            return f"Better than the policy that wrote the log: {title}. Hand over if that policy acts otherwise"
        return f"Yes: hand over {title}"
    if kind == NOT_YET:
        return "Keep the incumbent for now: the evidence does not suffice yet"
    return "Do not hand over: nothing can be certified from this log as it is"


def _tiles(document: Document) -> tuple[Tile, ...]:
    verdict, main = document.verdict, document.main or {}
    stated = main.get("incumbent_value")
    value = main.get("legacy_value") if stated is None else stated
    doing = "costs" if document.minimise else "earns"
    who = "the policy that wrote the log" if stated is None else "the incumbent"
    return (
        _gain(document, main),
        _estimate(document, main),
        _evidence(document, main),
        Tile(label="Risk", value=format_risk(verdict["delta"]), unit="", caption=_risk(document), limit="at most"),
        Tile(
            label="Value of the log" if stated is None else "Value of the incumbent",
            value=document.amounts.show(value),
            unit=document.measure if value is not None else "",
            caption=f"what {who} {doing} {document.per}; {ESTIMATE_NOTE}{_unreached(document, main)}",
            limit=_limit(document, main),
            exact=_exact(value),
        ),
    )


def _limit(document: Document, main: Plain) -> str:
    """Return at which end the estimate of an incumbent lies that acts where the log never does."""
    return "" if not main.get("unreached") else "at least" if document.minimise else "at most"


def _unreached(document: Document, main: Plain) -> str:
    share = main.get("unreached") or 0.0
    if not share:
        return ""
    best = "costs the least" if document.minimise else "earns the most"
    return f"; {format_percent(share)} of its probability lies where the log never acts, and counts as if it {best} there"


def _gain(document: Document, main: Plain) -> Tile:
    if document.refused:
        return Tile(
            label="Certified gain", value="none", unit="", caption="a refused certificate certifies no number", style="first"
        )
    lower = document.verdict["gain_lower"]
    if lower is None:
        return Tile(label="Certified gain", value="none", unit="", caption="no bound could be computed", style="first")
    margin = main.get("margin") or 0.0
    caption = f"{document.per}; holds with probability at least {format_confidence(document.verdict['delta'])}"
    if document.verdict["verdict"] != CERTIFIED:
        caption += f"; a handover needs more than {document.amounts.show(margin)}"
    elif margin:
        caption += f"; more than the margin of {document.amounts.show(margin)}"
    name = "Certified gain" if document.verdict["verdict"] == CERTIFIED else "Certified gain so far"
    shown = document.amounts.show(lower, DOWN, sign=True)
    return Tile(
        label=name, value=shown, unit=document.measure, caption=caption, limit="at least", exact=_exact(lower), style="first"
    )


def _estimate(document: Document, main: Plain) -> Tile:
    estimate, error = document.verdict["estimate"], main.get("estimate_error")
    if estimate is None:
        return Tile(label="Estimated gain", value=UNKNOWN, unit="", caption=ESTIMATE_NOTE)
    caption = ESTIMATE_NOTE + ("" if error is None else f"; give or take {document.amounts.show(error)} (standard error)")
    shown = document.amounts.show(estimate, sign=True)
    return Tile(label="Estimated gain", value=shown, unit=document.measure, caption=caption, exact=_exact(estimate))


def _evidence(document: Document, main: Plain) -> Tile:
    verdict = document.verdict
    caption = f"that count as evidence; {_unseen(document)}"
    if document.refused:
        caption = "read, but nothing is certified on them"
    elif verdict["verdict"] == NOT_YET:
        further = verdict["further_units"]
        unknown = further_words(main) if main else "more of the same would not do"
        needs = "is needed" if further == 1 else "are needed"
        caption = unknown if further is None else f"{forecast_words(further)} more {needs}"
    return Tile(label="Evidence", value=format_count(verdict["units"]), unit=document.unit_word, caption=caption)


def _unseen(document: Document) -> str:
    """Return why these units were not seen by the candidate: its record shows it, or it is assumed."""
    name = document.verdict["candidate"]
    learned = any(item.get("learned") for item in document.content["candidates"] if item.get("name") == name)
    if learned:
        return "the candidate was not learned from them, as its training record shows"
    return "the candidate is assumed not to have been made from them: no training record shows it"


def _risk(document: Document) -> str:
    if document.refused:
        return "as asked for; it applies to nothing here"
    return f"a bound is wrong in at most 1 of {format_count(one_in(document.verdict['delta']))} analyses like this one"


def _reasons(document: Document) -> tuple[Reason, ...]:
    """Return what refuses, with its repair; else the reason of the main result."""
    if document.refused:
        refusals = [
            Reason(str(item["message"]), str(item["fix"])) for item in document.content["findings"] if item["severity"] == REFUSED
        ]
        if refusals:
            return tuple(refusals)
    main = document.main
    if main is None or not main["reason"]:
        return ()
    text = main["reason"][:1].upper() + main["reason"][1:]
    if document.refused:
        return (Reason(text),)
    waiting = [guard_line(document, main, guard) for guard in main["guards"] if guard["verdict"] != CERTIFIED]
    return (
        Reason(text + _compared(document, main)),
        *[Reason(f"The guard \u2018{line.column}\u2019 {line.text}") for line in waiting],
    )


def _compared(document: Document, main: Plain) -> str:
    """Return the bound next to what a handover needs."""
    if main["gain_lower"] is None:
        return ""
    lower, needed = document.amounts.show(main["gain_lower"], DOWN, sign=True), document.amounts.show(main["margin"] or 0.0)
    return f": at least {lower} {document.measure}; a handover needs more than {needed}"


def _exact(value: float | None) -> str:
    return "" if value is None else f"exactly {value!r}"
