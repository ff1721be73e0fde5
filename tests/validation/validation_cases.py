"""Small studies for the tests of this folder."""

from __future__ import annotations

import sys
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from aegis.problem import Batch, Policy, Problem
from aegis.worlds import World, make_world

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))

from coverage_gates import gates
from coverage_studies import all_kinds, by_reward, null, studies, two_neighbours
from coverage_study import (
    CLUSTER,
    ClaimOutcome,
    Study,
    coverage,
    joint_violations,
    repeat_episodes,
    violation_rates,
)

__all__ = [
    "CLUSTER",
    "ClaimOutcome",
    "Study",
    "all_kinds",
    "by_reward",
    "coverage",
    "gates",
    "joint_violations",
    "null",
    "repeat_episodes",
    "studies",
    "two_neighbours",
    "violation_rates",
]


WORLD = make_world("additive", inner_steps=3)
QUICK = {"episodes": 40, "prior": 30, "judged": 400}


@dataclass(frozen=True)
class Faulty:
    """A plant that wraps a world. bent: it logs other probabilities than it acts with; lost: some rewards are missing."""

    world: World = WORLD
    bent: bool = False
    lost: bool = False

    @property
    def problem(self) -> Problem:
        return self.world.problem

    def episodes(self, first: int, count: int, policy: Policy, seed: int) -> Batch:
        batch = self.world.episodes(first, count, policy, seed)
        if self.lost:
            return replace(batch, reward=np.where(np.arange(3 * count) % 7 == 0, np.nan, batch.reward))
        if not self.bent:
            return batch
        table = batch.levels["inner"]
        upper = np.arange(11) >= 5
        tilted = np.where(upper, 0.4, 1.0) * table.mu_full  # as if large actions had been rarer than they were
        tilted /= tilted.sum(axis=1, keepdims=True)
        rows = np.arange(len(table))
        return batch.with_level("inner", table.decided(table.action, tilted[rows, table.action], tilted))
