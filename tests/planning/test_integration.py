"""Integration over contexts: the methods agree where they should, and 'auto' is exact enough where the closed form is not."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import planning_cases as cases
import pytest

from aegis.errors import SettingError
from aegis.mechanisms import ModelSettings, Theta, build_belief, fit_scalings
from aegis.planning import Greedy, Integration, Recursion, States, default_integration, plan_policy
from aegis.policies import Legacy, Uniform
from aegis.problem import Scope, Variable
from aegis.rng import stream
from aegis.worlds import make_world

FINE = Integration("quadrature", 128)


def scopes(problem):
    names = problem.names
    return [Scope(chosen) for size in range(1, len(names) + 1) for chosen in itertools.combinations(names, size)]


def all_controlled_below(problem, scope, level):
    names = problem.names
    return all(name in scope for name in names[names.index(level) + 1 :])


def setting(depth, features="linear", seed=1):
    problem = cases.real_problem(depth)
    rng = stream(seed, "integration", depth)
    theta = cases.learned(problem, rng, features).draw(rng, 3)
    return problem, theta, cases.random_batch(problem, rng, 1, 1), cases.looking_legacy(problem)


@pytest.mark.parametrize("depth", [2, 3])
def test_closed_form_quadrature_and_sampling_agree_on_linear_gaussian_problems(depth):
    problem, theta, batch, legacy = setting(depth)
    quadrature = Integration("quadrature", 64)
    sampling = Integration("monte_carlo", samples=20_000 if depth == 2 else 100)
    for scope in scopes(problem):
        for level in problem.names:
            states = States.of(problem, batch, level)
            recursion = Recursion(problem, theta, scope, legacy, True, quadrature)
            values = recursion.values(level, states)
            sampled = replace(recursion, integration=sampling).values(level, states)
            auto = replace(recursion, integration=Integration()).values(level, states)
            np.testing.assert_allclose(auto, values, rtol=1e-6, atol=1e-6)
            if all_controlled_below(problem, scope, level):
                closed = replace(recursion, integration=Integration("closed")).values(level, states)
                np.testing.assert_allclose(closed, values, rtol=1e-9, atol=1e-9)
                np.testing.assert_allclose(sampled, values, rtol=1e-9, atol=1e-9)  # antithetic draws: exact on straight lines
            else:
                np.testing.assert_allclose(sampled, values, atol=0.02 if depth == 2 else 0.2)


def test_the_closed_form_is_refused_where_it_is_not_exact():
    problem, theta, batch, legacy = setting(3)
    states = States.of(problem, batch, "l3")
    closed = Integration("closed")
    for recursion in (
        Recursion(problem, theta, Scope(problem.names), legacy, False, closed),
        Recursion(problem, theta, Scope(("l3", "l1")), legacy, True, closed),
    ):
        with pytest.raises(SettingError, match="the closed form is not exact"):
            recursion.values("l3", states)


def far_from_the_mean(recursion, level, states):
    """How far the values at the mean contexts are from the true ones: what 'auto' must not return."""
    point = replace(recursion, integration=Integration("point")).values(level, states)
    return np.abs(point - replace(recursion, integration=FINE).values(level, states)).max()


def test_auto_is_not_the_closed_form_with_interactions():
    problem, theta, batch, legacy = setting(2, "polynomial")
    states = States.of(problem, batch, "l2")
    for scope in scopes(problem):
        recursion = Recursion(problem, theta, scope, legacy, False)
        fine = replace(recursion, integration=FINE).values("l2", states)
        np.testing.assert_allclose(recursion.values("l2", states), fine, atol=0.01)
        assert far_from_the_mean(recursion, "l2", states) > 0.1


def test_auto_is_not_the_closed_form_through_a_legacy_that_looks():
    problem, theta, batch, legacy = setting(2)
    states = States.of(problem, batch, "l2")
    recursion = Recursion(problem, theta, Scope("l2"), legacy, True)
    fine = replace(recursion, integration=FINE).values("l2", states)
    np.testing.assert_allclose(recursion.values("l2", states), fine, atol=1e-6)
    assert far_from_the_mean(recursion, "l2", states) > 1e-3
    deep, theta, batch, legacy = setting(3)
    states = States.of(deep, batch, "l3")
    recursion = Recursion(deep, theta, Scope(("l3", "l2")), legacy, True, Integration(nodes=24))
    fine = replace(recursion, integration=Integration("quadrature", 40)).values("l3", states)
    np.testing.assert_allclose(recursion.values("l3", states), fine, atol=1e-4)
    point = replace(recursion, integration=Integration("point")).values("l3", states)
    assert np.abs(point - fine).max() > 1e-3


def test_auto_is_not_the_closed_form_with_categorical_contexts():
    problem = cases.mixed_problem("none", (cases.GRADE,))
    rng = stream(2, "categories")
    belief = cases.learned(problem, rng, "polynomial")
    theta = belief.draw(rng, 3)
    states = States.of(problem, cases.random_batch(problem, rng, 1, 1), "recipe")
    for affine in (False, True):  # even if somebody calls the mechanisms affine
        recursion = Recursion(problem, theta, Scope(problem.names), None, affine)
        fine = replace(recursion, integration=FINE).values("recipe", states)
        np.testing.assert_allclose(recursion.values("recipe", states), fine, rtol=1e-12)
        assert far_from_the_mean(recursion, "recipe", states) > 0.01
    sampled = replace(recursion, integration=Integration("monte_carlo", samples=10_000)).values("recipe", states)
    np.testing.assert_allclose(sampled, fine, atol=0.03)


def test_auto_samples_vectors():
    problem = cases.mixed_problem("real", (Variable("heat"), cases.LOAD))
    rng = stream(3, "auto vectors")
    theta = cases.learned(problem, rng, "polynomial").draw(rng, 2)
    states = States.of(problem, cases.random_batch(problem, rng, 1, 1), "recipe")
    recursion = Recursion(problem, theta, Scope(problem.names), integration=Integration(samples=20_000))
    assert recursion.size("recipe") == 3 * 20_000 * 3
    fine = replace(recursion, integration=Integration("quadrature", 16)).values("recipe", states)
    scale = np.abs(fine).max()
    np.testing.assert_allclose(recursion.values("recipe", states), fine, atol=0.03 * scale)


def kinked(mean, spread):
    """Actions -1 and 1, reward a c, c ~ N(mean, spread^2): the planned value is E|c|."""
    problem = cases.real_problem(2, outcome=False, contexts=(1,))
    functions = {
        "c1": cases.Formula(lambda rows: mean, spread),
        "r": cases.Formula(lambda rows: np.sign(rows["a1"] + 0.5) * rows["c1"]),
    }
    return problem, Theta(functions, 1)


@pytest.mark.parametrize("mean", [0.0, 0.4, -1.5])
def test_32_nodes_are_enough_for_a_kink_and_4_are_not(mean):
    """Within 1.6 per cent of the spread of a fine trapezoid rule; 4 nodes miss by more than 5 per cent somewhere."""
    spread = 1.3
    problem, theta = kinked(mean, spread)
    grid = np.linspace(mean - 9 * spread, mean + 9 * spread, 20_001)
    density = np.exp(-0.5 * np.square((grid - mean) / spread)) / (spread * np.sqrt(2 * np.pi))
    truth = np.trapezoid(np.abs(grid) * density, grid)
    states = States({}, {}, 1)
    for nodes in (32, 64):
        found = Recursion(problem, theta, Scope(problem.names), integration=Integration("quadrature", nodes)).values("l2", states)
        np.testing.assert_allclose(found, truth, atol=0.016 * spread)
    auto = Recursion(problem, theta, Scope(problem.names)).values("l2", states)
    np.testing.assert_allclose(auto, truth, atol=0.016 * spread)
    if mean == 0.0:
        few = Recursion(problem, theta, Scope(problem.names), integration=Integration("quadrature", 4)).values("l2", states)
        assert np.abs(few - truth).min() > 0.05 * spread


def test_common_random_numbers_do_not_depend_on_who_else_is_asked():
    problem, theta, _, legacy = setting(2, "polynomial")
    batch = cases.random_batch(problem, stream(4, "common"), 4, 1)
    states = States.of(problem, batch, "l2")
    recursion = Recursion(problem, theta, Scope(problem.names), legacy, False, Integration("monte_carlo", samples=64))
    whole = recursion.values("l2", states)
    np.testing.assert_allclose(recursion.values("l2", states.part(2, 3)), whole[:, 2:3], rtol=1e-12)
    np.testing.assert_array_equal(recursion.values("l2", states), whole)
    other = replace(recursion, integration=Integration("monte_carlo", samples=64, seed=1)).values("l2", states)
    assert np.abs(other - whole).max() > 1e-6


@pytest.mark.parametrize("method", ["quadrature", "monte_carlo"])
def test_weights_sum_to_one_and_nodes_have_the_right_moments(method):
    problem = cases.mixed_problem("real", (Variable("heat"), cases.LOAD, cases.GRADE))
    rng = stream(5, "moments")
    theta = cases.learned(problem, rng).draw(rng, 2)
    states = States.of(problem, cases.random_batch(problem, rng, 2, 1), "recipe").each_action(problem, "recipe")
    chosen = Integration(method, 4, 40_000)
    deeper, weights = chosen.extend(problem, theta, "dose", states, method)
    nodes = chosen.points(problem, theta, "dose", method)
    assert nodes == (4**3 * 3 if method == "quadrature" else 40_000)
    assert deeper.count == states.count * nodes
    np.testing.assert_allclose(weights.sum(axis=-1), 1.0, rtol=1e-10)
    tolerance = 1e-9 if method == "quadrature" else 0.05
    heat = np.broadcast_to(deeper.rows["heat"], (2, deeper.count)).reshape(2, states.count, nodes)
    mean = (weights * heat).sum(axis=-1)
    np.testing.assert_allclose(mean, theta.functions["heat"].mean(states.rows, states.count)[..., 0], atol=tolerance)
    variance = (weights * np.square(heat - mean[..., None])).sum(axis=-1)
    np.testing.assert_allclose(variance / np.square(theta.functions["heat"].sd), 1.0, atol=tolerance)
    load = np.broadcast_to(deeper.rows["load"], (2, deeper.count, 2)).reshape(2, states.count, nodes, 2)
    # the mean of load is linear in heat, so its mean is that at the mean heat
    at_mean = theta.functions["load"].mean({**states.rows, "heat": mean}, states.count)
    np.testing.assert_allclose((weights[..., None] * load).sum(axis=2), at_mean, atol=max(tolerance, 1e-9) * 2)
    grade = np.broadcast_to(deeper.rows["grade"], (2, deeper.count)).reshape(2, states.count, nodes)
    shares = [(weights * (grade == code)).sum(axis=-1) for code in range(3)]
    expected = theta.functions["grade"].mean(deeper.rows, deeper.count).reshape(2, states.count, nodes, 3)
    wanted = (weights[..., None] * expected).sum(axis=2)
    np.testing.assert_allclose(np.stack(shares, axis=-1), wanted, atol=max(tolerance / 2, 1e-9))


@pytest.mark.parametrize(
    "wrong",
    [{"method": "exact"}, {"nodes": 0}, {"nodes": 1000}, {"samples": 0}],
    ids=["method", "no nodes", "too many", "samples"],
)
def test_settings_are_checked(wrong):
    with pytest.raises(SettingError):
        Integration(**wrong)


def test_a_rule_with_too_many_points_is_refused():
    problem = cases.mixed_problem("real", (cases.LOAD, Variable("heat")))
    rng = stream(6, "many points")
    theta = cases.learned(problem, rng).draw(rng, 1)
    states = States.of(problem, cases.random_batch(problem, rng, 1, 1), "recipe")
    with pytest.raises(SettingError, match="needs 2097152 points"):
        Recursion(problem, theta, Scope(problem.names), integration=FINE).values("recipe", states)


def test_the_most_nodes_allowed_still_work():
    problem, theta = kinked(0.0, 1.0)
    found = Recursion(problem, theta, Scope(problem.names), integration=Integration("quadrature", 256)).values(
        "l2", States({}, {}, 1)
    )
    np.testing.assert_allclose(found, np.sqrt(2 / np.pi), atol=2e-3)


def test_a_legacy_that_looks_at_nothing_is_a_plain_average():
    problem, theta, batch, _ = setting(2)
    uniform = Legacy(problem, {name: Uniform() for name in problem.names})
    states = States.of(problem, batch, "l2")
    recursion = Recursion(problem, theta, Scope("l2"), uniform, True)
    point = replace(recursion, integration=Integration("point")).values("l2", states)  # affine and averaged: exact at the mean
    np.testing.assert_allclose(recursion.values("l2", states), point, rtol=1e-9, atol=1e-9)


def test_two_contexts_of_a_level_are_sampled_independently():
    problem = cases.real_problem(2, contexts=(1, 1))
    pair = replace(problem.innermost, context=(Variable("one"), Variable("two")))
    problem = replace(problem, levels=(problem.outermost, pair), parents={})
    rng = stream(3, "pair")
    theta = cases.learned(problem, rng).point()
    states = States.of(problem, cases.random_batch(problem, rng, 1, 1), problem.outermost.name)
    wide = states.each_action(problem, problem.outermost.name)
    sampled, _ = Integration(samples=400).extend(problem, theta, problem.innermost.name, wide, "monte_carlo")
    one = sampled.rows["one"][0, :400]
    two = sampled.rows["two"][0, :400] - theta.functions["two"].mean(sampled.rows, sampled.count)[0, :400, 0]
    assert np.ptp(one) > 0 and np.ptp(two) > 0
    assert abs(np.corrcoef(one, two)[0, 1]) < 4 / np.sqrt(200)  # draws come in pairs of opposite sign


def test_few_levels_are_planned_finely() -> None:
    for name, nodes, samples in (("additive", 32, 256), ("clinic", 32, 256), ("plant", 8, 64)):
        found = default_integration(make_world(name).problem)
        assert (found.nodes, found.samples) == (nodes, samples)


def test_three_levels_are_planned_as_well_as_with_three_times_the_nodes() -> None:
    world = make_world("plant")
    log = world.episodes(0, 150, world.legacy("uniform"), 5)
    settings = ModelSettings(features="fourier", count=48, feature_seed=0)
    belief = build_belief(world.problem, settings, None, fit_scalings(world.problem, [log])).update(log)
    fresh = world.episodes(1000, 2, world.legacy("uniform"), 6)
    usual, fine = (
        plan_policy(belief, Greedy(), stream(1, "unused"), integration=integration).values("batch", fresh)[0]
        for integration in (None, Integration(nodes=24))
    )
    assert np.abs(usual - fine).max() < 0.03  # with one node the error is 0.16
    best = fine.max(axis=1)
    assert (best - fine[np.arange(len(fine)), usual.argmax(axis=1)]).max() < 0.001 * best.mean()
