"""Mixtures as conditional policies, against loops that share no code with them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import policy_examples as ex
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aegis.errors import PolicyError
from aegis.policies import (
    Legacy,
    Mixture,
    Natural,
    Uniform,
    path_full,
    path_posterior,
    path_taken,
    sequential_full,
    sequential_taken,
    sums_before,
)
from aegis.policies.composites import decision_positions, sequential_posterior

CASES = st.tuples(st.integers(1, 3), st.integers(0, 10**6), st.integers(1, 5), st.sampled_from([0.0, 0.3, 0.6]))


def example(case):
    depth, seed, particles, zeros = case
    problem = ex.problem(depth)
    batch = ex.batch(problem, seed, episodes=3)
    return problem, batch, ex.scripted(problem, batch, particles, seed + 1, zeros)


def chance(policy, particle, level, batch, row):
    """One particle's probability of one logged action."""
    return float(policy.tables[level][particle, row, batch.levels[level].action[row]])


def path_of(batch, level, row):
    """The decisions above one decision and itself, outermost first, by walking up."""
    names = list(batch.levels)
    found = []
    for name in reversed(names[: names.index(level) + 1]):
        found.append((name, row))
        row = int(batch.levels[name].parent[row])
    return found[::-1]


def depth_first(batch, episode):
    """All decisions of an episode in order, by recursion."""
    names = list(batch.levels)

    def below(depth, parent):
        if depth == len(names):
            return
        for row in range(len(batch.levels[names[depth]])):
            if batch.levels[names[depth]].parent[row] == parent:
                yield names[depth], row
                yield from below(depth + 1, row)

    return list(below(0, episode))


def posterior(policy, batch, history):
    """Weights over particles given (level, row) decisions, 0 if the history is impossible."""
    mass = [float(p) for p in policy.weights]
    for level, row in history:
        mass = [m * chance(policy, n, level, batch, row) for n, m in enumerate(mass)]
    total = sum(mass)
    if len(mass) == 1:
        return [1.0]
    return [m / total if total > 0 else 0.0 for m in mass]


@settings(max_examples=25, deadline=None)
@given(CASES)
def test_path_form_conditions_on_the_actions_above(case):
    _, batch, policy = example(case)
    for level, table in batch.levels.items():
        weights, full, taken = (f(policy, level, batch) for f in (path_posterior, path_full, path_taken))
        assert weights.shape == (policy.weights.size, len(table))
        for row in range(len(table)):
            q = posterior(policy, batch, path_of(batch, level, row)[:-1])
            np.testing.assert_allclose(weights[:, row], q, atol=1e-12)
            np.testing.assert_allclose(full[row], sum(q[n] * policy.tables[level][n, row] for n in range(len(q))), atol=1e-12)
            assert taken[row] == pytest.approx(full[row][table.action[row]], abs=1e-15)


@settings(max_examples=25, deadline=None)
@given(CASES)
def test_the_product_over_a_path_is_the_mean_of_products(case):
    problem, batch, policy = example(case)
    level = problem.innermost.name
    rows = batch.ancestors(level)
    product = np.prod([path_taken(policy, name, batch)[rows[name]] for name in batch.levels], axis=0)
    for row in range(len(batch.levels[level])):
        expected = 0.0
        for n, weight in enumerate(policy.weights):
            expected += weight * np.prod([chance(policy, n, name, batch, at) for name, at in path_of(batch, level, row)])
        assert product[row] == pytest.approx(expected, rel=1e-10, abs=1e-15)


@settings(max_examples=25, deadline=None)
@given(CASES)
def test_sequential_form_conditions_on_everything_earlier_in_the_episode(case):
    _, batch, policy = example(case)
    weights = {name: sequential_posterior(policy, name, batch) for name in batch.levels}
    full = {name: sequential_full(policy, name, batch) for name in batch.levels}
    taken = {name: sequential_taken(policy, name, batch) for name in batch.levels}
    visited = 0
    for episode in range(len(batch)):
        order = depth_first(batch, episode)
        visited += len(order)
        product = 1.0
        for position, (level, row) in enumerate(order):
            q = posterior(policy, batch, order[:position])
            np.testing.assert_allclose(weights[level][:, row], q, atol=1e-12)
            np.testing.assert_allclose(
                full[level][row], sum(q[n] * policy.tables[level][n, row] for n in range(len(q))), atol=1e-12
            )
            product *= taken[level][row]
        expected = sum(
            weight * np.prod([chance(policy, n, level, batch, row) for level, row in order])
            for n, weight in enumerate(policy.weights)
        )
        assert product == pytest.approx(expected, rel=1e-9, abs=1e-300)
    assert visited == sum(len(table) for table in batch.levels.values())


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 10**6), st.integers(2, 4))
def test_a_batch_under_construction_counts_the_actions_it_holds(seed, particles):
    problem = ex.problem(3)
    complete = ex.batch(problem, seed, episodes=3)
    policy = ex.scripted(problem, complete, particles, seed, 0.2)
    partial = ex.undecided(complete, "recipe")
    np.testing.assert_array_equal(path_posterior(policy, "recipe", partial), path_posterior(policy, "recipe", complete))
    np.testing.assert_array_equal(path_full(policy, "recipe", partial), path_full(policy, "recipe", complete))
    weights = sequential_posterior(policy, "recipe", partial)
    assert sequential_full(policy, "recipe", partial).shape == (weights.shape[1], 3)
    for episode in range(3):
        order = depth_first(partial, episode)
        for position, (level, row) in enumerate(order):
            if level == "recipe":  # only plants have been decided so far
                q = posterior(policy, complete, [(name, at) for name, at in order[:position] if name == "plant"])
                np.testing.assert_allclose(weights[:, row], q, atol=1e-12)


@pytest.mark.parametrize("seed", range(6))
def test_siblings_decided_one_after_the_other_count_as_they_come(seed):
    problem = ex.problem(2)
    complete = ex.batch(problem, seed, episodes=2, childless=False)
    policy = ex.scripted(problem, complete, 3, 5)
    table = complete.levels["dose"]
    known = np.arange(len(table)) % 2 == 0
    partial = complete.with_level("dose", replace(table, action=np.where(known, table.action, -1).astype(np.int32)))
    found = sequential_posterior(policy, "dose", partial)
    for episode in range(2):
        order = depth_first(complete, episode)
        for position, (level, row) in enumerate(order):
            if level == "dose":
                history = [(name, at) for name, at in order[:position] if name == "recipe" or known[at]]
                np.testing.assert_allclose(found[:, row], posterior(policy, complete, history), atol=1e-12)


def test_long_histories_stay_in_logarithms():
    """Products of 3000 probabilities underflow; their ratios do not."""
    problem = ex.problem(1)
    count = 3000
    batch = ex.batch(problem, 0, episodes=1)
    table = ex.LevelTable.undecided(np.zeros(count), {"temperature": np.zeros(count)})
    batch = batch.with_level("dose", table.decided(np.zeros(count), np.ones(count)))
    first = np.full((count, 5), 0.25 / 4 * 3.75)
    first[:, 0] = 0.0625
    second = np.full((count, 5), 0.2)
    second[:, 0] = 0.0625 * (1 + 1e-3)
    policy = ex.Scripted(np.array([0.5, 0.5]), {"dose": np.stack([first, second])})
    last = sequential_posterior(policy, "dose", batch)[:, -1]
    assert last[1] / last[0] == pytest.approx((1 + 1e-3) ** (count - 1), rel=1e-8)
    assert last.sum() == pytest.approx(1.0)


def test_the_result_for_an_episode_does_not_depend_on_its_neighbours():
    problem = ex.problem(3)
    batch = ex.batch(problem, 21, episodes=12)
    rules = {"plant": Uniform(), "recipe": Uniform()}
    doses = [Natural({"temperature": slope, "speed": -slope / 3}, 0.5) for slope in (0.3, 0.9, -1.7)]
    policy = Mixture([Legacy(problem, {**rules, "dose": dose}) for dose in doses])
    whole = sequential_taken(policy, "dose", batch)
    parts = [sequential_taken(policy, "dose", batch.take_episodes([episode])) for episode in range(12)]
    np.testing.assert_array_equal(np.concatenate(parts), whole)
    parts = [path_taken(policy, "dose", batch.take_episodes([episode])) for episode in range(12)]
    np.testing.assert_array_equal(np.concatenate(parts), path_taken(policy, "dose", batch))


@settings(max_examples=20, deadline=None)
@given(st.integers(1, 3), st.integers(0, 10**6))
def test_one_particle_is_the_policy_itself(depth, seed):
    problem, batch, policy = example((depth, seed, 1, 0.5))
    for level in problem.names:
        for form in (path_full, sequential_full):
            np.testing.assert_array_equal(form(policy, level, batch), policy.tables[level][0])
        for form in (path_taken, sequential_taken):
            np.testing.assert_array_equal(form(policy, level, batch), policy.taken(level, batch)[0])


def test_a_missing_propensity_stays_missing():
    problem = ex.problem(2)
    batch = ex.batch(problem, 2, childless=False)
    policy = ex.scripted(problem, batch, 2, 0)
    policy.tables["recipe"][:, 0] = np.nan
    found = path_taken(policy, "dose", batch)
    np.testing.assert_array_equal(np.isnan(found), batch.levels["dose"].parent == 0)


def test_particles_of_members_are_stacked_with_their_weights():
    problem = ex.problem(2)
    batch = ex.batch(problem, 8)
    two, three = ex.scripted(problem, batch, 2, 1), ex.scripted(problem, batch, 3, 2)
    mixture = Mixture([two, three], [0.25, 0.75])
    np.testing.assert_allclose(mixture.weights, np.concatenate([0.25 * two.weights, 0.75 * three.weights]))
    np.testing.assert_array_equal(mixture.taken("dose", batch)[2:], three.taken("dose", batch))
    np.testing.assert_array_equal(mixture.full("recipe", batch)[:2], two.full("recipe", batch))
    np.testing.assert_allclose(Mixture([two, three]).weights.reshape(-1)[:2], 0.5 * two.weights)


@pytest.mark.parametrize("weights", [[0.5], [0.5, 0.6], [1.5, -0.5], [np.nan, 1.0], [0.0, 0.0]])
def test_weights_must_be_a_distribution(weights):
    problem = ex.problem(1)
    member = Legacy(problem, {"dose": Uniform()})
    with pytest.raises(PolicyError, match="weight"):
        Mixture([member, member], weights)


def test_an_empty_mixture_and_an_absent_level_are_errors():
    with pytest.raises(PolicyError, match="at least one"):
        Mixture([])
    problem = ex.problem(2)
    batch = ex.batch(problem, 8)
    member = Legacy(problem, {"recipe": Uniform(), "dose": Uniform()})
    for form in (path_posterior, sequential_posterior):
        with pytest.raises(PolicyError, match="no decisions of level 'dose'"):
            form(Mixture([member, member]), "dose", ex.undecided(batch, "recipe"))


@settings(max_examples=25, deadline=None)
@given(st.integers(1, 3), st.integers(0, 10**6), st.integers(1, 6))
def test_positions_are_a_depth_first_walk(depth, seed, episodes):
    batch = ex.batch(ex.problem(depth), seed, episodes)
    names = list(batch.levels)
    walk = []

    def visit(level, parent):
        if level < len(names):
            for row in np.flatnonzero(batch.levels[names[level]].parent == parent):
                walk.append((names[level], int(row)))
                visit(level + 1, row)

    for episode in range(episodes):
        visit(0, episode)
    found = decision_positions(batch)
    assert [found[name][row] for name, row in walk] == list(range(len(walk)))


@settings(max_examples=25, deadline=None)
@given(st.integers(1, 3), st.integers(0, 10**6), st.integers(1, 6))
def test_sums_start_anew_in_every_episode_and_infinity_absorbs(depth, seed, episodes):
    batch = ex.batch(ex.problem(depth), seed, episodes)
    rng = np.random.default_rng(seed)
    values = {
        name: np.where(rng.random((2, len(table))) < 0.1, -np.inf, rng.normal(size=(2, len(table))))
        for name, table in batch.levels.items()
    }
    found = sums_before(batch, values)
    items = [
        (batch.episode_of(name)[row], place, name, row)
        for name, where in decision_positions(batch).items()
        for row, place in enumerate(where)
    ]
    running, previous = np.zeros(2), -1
    for episode, _, name, row in sorted(items):
        running = np.zeros(2) if episode != previous else running
        np.testing.assert_array_equal(found[name][:, row], running)
        running, previous = running + values[name][:, row], episode
