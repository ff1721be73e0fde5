"""Gains: one row for each candidate and scope, one for each subgroup, and how the certified gain grew with the evidence."""

from __future__ import annotations

from dataclasses import dataclass

from markupsafe import Markup

from aegis.certificate import CERTIFIED, FORESEEABLE, MANY_UNITS, NOT_YET, THIN_UNITS
from aegis.report.charts.gain_charts import GainFigures, gain_bar, path_chart, shared_axis
from aegis.report.document import Document, Plain, Row, name_or_none
from aegis.report.numbers import DOWN, UP, format_brief, format_count, format_risk
from aegis.report.verdict_icons import Face, verdict_face

NONE_CERTIFIED = "none certified"


@dataclass(frozen=True, slots=True)
class GuardLine:
    """A guard in words."""

    face: Face
    column: str
    text: str


def scope_rows(document: Document) -> tuple[Row, ...]:
    """Return all rows, the main one first."""
    gains = [known_gain(document, level) for level in document.levels]
    axis = shared_axis(gains)
    rows = []
    for place, (level, gain) in enumerate(zip(document.levels, gains, strict=True)):
        title = f"Gain at {document.title(level)}"
        rows.append(_row(document, level, gain, gain_bar(f"gain-{place}", title, gain, axis, document.amounts)))
    return tuple(rows)


def known_gain(document: Document, item: Plain) -> GainFigures:
    """Return what may be shown of the gain of a result or subgroup: no bound if it is refused."""
    lower = None if document.is_refused(item) else item.get("gain_lower")
    return GainFigures(
        lower=lower, estimate=item.get("estimate"), error=item.get("estimate_error"), margin=item.get("margin") or 0.0
    )


def gain_text(document: Document, gain: GainFigures) -> str:
    """Return a bound in words."""
    return NONE_CERTIFIED if gain.lower is None else f"at least {document.amounts.show(gain.lower, DOWN, sign=True)}"


def estimate_text(document: Document, gain: GainFigures) -> str:
    """Return an estimate with its standard error; empty if there is none."""
    if gain.estimate is None:
        return ""
    error = "" if gain.error is None else f" \u00b1 {document.amounts.show(gain.error)}"
    return document.amounts.show(gain.estimate, sign=True) + error


def _row(document: Document, level: Plain, gain: GainFigures, bar: Markup) -> Row:
    return {
        "scope": document.scope(level),
        "candidate": level["candidate"],
        "comparator": _comparator(level),
        "main": level is document.main,
        "face": verdict_face(level["verdict"]),
        "reason": level["reason"],
        "gain": gain_text(document, gain),
        "gain_exact": "" if gain.lower is None else f"exactly {gain.lower!r}",
        "estimate": estimate_text(document, gain),
        "bar": bar,
        "value": _value(document, level),
        "estimates": _values(document, level),
        "further": _further(document, level),
        "guards": tuple(guard_line(document, level, guard) for guard in level["guards"]),
    }


def _comparator(level: Plain) -> str:
    """Return who the candidate is compared with, and how the other levels act; empty where nothing is compared."""
    words = [str(level.get(name) or "") for name in ("comparator", "others")]
    return ", ".join(word for word in words if word)


def _value(document: Document, level: Plain) -> str:
    """Return the certified value: the largest cost where small is good, else the smallest earning."""
    lower = level["value_lower"]
    if lower is None or document.is_refused(level):
        return NONE_CERTIFIED
    return (
        f"at most {document.amounts.show(lower, UP)}" if document.minimise else f"at least {document.amounts.show(lower, DOWN)}"
    )


def _values(document: Document, level: Plain) -> str:
    """Return what candidate, incumbent and log are estimated to earn; empty if none is."""
    both = (
        ("candidate", level["value_estimate"]),
        ("incumbent", level.get("incumbent_value")),
        ("log", level["legacy_value"]),
    )
    most = "" if not level.get("unreached") else "at least " if document.minimise else "at most "
    return ", ".join(
        f"{who} {most if who == 'incumbent' else ''}{document.amounts.show(value)}" for who, value in both if value is not None
    )


def _further(document: Document, level: Plain) -> str:
    if level["verdict"] == CERTIFIED:
        return "none"
    if level["verdict"] != NOT_YET:
        return "first repair what refuses"
    further = level["further_units"]
    if further is None:
        return further_words(level)
    return f"{forecast_words(further)} {document.unit_word.removesuffix('s') if further == 1 else document.unit_word}"


def forecast_words(further: int) -> str:
    """Return a forecast of how many further units it takes; a number beyond all use is not written out."""
    return f"more than {MANY_UNITS // 10**6} million" if further > MANY_UNITS else f"about {format_count(further)}"


def further_words(level: Plain) -> str:
    """Return why it is not said how many further units it would take."""
    effective = (level.get("weights") or {}).get("effective_units")
    thin = effective is not None and effective < THIN_UNITS and level["units"] >= FORESEEABLE
    return "not to be foreseen: hardly any decisions are like the candidate's" if thin else "more of the same would not do"


def guard_line(document: Document, level: Plain, guard: Plain) -> GuardLine:
    """Return a guard of a result in words; a worsening is rounded up."""
    change, allowed = guard["change_lower"], f"allowed: worse by {format_brief(guard['max_worsening'])}"
    face = verdict_face("refused" if document.is_refused(level) else guard["verdict"])
    if document.is_refused(level):
        text = "is not certified"
    elif change is None:
        text = f"has no bound yet; {allowed}"
    elif change >= 0:
        text = f"gets better by at least {format_brief(change, DOWN)}; {allowed}"
    else:
        text = f"gets worse by at most {format_brief(-change, UP)}; {allowed}"
    return GuardLine(face, guard["column"], text)


def subgroup_rows(document: Document) -> tuple[Row, ...]:
    """Return all subgroups, those of the main scope first; worse: the estimate says that the candidate loses there."""
    items = sorted(document.diagnostics("subgroups"), key=lambda item: not document.is_main(item))
    gains = [known_gain(document, item) for item in items]
    axis = shared_axis(gains)
    rows = []
    for place, (item, gain) in enumerate(zip(items, gains, strict=True)):
        where = f"{name_or_none(item.get('variable'))}: {name_or_none(item.get('label'))}"
        delta = item.get("delta")
        rows.append(
            {
                "scope": document.title(item),
                "where": where,
                "units": format_count(item.get("units")),
                "face": verdict_face("refused" if document.is_refused(item) else item.get("verdict")),
                "gain": gain_text(document, gain),
                "estimate": estimate_text(document, gain),
                "risk": "" if delta is None else format_risk(delta),
                "worse": gain.estimate is not None and gain.estimate < 0,
                "bar": gain_bar(f"subgroup-{place}", f"Gain at {document.title(item)}, {where}", gain, axis, document.amounts),
            }
        )
    return tuple(rows)


def path_figures(document: Document) -> tuple[Row, ...]:
    """Return a figure for each result that has a path and is not refused, the main one first."""
    shown = [level for level in document.levels if not document.is_refused(level) and _stations(level)]
    return tuple(_path_figure(document, place, level) for place, level in enumerate(shown))


def _path_figure(document: Document, place: int, level: Plain) -> Row:
    name = document.title(level)
    drawn = path_chart(
        f"path-{place}",
        f"Certified gain at {name} as evidence came in",
        _stations(level),
        level["estimate"],
        level["margin"] or 0.0,
        document.unit_word,
        document.amounts,
    )
    left_out = "" if drawn.floor is None else f"Early bounds below {document.amounts.show(drawn.floor)} are not drawn."
    return {
        "title": name,
        "face": verdict_face(level["verdict"]),
        "picture": drawn.picture,
        "left_out": left_out,
        "main": level is document.main,
    }


def _stations(level: Plain) -> list[tuple[int, float]]:
    """Return units and bounds in order, up to the bound that is certified in the end; empty if no path was recorded."""
    path = [(station["units"], station["gain_lower"]) for station in level["path"]]
    stations = [(units, bound) for units, bound in path if units > 0 and bound is not None]
    if stations and level["gain_lower"] is not None and level["units"] > stations[-1][0]:
        stations.append((level["units"], level["gain_lower"]))
    return stations
