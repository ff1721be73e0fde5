"""A gain on one line: the certified part as a bar from 0, the estimate as a diamond, the margin as a mark."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from markupsafe import Markup

from aegis.report.numbers import DOWN, Amounts
from aegis.report.svg import Axis, diamond, label, line, picture, rectangle

WIDTH, HEIGHT = 240.0, 40.0
TOP, BOTTOM, MIDDLE = 5.0, 25.0, 15.0


@dataclass(frozen=True, slots=True)
class Gain:
    """What is known of a gain; a bound of a refused result is left out by who makes this."""

    lower: float | None
    estimate: float | None
    error: float | None = None
    margin: float = 0.0


def shared_axis(gains: Iterable[Gain]) -> Axis:
    """Return one axis for several bars, 0 among it, so that their lengths compare."""
    values = [0.0]
    for gain in gains:
        values += [value for value in (gain.lower, gain.estimate, gain.margin) if value is not None]
        if gain.estimate is not None and gain.error is not None:
            values += [gain.estimate - gain.error, gain.estimate + gain.error]
    return Axis.around(values, 4.0, WIDTH - 4.0, 0.04)


def gain_bar(name: str, title: str, gain: Gain, axis: Axis, amounts: Amounts) -> Markup:
    """Return the bar; solid above 0, an outline below it; nothing if nothing is known."""
    if gain.lower is None and gain.estimate is None:
        return Markup("")
    zero = axis(0.0)
    shapes: list[Markup] = [line(zero, 2, zero, BOTTOM + 3, "zero"), label(_inside(zero), 37, "0")]
    told = []
    if gain.lower is not None:
        style = "bound" if gain.lower > 0 else "bound-below"
        shapes.append(rectangle(zero, axis(gain.lower), TOP, BOTTOM, style))
        told.append(f"certified: at least {amounts.show(gain.lower, DOWN, sign=True)}")
    if gain.margin:
        place = axis(gain.margin)
        shapes.append(line(place, 1, place, BOTTOM + 3, "margin"))
        if abs(place - zero) > 34:
            shapes.append(label(_inside(place, 20), 37, "margin"))
        told.append(f"margin: {amounts.show(gain.margin)}")
    if gain.estimate is not None:
        place = axis(gain.estimate)
        if gain.error is not None:
            ends = axis(gain.estimate - gain.error), axis(gain.estimate + gain.error)
            shapes.append(line(ends[0], MIDDLE, ends[1], MIDDLE, "whisker"))
        shapes.append(diamond(place, MIDDLE, 6, "estimate-mark"))
        told.append(f"estimate, not a certificate: {amounts.show(gain.estimate, sign=True)}")
    return picture(name, (WIDTH, HEIGHT), title, "; ".join(told), *shapes, style="chart bar")


def _inside(place: float, half: float = 4.0) -> float:
    """Return a place for the middle of a text that does not leave the picture."""
    return min(max(place, half), WIDTH - half)
