"""Sampled equations against a plain transcription: one episode at a time, one number at a time, from the same noise."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest

from aegis.problem import Batch
from aegis.worlds import Additive, Unified, World
from aegis.worlds.simulation import episode_noise

Noise = Callable[[str, str, int], float]
Known = dict[str, Any]


def check_sampled_equations(world: World, check: Callable[[str, Noise, int, Known], None]) -> None:
    """Run some episodes and check every row of every level."""
    first, count = 60, 12  # across the border of two noise blocks
    batch = world.episodes(first, count, world.legacy("uniform"), 2)
    drawn = episode_noise(world, first, count, 2).variables

    def noise(level: str, name: str, slot: int) -> float:
        return float(drawn[level][name][slot])

    visited = walk(world, batch, check, noise, 0, range(count), list(range(count)), [{} for _ in range(count)])
    assert visited == [len(table) for table in batch.levels.values()]


def walk(
    world: World,
    batch: Batch,
    check: Callable[[str, Noise, int, Known], None],
    noise: Noise,
    depth: int,
    parents: range,
    slots: list[int],
    above: list[Known],
) -> list[int]:
    """Visit every decision below the given parents, level by level, and check its row."""
    if depth == len(world.problem.levels):
        return []
    level, steps = world.problem.levels[depth], world.steps[depth]
    table = batch.levels[level.name]
    inner = depth + 1 == len(world.problem.levels)
    rows: list[Known] = []
    places: list[int] = []
    for index in range(len(table)):
        parent = int(table.parent[index])
        position = index - [int(other) for other in table.parent].index(parent)
        slot = slots[parent] * steps + position
        row = dict(above[parent])
        row |= {variable.name: table.context[variable.name][index] for variable in level.context}
        action = int(table.action[index])
        row[level.actions.column] = level.actions.values[action] if level.actions.numeric else action
        if table.available is not None:
            row[f"can_{level.actions.column}"] = table.available[index].tolist()
        if inner:
            assert batch.outcome is not None and batch.reward is not None and world.problem.outcome is not None
            row[world.problem.outcome.name] = batch.outcome[index]
            row[world.problem.reward.column] = batch.reward[index]
        else:
            below = batch.levels[world.problem.levels[depth + 1].name]
            row["children"] = int((below.parent == index).sum())
        check(level.name, noise, slot, row)
        rows.append(row)
        places.append(slot)
    return [len(rows), *walk(world, batch, check, noise, depth + 1, range(len(rows)), places, rows)]


def two_levels(
    world: Unified | Additive, eta: float, effect: Callable[[float, float], float]
) -> Callable[[str, Noise, int, Known], None]:
    def check(level: str, noise: Noise, slot: int, row: Known) -> None:
        if level == "meta":
            assert row["T"] == pytest.approx(world.task_mean + world.task_sd * noise("meta", "T", slot))
            return
        latent = 1.0 if noise("inner", "U", slot) < world.confounder else 0.0
        lever, gamma, nu = row["M"], world.gamma, world.nu
        centre = gamma * ((1 - eta) * 1.5 * lever + eta * 2 * math.tanh(2 * lever))
        scale = (1 - nu) + nu * (1 + 0.4 * gamma * abs(lever))
        context = centre + 0.3 * latent + scale * world.sigma_q * noise("inner", "N_Q", slot)
        assert row["Q"] == pytest.approx(context)
        outcome = effect(row["A"], row["Q"]) + 0.3 * latent + world.outcome_sd * noise("inner", "N_Y", slot)
        assert row["Y"] == pytest.approx(outcome)
        assert row["R"] == pytest.approx(row["Y"] + world.reward_sd * noise("inner", "N_R", slot))

    return check
