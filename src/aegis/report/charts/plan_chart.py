"""The chart of `plan`: episodes against exploration, a line for each cap, a panel for each level."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING

from markupsafe import Markup

from aegis.report.svg import Axis, label, line, polyline, tag, write_svg

if TYPE_CHECKING:
    from aegis.validation import LevelPlan, Plan, PlanRow

WIDTH, HEIGHT = 460.0, 300.0  # of a panel
LEFT, RIGHT, TOP, BOTTOM = 64.0, 380.0, 44.0, 246.0
STYLE = (
    "text{font:12px sans-serif;fill:#222}.title{font-weight:bold}.grid{stroke:#ddd}.cap0{stroke:#0b5394}.cap1{stroke:#b45f06}"
    ".cap2{stroke:#38761d}.cap3{stroke:#741b47}.cap4{stroke:#444}polyline{fill:none;stroke-width:2}"
    ".key{stroke-width:3}.likely{stroke-dasharray:4 4;stroke-width:1}.wanted{stroke:#a00;stroke-dasharray:2 3}"
)
COLOURS = 5


def draw_plan(plan: Plan, path: Path) -> None:
    """Write the picture as SVG; levels without numbers get a panel that says so."""
    panels = [_panel(plan, level, place * HEIGHT) for place, level in enumerate(plan.levels)]
    wanted = "" if plan.wanted is None else f"; dotted: the {plan.wanted} that are wanted"
    description = (
        "Episodes until a gain is certified against the rate of exploration, by level and cap; solid: half of all studies, "
        f"dashed: nine in ten{wanted}."
    )
    write_svg(path, (WIDTH, HEIGHT * len(panels)), "Plan of a study", description, STYLE, *panels)


def _panel(plan: Plan, level: LevelPlan, top: float) -> Markup:
    rows = [row for row in level.rows if row.explore is not None and row.episodes is not None]
    shapes = [label(LEFT, 22.0, f"{level.level}: {plan.unit_word} until a certificate", "title", "start")]
    now = [row for row in level.rows if row.explore is None and row.episodes is not None]
    if not rows and not now:
        shapes.append(label(LEFT, 60.0, "no exploration rate and cap has a certificate here", anchor="start"))
        return tag("g", *shapes, transform=f"translate(0 {top:g})")
    across = _rates(rows)
    heights = [math.log10(value) for row in (*rows, *now) for value in (row.episodes, row.likely) if value]
    up = Axis.around([*heights, *([] if plan.wanted is None else [math.log10(plan.wanted)])], BOTTOM, TOP)
    shapes += _frame(across, up, rows)
    if plan.wanted is not None:
        shapes.append(line(LEFT, up(math.log10(plan.wanted)), RIGHT, up(math.log10(plan.wanted)), "wanted"))
        height = TOP + 10 + 18 * len(dict.fromkeys(row.cap for row in level.rows))
        shapes += [line(RIGHT + 8, height, RIGHT + 24, height, "wanted")]
        shapes.append(label(RIGHT + 28, height + 4, f"≤ {plan.wanted}", anchor="start"))
    if now:
        shapes.append(label(LEFT + 8, BOTTOM + 18, "as logged"))
    for place, cap in enumerate(dict.fromkeys(row.cap for row in level.rows)):
        shapes += _lines(rows, now, cap, f"cap{place % COLOURS}", across, up)
        height = TOP + 10 + 18 * place
        name = "no cap" if math.isinf(cap) else f"W = {cap:g}"
        shapes += [line(RIGHT + 8, height, RIGHT + 24, height, f"cap{place % COLOURS} key")]
        shapes.append(label(RIGHT + 28, height + 4, name, anchor="start"))
    return tag("g", *shapes, transform=f"translate(0 {top:g})")


def _lines(rows: list[PlanRow], now: list[PlanRow], cap: float, style: str, across: Axis, up: Axis) -> list[Markup]:
    """Return the lines of one cap, and what holds as the legacy logs now as a mark on the left."""
    own = [row for row in rows if row.cap == cap]
    shapes = []
    for kind, number in (("", "episodes"), (" likely", "likely")):
        values = [(row.explore, getattr(row, number)) for row in own]
        points = [(across(math.log10(rate)), up(math.log10(value))) for rate, value in values if rate and value]
        if points:
            shapes.append(polyline(points, f"{style}{kind}"))
    marks = [up(math.log10(row.episodes)) for row in now if row.cap == cap and row.episodes]
    return [*shapes, *[line(LEFT, mark, LEFT + 16, mark, f"{style} key") for mark in marks]]


def _rates(rows: list[PlanRow]) -> Axis:
    logs = [math.log10(row.explore) for row in rows if row.explore] or [-1.0, 0.0]
    low, high = min(logs), max(logs)
    return Axis(low - 0.3 * max(high - low, 0.5), max(high, low + 0.1) + 0.02, LEFT, RIGHT)


def _frame(across: Axis, up: Axis, rows: list[PlanRow]) -> list[Markup]:
    shapes = []
    for power in range(math.floor(up.low), math.ceil(up.high) + 1):
        for step in (1, 2, 5):
            place = power + math.log10(step)
            if up.low <= place <= up.high:
                shapes.append(line(LEFT, up(place), RIGHT, up(place), "grid"))
                shapes.append(
                    label(
                        LEFT - 6, up(place) + 4, f"{round(step * 10**power) if power >= 0 else step * 10**power:g}", anchor="end"
                    )
                )
    for rate in sorted({row.explore for row in rows if row.explore}):
        place = across(math.log10(rate))
        shapes += [line(place, BOTTOM, place, BOTTOM + 4, "grid"), label(place, BOTTOM + 18, f"{rate:g}")]
    return [*shapes, label((LEFT + RIGHT) / 2, BOTTOM + 38, "exploration rate; solid: half of all studies, dashed: nine in ten")]
