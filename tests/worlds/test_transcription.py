"""The sampled equations against a plain transcription: one episode at a time, one number at a time, from the same noise."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest

from aegis.problem import Batch
from aegis.worlds import Additive, ChemicalPlant, Clinic, LinearWorld, Unified, World
from aegis.worlds.clinic import LAW, PLANS, RESPONSES, SPAN, WARDS
from aegis.worlds.simulation import episode_noise

Noise = Callable[[str, str, int], float]
Known = dict[str, Any]

UNIFIED = Unified(gamma=0.7, eta=0.4, nu=0.3, q=0.25, outer_steps=2, inner_steps=3, task_mean=0.2, confounder=0.4)
ADDITIVE = Additive(f_a=1.5, gamma=1.2, nu=0.5, outer_steps=2, inner_steps=3)


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


def linear(level: str, noise: Noise, slot: int, row: Known) -> None:
    if level == "meta":
        assert row["T"] == 1 + math.floor(3 * noise("meta", "T", slot))
        return
    latent = 1.0 if noise("inner", "U", slot) < 0.3 else 0.0
    assert row["C"] == pytest.approx(0.8 * row["M"] + 0.2 * latent + 0.3 * noise("inner", "N_C", slot))
    assert row["Y"] == pytest.approx(0.5 * row["A"] + 0.4 * row["C"] + 0.15 * latent + 0.2 * noise("inner", "N_Y", slot))
    raw = 0.3 * row["Y"] + 0.08 * row["C"] + 0.1 * row["M"] + 0.05 * row["T"] + 0.02 * row["A"]
    raw += 0.1 * latent + 0.15 * noise("inner", "N_R", slot)
    assert row["R"] == pytest.approx(min(max(raw, 0.0), 1.0))


def plant(level: str, noise: Noise, slot: int, row: Known) -> None:
    if level == "batch":
        assert row["quality"] == noise("batch", "W", slot)
    elif level == "recipe":
        assert row["viscosity"] == pytest.approx(0.9 * row["quality"] + 1.2 * row["blend"] + 0.4 * noise("recipe", "N_V", slot))
    else:
        latent = 1.0 if noise("dose", "U", slot) < 0.5 else 0.0
        acidity = 0.7 * row["viscosity"] - 0.8 * row["temperature"] + 0.4 * latent + 0.4 * noise("dose", "N_H", slot)
        assert row["acidity"] == pytest.approx(acidity)
        loss = 0.5 * row["viscosity"] ** 2 + 0.8 * (row["temperature"] - 0.6 * row["viscosity"]) ** 2
        loss += 1.2 * (row["dose"] - 0.8 * row["acidity"]) ** 2
        shake = 0.5 * (2 * noise("dose", "N_Y", slot) - 1)
        assert row["yield"] == pytest.approx(6 * math.exp(-loss / 4) + 0.4 * latent + shake)
        assert row["profit"] == pytest.approx(row["yield"] - 0.3 * (1 + row["blend"]))


def chosen(law: list[float], uniform: float) -> int:
    total = 0.0
    for code, chance in enumerate(law):
        total += chance
        if uniform < total:
            return code
    return len(law) - 1


def clinic(level: str, noise: Noise, slot: int, row: Known) -> None:
    if level == "plan":
        first, second = noise("plan", "severity", slot), noise("plan", "frailty", slot)
        assert row["patient"] == pytest.approx([first, 0.5 * first + math.sqrt(0.75) * second])
        assert row["ward"] == chosen([0.5, 0.3, 0.2], noise("plan", "ward", slot))
        allowed = [True, True, WARDS[row["ward"]] != "day"]
        assert row["can_plan"] == allowed and allowed[row["plan"]]
        stay = noise("plan", "stay", slot)
        assert row["children"] == 1 + math.floor(stay * SPAN[row["plan"]][row["ward"]])
        return
    latent = 1.0 if noise("dose", "U", slot) < 0.4 else 0.0
    strength = {"conservative": 0.0, "standard": 0.6, "intensive": 1.2}[PLANS[row["plan"]]]
    assert row["response"] == chosen(LAW[row["plan"]][row["ward"]].tolist(), noise("dose", "response", slot))
    shift = {"low": 0.4, "medium": 0.0, "high": -0.4}[RESPONSES[row["response"]]]
    centre = 0.8 * row["patient"][0] - strength + shift
    assert row["level"] == pytest.approx(centre + 0.4 * latent + 0.5 * noise("dose", "N_L", slot))
    assert row["can_dose"] == [True, True, True, RESPONSES[row["response"]] != "high"]
    dose = row["dose"] / 10
    recovery = 0.8 - 0.15 * (row["level"] - 0.9 * dose) ** 2 - 0.1 * dose**2 - 0.12 * strength * (1 + row["patient"][1])
    assert row["recovery"] == pytest.approx(recovery + 0.1 * latent + 0.1 * noise("dose", "N_Y", slot))
    assert row["reward"] == min(max(row["recovery"], 0.0), 1.0)


CHECKS = [
    (UNIFIED, two_levels(UNIFIED, 0.4, lambda a, q: 0.75 * a * q + 0.25 * (4 - (a - 0.5 * q) ** 2))),
    (ADDITIVE, two_levels(ADDITIVE, 0.0, lambda a, q: 1.5 * a + 0.5 * q)),
    (LinearWorld(), linear),
    (ChemicalPlant(), plant),
    (Clinic(), clinic),
]


@pytest.mark.parametrize(("world", "check"), CHECKS, ids=lambda part: getattr(part, "name", ""))
def test_sampled_equations(world: World, check: Callable[[str, Noise, int, Known], None]) -> None:
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
