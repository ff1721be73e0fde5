"""Planted faults are found."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from audit_cases import (
    INNER,
    audited,
    copied_reward,
    logged,
    previous_action,
    stopped,
    taken_only,
    with_propensities,
    with_taken,
)

from aegis.problem import Batch, Problem
from aegis.rng import stream

LOGS = [("additive", "uniform"), ("clinic", "natural"), ("plant", "natural")]


def codes(problem: Problem, batch: Batch) -> set[str]:
    return set(audited(problem, batch).codes("refused"))


@pytest.mark.parametrize(("world", "legacy"), LOGS)
def test_propensities_that_are_too_low_are_refused(world: str, legacy: str) -> None:
    problem, batch = taken_only(*logged(world, legacy, 600, 1))
    level = INNER[world]
    shifted = with_taken(batch, level, batch.levels[level].mu_taken / 1.3)
    audit = audited(problem, shifted)
    assert audit.codes("refused") == ("miscalibrated-propensities",)
    found = audit.refused[0]
    assert found.level == level and found.figures["mean_weight"] == pytest.approx(1.3, rel=0.35)
    assert "carry-over" not in audit.codes()  # a consequence, not a finding of its own


def test_propensities_that_are_too_high_are_refused_where_support_is_declared_and_a_warning_elsewhere() -> None:
    problem, batch = taken_only(*logged("additive", "uniform", 400, 1))
    shifted = with_taken(batch, "inner", batch.levels["inner"].mu_taken * 1.3)
    audit = audited(problem, shifted)
    assert audit.verdict == "fit with warnings"
    assert audit.codes() == ("weights-below-one",)
    declared, _ = taken_only(problem, batch, least=0.09)
    assert codes(declared, shifted) == {"miscalibrated-propensities"}
    assert not codes(declared, batch)


@pytest.mark.parametrize(("world", "legacy"), [("clinic", "natural"), ("plant", "natural")])
def test_swapped_propensities_are_refused(world: str, legacy: str) -> None:
    problem, batch = logged(world, legacy, 400, 2)
    level = INNER[world]
    full = batch.levels[level].mu_full
    assert full is not None
    swapped = with_propensities(batch, level, np.maximum(full[:, ::-1], 1e-6))
    assert codes(problem, swapped) == {"miscalibrated-propensities"}
    assert codes(problem, batch) == set()


def test_one_action_that_is_off_by_a_third_is_named() -> None:
    problem, batch = logged("additive", "uniform", 1500, 3)
    full = batch.levels["inner"].mu_full
    assert full is not None
    wrong = full.copy()
    wrong[:, 4] *= 1.3
    found = audited(problem, with_propensities(batch, "inner", wrong)).refused
    assert [item.code for item in found] == ["miscalibrated-propensities"]
    assert str(found[0].figures["slice"]).startswith(f"A = {problem.level('inner').actions.values[4]}")


def test_propensities_that_ignore_a_context_are_refused_with_the_slice() -> None:
    problem, batch = logged("clinic", "natural", 1500, 4)
    full = batch.levels["dose"].mu_full
    mask = batch.levels["dose"].available
    assert full is not None and mask is not None
    average = np.where(mask, full.mean(axis=0), 0.0)
    found = audited(problem, with_propensities(batch, "dose", average)).refused
    assert [item.code for item in found] == ["miscalibrated-propensities"]
    assert "where" in str(found[0].figures["slice"])


@pytest.mark.parametrize("taken", [False, True])
def test_rewards_and_contexts_that_carry_over_are_refused(taken: bool) -> None:
    problem, batch = logged("additive", "uniform", 500, 5)
    before = previous_action(problem, batch, "inner")
    table = batch.levels["inner"]
    assert batch.reward is not None
    faults = {
        "reward": replace(batch, reward=batch.reward + before),
        "context": batch.with_level("inner", replace(table, context={"Q": table.context["Q"] + before})),
    }
    for fault in faults.values():
        form = taken_only(problem, fault) if taken else (problem, fault)
        audit = audited(*form)
        assert audit.codes("refused") == ("carry-over",)
        assert "within" in audit.refused[0].fix
        assert audited(replace(form[0], carry_over="within"), form[1]).verdict != "refused"


def test_a_candidate_adds_its_own_bet_on_carry_over() -> None:
    problem, batch = logged("additive", "uniform", 90, 6)
    before = previous_action(problem, batch, "inner")
    assert batch.reward is not None
    fault = replace(batch, reward=batch.reward + 4 * np.sign(before))

    class Upwards:
        weights = np.ones(1)

        def taken(self, level: str, batch: Batch) -> np.ndarray:
            return (batch.levels[level].action >= 6)[None] / 5.0

        def full(self, level: str, batch: Batch) -> np.ndarray:
            return np.tile(np.where(np.arange(11) >= 6, 0.2, 0.0), (1, len(batch.levels[level]), 1))

    wide = replace(problem, reward=replace(problem.reward, range=(-20.0, 20.0)))
    plain = audited(wide, fault, scope=["inner"])
    with_policy = audited(wide, fault, policy=Upwards(), scope=["inner"])
    assert "carry-over" in with_policy.codes("refused")
    assert plain.figures["episodes"] == with_policy.figures["episodes"] == 90


def test_stopping_after_success_is_refused() -> None:
    problem, batch = logged("additive", "uniform", 400, 7)
    assert batch.reward is not None
    assert {"size-follows-action", "size-follows-reward"} <= codes(problem, stopped(batch, "inner", batch.reward > 3))
    # A success that no action brings about: only the rewards tell.
    noise = batch.reward - 2 * problem.level("inner").actions.numbers[batch.levels["inner"].action]
    assert codes(problem, stopped(batch, "inner", noise > 1)) == {"size-follows-reward"}
    at_random = stream(1, "stop").random(noise.size) < 0.1
    assert codes(problem, stopped(batch, "inner", at_random)) == set()


def test_sizes_that_depend_on_the_path_above_are_in_order() -> None:
    problem, batch = logged("additive", "uniform", 600, 8)
    table = batch.levels["inner"]
    above = batch.levels["meta"].action[table.parent]
    place = np.arange(len(table)) % 20
    assert codes(problem, stopped(batch, "inner", place >= 2 * above + 2)) == set()


@pytest.mark.parametrize(("world", "level", "per"), [("additive", None, "episode"), ("plant", "recipe", "recipe")])
def test_a_reward_copied_to_all_rows_is_refused(world: str, level: str | None, per: str) -> None:
    problem, batch = logged(world, "uniform", 60, 9)
    fault = copied_reward(batch, level)
    found = [item for item in audited(problem, fault).refused if item.code == "reward-repeated"]
    assert len(found) == 1 and f"per: {per}" in found[0].fix
    declared = replace(problem, reward=replace(problem.reward, per=per))
    assert "reward-repeated" not in audited(declared, fault).codes()


def test_rare_and_constant_rewards_are_not_taken_for_repeated_ones() -> None:
    problem, batch = logged("additive", "uniform", 200, 10)
    assert batch.reward is not None
    rare = (stream(2, "rare").random(batch.reward.size) < 0.002).astype(np.float64)
    for reward in (rare, np.zeros(rare.size)):
        assert "reward-repeated" not in audited(problem, replace(batch, reward=reward)).codes()


def test_clusters_that_end_after_a_success_are_refused_unless_the_most_is_declared() -> None:
    problem, batch = logged("clinic", "uniform", 900, 11)
    assert batch.reward is not None
    success = batch.episode_means(batch.reward) > 0.6
    cluster = np.cumsum(np.concatenate([[0], success[:-1]]))
    clustered = replace(problem, cluster="machine")
    fault = replace(batch, cluster=cluster)
    assert codes(clustered, fault) == {"cluster-size-follows-reward"}
    largest = int(np.bincount(cluster).max())
    assert codes(replace(clustered, cluster_most=largest), fault) == set()
    assert codes(replace(clustered, cluster_most=largest - 1), fault) == {"cluster-larger-than-declared"}
    assert codes(clustered, replace(batch, cluster=np.arange(900) // 7)) == set()
    shuffled = stream(3, "order").permutation(900)
    timed = replace(batch.take_episodes(shuffled), cluster=cluster[shuffled], time=shuffled.astype(np.float64))
    assert "cluster-size-follows-reward" in codes(replace(clustered, time="started"), timed)
