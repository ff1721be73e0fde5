"""Histories of small plants for hosts to look at, and a policy of a user's own."""

from __future__ import annotations

from functools import cache

import numpy as np

from aegis.handover import History
from aegis.policies import Function
from aegis.problem import Level, Problem, Rows
from aegis.worlds import World, make_world

LEVELS = ("inner", "meta")


@cache
def world_of(name: str = "additive", **settings: float) -> World:
    """Return a small world."""
    return make_world(name, **{"inner_steps": 4, "inner_points": 5, "outer_points": 3, **settings})


def history_of(world: World, episodes: int = 40, legacy: str = "uniform", seed: int = 3) -> History:
    """Return a history of the legacy alone."""
    controller = world.legacy(legacy)
    batch = world.episodes(0, episodes, controller, seed)
    return History(world.problem, controller, controller, (batch,), ("agent",) * episodes, 0)


def leaning(level: Level, rows: Rows) -> np.ndarray:
    """Take later actions with larger probability, whatever the context."""
    count = len(next(iter(rows.values())))
    chances = np.arange(1.0, level.actions.count + 1)
    return np.tile(chances / chances.sum(), (count, 1))


def leaning_policy(problem: Problem) -> Function:
    """Return the policy of `leaning`, which can be stored by its name."""
    return Function(problem, leaning)
