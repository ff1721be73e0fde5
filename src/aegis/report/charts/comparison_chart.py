"""The chart of `compare`: one line for each method against the comparator's value, certificates in their own colour."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from markupsafe import Markup

from aegis.report.svg import Axis, diamond, label, line, tag, write_svg

if TYPE_CHECKING:
    from aegis.comparison import Comparison
    from aegis.evidence import Quantity

WIDTH, LEFT, RIGHT = 980.0, 400.0, 850.0
HEAD, STEP, FOOT = 56.0, 19.0, 40.0  # of a panel: above its lines, between two of them, below
STANDARD_ERRORS = 2.0  # standard errors on each side of an estimate
STYLE = (
    "text{font:12px sans-serif;fill:#222}.title{font-weight:bold;font-size:13px}.axis{stroke:#ccc}.legacy{stroke:#222;"
    "stroke-dasharray:3 3}.certificate{stroke:#1a7f37;fill:#1a7f37;stroke-width:3}text.certificate{stroke:none;font-weight:bold}"
    ".estimate{stroke:#6b6b6b;fill:#6b6b6b;stroke-width:1}text.estimate,text.nominal{stroke:none;fill:#444}"
    ".nominal{stroke:#b45f06;fill:none;stroke-width:1;stroke-dasharray:5 3}"
)


@dataclass(frozen=True, slots=True)
class MethodMark:
    """One line of a panel: kind is certificate, estimate or nominal; spread: half the length of an interval, if it is one."""

    method: str
    kind: str
    value: float
    spread: float | None = None


def draw_comparison(comparison: Comparison, path: Path) -> None:
    """Write the picture as SVG: a panel of gains, with the legacy at 0, and one of values, with the legacy at its mean."""
    worst = "cost" if comparison.goal == "minimise" else "value"
    unit = f", {comparison.unit}" if comparison.unit else ""
    rightwards = comparison.goal == "maximise"
    panels = [
        (f"gain over the comparator{unit}", method_marks(comparison, "gain"), 0.0, True),
        (f"{worst}{unit}", method_marks(comparison, "value"), (comparison.incumbent or comparison.legacy).value, rightwards),
    ]
    shapes, top = [], 0.0
    for title, marks, legacy, better_right in panels:
        shapes.append(tag("g", *_panel(title, marks, legacy, better_right), transform=f"translate(0 {top:g})"))
        top += _height(marks)
    words = "Green: certificates, from the bound towards better. Grey: estimates with two standard errors. Dashed: neither."
    more = (
        "Vertical line: the comparator. A line over the whole width begins outside, at the number beside it. The truth is not "
        "known."
    )
    shapes += [label(20.0, top + 12.0, words, "estimate", "start"), label(20.0, top + 29.0, more, "estimate", "start")]
    title = f"Methods compared: {comparison.candidate} at {' + '.join(comparison.scope)}"
    write_svg(path, (WIDTH, top + FOOT), title, f"{words} {more}", STYLE, *shapes)


def method_marks(comparison: Comparison, what: Quantity) -> list[MethodMark]:
    """Return the lines of a panel: certificates first, then estimates, then nominal bounds."""
    certificates = [MethodMark(item.method, "certificate", item.value) for item in comparison.certificates if item.what == what]
    estimates = [
        MethodMark(method=item.method, kind="estimate", value=item.value, spread=STANDARD_ERRORS * item.error)
        for item in comparison.estimates
        if item.what == what
    ]
    others = [MethodMark(item.method, "nominal", item.value) for item in comparison.others if item.what == what]
    return [*certificates, *estimates, *others]


def _height(marks: Sequence[MethodMark]) -> float:
    return HEAD + STEP * len(marks) + FOOT


def _panel(title: str, marks: Sequence[MethodMark], legacy: float, better_right: bool) -> list[Markup]:
    bottom = HEAD + STEP * len(marks)
    axis = _axis(marks, legacy)
    shapes = [label(20.0, 24.0, title, "title", "start")]
    for tick in axis.ticks(6):
        shapes += [line(axis(tick), HEAD - 12.0, axis(tick), bottom, "axis"), label(axis(tick), bottom + 16.0, f"{tick:g}")]
    for place, mark in enumerate(marks):
        shapes += _line(mark, HEAD + STEP * place, axis, better_right)
    shapes += [
        line(axis(legacy), HEAD - 14.0, axis(legacy), bottom + 2.0, "legacy"),
        label(axis(legacy), HEAD - 18.0, "comparator"),
    ]
    return shapes


def _line(mark: MethodMark, height: float, axis: Axis, better_right: bool) -> list[Markup]:
    """Return name, number, and an interval around an estimate or a ray from a bound; what lies outside ends at the edge."""
    name = mark.method if mark.kind != "nominal" else f"{mark.method} (no certificate)"
    shapes = [
        label(LEFT - 12.0, height + 4.0, name, mark.kind, "end"),
        label(RIGHT + 12.0, height + 4.0, _number(mark, better_right), mark.kind, "start"),
    ]
    start, end = mark.value - (mark.spread or 0.0), mark.value + (mark.spread or 0.0)
    if mark.spread is None:
        start, end = (mark.value, axis.high) if better_right else (axis.low, mark.value)
    left, right = max(start, axis.low), min(end, axis.high)
    if left <= right:
        shapes.append(line(axis(left), height, axis(right), height, mark.kind))
    if mark.spread is not None and axis.low <= mark.value <= axis.high:
        shapes.append(diamond(axis(mark.value), height, 4.0, mark.kind))
    if mark.spread is None and axis.low <= mark.value <= axis.high:
        shapes.append(line(axis(mark.value), height - 5.0, axis(mark.value), height + 5.0, mark.kind))
    return shapes


def _number(mark: MethodMark, better_right: bool) -> str:
    from aegis.certificate import format_at_least

    if mark.kind == "certificate":
        return f"{'≥' if better_right else '≤'} {format_at_least(mark.value, upper=not better_right)}"
    return f"{mark.value:.4g}" if mark.kind == "estimate" else f"({mark.value:.4g})"


def _axis(marks: Sequence[MethodMark], legacy: float) -> Axis:
    """Return an axis around the legacy and the estimates, stretched to what is not further away than these spread."""
    core = [legacy, *[mark.value for mark in marks if mark.kind == "estimate"]]
    reach = max(max(core) - min(core), 1e-12 + 0.05 * abs(legacy))
    low, high = min(core) - reach, max(core) + reach
    ends = [mark.value + side * (mark.spread or 0.0) for mark in marks for side in (-1.0, 1.0)]
    return Axis.around([*core, *[end for end in ends if low <= end <= high]], LEFT, RIGHT)
