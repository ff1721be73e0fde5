"""Gains: one row for each candidate and scope, one for each subgroup, and how the certified gain grew with the evidence.

A gain is drawn on one line with estimate and margin, and as the certified bound grew.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from markupsafe import Markup

from aegis.certificate import CERTIFIED, FORESEEABLE, MANY_UNITS, NOT_YET, THIN_UNITS
from aegis.report.document import Document, Plain, Row, name_or_none, verdict_face
from aegis.report.numbers import DOWN, UP, Amounts, format_brief, format_count, format_risk
from aegis.report.svg import Axis, diamond, frame, label, line, picture, polyline, rectangle, tag

BAR_WIDTH, BAR_HEIGHT = 240.0, 40.0
BAR_TOP, BAR_BOTTOM, BAR_MIDDLE = 5.0, 25.0, 15.0


@dataclass(frozen=True, slots=True)
class GainFigures:
    """The known numbers of a gain; of a refused result it has no bound."""

    lower: float | None
    estimate: float | None
    error: float | None = None
    margin: float = 0.0


def shared_axis(gains: Iterable[GainFigures]) -> Axis:
    """Return one axis for several bars, 0 among it, so that their lengths compare."""
    values = [0.0]
    for gain in gains:
        values += [value for value in (gain.lower, gain.estimate, gain.margin) if value is not None]
        if gain.estimate is not None and gain.error is not None:
            values += [gain.estimate - gain.error, gain.estimate + gain.error]
    return Axis.around(values, 4.0, BAR_WIDTH - 4.0, 0.04)


def gain_bar(name: str, title: str, gain: GainFigures, axis: Axis, amounts: Amounts) -> Markup:
    """Return the bar; solid above 0, an outline below it; nothing if nothing is known."""
    if gain.lower is None and gain.estimate is None:
        return Markup("")
    zero = axis(0.0)
    shapes: list[Markup] = [line(zero, 2, zero, BAR_BOTTOM + 3, "zero"), label(_inside(zero), 37, "0")]
    words = []
    if gain.lower is not None:
        style = "bound" if gain.lower > 0 else "bound-below"
        shapes.append(rectangle(zero, axis(gain.lower), BAR_TOP, BAR_BOTTOM, style))
        words.append(f"certified: at least {amounts.show(gain.lower, DOWN, sign=True)}")
    if gain.margin:
        place = axis(gain.margin)
        shapes.append(line(place, 1, place, BAR_BOTTOM + 3, "margin"))
        if abs(place - zero) > 34:
            shapes.append(label(_inside(place, 20), 37, "margin"))
        words.append(f"margin: {amounts.show(gain.margin)}")
    if gain.estimate is not None:
        place = axis(gain.estimate)
        if gain.error is not None:
            ends = axis(gain.estimate - gain.error), axis(gain.estimate + gain.error)
            shapes.append(line(ends[0], BAR_MIDDLE, ends[1], BAR_MIDDLE, "whisker"))
        shapes.append(diamond(place, BAR_MIDDLE, 6, "estimate-mark"))
        words.append(f"estimate, not a certificate: {amounts.show(gain.estimate, sign=True)}")
    return picture(name, (BAR_WIDTH, BAR_HEIGHT), title, "; ".join(words), *shapes, style="chart bar")


def _inside(place: float, half: float = 4.0) -> float:
    """Return a place for the middle of a text that does not leave the picture."""
    return min(max(place, half), BAR_WIDTH - half)


PATH_WIDTH, PATH_HEIGHT = 340.0, 200.0
PATH_LEFT, PATH_RIGHT, PATH_TOP, PATH_BOTTOM = 50.0, 332.0, 10.0, 162.0
PATH_DEPTH = 2.5  # how far below 0 the early bound is drawn, as a multiple of what lies above


def path_chart(
    name: str, title: str, stations: Sequence[tuple[int, float]], gain: GainFigures, words: str, amounts: Amounts
) -> tuple[Markup, float | None]:
    """Return the path of the bound through stations (units, bound), and the floor below which early bounds are left out.

    The floor is None if all are drawn. words: what the units are called.
    """
    estimate, margin = gain.estimate, gain.margin
    floor = _floor([bound for _, bound in stations], estimate, margin)
    across = Axis(0.0, float(max(units for units, _ in stations)), PATH_LEFT, PATH_RIGHT)
    heights = [0.0, margin, *([] if estimate is None else [estimate])]
    up = Axis.around([*heights, *[max(bound, floor) for _, bound in stations]], PATH_BOTTOM, PATH_TOP)
    points = [(across(float(units)), up(bound)) for units, bound in stations if bound >= up.low]
    below = len(points) < len(stations)
    shapes = frame(across, up, (6, 6), words, PATH_HEIGHT - 6)
    if margin:
        shapes.append(line(PATH_LEFT, up(margin), PATH_RIGHT, up(margin), "margin"))
    if estimate is not None:
        shapes.append(line(PATH_LEFT, up(estimate), PATH_RIGHT, up(estimate), "estimate-line"))
    last = points[-1]
    # What lies below the floor is not drawn; the line then enters from below, and the text under the chart says so.
    entry = [(points[0][0], PATH_BOTTOM)] if below else []
    shapes += [polyline([*entry, *_steps(points)], "bound-line"), tag("circle", cx=last[0], cy=last[1], r=4, class_="bound-dot")]
    bound = amounts.show(stations[-1][1], DOWN, sign=True)
    text = f"After {format_count(stations[-1][0])} {words} the gain is certified to be at least {bound}."
    if estimate is not None:
        text += f" The estimate, not a certificate, is {amounts.show(estimate, sign=True)}."
    return picture(name, (PATH_WIDTH, PATH_HEIGHT), title, text, *shapes), up.low if below else None


def _floor(bounds: Sequence[float], estimate: float | None, margin: float) -> float:
    """Return the lowest height worth drawing: early bounds can be a hundred times below what matters."""
    above = max(abs(bounds[-1]), abs(estimate or 0.0), abs(margin))
    return max(min(bounds), -PATH_DEPTH * above) if above else min(bounds)


def _steps(points: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    """Return the points with a corner before each: a bound holds until the next one is computed."""
    corners = [points[0]]
    for before, after in itertools.pairwise(points):
        corners += [(after[0], before[1]), after]
    return corners


NONE_CERTIFIED = "none certified"


def scope_rows(document: Document) -> tuple[Row, ...]:
    """Return all rows, the main one first."""
    gains = [known_gain(document, level) for level in document.levels]
    bars = _bars(document, "gain", gains, [document.title(level) for level in document.levels])
    return tuple(_row(document, *parts) for parts in zip(document.levels, gains, bars, strict=True))


def _bars(document: Document, name: str, gains: Sequence[GainFigures], places: Sequence[str]) -> list[Markup]:
    axis = shared_axis(gains)
    return [
        gain_bar(f"{name}-{number}", f"Gain at {place}", gain, axis, document.amounts)
        for number, (gain, place) in enumerate(zip(gains, places, strict=True))
    ]


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
        "comparator": ", ".join(str(level[name]) for name in ("comparator", "others") if level.get(name)),
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


def guard_line(document: Document, level: Plain, guard: Plain) -> Row:
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
    return {"face": face, "column": guard["column"], "text": text}


def subgroup_rows(document: Document) -> tuple[Row, ...]:
    """Return all subgroups, those of the main scope first; worse: the estimate says that the candidate loses there."""
    items = sorted(document.diagnostics("subgroups"), key=lambda item: not document.is_main(item))
    gains = [known_gain(document, item) for item in items]
    where = [f"{name_or_none(item.get('variable'))}: {name_or_none(item.get('label'))}" for item in items]
    titles = [f"{document.title(item)}, {place}" for item, place in zip(items, where, strict=True)]
    bars = _bars(document, "subgroup", gains, titles)
    return tuple(
        {
            "scope": document.title(item),
            "where": place,
            "units": format_count(item.get("units")),
            "face": verdict_face("refused" if document.is_refused(item) else item.get("verdict")),
            "gain": gain_text(document, gain),
            "estimate": estimate_text(document, gain),
            "risk": "" if item.get("delta") is None else format_risk(item["delta"]),
            "worse": gain.estimate is not None and gain.estimate < 0,
            "bar": bar,
        }
        for item, gain, place, bar in zip(items, gains, where, bars, strict=True)
    )


def path_figures(document: Document) -> tuple[Row, ...]:
    """Return a figure for each result that has a path and is not refused, the main one first."""
    shown = [level for level in document.levels if not document.is_refused(level) and _stations(level)]
    figures = []
    for place, level in enumerate(shown):
        title = f"Certified gain at {document.title(level)} as evidence came in"
        gain, stations = known_gain(document, level), _stations(level)
        drawn, floor = path_chart(f"path-{place}", title, stations, gain, document.unit_word, document.amounts)
        figures.append(
            {
                "title": document.title(level),
                "face": verdict_face(level["verdict"]),
                "picture": drawn,
                "left_out": "" if floor is None else f"Early bounds below {document.amounts.show(floor)} are not drawn.",
                "main": level is document.main,
            }
        )
    return tuple(figures)


def _stations(level: Plain) -> list[tuple[int, float]]:
    """Return units and bounds in order, up to the bound that is certified in the end; empty if no path was recorded."""
    path = [(station["units"], station["gain_lower"]) for station in level["path"]]
    stations = [(units, bound) for units, bound in path if units > 0 and bound is not None]
    if stations and level["gain_lower"] is not None and level["units"] > stations[-1][0]:
        stations.append((level["units"], level["gain_lower"]))
    return stations
