"""Vowpal Wabbit's CATS on logged doses: learns from actions, costs and densities, answers with the density it would act by."""

from __future__ import annotations

import json
import sys
from importlib import metadata
from typing import Any

from vowpalwabbit import Workspace


def features(values: list[float]) -> str:
    """Return the features of a decision as CATS reads them."""
    return "| " + " ".join(f"x{place}:{value:.6f}" for place, value in enumerate(values))


def learned(log: dict[str, Any], options: str, low: float, high: float, bandwidth: float, passes: int) -> list[list[float]]:
    """Return for each query the one segment of the interval on which the learned policy acts: from, to, density."""
    limits = f"--min_value {low} --max_value {high} --bandwidth {bandwidth}"
    model = Workspace(f"{options} {limits} --epsilon 0 --random_seed 1 --quiet")
    rows = zip(log["actions"], log["rewards"], log["densities"], log["features"], strict=True)
    lines = [f"ca {action:.6f}:{-reward:.6f}:{density:.8f} {features(values)}" for action, reward, density, values in rows]
    for _ in range(passes):
        for line in lines:
            model.learn(line)
    found = []
    for values in log["queries"]:
        segments = [segment for segment in model.predict(features(values)) if segment[2] > 0]
        found.append([min(s[0] for s in segments), max(s[1] for s in segments), segments[0][2]])
    model.finish()
    return found


def main() -> None:
    """Answer for every log and every setting."""
    asked = json.load(sys.stdin)
    found = [
        [learned(log, options, *asked["limits"], asked["bandwidth"], passes) for options, passes in asked["settings"]]
        for log in asked["logs"]
    ]
    print(json.dumps({"version": metadata.version("vowpalwabbit"), "logs": found}))


if __name__ == "__main__":
    main()
