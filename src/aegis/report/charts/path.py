"""The certified gain as evidence came in: the bound as steps, the estimate and the margin as level lines."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup

from aegis.report.numbers import DOWN, Amounts, brief, count
from aegis.report.svg import Axis, label, line, picture, polyline, tag

WIDTH, HEIGHT = 340.0, 200.0
LEFT, RIGHT, TOP, BOTTOM = 50.0, 332.0, 10.0, 162.0
DEPTH = 2.5  # how far below 0 the early bound is drawn, as a multiple of what lies above


@dataclass(frozen=True, slots=True)
class Drawn:
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
) -> Drawn:
    """Return the path of the bound through stations (units, bound); words: what the units are called."""
    floor = _floor([bound for _, bound in stations], estimate, margin)
    across = Axis(0.0, float(max(units for units, _ in stations)), LEFT, RIGHT)
    heights = [0.0, margin, *([] if estimate is None else [estimate])]
    up = Axis.around([*heights, *[max(bound, floor) for _, bound in stations]], BOTTOM, TOP)
    points = [(across(float(units)), up(bound)) for units, bound in stations if bound >= up.low]
    below = len(points) < len(stations)
    shapes = [*_frame(across, up, words)]
    if margin:
        shapes.append(line(LEFT, up(margin), RIGHT, up(margin), "margin"))
    if estimate is not None:
        shapes.append(line(LEFT, up(estimate), RIGHT, up(estimate), "estimate-line"))
    last = points[-1]
    # What lies below the floor is not drawn; the line then enters from below, and the text under the chart says so.
    entry = [(points[0][0], BOTTOM)] if below else []
    shapes += [polyline([*entry, *_steps(points)], "bound-line"), tag("circle", cx=last[0], cy=last[1], r=4, class_="bound-dot")]
    bound = amounts.show(stations[-1][1], DOWN, sign=True)
    told = f"After {count(stations[-1][0])} {words} the gain is certified to be at least {bound}."
    if estimate is not None:
        told += f" The estimate, not a certificate, is {amounts.show(estimate, sign=True)}."
    return Drawn(picture(name, (WIDTH, HEIGHT), title, told, *shapes), up.low if below else None)


def _floor(bounds: Sequence[float], estimate: float | None, margin: float) -> float:
    """Return the lowest height worth drawing: early bounds can be a hundred times below what matters."""
    above = max(abs(bounds[-1]), abs(estimate or 0.0), abs(margin))
    return max(min(bounds), -DEPTH * above) if above else min(bounds)


def _steps(points: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    """Return the points with a corner before each: a bound holds until the next one is computed."""
    found = [points[0]]
    for before, after in itertools.pairwise(points):
        found += [(after[0], before[1]), after]
    return found


def _frame(across: Axis, up: Axis, words: str) -> list[Markup]:
    shapes = []
    for value in up.ticks(6):
        shapes += [line(LEFT, up(value), RIGHT, up(value), "grid"), label(LEFT - 6, up(value) + 4, brief(value), anchor="end")]
    shapes.append(line(LEFT, up(0.0), RIGHT, up(0.0), "zero"))
    for value in across.ticks(6):
        anchor = "end" if across(value) > RIGHT - 12 else "middle"
        shapes += [line(across(value), BOTTOM, across(value), BOTTOM + 4, "grid")]
        shapes.append(label(across(value), BOTTOM + 16, count(round(value)), anchor=anchor))
    return [*shapes, label((LEFT + RIGHT) / 2, HEIGHT - 6, words, "tick axis-name")]
