"""An agent learns while it acts; what it earns per episode, and how close that is to the best there is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from aegis.agents import make_online, run_together
from aegis.experiments.measures.parts import agent_of, legacy_of, options_of, world_of
from aegis.worlds import oracle_value

POINTS = 40  # of the curve


def online(settings: Mapping[str, Any], seeds: Sequence[int]) -> list[dict[str, Any]]:
    """Return, for each seed, `reward` (sum over an episode, mean over all), its `curve`, the `oracle` and the `regret`."""
    options_of(settings)
    world, agent, episodes = world_of(settings), agent_of(settings), settings["episodes"]
    legacy = legacy_of(settings, world)
    runs = [make_online(world, agent, seed, legacy) for seed in seeds]
    best = per_episode(world) * oracle_value(world, runs[0].controlled, legacy)
    found = []
    for result in run_together(runs, episodes):
        blocks = np.array_split(result.sums, min(POINTS, episodes))
        reward = float(result.sums.mean())
        curve = [float(block.mean()) for block in blocks]
        found.append({"reward": reward, "last": curve[-1], "curve": curve, "oracle": best, "regret": (best - reward) * episodes})
    return found


def per_episode(world: Any) -> int:
    """Return how many rewards an episode has."""
    return int(np.prod(world.steps))
