"""The three-level plant: its sampled equations, and its oracle against simulation for every scope."""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Sequence

import numpy as np
import pytest
from transcription import Known, Noise, check_sampled_equations

from aegis.policies import Constant, Legacy
from aegis.problem import Scope
from aegis.worlds import ChemicalPlant, OraclePolicy, oracle_value, true_value

WORLD = ChemicalPlant()
NATURAL = WORLD.legacy("natural")
# From the inside out; a level alone above others that are not controlled is tested on the worlds of two levels too.
SCOPES = [("dose",), ("recipe", "dose"), WORLD.problem.names]
EVERY = [scope for size in range(4) for scope in itertools.combinations(WORLD.problem.names, size)]
OTHERS = [pytest.param(scope, marks=pytest.mark.ci) for scope in EVERY if scope not in SCOPES]


@functools.cache
def value_of(scope: tuple[str, ...]) -> float:
    return oracle_value(WORLD, scope, NATURAL)


@pytest.mark.parametrize("scope", [*SCOPES, *OTHERS])
def test_the_oracle_earns_what_it_says(scope: tuple[str, ...]) -> None:
    # Planning the outermost action integrates over everything below: fewer episodes there.
    count = 40 if "batch" in scope else 600
    batch = WORLD.episodes(0, count, OraclePolicy(WORLD, Scope(scope), NATURAL), 23)
    assert batch.reward is not None
    means = batch.episode_means(batch.reward)
    assert abs(means.mean() - value_of(scope)) < 4 * means.std() / np.sqrt(count)


def check_wider_scopes(scopes: Sequence[tuple[str, ...]]) -> None:
    for scope, wider in itertools.permutations(scopes, 2):
        if set(scope) < set(wider):
            assert value_of(wider) > value_of(scope) + 0.1


def test_more_control_is_worth_more() -> None:
    check_wider_scopes(SCOPES)


@pytest.mark.ci
def test_more_control_is_worth_more_at_every_level() -> None:
    check_wider_scopes(EVERY)


def test_a_constant_dose_is_not_best() -> None:
    """Not even under optimal control of the outer levels."""
    rules = {name: Constant(0.0) for name in WORLD.problem.names}
    assert oracle_value(WORLD, ("batch", "recipe"), Legacy(WORLD.problem, rules)) < value_of(WORLD.problem.names) - 0.1


def test_a_legacy_earns_its_true_value() -> None:
    policy = WORLD.legacy("deterministic")
    batch = WORLD.episodes(0, 1000, policy, 29)
    assert batch.reward is not None
    means = batch.episode_means(batch.reward)
    assert abs(means.mean() - true_value(WORLD, policy)) < 4 * means.std() / np.sqrt(1000)


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


def test_sampled_equations() -> None:
    check_sampled_equations(ChemicalPlant(), plant)
