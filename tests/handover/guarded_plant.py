"""A bed that is watered: more water grows more and leaks more."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from aegis.policies import Function, path_full
from aegis.problem import Actions, Array, Batch, Guard, Level, LevelTable, Policy, Problem, Propensity, Reward, Rows, Variable
from aegis.rng import stream

DAYS = 20
LEVEL = Level(
    "watering", Actions.of("water", (0, 1, 2)), (Variable("dryness"),), Propensity(columns=("p_0", "p_1", "p_2")), "day"
)


@dataclass(frozen=True)
class Bed:
    """allowed: by how much the share of days with a leak may grow."""

    allowed: float

    @property
    def problem(self) -> Problem:
        return Problem((LEVEL,), Reward("growth", (0.0, 1.0)), guards=(Guard("leak", (0.0, 1.0), self.allowed),))

    def episodes(self, first: int, count: int, policy: Policy, seed: int) -> Batch:
        noise = np.stack([stream(seed, "bed", bed).random(3 * DAYS) for bed in range(first, first + count)])
        dryness, choice, luck = (noise[:, start : start + DAYS].ravel() for start in (0, DAYS, 2 * DAYS))
        table = LevelTable.undecided(np.repeat(np.arange(count), DAYS), {"dryness": dryness})
        batch = Batch(np.arange(first, first + count), {"watering": table})
        chances = path_full(policy, "watering", batch)
        action = np.minimum((np.cumsum(chances, axis=1) <= choice[:, None]).sum(axis=1), 2)
        decided = table.decided(action, chances[np.arange(action.size), action], chances)
        reward = np.clip(0.1 + 0.4 * action + 0.05 * luck, 0.0, 1.0)
        return replace(batch.with_level("watering", decided), reward=reward, guards={"leak": (action == 2).astype(float)})

    @property
    def legacy(self) -> Policy:
        return Function(self.problem, sparing, name="guarded_plant:sparing")


def sparing(level: Level, rows: Rows) -> Array:
    return np.tile([0.5, 0.35, 0.15], (len(rows["dryness"]), 1))
