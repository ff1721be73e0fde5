from __future__ import annotations

import functools
import itertools
import math

import numpy as np
import pytest
from validation_cases import WORLD, Faulty, null, studies, two_neighbours

from aegis.policies import Capped, Hybrid, Logged, Mixture
from aegis.problem import Array, Batch, Policy
from aegis.validation import (
    LearnerSetting,
    LongRuns,
    Oracle,
    handover_policy,
    judge_for,
    named_learner,
    runnable_policy,
)
from aegis.validation.truth import expected_episode_means, short_world
from aegis.worlds import WORLDS, World, make_world, true_value
from case_choice import few


class ByAction:
    """A reward model that prefers large actions."""

    def predict(self, level: str, batch: Batch) -> Array:
        return np.tile(np.arange(11.0 if level == "inner" else 7.0), (len(batch.levels[level]), 1))


def candidates(world: World, legacy: Policy) -> dict[str, Policy]:
    problem = world.problem
    capped = Capped(problem, ByAction(), Logged(problem), 2.0)
    return {"capped": capped, "mixture": Mixture([capped, legacy], [0.3, 0.7]), "legacy": Logged(problem)}


@functools.cache
def oracle(spec: str) -> Oracle:
    world = make_world("additive", inner_steps=5)
    return Oracle(world, world.legacy(spec), 2000)


@functools.cache
def integrated(spec: str) -> float:
    return true_value(short_world(oracle(spec).plant), oracle(spec).legacy)


SPECS = ["sign:epsilon=0.3", "constant:value=1.6,epsilon=0.2"]
VALUES = list(itertools.product(SPECS, [("inner",), ("meta", "inner")], ["capped", "mixture", "legacy"]))


@pytest.mark.parametrize(("spec", "scope", "kind"), few(VALUES, VALUES[::4]))
def test_simulated_values_agree_with_numerical_integration(spec: str, scope: tuple[str, ...], kind: str) -> None:
    world, legacy = short_world(oracle(spec).plant), oracle(spec).legacy
    policy = candidates(world, legacy)[kind]
    truth = oracle(spec).truth(policy, scope)
    exact = true_value(world, handover_policy(world.problem, policy, legacy, scope))
    assert truth.error < (0.1 if kind == "mixture" else 0.03)
    assert abs(truth.value - exact) < 4 * truth.error + 1e-3
    assert truth.gain == pytest.approx(truth.value - integrated(spec), abs=1e-9)
    if kind == "legacy":
        assert truth.gain == truth.error == 0.0


@pytest.mark.parametrize("name", WORLDS)
def test_expected_rewards_have_the_mean_of_the_rewards(name: str) -> None:
    world = make_world(name)
    batch = world.episodes(0, 600, world.legacy("uniform"), 5)
    expected, seen = expected_episode_means(world, batch, single=True), batch.episode_means(batch.reward)
    drawn = expected_episode_means(world, batch, single=False)
    for other in (seen, drawn):
        difference = other - expected
        assert abs(difference.mean()) < 4 * difference.std() / np.sqrt(difference.size)
    assert expected.std() < seen.std()


def test_short_worlds_keep_everything_else() -> None:
    plant = short_world(make_world("plant", acidity_sd=0.7))
    assert plant.steps == (1, 1, 1)
    assert plant.acidity_sd == 0.7  # type: ignore[attr-defined]
    clinic = make_world("clinic")
    assert short_world(clinic) is clinic


def test_the_legacy_takes_the_place_of_the_log() -> None:
    world = make_world("additive")
    legacy, problem = world.legacy("uniform"), world.problem
    assert runnable_policy(Logged(problem), legacy) is legacy
    found = runnable_policy(
        Hybrid(problem, ("inner",), Capped(problem, ByAction(), Logged(problem), 3.0), Logged(problem)), legacy
    )
    assert isinstance(found, Hybrid) and isinstance(found.new, Capped)
    assert found.legacy is legacy and found.new.legacy is legacy and found.new.limit == 3.0
    mixed = runnable_policy(Mixture([Logged(problem), legacy], [0.25, 0.75]), legacy)
    assert isinstance(mixed, Mixture) and mixed.policies == (legacy, legacy) and mixed.shares == (0.25, 0.75)
    assert runnable_policy(legacy, legacy) is legacy


@pytest.mark.parametrize("name", [name for name in studies() if name.startswith("null")])
def test_the_nulls_gain_exactly_nothing(name: str) -> None:
    study = studies()[name]
    legacy = study.world.legacy(study.legacy)
    log = study.log(legacy, 0)
    candidate, _ = study.learner(study.problem, log, 0)
    world = short_world(study.world)
    simulated = Oracle(study.world, legacy, 4000)
    for scope in (("inner",), ("meta", "inner")):
        hybrid = handover_policy(study.problem, candidate.policy, legacy, scope)
        assert true_value(world, hybrid) == pytest.approx(true_value(world, legacy), abs=1e-6)
        truth = simulated.truth(candidate.policy, scope)
        assert abs(truth.gain) < 3.5 * truth.error


@pytest.mark.parametrize("name", [name for name in studies() if name.startswith("slightly worse")])
def test_the_slightly_worse_candidates_are_slightly_worse(name: str) -> None:
    study = studies()[name]
    legacy = study.world.legacy(study.legacy)
    candidate, _ = study.learner(study.problem, study.log(legacy, 0), 0)
    gain = true_value(
        short_world(study.world), handover_policy(study.problem, candidate.policy, legacy, ("inner",))
    ) - true_value(short_world(study.world), legacy)
    assert -0.2 < gain < -0.05


def test_neighbours_have_the_wanted_mean() -> None:
    values = np.linspace(-2, 2, 11)
    means = np.array([-2.0, -1.9, 0.0, 0.56, 2.0])
    found = two_neighbours(values, means)
    assert found @ values == pytest.approx(means)
    assert found.min() >= 0 and (np.count_nonzero(found, axis=1) <= 2).all()
    assert found.sum(axis=1) == pytest.approx(np.ones(5))


def test_null_learners_leave_the_grid_to_the_first_units() -> None:
    world = make_world("additive")
    log = world.episodes(0, 10, world.legacy("uniform"), 1)
    _, sides = null((-2.0, 2.0))(world.problem, log, 0)
    assert sides.splits == ()


def test_the_judge_of_any_plant_agrees_with_the_equations() -> None:
    legacy = WORLD.legacy("sign:epsilon=0.3")
    exact, long = judge_for(WORLD, legacy, 4000), judge_for(Faulty(), legacy, 4000)
    assert isinstance(exact, Oracle) and isinstance(long, LongRuns)
    candidate = named_learner("capped").prepare(LearnerSetting(WORLD, legacy, ("inner",), exact, 1))(
        WORLD.episodes(0, 60, legacy, 3), 0
    )
    truth, measured = exact.truth(candidate.policy, ("inner",)), long.truth(candidate.policy, ("inner",))
    assert abs(truth.gain - measured.gain) < 4 * math.hypot(truth.gain_error, measured.gain_error)
    assert abs(truth.value - measured.value) < 4 * math.hypot(truth.error, measured.error)
    assert 0 < measured.gain_error < 0.1 and measured.gain_error != measured.error
    assert long._legacy.mean() == pytest.approx(exact.legacy_value, abs=0.1)
    assert long.truth(legacy, ("inner",)).gain == long.truth(legacy, ("inner",)).gain_error == 0.0
