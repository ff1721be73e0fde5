"""Charts of a gain: on one line with estimate and margin, and as the certified bound grew with the evidence."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from markupsafe import Markup

from aegis.report.numbers import DOWN, Amounts, format_count
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


@dataclass(frozen=True, slots=True)
class PathPicture:
    """The picture, and the floor below which early bounds were left out of it (None: all are drawn)."""

    picture: Markup
    floor: float | None


def path_chart(
    name: str,
    title: str,
    stations: Sequence[tuple[int, float]],
    estimate: float | None,
    margin: float,
    words: str,
    amounts: Amounts,
) -> PathPicture:
    """Return the path of the bound through stations (units, bound); words: what the units are called."""
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
    return PathPicture(picture(name, (PATH_WIDTH, PATH_HEIGHT), title, text, *shapes), up.low if below else None)


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
