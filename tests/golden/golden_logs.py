"""Logs of the golden files, made from the random numbers of Python alone, so that they depend on no code of the package."""

from __future__ import annotations

import csv
import random
from pathlib import Path
from typing import Any

DOSES, RECIPES = (1, 2, 3), ("slow", "fast")

HEAD = """\
episode: batch
reward: {column: margin, range: [0, 1], goal: maximise, per: decision}
"""
RECIPE = """\
  - name: recipe
    decision: run
    context: [quality]
    action: {column: recipe, values: [slow, fast]}
    propensity: {column: p_recipe}
    incumbent: {policy: logged}
"""
DOSE = """\
  - name: dose
    context: [heat, {column: line, values: [a, b]}]
    action: {column: dose, values: [1, 2, 3]}
    propensity: {columns: [p_dose_1, p_dose_2, p_dose_3]}
    incumbent: {policy: logged}
"""
STAGE = """\
  - name: stage
    decision: stage_run
    context: [moisture]
    action: {column: valve, values: [0, 1]}
    propensity: {column: p_valve}
    incumbent: {policy: logged}
"""

PROBLEMS = {
    "one-level": HEAD + "levels:\n" + DOSE,
    "two-levels": HEAD + "levels:\n" + RECIPE + DOSE,
    "three-levels": HEAD + "levels:\n" + RECIPE + STAGE + DOSE,
    "clusters": HEAD + "cluster: machine\nlevels:\n" + RECIPE + DOSE,
    "carry-over": HEAD
    + "carry_over: within\nlevels:\n"
    + RECIPE
    + DOSE.replace("    context", "    decision: step\n    context", 1),
    "guards": HEAD + "guards: [{column: scrap, range: [0, 1], max_worsening: 0.05}]\nlevels:\n" + RECIPE + DOSE,
    "incumbent": HEAD + "levels:\n" + DOSE.replace("incumbent: {policy: logged}", "incumbent: {base: meant}"),
    "time": HEAD + "time: hour\nlevels:\n" + RECIPE + DOSE,
}


def rows(episodes: int, seed: int = 1, steps: int = 4, missing: float = 0.0) -> list[dict[str, Any]]:
    """Return a log of three levels: the best dose follows heat, the best recipe quality."""
    draw = random.Random(seed)
    found: list[dict[str, Any]] = []
    for episode in range(episodes):
        quality, machine = round(draw.uniform(-1, 1), 3), draw.randrange(max(episodes // 3, 1))
        p_fast = 0.5
        recipe = "fast" if draw.random() < p_fast else "slow"
        for stage in range(2):
            moisture, valve = round(draw.uniform(0, 1), 3), draw.randrange(2)
            for step in range(steps // 2):
                heat, line = round(draw.gauss(20, 4), 2), draw.choice("ab")
                meant = 1 if heat > 21 else 2
                chances = [0.1 + (0.7 if dose == meant else 0.0) for dose in DOSES]
                dose = draw.choices(DOSES, chances)[0]
                best = 3 if heat > 20 else 1
                mean = (
                    0.5
                    - 0.12 * abs(dose - best)
                    + (0.1 if (recipe == "fast") == (quality > 0) else -0.1)
                    + 0.05 * valve * moisture
                )
                margin = min(max(mean + draw.uniform(-0.2, 0.2), 0.0), 1.0)
                goal = [0.8 if item == best else 0.1 for item in DOSES]
                found.append(
                    {
                        "batch": f"b{episode}", "machine": f"m{machine}", "hour": episode, "run": f"b{episode}r",
                        "quality": quality, "recipe": recipe, "p_recipe": p_fast, "stage_run": f"b{episode}s{stage}",
                        "moisture": moisture, "valve": valve, "p_valve": 0.5, "step": 2 * stage + step, "heat": heat,
                        "line": line, "meant": meant, "dose": dose,
                        **{f"p_dose_{item}": round(chance, 6) for item, chance in zip(DOSES, chances, strict=True)},
                        **{f"new_{item}": chance for item, chance in zip(DOSES, goal, strict=True)},
                        "scrap": round(0.2 * draw.random(), 4),
                        "margin": "" if draw.random() < missing else round(margin, 6),
                    }
                )  # fmt: skip
    return found


def write(folder: Path, problem: str, table: list[dict[str, Any]]) -> tuple[Path, Path]:
    """Write a log as CSV with its problem file; return both paths."""
    log, stated = folder / "log.csv", folder / "problem.yaml"
    with log.open("w", newline="") as file:
        writer = csv.DictWriter(file, list(table[0]))
        writer.writeheader()
        writer.writerows(table)
    stated.write_text(PROBLEMS[problem])
    return log, stated
