"""Something over episodes: lines, level rules, and the episodes at which a level changed hands."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup

from aegis.report.numbers import brief, count
from aegis.report.svg import Axis, label, line, picture, polyline, tag

WIDTH, HEIGHT = 640.0, 264.0
LEFT, RIGHT, TOP, BOTTOM = 52.0, 632.0, 40.0, 220.0
Points = Sequence[tuple[float, float]]


@dataclass(frozen=True, slots=True)
class Curve:
    """A line through points (episode, value); dots: a mark at each point instead of a line."""

    points: Points
    style: str
    dots: bool = False


@dataclass(frozen=True, slots=True)
class Rule:
    """A level line."""

    value: float
    style: str


@dataclass(frozen=True, slots=True)
class Mark:
    """An episode at which something happened, with a word above it."""

    episode: int
    word: str


def trajectory_chart(
    name: str,
    title: str,
    told: str,
    episodes: int,
    curves: Sequence[Curve],
    rules: Sequence[Rule] = (),
    marks: Sequence[Mark] = (),
    floor: float | None = None,
) -> tuple[Markup, float | None]:
    """Return the picture, and the value below which points were left out of it (None: all are drawn).

    told: the picture in words. floor: the lowest value worth drawing; lines enter from below.
    """
    values = [value for curve in curves for _, value in curve.points] + [rule.value for rule in rules]
    lowest = min(values, default=0.0) if floor is None else max(floor, min(values, default=0.0))
    across = Axis(0.0, float(max(episodes, 1)), LEFT, RIGHT)
    up = Axis.around([max(value, lowest) for value in values] or [0.0], BOTTOM, TOP)
    shapes = _frame(across, up)
    shapes += [line(LEFT, up(rule.value), RIGHT, up(rule.value), rule.style) for rule in rules if rule.value >= up.low]
    for curve in curves:
        shapes += _curve(curve, across, up)
    shapes += _marks(marks, across)
    left_out = any(value < up.low for value in values)
    return picture(name, (WIDTH, HEIGHT), title, told, *shapes, style="chart wide"), up.low if left_out else None


def _curve(curve: Curve, across: Axis, up: Axis) -> list[Markup]:
    if curve.dots:
        return [tag("circle", cx=across(x), cy=up(y), r=1.6, class_=curve.style) for x, y in curve.points if y >= up.low]
    found: list[list[tuple[float, float]]] = [[]]
    before: tuple[float, float] | None = None
    for x, y in curve.points:
        if y < up.low:
            if found[-1]:
                found.append([])
        else:
            if before is not None and before[1] < up.low:
                found[-1].append((across(x), BOTTOM))  # what lies below is not drawn; the line enters from there
            found[-1].append((across(x), up(y)))
        before = (x, y)
    return [polyline(points, curve.style) for points in found if points]


def _marks(marks: Sequence[Mark], across: Axis) -> list[Markup]:
    shapes = []
    for place, mark in enumerate(marks):
        x = across(float(mark.episode))
        anchor = "end" if x > RIGHT - 90 else "start"
        height = TOP - 7 - 16 * (place % 2)  # neighbours do not write over each other
        shapes += [
            line(x, height + 3, x, BOTTOM, "flip-line"),
            label(x + (3 if anchor == "start" else -3), height, mark.word, "tick flip-word", anchor),
        ]
    return shapes


def _frame(across: Axis, up: Axis) -> list[Markup]:
    shapes = []
    for value in up.ticks(5):
        shapes += [line(LEFT, up(value), RIGHT, up(value), "grid"), label(LEFT - 6, up(value) + 4, brief(value), anchor="end")]
    if up.low < 0 < up.high:
        shapes.append(line(LEFT, up(0.0), RIGHT, up(0.0), "zero"))
    for value in across.ticks(8):
        anchor = "end" if across(value) > RIGHT - 12 else "middle"
        shapes += [line(across(value), BOTTOM, across(value), BOTTOM + 4, "grid")]
        shapes.append(label(across(value), BOTTOM + 16, count(round(value)), anchor=anchor))
    return [*shapes, label((LEFT + RIGHT) / 2, HEIGHT - 8, "episodes", "tick axis-name")]
