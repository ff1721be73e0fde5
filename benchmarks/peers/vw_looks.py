"""What the confidence sequence of vw-estimators says at each look at some logs; reads a question, prints an answer."""

from __future__ import annotations

import json
import sys
from importlib import metadata
from typing import Any

from estimators.bandits.cs import Interval


def bounds(logged: list[float], rewards: list[float], wanted: list[float], stops: list[int], alpha: float) -> dict[str, Any]:
    """Return lower and upper bounds of the value at every stop; `single`: lower bounds with all of alpha on that side."""
    interval = Interval(rmin=0, rmax=1)
    found: dict[str, Any] = {"lower": [], "upper": [], "single": []}
    rows = zip(logged, rewards, wanted, strict=True)
    for place, (p_log, reward, p_pred) in enumerate(rows, 1):
        interval.add_example(p_log, reward, p_pred)
        if place in stops:
            lower, upper = interval.get(alpha)
            found["lower"].append(lower)
            found["upper"].append(upper)
            found["single"].append(interval.get(2 * alpha)[0])
    return found


def main() -> None:
    """Answer for every log: the bounds of each candidate, and of the legacy, whose weights are 1."""
    question = json.load(sys.stdin)
    stops, alpha = question["stops"], question["alpha"]
    answers = []
    for log in question["logs"]:
        legacy = bounds(log["logged"], log["rewards"], log["logged"], stops, alpha)
        asked = {name: bounds(log["logged"], log["rewards"], chances, stops, alpha) for name, chances in log["wanted"].items()}
        answers.append({"legacy": legacy, "candidates": asked})
    print(json.dumps({"version": metadata.version("vw-estimators"), "logs": answers}))


if __name__ == "__main__":
    main()
