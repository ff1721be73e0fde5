"""Pictures of growth: time and memory against size, both axes logarithmic; the same numbers give the same file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import matplotlib
from matplotlib.figure import Figure

from aegis.paper.bench_figures import line_style
from growth_tasks import SWEEPS

FOLDER = Path(__file__).parents[1] / "docs" / "figures"
SIZE = (6.4, 2.9)  # inches
Points = list[dict[str, float]]


def draw(found: dict[str, Points]) -> list[Path]:
    """Write one figure for every quantity that grows, `growth-*.svg`, and return where they are."""
    written = []
    look = {"svg.hashsalt": "aegis", "font.size": 9, "axes.spines.top": False, "axes.spines.right": False}
    with matplotlib.rc_context(look):
        for figure in dict.fromkeys(SWEEPS[name].figure for name in found):
            own = {name: points for name, points in found.items() if SWEEPS[name].figure == figure}
            canvas = Figure(figsize=SIZE, layout="constrained")
            _draw(canvas, own)
            written.append(FOLDER / f"growth-{figure}.svg")
            canvas.savefig(written[-1], format="svg", metadata={"Date": None})
    return written


def _draw(canvas: Any, found: dict[str, Points]) -> None:
    time, memory = canvas.subplots(1, 2)
    for place, (name, points) in enumerate(found.items()):
        sizes = [point["size"] for point in points]
        time.plot(sizes, [point["cpu"] / points[0]["cpu"] for point in points], **line_style(place), label=SWEEPS[name].title)
        memory.plot(sizes, [max(point["megabytes"], 1.0) for point in points], **line_style(place))
    by = SWEEPS[next(iter(found))].by
    for axes, label in ((time, "processor time, smallest = 1"), (memory, "peak memory added, MB")):
        axes.set_xscale("linear" if by == "levels" else "log")
        axes.set_yscale("log")
        axes.minorticks_off()
        axes.set_xlabel(by)
        axes.set_ylabel(label)
        if by == "levels":
            axes.set_xticks([point["size"] for point in next(iter(found.values()))])
    canvas.legend(loc="outside upper center", ncol=2, frameon=False, fontsize=8)
