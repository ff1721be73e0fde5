"""Several planned policies asked as one: each episode gets the answer of its own member."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import planning_cases as cases
import pytest

from aegis.mechanisms import ModelSettings, StackedBelief, build_belief
from aegis.planning import RULES, ByLevel, DOptimal, PlannedRuns, Thompson, plan_policy
from aegis.problem import Scope, concat
from aegis.rng import stream


def together(rule, problem, scope=None, features="linear", commit="nested", runs=3):
    """Return the policies of some runs, and all of them as one."""
    scope = problem.scope(scope)
    beliefs = [
        build_belief(problem, ModelSettings(features=features, count=12), scope, None, seed).update(
            cases.random_batch(problem, stream(seed, "data"), masks=problem.levels[-1].masked)
        )
        for seed in range(runs)
    ]
    legacy = cases.looking_legacy(problem)
    members = [plan_policy(belief, rule, stream(seed, "plan"), scope, legacy, commit) for seed, belief in enumerate(beliefs)]
    stacks = StackedBelief.of(beliefs).stacks
    return members, PlannedRuns(members[0], tuple(member.choice for member in members), stacks)


def answers_match(members, policy, batches):
    joined = concat(batches)
    np.testing.assert_array_equal(policy.weights, members[0].weights)
    for level in joined.levels:
        for ask in ("full", "taken"):
            wanted = [getattr(member, ask)(level, batch) for member, batch in zip(members, batches, strict=True)]
            np.testing.assert_array_equal(getattr(policy, ask)(level, joined), np.concatenate(wanted, axis=1))


def masked(problem):
    inner = problem.levels[-1]
    return replace(problem, levels=(*problem.levels[:-1], replace(inner, available=("o1", "o2", "o3"))))


@pytest.mark.parametrize("name", RULES)
@pytest.mark.parametrize("depth", [1, 2])
def test_every_rule(name, depth):
    problem = cases.real_problem(depth)
    rule = RULES[name](**({"draws": 6} if name in ("ucb", "lcb", "ids") else {}))
    members, policy = together(rule, problem)
    answers_match(members, policy, [cases.random_batch(problem, stream(s, "asked"), 1, 3) for s in range(3)])


@pytest.mark.parametrize("commit", ["nested", "joint", "flat"])
@pytest.mark.parametrize("features", ["linear", "fourier"])
def test_every_commit_shape_with_three_levels_and_masks(commit, features):
    problem = masked(cases.real_problem(3))
    members, policy = together(Thompson(2), problem, None, features, commit, 2)
    answers_match(members, policy, [cases.random_batch(problem, stream(s, "asked"), 1, 2, True) for s in range(2)])


@pytest.mark.parametrize("scope", [("l2",), ("l1",), ("l2", "l1")])
def test_every_scope_around_a_legacy(scope):
    problem = cases.real_problem(2)
    members, policy = together(Thompson(3), problem, Scope(scope), "polynomial")
    answers_match(members, policy, [cases.random_batch(problem, stream(s, "asked"), 1, 2) for s in range(3)])


def test_rules_by_level_pair_their_particles():
    problem = cases.real_problem(2)
    members, policy = together(ByLevel(DOptimal(), Thompson(4)), problem)
    answers_match(members, policy, [cases.random_batch(problem, stream(s, "asked"), 1, 2) for s in range(3)])


def test_episodes_of_different_lengths_are_asked_one_by_one():
    problem = cases.real_problem(2)
    members, policy = together(Thompson(2), problem)
    answers_match(members, policy, [cases.random_batch(problem, stream(s, "asked"), 1, 2 + s % 2) for s in range(3)])
