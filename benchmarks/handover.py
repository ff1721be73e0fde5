"""After how many episodes the gate hands over, what that earns, and how often it is wrong: `python benchmarks/handover.py`.

Runs are kept in a file, one line each, so that an interrupted measurement goes on where it was.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from aegis.engine import limit_blas_threads, map_parts
from aegis.handover import Event, Flipped, make_gate, scaled_episode_rewards
from aegis.paper import register_gates
from aegis.worlds import World, true_value
from handover_page import write
from handover_tasks import Declared, tasks
from results import lines_of

FILE = Path(__file__).parents[1] / "build" / "handover.jsonl"
STEP = 16
NOTHING = 1e-3  # gains this small, in units of the reward, are none

Trial = tuple[str, int]


def perform(trial: Trial) -> tuple[Trial, dict[str, Any]]:
    """Run a gate until what the task asks for has happened, or the episodes are over."""
    limit_blas_threads()
    name, run = trial
    task = tasks()[name]
    plant, legacy = task.plant()
    register_gates()  # in a process of its own, too
    gate = make_gate(task.gate, plant, legacy, task.make_host(plant.problem), dict(task.settings), run)
    first: dict[str, int] = {}
    gains: list[float] = []
    acting = [gate.acting]

    def watch(events: Sequence[Event]) -> None:
        for event in events:
            if isinstance(event, Flipped):  # at most one in a block
                first.setdefault("any", event.episode)
                if event.action == "handover":
                    first.setdefault(event.level, event.episode)
                gains.append(_value(plant, gate.acting) - _value(plant, acting[-1]))
                acting.append(gate.acting)

    while gate.state.episode < task.episodes and not (task.until and set(task.until) <= first.keys()):
        gate.advance(min(gate.state.episode + STEP, task.episodes), watch)
    found: dict[str, Any] = {"flips": first, "gains": gains, "wrong": any(gain <= NOTHING for gain in gains)}
    if not task.until:
        found["rewards"] = _rewards(plant, legacy, gate, run)
    return trial, found


def _value(plant: Any, policy: Any) -> float:
    world = plant.plant if isinstance(plant, Declared) else plant
    return float(true_value(world, policy) if isinstance(world, World) else world.true_value(policy))


def _rewards(plant: Any, legacy: Any, gate: Any, seed: int) -> dict[str, float]:
    """Return mean rewards in logged units: of the gate before and after its flips, and of the legacy on the same episodes."""
    low, high = plant.problem.reward.range
    own = low + np.array(gate.rewards) * (high - low)
    alone = low + scaled_episode_rewards(plant.problem, plant.episodes(0, own.size, legacy, seed)) * (high - low)
    found = {"gate": float(own.mean()), "legacy": float(alone.mean())}
    flips = [event.since - 1 for event in gate.events if isinstance(event, Flipped)]
    if flips:
        found |= {
            "before": float(own[: flips[0]].mean()),
            "after": float(own[flips[0] :].mean()),
            "last": float(own[flips[-1] :].mean()),
        }
    return found


def main() -> None:
    """Measure and record."""
    known = tasks()
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--runs", type=int, help="of each task, instead of its own number")
    options.add_argument("--workers", type=int, default=2)
    options.add_argument("--table", action="store_true", help="write the tables from the runs there are")
    options.add_argument("--task", action="append", choices=sorted(known), help="only these")
    options.add_argument("--file", type=Path, default=FILE)
    given = options.parse_args()
    given.file.parent.mkdir(parents=True, exist_ok=True)
    done = stored(given.file)
    wanted = [] if given.table else _wanted(given.task or list(known), given.runs, done)
    for place, (trial, found) in enumerate(map_parts(perform, wanted, given.workers), 1):
        with given.file.open("a", encoding="utf-8") as file:
            file.write(json.dumps({"task": trial[0], "run": trial[1], "found": found}) + "\n")
        print(f"{place}/{len(wanted)}", *trial, found["flips"], "WRONG" if found["wrong"] else "", flush=True)
    write(stored(given.file), known)


def _wanted(names: Sequence[str], runs: int | None, done: dict[Trial, Any]) -> list[Trial]:
    known = tasks()
    counts = {name: runs or known[name].runs for name in names}
    return [(name, run) for name in names for run in range(counts[name]) if (name, run) not in done]


def stored(path: Path) -> dict[Trial, dict[str, Any]]:
    """Return the runs that are on disk."""
    return {(line["task"], line["run"]): line["found"] for line in lines_of(path)}


if __name__ == "__main__":
    main()
