"""What series look like: colours that are told apart by everybody, and marks, dashes and hatches that do it in grey."""

from __future__ import annotations

from typing import Any

import numpy as np

from aegis.problem import Array

COLOURS = ("#00594c", "#b3560b", "#3b5998", "#8c2d62", "#6b6b00", "#4b5766")
MARKS = ("o", "s", "^", "D", "v", "P")
DASHES = ("-", "--", "-.", ":", (0, (5, 1)), (0, (1, 1)))
HATCHES = ("", "//", "..", "xx", "\\\\", "--")
PAPER = {"marker": "x", "color": "black", "linestyle": "none", "markersize": 7, "markeredgewidth": 1.6}


def line(place: int) -> dict[str, Any]:
    """Return the look of the n-th line."""
    n = place % len(COLOURS)
    return {"color": COLOURS[n], "marker": MARKS[n], "linestyle": DASHES[n], "linewidth": 1.6, "markersize": 4.5}


def bar(place: int) -> dict[str, Any]:
    """Return the look of the n-th bar."""
    n = place % len(COLOURS)
    return {"color": COLOURS[n], "hatch": HATCHES[n], "edgecolor": "white", "linewidth": 0.8}


def legend(axes: Any) -> None:
    """Put the legend above the picture, where it hides nothing."""
    handles = axes.get_legend_handles_labels()[0]
    if handles:
        columns = min(len(handles), 3 if len(handles) > 4 else 4)
        axes.legend(frameon=False, fontsize=8, loc="lower center", bbox_to_anchor=(0.5, 1.0), ncol=columns)


def spread(numbers: Array) -> tuple[float, float]:
    """Return mean and standard deviation of the numbers that there are; 0 for the latter if there is one."""
    known = numbers[np.isfinite(numbers)]
    if not known.size:
        return float("nan"), 0.0
    return float(known.mean()), float(known.std(ddof=1)) if known.size > 1 else 0.0
