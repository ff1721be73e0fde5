"""The planned policy behind the Policy protocol: distributions, masks, refusals, and its propensities as a mixture."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import planning_cases as cases
import pytest

from aegis.errors import PolicyError, ProblemError, SettingError
from aegis.mechanisms import ModelSettings, build_belief
from aegis.planning import ByLevel, DOptimal, Greedy, Ids, Thompson, plan_policy
from aegis.planning import planned_policy as module
from aegis.policies import Constant, Legacy, Logged, Mixture, path_full, path_posterior, path_taken
from aegis.problem import LevelTable, Policy, Variable
from aegis.rng import stream

INNER = (Variable("heat"), cases.GRADE)


def planned(problem, seed=1, particles=4, features="linear", **settings):
    rng = stream(seed, "planned")
    return plan_policy(cases.learned(problem, rng, features), Thompson(particles), rng, **settings)


def all_first_or_all_last(problem):
    """A legacy with two particles."""
    values = {name: problem.level(name).actions.values for name in problem.names}
    return Mixture([Legacy(problem, {name: Constant(v[i]) for name, v in values.items()}) for i in (0, -1)], [0.3, 0.7])


@pytest.mark.parametrize("masks", [False, True])
@pytest.mark.parametrize("scope", [("recipe", "dose"), ("recipe",), ("dose",), ()])
def test_it_is_a_policy(scope, masks):
    problem = cases.mixed_problem("real", INNER)
    policy = planned(problem, scope=scope, legacy=cases.looking_legacy(problem))
    batch = cases.random_batch(problem, stream(2, "batch"), 6, masks=masks)
    assert isinstance(policy, Policy)
    assert policy.weights.shape == (4,)
    assert policy.weights.sum() == pytest.approx(1.0)
    for level in problem.names:
        table = batch.levels[level]
        full, taken = policy.full(level, batch), policy.taken(level, batch)
        assert full.shape == (4, len(table), 3)
        assert taken.shape == (4, len(table))
        np.testing.assert_allclose(full.sum(axis=-1), 1.0, rtol=1e-12)
        np.testing.assert_array_equal(taken, full[:, np.arange(len(table)), table.action])
        if masks:
            assert not full[:, ~table.available].any()
        if level in scope:
            assert set(np.unique(full)) == {0.0, 1.0}
            open_values = (
                policy.values(level, batch) if not masks else np.where(table.available, policy.values(level, batch), -np.inf)
            )
            np.testing.assert_array_equal(full.argmax(axis=-1), open_values.argmax(axis=-1))


def test_a_mask_changes_the_choice_of_those_who_wanted_what_is_gone():
    problem = cases.real_problem(2)
    policy = planned(problem)
    batch = cases.random_batch(problem, stream(3, "batch"), 8)
    free = policy.full("l1", batch).argmax(axis=-1)
    gone = np.zeros((len(batch.reward), 3), dtype=bool)
    gone[np.arange(len(gone)), free[0]] = True
    masked = batch.with_level("l1", replace(batch.levels["l1"], available=~gone))
    assert (policy.full("l1", masked).argmax(axis=-1)[0] != free[0]).all()


class Careless(Legacy):
    """A legacy that reads an index of -1 as the last action."""

    def taken(self, level, batch):
        return np.take_along_axis(self.full(level, batch), batch.levels[level].action[None, :, None], axis=2)[..., 0]


def test_an_action_not_yet_taken_has_no_probability():
    problem = cases.real_problem(2)
    batch = cases.random_batch(problem, stream(4, "batch"), 3)
    table = batch.levels["l1"]
    open_batch = batch.with_level("l1", LevelTable.undecided(table.parent, table.context))
    legacy = Careless(problem, cases.looking_legacy(problem).rules)
    for scope in (("l2", "l1"), ("l2",)):
        policy = planned(problem, scope=scope, legacy=legacy)
        with pytest.raises(PolicyError, match="no action has been taken yet"):
            policy.taken("l1", open_batch)
        np.testing.assert_array_equal(policy.full("l1", open_batch), policy.full("l1", batch))


@pytest.mark.parametrize("scope", [None, ("l3", "l1"), ("l2",)])
def test_the_product_of_path_propensities_is_the_mean_of_products(scope):
    """Every episode is played by one of the particles, so that no path is impossible."""
    problem = cases.real_problem(3, contexts=(3, 1))
    policy = planned(problem, particles=5, features="polynomial", scope=scope, legacy=cases.looking_legacy(problem))
    batch = cases.random_batch(problem, stream(5, "batch"), 40, 1)
    for level in problem.names:
        full = policy.full(level, batch)
        player = np.arange(40) % 5
        table = batch.levels[level]
        action = full[player, np.arange(40)].argmax(axis=-1) if level in policy.scope else table.action
        batch = batch.with_level(level, table.decided(action, np.ones(40)))
    product = np.prod([path_taken(policy, level, batch) for level in problem.names], axis=0)
    every = np.prod([policy.taken(level, batch) for level in problem.names], axis=0)
    np.testing.assert_allclose(product, policy.weights @ every, rtol=1e-10)
    assert (product > 0).all()
    averages = np.prod([policy.weights @ policy.taken(level, batch) for level in problem.names], axis=0)
    if scope is None:
        assert np.abs(product - averages).max() > 0.01  # the product of averages is something else
    np.testing.assert_allclose(path_posterior(policy, "l1", batch).sum(axis=0), 1.0)


def test_a_legacy_with_particles_of_its_own():
    """Particles are all pairs. What the planner does at l2 must not be read as an action of the legacy."""
    problem = cases.real_problem(2, outcome=False)
    legacy = all_first_or_all_last(problem)
    policy = planned(problem, particles=3, scope=("l2",), legacy=legacy)
    batch = cases.random_batch(problem, stream(6, "batch"), 12)
    np.testing.assert_allclose(policy.weights, np.outer(np.full(3, 1 / 3), [0.3, 0.7]).ravel())
    for level in problem.names:
        full = policy.full(level, batch)
        assert full.shape[0] == 6
        np.testing.assert_allclose(full.sum(axis=-1), 1.0)
        np.testing.assert_array_equal(policy.taken(level, batch), full[:, np.arange(full.shape[1]), batch.levels[level].action])
    np.testing.assert_array_equal(policy.full("l2", batch)[0], policy.full("l2", batch)[1])
    possible = path_posterior(policy, "l1", batch).sum(axis=0) > 0
    np.testing.assert_allclose(path_full(policy, "l1", batch)[possible][:, [0, 2]], np.tile([0.3, 0.7], (possible.sum(), 1)))


def test_a_legacy_that_knows_only_what_was_taken():
    problem = cases.real_problem(2)
    batch = cases.random_batch(problem, stream(7, "batch"), 4)
    batch = batch.with_level("l2", replace(batch.levels["l2"], mu_taken=np.full(8, 0.25)))
    policy = planned(problem, scope=("l1",), legacy=Logged(problem))
    np.testing.assert_array_equal(policy.taken("l2", batch), np.full((4, 8), 0.25))


def test_what_cannot_be_decided_is_refused():
    problem = cases.mixed_problem("real", INNER)
    policy = planned(problem)
    batch = cases.random_batch(problem, stream(8, "batch"), 3)
    nothing = np.ones((6, 3), dtype=bool)
    nothing[4] = False
    with pytest.raises(PolicyError, match="level 'recipe', row 4: no action is available"):
        policy.full("recipe", batch.with_level("recipe", replace(batch.levels["recipe"], available=nothing)))
    for name, value in (("task", np.nan), ("shift", -1)):
        context = {key: values.copy() for key, values in batch.levels["recipe"].context.items()}
        context[name][2] = value
        with pytest.raises(PolicyError, match="level 'recipe', row 2: the planned value is not finite"):
            policy.full("recipe", batch.with_level("recipe", replace(batch.levels["recipe"], context=context)))


def test_unknown_levels_and_missing_legacies_are_refused():
    problem = cases.real_problem(2)
    batch = cases.random_batch(problem, stream(9, "batch"), 2)
    with pytest.raises(PolicyError, match="outside the scope and no legacy"):
        planned(problem, scope=("l1",)).full("l2", batch)
    for ask in (planned(problem).full, planned(problem).taken):
        with pytest.raises(PolicyError, match="no decisions of level 'l9'"):
            ask("l9", batch)
    with pytest.raises(ProblemError, match="there is no level 'l9'"):
        planned(problem, scope=("l9",))


def test_a_belief_that_is_too_narrow_is_refused():
    problem = cases.real_problem(2)
    rng = stream(10, "narrow")
    inner = build_belief(problem, scope=["l1"])
    with pytest.raises(SettingError, match="needs mechanisms that the belief lacks: c1"):
        plan_policy(inner, Greedy(), rng)
    table = build_belief(problem, ModelSettings("cells"))
    with pytest.raises(SettingError, match="lacks: c1"):
        plan_policy(table, Greedy(), rng, ["l2"], cases.looking_legacy(problem))
    assert plan_policy(inner, Greedy(), rng, ["l1"], cases.looking_legacy(problem)).scope == {"l1"}
    assert plan_policy(table, Greedy(), rng).scope == {"l1", "l2"}
    assert plan_policy(inner, Greedy(), rng, [], cases.looking_legacy(problem)).scope == set()


def test_blocks_of_rows_do_not_change_the_values(monkeypatch):
    problem = cases.mixed_problem("real", INNER)
    policy = planned(problem, features="polynomial", scope=("recipe",), legacy=cases.looking_legacy(problem))
    batch = cases.random_batch(problem, stream(11, "batch"), 7)
    whole = policy.values("recipe", batch)
    for block in (1, 3 * 4 * 3 * 32 * 3 * 3):
        monkeypatch.setattr(module, "BLOCK", block)
        np.testing.assert_allclose(policy.values("recipe", batch), whole, rtol=1e-12, atol=1e-12)


def test_no_decisions_at_all():
    problem = cases.real_problem(2)
    batch = cases.random_batch(problem, stream(12, "batch"), 2).take_episodes([])
    policy = planned(problem, scope=("l2",), legacy=cases.looking_legacy(problem))
    for level, actions in (("l2", 2), ("l1", 3)):
        assert policy.full(level, batch).shape == (4, 0, actions)
        assert policy.taken(level, batch).shape == (4, 0)


def test_the_same_stream_plans_the_same_policy():
    problem = cases.mixed_problem("vector", INNER)
    batch = cases.random_batch(problem, stream(13, "batch"), 5)
    belief = cases.learned(problem, stream(14, "belief"), "polynomial")
    one, again, other = (plan_policy(belief, Thompson(3), stream(seed, "same")) for seed in (1, 1, 2))
    for level in problem.names:
        np.testing.assert_array_equal(one.values(level, batch), again.values(level, batch))
        assert not np.array_equal(one.values(level, batch), other.values(level, batch))


def test_a_policy_has_the_particles_of_its_choice():
    """Not those of the draws it plans with: an averaging rule has one, and the legacy's come on top."""
    problem = cases.real_problem(3)
    rng = stream(15, "particles")
    belief = cases.learned(problem, rng)
    batch = cases.random_batch(problem, rng, 4)
    legacy = all_first_or_all_last(problem)
    for rule, count in ((Ids(5), 1), (Thompson(3), 3), (ByLevel(DOptimal(), Thompson(3)), 3)):
        policy = plan_policy(belief, rule, stream(16, "particles"), ("l3", "l1"), legacy)
        np.testing.assert_allclose(policy.weights, np.outer(np.full(count, 1 / count), [0.3, 0.7]).ravel())
        for level in problem.names:
            full = policy.full(level, batch)
            assert full.shape[0] == 2 * count
            np.testing.assert_allclose(full.sum(axis=-1), 1.0)
            assert policy.taken(level, batch).shape == full.shape[:2]
        np.testing.assert_array_equal(policy.full("l2", batch), np.tile(legacy.full("l2", batch), (count, 1, 1)))
