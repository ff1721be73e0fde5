"""The oracle against simulation, for every scope: two computations that share the equations and nothing else."""

from __future__ import annotations

import functools
import itertools

import numpy as np
import pytest

from aegis.policies import Mixture
from aegis.problem import Policy, Scope
from aegis.worlds import OraclePolicy, World, make_world, oracle_value, true_value

EPISODES = {"unified": 400, "additive": 400, "linear": 600, "clinic": 400}
# Smaller grids keep the test quick; the laws of the contexts are those of the defaults.
SMALLER: dict[str, dict[str, int]] = {name: {"outer_points": 3, "inner_points": 5} for name in ("unified", "additive")}
# Integrating over the patients of the clinic takes long: two scopes of it are soak tests.
SCOPES = [
    pytest.param(name, scope, marks=[pytest.mark.ci] if name == "clinic" and "plan" not in scope else [])
    for name in EPISODES
    for size in (0, 1, 2)
    for scope in itertools.combinations(make_world(name).problem.names, size)
]


@functools.cache
def best(name: str) -> float:
    return oracle_value(make_world(name, **SMALLER.get(name, {})))


def z_score(world: World, policy: Policy, value: float, count: int) -> float:
    batch = world.episodes(0, count, policy, 17)
    assert batch.reward is not None
    means = batch.episode_means(batch.reward)
    return float((means.mean() - value) / (means.std() / np.sqrt(count) + 1e-6))


@pytest.mark.parametrize(("name", "scope"), SCOPES)
def test_the_oracle_earns_what_it_says(name: str, scope: tuple[str, ...]) -> None:
    world = make_world(name, **SMALLER.get(name, {}))
    behaviour = world.legacy("natural")
    value = oracle_value(world, scope, behaviour)
    assert abs(z_score(world, OraclePolicy(world, Scope(scope), behaviour), value, EPISODES[name])) < 4
    assert value <= best(name) + 1e-9


@pytest.mark.parametrize(
    ("name", "legacy"),
    [
        # Integrating over patients takes long, and every rule of the clinic goes the same way.
        pytest.param(name, legacy, marks=[pytest.mark.ci] if name == "clinic" and legacy != "softmax" else [])
        for name in EPISODES
        for legacy in make_world(name).offers()
        if legacy != "natural"
    ],
)
def test_legacies_earn_their_true_value(name: str, legacy: str) -> None:
    world = make_world(name, **SMALLER.get(name, {}))
    policy = world.legacy(legacy)
    assert abs(z_score(world, policy, true_value(world, policy), EPISODES[name])) < 4


def test_a_mixture_earns_its_true_value() -> None:
    world = make_world("additive", inner_points=5)
    policy = Mixture([world.legacy("uniform"), world.legacy("constant"), world.legacy("sign")], [0.2, 0.5, 0.3])
    assert abs(z_score(world, policy, true_value(world, policy), 1500)) < 4
