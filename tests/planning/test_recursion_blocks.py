"""Planning many decisions: equal ones are planned once, blocks change nothing, and memory is bounded by features."""

from __future__ import annotations

import numpy as np
import planning_cases as cases
import pytest
from hypothesis import given, settings
from hypothesis import strategies as hs

from aegis.mechanisms import ModelSettings, build_belief
from aegis.planning import Greedy, Integration, Recursion, States, Thompson, plan_policy
from aegis.planning.recursion import DISTINCT_FROM, distinct_states, largest_feature_count, values_in_blocks
from aegis.problem import Scope
from aegis.rng import stream


def some_states(seed: int, count: int = 40) -> States:
    rng = stream(seed, "distinct")
    rows = {"x": rng.integers(0, 3, (1, count)).astype(float), "v": rng.integers(0, 2, (1, count, 2)).astype(float)}
    return States(rows, {"outer": rng.integers(0, 2, (1, count)).astype(np.int32)}, count)


@given(hs.integers(0, 2**20), hs.integers(1, 60))
@settings(max_examples=40, deadline=None)
def test_distinct_states_in_order_of_first_appearance(seed, count):
    states = some_states(seed, count)
    found, places = distinct_states(states)
    keys = [
        (states.rows["x"][0, i], *states.rows["v"][0, i], states.index["outer"][0, i])  # one tuple per state
        for i in range(count)
    ]
    order = list(dict.fromkeys(keys))
    assert found.count == len(order)
    assert [order[place] for place in places] == keys
    for part, whole in ((found.rows, states.rows), (found.index, states.index)):
        for name, values in part.items():
            np.testing.assert_array_equal(values[:, places], whole[name])


def test_states_on_which_particles_disagree_stay_as_they_are():
    states = some_states(1)
    apart = States({**states.rows, "x": np.repeat(states.rows["x"], 2, axis=0)}, states.index, states.count)
    found, places = distinct_states(apart)
    assert found is apart and places.tolist() == list(range(apart.count))


@pytest.mark.parametrize("features", ["linear", "polynomial", "fourier"])
def test_equal_decisions_are_planned_once(features, monkeypatch):
    problem = cases.real_problem(2)
    rng = stream(2, features)
    belief = cases.learned(problem, rng, features)
    batch = cases.random_batch(problem, rng, 7, 1)
    again = batch.take_episodes(np.arange(DISTINCT_FROM + 6) % 7)
    policy = plan_policy(belief, Greedy(), rng, integration=Integration("quadrature", 8))
    asked: list[int] = []
    plain = Recursion.values

    def counted(self, level, states):
        asked.append(states.count if level == problem.outermost.name else 0)
        return plain(self, level, states)

    monkeypatch.setattr(Recursion, "values", counted)
    once, many = (policy.values(problem.outermost.name, part) for part in (batch, again))
    assert sum(asked) == 7 + 7
    np.testing.assert_allclose(many, once[:, np.arange(DISTINCT_FROM + 6) % 7], rtol=1e-12)


def test_blocks_count_features(monkeypatch):
    asked: list[str] = []
    plain = Recursion.values
    monkeypatch.setattr(Recursion, "values", lambda self, level, states: asked.append(level) or plain(self, level, states))
    problem = cases.real_problem(2)
    rng = stream(3, "features")
    small, large = (
        build_belief(problem, ModelSettings(features="fourier", count=count, linear_terms=False)).draw(rng, 2)
        for count in (10, 30)
    )
    assert (largest_feature_count(small), largest_feature_count(large)) == (11, 31)
    states = States.of(problem, cases.random_batch(problem, rng, 12, 1), problem.outermost.name)
    level, scope = problem.outermost.name, Scope(problem.names)
    for theta in (small, large):
        recursion = Recursion(problem, theta, scope, integration=Integration("quadrature", 4))
        whole = recursion.values(level, states)
        one_row = recursion.size(level) * theta.count * largest_feature_count(theta)
        for block, calls in ((1, 12), (5 * one_row, 3)):
            asked.clear()
            np.testing.assert_allclose(values_in_blocks(recursion, level, states, block), whole, rtol=1e-5, atol=1e-5)
            assert asked.count(level) == calls
    assert largest_feature_count(build_belief(problem, ModelSettings(structure="cells")).point()) == 1
    assert plan_policy(build_belief(problem), Thompson(2), rng).theta.count == 2


@pytest.mark.parametrize("at_once", [1, 200, 1000])
def test_one_state_that_unfolds_into_too_much_is_cut_by_its_actions(at_once, monkeypatch):
    problem = cases.real_problem(3)
    rng = stream(4, "cut")
    theta = cases.learned(problem, rng, "fourier").draw(rng, 2)
    states = States.of(problem, cases.random_batch(problem, rng, 2, 1), problem.outermost.name)
    recursion = Recursion(problem, theta, Scope(problem.names), integration=Integration("quadrature", 4))
    whole = recursion.values(problem.outermost.name, states)
    held: list[int] = []
    plain = Recursion._rewards
    monkeypatch.setattr("aegis.planning.recursion.AT_ONCE", at_once)
    monkeypatch.setattr(Recursion, "_rewards", lambda self, own: held.append(own.count) or plain(self, own))
    np.testing.assert_allclose(recursion.values(problem.outermost.name, states), whole, rtol=1e-5, atol=1e-5)
    actions, least = problem.innermost.actions.count, 4  # the nodes of one decision cannot be told apart
    assert max(held) * actions * theta.count <= max(at_once, least * actions * theta.count)
    assert sum(held) * actions == recursion.size(problem.outermost.name) * states.count
