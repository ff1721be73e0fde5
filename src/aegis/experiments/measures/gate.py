"""A gate on a plant: when levels change hands, and what is earned before and after."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from aegis.errors import choose
from aegis.experiments.measures.online import POINTS, per_episode
from aegis.experiments.measures.parts import legacy_of, options_of, world_of
from aegis.handover import HOSTS
from aegis.handover.events import Flipped
from aegis.handover.gates import make_gate
from aegis.paper import register_gates
from aegis.worlds import World, oracle_value, true_value


def gate(settings: Mapping[str, Any], seeds: Sequence[int]) -> list[dict[str, Any]]:
    """Return, for each seed, after which episode each level was handed over, and rewards per episode.

    `flip_LEVEL` (None if never), `flipped_LEVEL` (1 or 0), `inner_first` (1 if the innermost level changed hands before any
    other), `wrong` (1 if anything was put in control that is truly worse), `reward`, `before` and `after` the first flip,
    `legacy` on the same episodes, and `bound`, the gain that the gate computed for the innermost level, along the way.
    options: `gate`, `host`, `gate_settings`.
    """
    options = options_of(settings, gate="challenger", host="greedy", gate_settings={})
    choose(options["host"], HOSTS, "host")
    world = world_of(settings)
    legacy = legacy_of(settings, world)
    best = per_episode(world) * oracle_value(world)
    return [{**_one(world, legacy, options, settings["episodes"], seed), "oracle": best} for seed in seeds]


def _one(world: World, legacy: Any, options: Mapping[str, Any], episodes: int, seed: int) -> dict[str, Any]:
    register_gates()  # in a process of its own, too
    running = make_gate(options["gate"], world, legacy, HOSTS[options["host"]](), options["gate_settings"], seed)
    values, wrong = [true_value(world, running.acting)], 0

    def watch(events: Sequence[Any]) -> None:
        nonlocal wrong
        if any(isinstance(event, Flipped) for event in events):  # at most one in a block
            values.append(true_value(world, running.acting))
            wrong |= int(values[-1] < values[-2])

    running.advance(episodes, watch)
    flips: dict[str, int] = {}
    for event in running.events:
        if isinstance(event, Flipped):
            flips.setdefault(event.level, event.episode)
    names = world.problem.names
    low, high = world.problem.reward.range or (0.0, 1.0)
    earned = per_episode(world) * (low + np.array(running.rewards) * (high - low))
    first = min(flips.values(), default=None)
    return {
        **{f"flip_{name}": flips.get(name) for name in names},
        **{f"flipped_{name}": int(name in flips) for name in names},
        "inner_first": int(names[-1] in flips and flips[names[-1]] == first),
        "wrong": wrong,
        "reward": float(earned.mean()),
        "before": float(earned[:first].mean()) if first else None,
        "after": float(earned[first:].mean()) if first and first < episodes else None,
        "legacy": per_episode(world) * true_value(world, legacy),
        "curve": [float(block.mean()) for block in np.array_split(earned, min(POINTS, episodes))],
        "bound": _bounds(running, names[-1], high - low, episodes),
    }


def _bounds(running: Any, level: str, width: float, episodes: int) -> list[list[float]]:
    """Return pairs of an episode and the gain that a gate computed for a level, in units of the reward; at most POINTS."""
    looks = getattr(running, "looks", None)
    if looks is None:  # the best lower bound among open challenges is only known at flips
        found = [(e.episode, e.gain_lower * width) for e in running.events if isinstance(e, Flipped) and e.level == level]
    else:
        found = [(look.episode, look.gain * width) for look in looks if look.level == level and look.gain is not None]
    step = max(1, len(found) // POINTS)
    return [[float(episode), float(gain)] for episode, gain in found[::step]]
