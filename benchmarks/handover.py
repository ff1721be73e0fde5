"""After how many episodes the gate hands over, and how often wrongly: `python benchmarks/handover.py`.

Runs are kept in a file, one line each, so that an interrupted measurement goes on where it was.
"""

from __future__ import annotations

import argparse
import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from aegis.engine import map_parts, one_thread
from aegis.handover import HOSTS, GateSettings, Handover
from aegis.handover.events import Event, Flipped
from aegis.worlds import make_world
from results import lines_of, record, table

FILE = Path(__file__).parents[1] / "build" / "handover.jsonl"
LEGACIES = {"uniform": "uniform", "sign": "sign:epsilon=0.3"}
EFFECTS = (2.0, 1.0, 0.5)
MOST_INNER = {"uniform": {2.0: 60, 1.0: 100, 0.5: 180}, "sign": {2.0: 75, 1.0: 130, 0.5: 260}}
MOST_OUTER, MOST_UNIFIED = 150, 650
STEP = 16


@dataclass(frozen=True, slots=True)
class Trial:
    """One run. task: 'inner' (that level alone), 'both', 'unified' or 'null' (nothing to gain at any level)."""

    task: str
    legacy: str
    effect: float
    episodes: int
    run: int


def perform(trial: Trial) -> tuple[Trial, dict[str, Any]]:
    """Run a gate until what the task asks for has happened, or the episodes are over."""
    one_thread()
    handover = _gate(trial)
    wanted = {"inner": {"inner"}, "both": {"inner", "meta"}, "unified": {"inner", "meta"}, "null": {"any"}}[trial.task]
    first: dict[str, Any] = {}
    while handover.state.episode < trial.episodes and not wanted <= first.keys():
        told: list[Event] = []
        handover.advance(min(handover.state.episode + STEP, trial.episodes), told.extend)
        for event in told:
            if isinstance(event, Flipped):
                first.setdefault("any", event.episode)
                if event.action == "handover":
                    first.setdefault(event.level, event.episode)
    return trial, {"flips": first, "spent": handover.state.spent}


def _gate(trial: Trial) -> Handover:
    if trial.task == "unified":
        world = make_world("unified", preset="stress")
    elif trial.task == "null":
        world = make_world("additive", f_a=0.0, gamma=0.0)
    else:
        world = make_world("additive", f_a=trial.effect)
    settings = GateSettings(levels=("inner",)) if trial.task == "inner" else GateSettings()
    return Handover(world, world.legacy(LEGACIES.get(trial.legacy, trial.legacy)), HOSTS["greedy"](), settings, trial.run)


def trials(runs: int) -> list[Trial]:
    """Return all trials, run by run."""
    found = []
    for run in range(runs):
        found += [Trial("inner", name, effect, 1000, run) for name in LEGACIES for effect in EFFECTS]
        found += [Trial("both", "uniform", 2.0, 1000, run), Trial("null", "uniform", 0.0, 400, run)]
    return found


def stored(path: Path) -> dict[Trial, dict[str, Any]]:
    """Return the trials that are on disk."""
    return {Trial(**line["trial"]): line["found"] for line in lines_of(path)}


def write(results: dict[Trial, dict[str, Any]]) -> None:
    """Record the results."""
    groups: dict[tuple[str, str, float, int], list[dict[str, Any]]] = {}
    for trial, found in results.items():
        groups.setdefault((trial.task, trial.legacy, trial.effect, trial.episodes), []).append(found["flips"])
    rows = []
    for (task, legacy, effect, episodes), flips in sorted(groups.items()):
        if task == "inner":
            rows.append([f"inner level, {legacy}, f_a = {effect:g}", *_median(flips, "inner"), str(MOST_INNER[legacy][effect])])
        elif task == "null":
            share = np.mean(["any" in item for item in flips])
            rows.append(
                [f"nothing to gain, {legacy}, {episodes} episodes: runs with a flip", f"{share:.1%}", str(len(flips)), "5 %"]
            )
        else:
            after = [{"after": item["meta"] - item["inner"]} if {"meta", "inner"} <= item.keys() else {} for item in flips]
            both = np.mean([{"meta", "inner"} <= item.keys() for item in flips])
            most = MOST_OUTER if task == "both" else MOST_UNIFIED
            rows.append([f"{task}: outer after inner, {legacy}", *_median(after, "after"), str(most)])
            rows.append([f"{task}: both within {episodes} episodes, {legacy}", f"{both:.0%}", str(len(flips)), "90 %"])
    lines = [
        "Median episode of the first handover, whole gate with its default settings at delta 0.05 (patience included), "
        "host `greedy`. 'Inner level': that level alone may be handed over.",
        "",
        *table(["setting", "median", "runs", "asked, at most (shares: at least; false flips: at most)"], rows),
    ]
    record("Handover", "python benchmarks/handover.py", lines)


def _median(flips: list[dict[str, Any]], name: str) -> list[str]:
    values = [float(item.get(name, np.inf)) for item in flips]
    median = float(np.median(values))
    return ["not yet" if np.isinf(median) else f"{median:g}", str(len(values))]


def main() -> None:
    """Measure and record."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--runs", type=int, default=100)
    options.add_argument("--workers", type=int, default=2)
    options.add_argument("--table", action="store_true", help="write the table from the runs there are")
    options.add_argument("--task", choices=("inner", "both", "unified", "null"), help="only this one")
    given = options.parse_args()
    FILE.parent.mkdir(parents=True, exist_ok=True)
    done = stored(FILE)
    wanted = [item for item in trials(0 if given.table else given.runs) if item not in done and given.task in (None, item.task)]
    for place, (trial, found) in enumerate(map_parts(perform, wanted, given.workers), 1):
        with FILE.open("a", encoding="utf-8") as file:
            file.write(json.dumps({"trial": asdict(trial), "found": found}) + "\n")
        print(f"{place}/{len(wanted)}", trial, found, flush=True)
    write(stored(FILE))


if __name__ == "__main__":
    main()
