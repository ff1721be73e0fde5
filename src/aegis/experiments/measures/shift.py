"""Learned on one plant, frozen, and used as it is on plants whose exogenous laws have moved."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from aegis.agents import Online, make_online, run_together
from aegis.experiments.measures.online import per_episode
from aegis.experiments.measures.parts import agent_of, legacy_of, options_of, world_of
from aegis.mechanisms import Belief
from aegis.worlds import World, oracle_value

AFTER = 10**6  # episode numbers of the targets, whose noise has nothing to do with that of the source


def shift(settings: Mapping[str, Any], seeds: Sequence[int]) -> list[dict[str, Any]]:
    """Return, for each seed, the reward per episode on the source (`source`, while learning) and on each shifted plant.

    options: `shifts`, names of the world's shifts; `target`, episodes on each.
    """
    options = options_of(settings, shifts=[], target=25)
    world, agent = world_of(settings), agent_of(settings)
    legacy = legacy_of(settings, world)
    runs = [make_online(world, agent, seed, legacy) for seed in seeds]
    targets = {name: world_of(settings, shift=name) for name in options["shifts"]}
    best = {
        f"oracle_{name}": per_episode(target) * oracle_value(target, runs[0].controlled, legacy_of(settings, target))
        for name, target in targets.items()
    }
    found = []
    for run, result in zip(runs, run_together(runs, settings["episodes"]), strict=True):
        earned = {name: _zero_shot(run, result.belief, target, options["target"]) for name, target in targets.items()}
        found.append({"source": float(result.sums.mean()), **earned, **best})
    return found


def _zero_shot(run: Online, belief: Belief, target: World, episodes: int) -> float:
    """Return the reward per episode of a frozen belief, from which a policy is drawn for every episode."""
    totals = []
    for episode in range(AFTER, AFTER + episodes):
        batch = target.episodes(episode, 1, run.policy(belief, episode), run.seed)
        reward = batch.reward if batch.reward is not None else np.empty(0)
        totals.append(float(batch.episode_sums(reward)[0]))
    return float(np.mean(totals))
