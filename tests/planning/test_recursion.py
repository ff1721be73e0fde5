"""The recursion on every kind of variable against plain loops over single numbers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import planning_cases as cases
import pytest

from aegis.errors import SettingError
from aegis.mechanisms import ModelSettings, Theta, availability_name, build_belief
from aegis.planning import Integration, Recursion, States
from aegis.policies import Constant, Legacy, Mixture, Uniform
from aegis.problem import Batch, LevelTable, Problem, Reward, Scope, Variable, augmented_context
from aegis.rng import stream


def mask_dose(rows):
    """The first amount is unavailable when it is hot, the last one otherwise: a mask that depends on predicted contexts."""
    hot = rows["heat"] > 0.3
    return np.stack([~hot, np.ones_like(hot), hot], axis=-1)


def known_at(problem, batch, level, row):
    rows = augmented_context(problem, batch, level)
    return {name: values[row] for name, values in rows.items()}


@dataclass(frozen=True)
class KnownAvailability:
    """An availability mechanism that knows the mask: the indicators of closed actions."""

    mask: Callable[[Any], Any]

    def mean(self, rows, count, noisy=None):
        return (~self.mask(rows)).astype(float)


def with_masks(theta, masks):
    functions = {availability_name(level): KnownAvailability(mask) for level, mask in masks.items()}
    return replace(theta, functions={**theta.functions, **functions})


def check(problem, theta, scope, legacy, batch, nodes, masks=None):
    """Compare every level, particle and row with the plain loops."""
    scope, masks = Scope(scope), masks or {}
    recursion = Recursion(problem, with_masks(theta, masks), scope, legacy, False, Integration("quadrature", nodes))
    for level in problem.names:
        values = recursion.values(level, States.of(problem, batch, level))
        rows = len(batch.levels[level])
        assert values.shape == (theta.count, rows, problem.level(level).actions.count)
        above = batch.ancestors(level)
        for s in range(theta.count):
            naive = cases.Naive(problem, cases.single(theta, s), scope, legacy, nodes, masks)
            for row in range(rows):
                index = {name: int(batch.levels[name].action[above[name][row]]) for name in above if name != level}
                wanted = naive.values(level, known_at(problem, batch, level, row), index)
                np.testing.assert_allclose(values[s, row], wanted, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("outcome", ["real", "vector", "categorical", "none"])
@pytest.mark.parametrize("scope", [("recipe", "dose"), ("recipe",)])
def test_all_kinds_of_contexts_and_outcomes(outcome, scope):
    """As many particles as rows, so that a confusion of the two axes would pass no shape check but fail here."""
    inner = (Variable("heat"), cases.GRADE)
    problem = cases.mixed_problem(outcome, inner)
    rng = stream(1, "kinds", outcome)
    theta = cases.learned(problem, rng, "polynomial").draw(rng, 2)
    batch = cases.random_batch(problem, rng, episodes=2, children=1)
    check(problem, theta, scope, cases.looking_legacy(problem), batch, nodes=3)


def test_vector_contexts_with_parents_at_their_own_level():
    problem = cases.mixed_problem("real")
    rng = stream(2, "vectors")
    theta = cases.learned(problem, rng, "polynomial").draw(rng, 2)
    batch = cases.random_batch(problem, rng, episodes=1, children=1)
    check(problem, theta, ("recipe", "dose"), None, batch, nodes=2)


@pytest.mark.parametrize("scope", [("recipe", "dose"), ("recipe",)])
def test_masks_hold_for_the_planner_and_for_the_legacy(scope):
    problem = cases.mixed_problem("none", (Variable("heat"),))
    rng = stream(3, "masks")
    theta = cases.learned(problem, rng, "polynomial").draw(rng, 3)
    batch = cases.random_batch(problem, rng, episodes=3, children=1)
    legacy = cases.looking_legacy(problem)
    check(problem, theta, scope, legacy, batch, 5, {"dose": mask_dose})
    states = States.of(problem, batch, "recipe")
    free, masked = (
        Recursion(problem, known, Scope(scope), legacy, False, Integration("quadrature", 5)).values("recipe", states)
        for known in (theta, with_masks(theta, {"dose": mask_dose}))
    )
    assert np.abs(free - masked).max() > 1e-3


@pytest.mark.parametrize("depth", [1, 2, 3])
@pytest.mark.parametrize("contexts", [(), (2,), (1, 3)])
def test_levels_without_contexts(depth, contexts):
    problem = cases.real_problem(depth, outcome=False, contexts=contexts)
    rng = stream(5, "without", depth)
    theta = cases.learned(problem, rng, "polynomial").draw(rng, 2)
    batch = cases.random_batch(problem, rng, episodes=2, children=1)
    check(problem, theta, problem.names, None, batch, nodes=3)
    check(problem, theta, (problem.outermost.name,), Legacy(problem, {n: Uniform() for n in problem.names}), batch, nodes=3)


@pytest.mark.parametrize("method", ["quadrature", "monte_carlo", "auto"])
def test_nothing_is_integrated_where_nothing_is_unknown(method):
    """Without inner contexts every method is exact and needs no more than one state per action."""
    problem = cases.real_problem(2, contexts=(2,))
    rng = stream(6, "exact")
    theta = cases.learned(problem, rng, "polynomial").draw(rng, 2)
    states = States.of(problem, cases.random_batch(problem, rng, 3), "l2")
    recursion = Recursion(problem, theta, Scope(problem.names), integration=Integration(method, 8, 100))
    assert recursion.size("l2") == 2 * 3
    point = replace(recursion, integration=Integration("point"))
    np.testing.assert_array_equal(recursion.values("l2", states), point.values("l2", states))


def test_a_mechanism_without_parents_and_an_outcome_that_the_reward_ignores():
    levels = cases.real_problem(2).levels
    parents = {"c1": (), "y": ("a1",), "r": ("c1", "a1", "a2")}
    problem = Problem(levels, Reward("r"), Variable("y"), parents)
    rng = stream(7, "ignored")
    theta = cases.learned(problem, rng, "polynomial").draw(rng, 3)
    batch = cases.random_batch(problem, rng, episodes=3, children=1)
    check(problem, theta, problem.names, None, batch, nodes=4)
    without = Problem(levels, Reward("r"), None, {"c1": (), "r": ("c1", "a1", "a2")})
    kept = Theta({name: theta.functions[name] for name in ("c1", "r")}, theta.count)
    for level in problem.names:
        one, other = (
            Recursion(p, t, Scope(p.names), integration=Integration("quadrature", 4)).values(level, States.of(p, batch, level))
            for p, t in ((problem, theta), (without, kept))
        )
        np.testing.assert_allclose(one, other, rtol=1e-10)


@pytest.mark.parametrize("scope", [("l2", "l1"), ("l2",)])
def test_costs_are_negated_and_the_smallest_one_is_sought(scope):
    problem = cases.real_problem(2, goal="minimise")
    rng = stream(8, "costs")
    theta = cases.learned(problem, rng, "polynomial").draw(rng, 2)
    batch = cases.random_batch(problem, rng, episodes=2, children=1)
    check(problem, theta, scope, cases.looking_legacy(problem), batch, nodes=4)
    gains = cases.real_problem(2)
    states = States.of(problem, batch, "l1")
    cost, gain = (Recursion(p, theta, Scope(scope)).values("l1", states) for p in (problem, gains))
    np.testing.assert_array_equal(cost, -gain)


def test_one_particle_is_the_first_of_many():
    problem = cases.mixed_problem("real", (Variable("heat"), cases.GRADE))
    rng = stream(9, "particles")
    theta = cases.learned(problem, rng, "polynomial").draw(rng, 5)
    batch = cases.random_batch(problem, rng, 5)
    for level in problem.names:
        states = States.of(problem, batch, level)
        for method in ("quadrature", "monte_carlo", "point"):
            make = [
                Recursion(problem, t, Scope(problem.names), integration=Integration(method, 4, 16))
                for t in (theta, cases.single(theta, 0))
            ]
            many, one = (recursion.values(level, states) for recursion in make)
            np.testing.assert_allclose(one[0], many[0], rtol=1e-10, atol=1e-12)


def test_no_decisions_have_no_values():
    problem = cases.mixed_problem("real")
    rng = stream(10, "empty")
    theta = cases.learned(problem, rng, "polynomial").draw(rng, 2)
    full = cases.random_batch(problem, rng, 2)
    tables = {}
    for level in problem.levels:
        table = full.levels[level.name]
        tables[level.name] = table.take(np.empty(0, dtype=int), np.empty(0))
    empty = Batch(np.empty(0), tables)
    legacy = cases.looking_legacy(problem)
    for scope in (("recipe", "dose"), ("recipe",)):
        for method in ("quadrature", "monte_carlo", "point"):
            recursion = Recursion(problem, theta, Scope(scope), legacy, False, Integration(method, 2, 4))
            for level in problem.names:
                assert recursion.values(level, States.of(problem, empty, level)).shape == (2, 0, 3)


def test_planning_through_a_legacy_that_is_not_given_is_refused():
    problem = cases.real_problem(2)
    rng = stream(11, "legacy")
    theta = cases.learned(problem, rng).draw(rng, 1)
    states = States.of(problem, cases.random_batch(problem, rng, 1), "l2")
    with pytest.raises(SettingError, match="needs the legacy policy"):
        Recursion(problem, theta, Scope("l2")).values("l2", states)


def test_only_its_own_actions_tell_which_particle_a_legacy_plays():
    """The legacy is 'all first' or 'all last'. Its action at l2 says which; the planner's action at l3 says nothing."""
    problem = cases.real_problem(3, outcome=False, contexts=())
    legacy = Mixture([Legacy(problem, {n: Constant(problem.level(n).actions.values[i]) for n in problem.names}) for i in (0, -1)])
    rng = stream(12, "posterior")
    theta = cases.learned(problem, rng, "polynomial").draw(rng, 2)
    recursion = Recursion(problem, theta, Scope("l3"), legacy)
    values = recursion.values("l3", States.of(problem, cases.random_batch(problem, rng, 1, 1), "l3"))
    reward = theta.functions["r"]
    for code, a3 in enumerate((0.0, 1.0)):
        rows = {"a3": np.full((1, 2), a3), "a2": np.array([[1.0, -1.0]]), "a1": np.array([[-1.0, 2.0]])}
        np.testing.assert_allclose(values[:, 0, code], reward.mean(rows, 2)[..., 0].mean(axis=1), rtol=1e-10)


def test_joint_and_table_models_plan_too():
    problem = cases.mixed_problem("real", (Variable("heat"),))
    rng = stream(13, "structures")
    batch = cases.random_batch(problem, rng, 4)
    theta = cases.learned(problem, rng, "linear", "joint").draw(rng, 4)
    check_joint = Recursion(problem, theta, Scope(problem.names), integration=Integration("quadrature", 8))
    rows = {name: values[None] for name, values in augmented_context(problem, batch, "dose", with_action=True).items()}
    direct = theta.functions["r"].mean(rows, len(batch.reward))[..., 0]
    found = check_joint.values("dose", States.of(problem, batch, "dose"))
    taken = batch.levels["dose"].action
    np.testing.assert_allclose(found[:, np.arange(taken.size), taken], direct, rtol=1e-9)
    table = build_belief(problem, ModelSettings("cells")).update(batch).draw(rng, 4)
    means = table.functions["r"].means.reshape(4, 3, 3)
    states = States.of(problem, batch, "recipe")
    found = Recursion(problem, table, Scope(problem.names)).values("recipe", states)
    np.testing.assert_allclose(found, np.broadcast_to(means.max(axis=2)[:, None], found.shape))


def test_the_rows_of_a_part_are_those_of_the_whole():
    problem = cases.mixed_problem("real", (Variable("heat"),))
    rng = stream(14, "parts")
    states = States.of(problem, cases.random_batch(problem, rng, 3), "dose")
    part = states.part(4, 99)
    assert part.count == states.count - 4
    for name, values in part.rows.items():
        np.testing.assert_array_equal(values, states.rows[name][:, 4:])
    np.testing.assert_array_equal(part.index["recipe"], states.index["recipe"][:, 4:])


def test_an_undecided_outer_action_is_refused():
    problem = cases.real_problem(2)
    rng = stream(15, "undecided")
    batch = cases.random_batch(problem, rng, 2)
    batch = batch.with_level("l2", LevelTable.undecided(batch.levels["l2"].parent, batch.levels["l2"].context))
    with pytest.raises(Exception, match="without an action"):
        States.of(problem, batch, "l1")
