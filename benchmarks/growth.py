"""How time and memory grow with rows, episodes, actions, levels and features: `python benchmarks/growth.py [SWEEP ...]`.

Every point is measured in a process of its own, one after the other. Fits exponents, writes pictures into docs/figures and a
section of RESULTS.md; with sweeps named, only prints them.
"""

from __future__ import annotations

import argparse
import itertools
import json
import math
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np

from growth_figures import Points, draw
from growth_tasks import SWEEPS
from peer_envs import ONE_THREAD
from results import record, table

HERE = Path(__file__).parent
ABOUT = (
    "Processor time of one round (the median of five after a first one; of work of more than a second, the first one) and peak",
    "memory above what the process held before. The exponent of time is the slope of its logarithm over that of the size, by",
    "least squares over all sizes, and at the end over the last two. For levels, each of which multiplies the work by actions",
    "times nodes, it is the factor from one level to the next.",
)


def measured(name: str) -> Points:
    """Return time and memory of every size of a sweep."""
    found = []
    for size in SWEEPS[name].sizes:
        command = [sys.executable, str(HERE / "growth_tasks.py"), name, str(size)]
        done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, **ONE_THREAD}, check=False)
        if done.returncode:
            raise SystemExit(done.stderr)
        found.append(json.loads(done.stdout.splitlines()[-1]))
        print(name, found[-1], flush=True)
    return found


def exponents(points: Points) -> tuple[float, float]:
    """Return the slopes of the logarithm of time over that of size, over all points and over the last two."""
    size, cpu = (np.log([point[key] for point in points]) for key in ("size", "cpu"))
    return float(np.polyfit(size, cpu, 1)[0]), float((cpu[-1] - cpu[-2]) / (size[-1] - size[-2]))


def row(name: str, points: Points) -> list[str]:
    """Return the row of a sweep."""
    sweep, first, last = SWEEPS[name], points[0], points[-1]
    if sweep.by == "levels":
        steps = [math.log(after["cpu"] / before["cpu"]) for before, after in itertools.pairwise(points)]
        slopes = [f"x {math.exp(np.mean(steps)):.0f} a level", f"x {math.exp(steps[-1]):.0f}"]
    else:
        slopes = [f"{slope:.2f}" for slope in exponents(points)]
    grown = [f"{last['size'] / first['size']:,.0f}", f"{last['cpu'] / first['cpu']:,.1f}"]
    memory = f"{first['megabytes']:.0f} to {last['megabytes']:.0f}"
    return [sweep.title, sweep.by, f"{first['size']:,} to {last['size']:,}", *grown, *slopes, memory]


def lines(found: dict[str, Points]) -> list[str]:
    """Return the table, and the pictures."""
    head = ["work", "by", "sizes", "times the size", "times the time", "exponent of time", "at the end", "memory added, MB"]
    pictures = [f"![growth with {figure}](../docs/figures/growth-{figure}.svg)" for figure in _figures(found)]
    spread: list[Any] = [text for picture in pictures for text in (picture, "")]
    return [*ABOUT, "", *table(head, [row(name, points) for name, points in found.items()]), "", *spread[:-1]]


def _figures(found: dict[str, Points]) -> list[str]:
    return list(dict.fromkeys(SWEEPS[name].figure for name in found))


def main() -> None:
    """Measure, draw and record."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("sweeps", nargs="*", metavar="SWEEP", help=f"one or more of {', '.join(SWEEPS)}; default: all, recorded")
    given = options.parse_args()
    found = {name: measured(name) for name in given.sweeps or SWEEPS}
    print("\n".join(lines(found)))
    if not given.sweeps:
        draw(found)
        record("Growth", "python benchmarks/growth.py", lines(found))


if __name__ == "__main__":
    main()
