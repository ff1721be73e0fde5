"""Planned policies in folders: every rule and feature map comes back bit for bit."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from aegis.errors import PolicyError
from aegis.mechanisms import ModelSettings, build_belief, fit_scalings
from aegis.planning import (
    POLICY_KINDS,
    RULES,
    ByLevel,
    DOptimal,
    Integration,
    Planned,
    Thompson,
    load_policy,
    load_rewards,
    plan_policy,
)
from aegis.policies import Hybrid, policy_digest, save_policy
from aegis.problem import Storable
from aegis.worlds import make_world

WORLD = make_world("clinic")
LEGACY = WORLD.legacy("natural")
BATCH = WORLD.episodes(0, 40, LEGACY, 1)
SCALINGS = fit_scalings(WORLD.problem, [BATCH])
QUICK = Integration(nodes=4, samples=8)
CASES = {**{name: make() for name, make in RULES.items()}, "by level": ByLevel(DOptimal(), Thompson(2))}


def planned(rule, features: str = "linear", scope=None) -> Planned:
    belief = build_belief(WORLD.problem, ModelSettings(features=features, count=16), scope, SCALINGS).update(BATCH)
    legacy = None if scope is None else LEGACY
    return plan_policy(belief, rule, np.random.default_rng(3), scope, legacy, integration=QUICK)


def assert_same(one, other) -> None:
    np.testing.assert_array_equal(one.weights, other.weights)
    for level in WORLD.problem.names:
        np.testing.assert_array_equal(one.full(level, BATCH), other.full(level, BATCH))
    assert policy_digest(one) == policy_digest(other)


@pytest.mark.parametrize("name", CASES)
def test_every_rule_comes_back(name: str, tmp_path: Path) -> None:
    policy = planned(CASES[name])
    save_policy(policy, tmp_path, {"note": name})
    assert_same(policy, load_policy(tmp_path, WORLD.problem))


@pytest.mark.parametrize("features", ["linear", "polynomial", "fourier"])
def test_every_feature_map_comes_back(features: str, tmp_path: Path) -> None:
    policy = planned(Thompson(3), features)
    save_policy(policy, tmp_path)
    assert_same(policy, load_policy(tmp_path, WORLD.problem))


def test_members_and_nesting_come_back(tmp_path: Path) -> None:
    policy = Hybrid(WORLD.problem, {"dose"}, planned(Thompson(2), scope={"dose"}), LEGACY)
    save_policy(policy, tmp_path)
    assert_same(policy, load_policy(tmp_path, WORLD.problem))


def test_the_digest_sees_every_number() -> None:
    one, other = planned(Thompson(2)), planned(Thompson(2))
    assert policy_digest(one) == policy_digest(other)
    weights = other.theta.functions["recovery"].drawn.weights
    weights[0, 0, 0] = np.nextafter(weights[0, 0, 0], 9)
    assert policy_digest(one) != policy_digest(other)


def test_folders_of_other_things_are_refused(tmp_path: Path) -> None:
    save_policy(planned(Thompson(2)), tmp_path)
    with pytest.raises(PolicyError, match="another problem"):
        load_policy(tmp_path, make_world("additive").problem)
    with pytest.raises(PolicyError, match="holds a Planned, not reward models"):
        load_rewards(tmp_path, WORLD.problem)


def test_every_kind_in_the_table_can_be_stored() -> None:
    for kind, found in POLICY_KINDS.items():
        assert issubclass(found, Storable)
        assert found.kind == kind  # type: ignore[attr-defined]
