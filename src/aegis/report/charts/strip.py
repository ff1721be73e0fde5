"""A declared range, and the part of it in which values were seen."""

from __future__ import annotations

from markupsafe import Markup

from aegis.report.numbers import brief
from aegis.report.svg import Axis, diamond, label, picture, rectangle

WIDTH, HEIGHT = 320.0, 48.0


def range_strip(name: str, title: str, low: float, high: float, seen: tuple[float, float], mean: float | None) -> Markup:
    """Return the strip from low to high with what was seen on it; what lies outside the range widens the picture."""
    across = Axis.around([low, high, *seen], 6.0, WIDTH - 6.0, 0.0)
    shapes = [
        rectangle(across(low), across(high), 8, 26, "legacy"),
        rectangle(across(seen[0]), across(seen[1]), 11, 23, "weight"),
    ]
    if mean is not None:
        shapes.append(diamond(across(mean), 17, 7, "estimate-mark"))
    shapes += [label(across(low), 42, brief(low), anchor="start"), label(across(high), 42, brief(high), anchor="end")]
    told = f"Declared from {brief(low)} to {brief(high)}; seen from {brief(seen[0])} to {brief(seen[1])}."
    return picture(name, (WIDTH, HEIGHT), title, told, *shapes)
