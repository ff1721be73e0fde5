"""The oracle of the three-level plant against simulation, for every scope."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from aegis.policies import Constant, Legacy
from aegis.problem import Scope
from aegis.worlds import ChemicalPlant, OraclePolicy, oracle_value, true_value

WORLD = ChemicalPlant()
NATURAL = WORLD.legacy("natural")
SCOPES = [scope for size in range(4) for scope in itertools.combinations(WORLD.problem.names, size)]


@pytest.fixture(scope="module")
def values() -> dict[tuple[str, ...], float]:
    return {scope: oracle_value(WORLD, scope, NATURAL) for scope in SCOPES}


@pytest.mark.parametrize("scope", SCOPES)
def test_the_oracle_earns_what_it_says(scope: tuple[str, ...], values: dict[tuple[str, ...], float]) -> None:
    # Planning the outermost action integrates over everything below: fewer episodes there.
    count = 40 if "batch" in scope else 600
    batch = WORLD.episodes(0, count, OraclePolicy(WORLD, Scope(scope), NATURAL), 23)
    assert batch.reward is not None
    means = batch.episode_means(batch.reward)
    assert abs(means.mean() - values[scope]) < 4 * means.std() / np.sqrt(count)


def test_more_control_is_worth_more_at_every_level(values: dict[tuple[str, ...], float]) -> None:
    for scope in SCOPES:
        for name in WORLD.problem.names:
            if name not in scope:
                wider = tuple(level for level in WORLD.problem.names if level in (*scope, name))
                assert values[wider] > values[scope] + 0.1


def test_a_constant_dose_is_not_best(values: dict[tuple[str, ...], float]) -> None:
    """Not even under optimal control of the outer levels."""
    rules = {name: Constant(0.0) for name in WORLD.problem.names}
    assert oracle_value(WORLD, ("batch", "recipe"), Legacy(WORLD.problem, rules)) < values[WORLD.problem.names] - 0.1


def test_a_legacy_earns_its_true_value() -> None:
    policy = WORLD.legacy("deterministic")
    batch = WORLD.episodes(0, 1000, policy, 29)
    assert batch.reward is not None
    means = batch.episode_means(batch.reward)
    assert abs(means.mean() - true_value(WORLD, policy)) < 4 * means.std() / np.sqrt(1000)
