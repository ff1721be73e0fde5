"""SVG without libraries: escaped elements, pictures with a title and a description, axes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from markupsafe import Markup, escape

from aegis.files import write_text
from aegis.report.numbers import format_brief, format_count

SMALLEST = 1e-290  # numbers below it are too near the end of what a float can tell apart
Attribute = str | int | float | None


def tag(name: str, *children: str | Markup, **attributes: Attribute) -> Markup:
    """Return an element. `class_` and names with underscores become what HTML writes; None leaves an attribute out."""
    text = "".join(f' {_name(key)}="{escape(_number(value))}"' for key, value in attributes.items() if value is not None)
    inside = Markup("").join(escape(child) for child in children)
    return Markup("<{0}{1}>{2}</{0}>").format(Markup(name), Markup(text), inside)


def picture(name: str, size: tuple[float, float], title: str, description: str, *shapes: Markup, style: str = "chart") -> Markup:
    """Return an inline picture that screen readers can describe; `name` is unique on the page."""
    return tag(
        "svg",
        tag("title", title, id=f"{name}-title"),
        tag("desc", description, id=f"{name}-desc"),
        *shapes,
        viewBox=f"0 0 {_number(size[0])} {_number(size[1])}",
        class_=style,
        role="img",
        aria_labelledby=f"{name}-title {name}-desc",
    )


def write_svg(path: Path, size: tuple[float, float], title: str, description: str, style: str, *shapes: Markup) -> None:
    """Write a picture as an SVG file on white, with its own style sheet."""
    whole = tag(
        "svg",
        tag("title", title),
        tag("desc", description),
        tag("style", style),
        tag("rect", x=0, y=0, width=size[0], height=size[1], fill="#fff"),
        *shapes,
        xmlns="http://www.w3.org/2000/svg",
        viewBox=f"0 0 {size[0]:g} {size[1]:g}",
        role="img",
    )
    write_text(path, f"{whole}\n")


def line(x1: float, y1: float, x2: float, y2: float, style: str) -> Markup:
    """Return a line."""
    return tag("line", x1=x1, y1=y1, x2=x2, y2=y2, class_=style)


def rectangle(left: float, right: float, top: float, bottom: float, style: str) -> Markup:
    """Return a rectangle between its edges, given in any order."""
    return tag("rect", x=min(left, right), y=min(top, bottom), width=abs(right - left), height=abs(bottom - top), class_=style)


def label(x: float, y: float, text: str, style: str = "tick", anchor: str = "middle") -> Markup:
    """Return a text."""
    return tag("text", text, x=x, y=y, class_=style, text_anchor=anchor)


def diamond(x: float, y: float, radius: float, style: str) -> Markup:
    """Return the mark of an estimate."""
    return tag(
        "path",
        d=f"M{_number(x)} {_number(y - radius)} l{radius} {radius} l-{radius} {radius} l-{radius} -{radius} Z",
        class_=style,
    )


def polyline(points: Sequence[tuple[float, float]], style: str) -> Markup:
    """Return a line through points."""
    return tag("polyline", points=" ".join(f"{_number(x)},{_number(y)}" for x, y in points), class_=style)


@dataclass(frozen=True, slots=True)
class Axis:
    """A linear axis from data in [low, high] to places on a picture."""

    low: float
    high: float
    start: float
    end: float

    def __call__(self, value: float) -> float:
        """Return the place of a value."""
        return self.start + (value - self.low) / (self.high - self.low) * (self.end - self.start)

    def ticks(self, number: int) -> list[float]:
        """Return about so many round values inside the axis."""
        return ticks(self.low, self.high, number)

    @classmethod
    def around(cls, values: Sequence[float], start: float, end: float, margin: float = 0.06) -> Axis:
        """Return an axis that holds all values, with a margin on both sides as a share of their spread."""
        low, high = min(values), max(values)
        spread = next(size for size in (high - low, abs(high), 1.0) if size > SMALLEST)
        return cls(low - margin * spread, high + margin * spread, start, end)


def frame(across: Axis, up: Axis, ticks: tuple[int, int], words: str, name_height: float) -> list[Markup]:
    """Return the grid and the labels of a chart of counts (across) and numbers (up).

    ticks: about how many across and up. words: what is counted. name_height: of these words below the axis.
    """
    left, right, bottom = across.start, across.end, up.start
    shapes = []
    for value in up.ticks(ticks[1]):
        shapes += [
            line(left, up(value), right, up(value), "grid"),
            label(left - 6, up(value) + 4, format_brief(value), anchor="end"),
        ]
    if up.low < 0 < up.high:
        shapes.append(line(left, up(0.0), right, up(0.0), "zero"))
    for value in across.ticks(ticks[0]):
        anchor = "end" if across(value) > right - 12 else "middle"
        shapes.append(line(across(value), bottom, across(value), bottom + 4, "grid"))
        shapes.append(label(across(value), bottom + 16, format_count(round(value)), anchor=anchor))
    return [*shapes, label((left + right) / 2, name_height, words, "tick axis-name")]


def ticks(low: float, high: float, number: int) -> list[float]:
    """Return round values (1, 2 or 5 times a power of ten apart) in [low, high], about `number` of them."""
    if high - low <= SMALLEST:
        return [low]
    raw = (high - low) / max(number, 1)
    power = 10.0 ** math.floor(math.log10(raw))
    step = next(power * factor for factor in (1, 2, 5, 10) if power * factor >= raw * (1 - 1e-9))
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    return [round(place * step, 12 - math.floor(math.log10(step))) + 0.0 for place in range(first, last + 1)]


def _name(key: str) -> str:
    return key.rstrip("_").replace("_", "-")


def _number(value: Attribute) -> str:
    if isinstance(value, float):
        return f"{value:.2f}".rstrip("0").rstrip(".")  # two decimals of a pixel: the same text on every machine
    return str(value)
