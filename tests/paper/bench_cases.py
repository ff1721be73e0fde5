"""Small benches, and results made by hand."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any

from aegis.paper import Bench, BenchResults, ResultStore, collect_results, load_bench, parse_bench, plan_bench

SMALL = """
title: A small bench
section: none
question: Does it run?
measure: online
base: {world: {name: additive, inner_steps: 3}, episodes: 6}
seeds: 3
arms:
  linear: {agent: nested_nig}
  table: {agent: flat_joint}
presets:
  full: {episodes: 8}
paper: {linear: {mean: 1.0, sd: 0.5}}
claims:
  - {says: linear is better, test: welch, with: {above: linear, below: table}}
"""


def bench(text: str = SMALL, **replaced: str) -> Bench:
    """Return a bench; replaced: lines that begin with a key, by the key."""
    lines = text.strip().splitlines()
    for key, line in replaced.items():
        lines = [line if old.startswith(f"{key}:") else old for old in lines]
    return parse_bench("\n".join(lines), "small", "small.yaml")


def results(arms: Mapping[tuple[str, Any], list[Any]], metric: str = "reward", swept: bool = False) -> BenchResults:
    """Return results with one metric by arm and value."""
    names = dict.fromkeys(arm for arm, _ in arms)
    sweep = "\nsweep: {key: world.f_a, values: [1, 2, 3]}" if swept else ""
    listed = "\n".join(f"  {name}: {{agent: nested_nig}}" for name in names)
    text = SMALL[: SMALL.index("arms:")] + f"arms:\n{listed}{sweep}\n"
    found = {key: {seed: {metric: number} for seed, number in enumerate(numbers)} for key, numbers in arms.items()}
    return BenchResults(parse_bench(text, "small", "small.yaml"), "quick", 3, found)


ADDITIVE = {"name": "additive", "inner_steps": 3}
# The smallest settings of every measure.
SETTINGS: dict[str, dict[str, Any]] = {
    "gate": {"world": ADDITIVE, "episodes": 6},
    "offline": {
        "world": {**ADDITIVE, "outer_points": 2, "inner_points": 5},
        "agent": "nested_nig",
        "episodes": 12,
        "options": {"draws": 2},
    },
    "online": {"world": ADDITIVE, "agent": "nested_nig", "episodes": 6},
    "shift": {"world": {"name": "unified"}, "agent": "nested_nig", "episodes": 3, "options": {"shifts": ["T", "U"], "target": 2}},
    "split": {
        "world": ADDITIVE,
        "agent": "nested_nig",
        "episodes": 12,
        "options": {"points": [8, 12], "particles": 2, "draws": 2},
    },
}


LISTS = {"curve": [1.0] * 40, "published": [-9.0, -4.0], "biased": [-20.0, -30.0], "sharp": [-3.0, -2.0], "ours": [1.0, 2.0]}


@cache
def made_up(name: str, preset: str = "full") -> BenchResults:
    """Return results of a bench with numbers that follow from arm, value and seed."""
    plan = plan_bench(load_bench(name), preset, {"seeds": 3})
    store = ResultStore(None)
    for place, unit in enumerate(plan.units):
        numbers = dict.fromkeys((*plan.bench.metrics, "reward", "value", "certified", "oracle"), 10.0 * place + 3)
        store.add(unit, {seed: {**{m: v + seed for m, v in numbers.items()}, **LISTS} for seed in range(3)})
    return collect_results(plan, store)
