"""Planned values as a reward model: the recursion's numbers, in logged units, stored and restored."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from aegis.mechanisms import ModelSettings, build_belief
from aegis.planning import POLICY_KINDS, Greedy, PlannedValues, Thompson, plan_policy
from aegis.policies import Capped, policy_digest, read_stored, save_policy
from aegis.problem import RewardModel
from aegis.rng import stream
from aegis.worlds import make_world

WORLD = make_world("additive")
LEGACY = WORLD.legacy("uniform")
BATCH = WORLD.episodes(0, 30, LEGACY, 1)


def values_of(goal: str = "maximise", particles: int = 0) -> PlannedValues:
    problem = replace(WORLD.problem, reward=replace(WORLD.problem.reward, goal=goal))
    belief = build_belief(problem, ModelSettings(), None, {}).update(BATCH)
    rule = Thompson(particles) if particles else Greedy()
    return PlannedValues(problem, plan_policy(belief, rule, stream(1, "values"), ["meta"], LEGACY))


@pytest.mark.parametrize("particles", [0, 3])
def test_it_is_the_mean_of_the_plan(particles: int) -> None:
    model = values_of(particles=particles)
    assert isinstance(model, RewardModel)
    for level in ("meta", "inner"):
        found = model.predict(level, BATCH)
        np.testing.assert_allclose(found, model.plan.values(level, BATCH).mean(axis=0))
        assert model.predict(level, BATCH) is found  # remembered
    other = BATCH.take_episodes(np.arange(3))
    assert len(model.predict("meta", other)) == 3 and len(model.predict("meta", BATCH)) == 30


def test_costs_come_as_costs() -> None:
    model = values_of("minimise")
    np.testing.assert_allclose(model.predict("inner", BATCH), -model.plan.values("inner", BATCH).mean(axis=0))


def test_it_is_stored_with_the_policy_that_uses_it(tmp_path: Path) -> None:
    policy = Capped(WORLD.problem, values_of(), LEGACY, 2.0, ["meta"])
    save_policy(policy, tmp_path / "policy")
    again = read_stored(tmp_path / "policy", WORLD.problem, POLICY_KINDS)
    assert policy_digest(again) == policy_digest(policy)
    np.testing.assert_array_equal(again.full("meta", BATCH), policy.full("meta", BATCH))  # type: ignore[attr-defined]
