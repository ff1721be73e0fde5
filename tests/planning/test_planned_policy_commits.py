"""Commit shapes: nested looks at what it sees, joint commits at the start, flat plans the innermost level alone."""

from __future__ import annotations

import numpy as np
import planning_cases as cases
import pytest

from aegis.errors import SettingError
from aegis.mechanisms import ModelSettings, build_belief
from aegis.planning import COMMITS, Greedy, Integration, States, Thompson, plan_policy
from aegis.problem import Scope, Variable
from aegis.rng import stream


def jolted(problem, batch, rng, level):
    """The same batch with other contexts at `level`."""
    table = batch.levels[level]
    context = {v.name: cases.random_values(v, rng, len(table)) + (v.kind == "real") for v in problem.level(level).context}
    return batch.with_level(level, type(table)(table.parent, context, table.action, table.mu_taken))


def mean_of(theta, name, rows, count):
    return theta.functions[name].mean(rows, count)


def test_joint_equals_brute_force_over_all_pairs_at_the_mean_context():
    problem = cases.real_problem(2)
    rng = stream(1, "pairs")
    belief = cases.learned(problem, rng, "polynomial")
    batch = cases.random_batch(problem, rng, 6, 1)
    policy = plan_policy(belief, Thompson(6), stream(2, "pairs"), commit="joint")
    count = len(batch.levels["l2"])
    best = np.full((6, count), -np.inf)
    chosen = np.zeros((6, count, 2), dtype=int)
    for m, a2 in enumerate((1.0, -1.0)):
        outer = {"c2": batch.levels["l2"].context["c2"][None], "a2": np.full((1, count), a2)}
        inner = {**outer, "c1": mean_of(policy.theta, "c1", outer, count)[..., 0]}
        for a, a1 in enumerate((-1.0, 0.0, 2.0)):
            rows = {**inner, "a1": np.full((1, count), a1)}
            outcome = {**rows, "y": mean_of(policy.theta, "y", rows, count)[..., 0]}
            noise = {"y": policy.theta.functions["y"].sd}
            value = policy.theta.functions["r"].mean(outcome, count, noise)[..., 0]
            better = value > best
            best = np.where(better, value, best)
            chosen = np.where(better[..., None], [m, a], chosen)
    np.testing.assert_array_equal(policy.full("l2", batch).argmax(axis=-1), chosen[..., 0])
    np.testing.assert_allclose(policy.values("l2", batch).max(axis=-1), best, rtol=1e-10)
    for s in range(6):  # one inner decision per outer one: play the particle's own outer action and look at its inner one
        table = batch.levels["l2"].decided(chosen[s, :, 0], np.ones(count))
        inner_choice = policy.full("l1", batch.with_level("l2", table))[s].argmax(axis=-1)
        np.testing.assert_array_equal(inner_choice, chosen[s, :, 1])


@pytest.mark.parametrize("problem", [cases.real_problem(3), cases.mixed_problem("categorical")], ids=["three levels", "mixed"])
def test_joint_ignores_inner_contexts_and_nested_does_not(problem):
    rng = stream(3, "ignores")
    belief = cases.learned(problem, rng, "polynomial")
    batch = cases.random_batch(problem, rng, 4)
    integration = Integration("quadrature", 2)
    joint, nested = (
        plan_policy(belief, Thompson(3), stream(4, "t"), commit=name, integration=integration) for name in ("joint", "nested")
    )
    for position, level in enumerate(problem.names):
        for other in problem.names[: position + 1]:
            changed = jolted(problem, batch, stream(5, "jolt"), other)
            ignored = np.array_equal(joint.values(level, batch), joint.values(level, changed))
            assert ignored == (other != problem.outermost.name)
            assert not np.array_equal(nested.values(level, batch), nested.values(level, changed))


def test_joint_commits_at_the_outermost_decision_it_controls():
    """With the inner level alone in scope nothing is committed early: its contexts are known when it decides."""
    problem = cases.real_problem(2)
    rng = stream(6, "inner")
    batch = cases.random_batch(problem, rng, 5)
    legacy = cases.looking_legacy(problem)
    for scope in (None, ["l1"]):  # a belief about everything, and one about what the inner level needs
        belief = build_belief(problem, scope=scope).update(batch)
        joint, nested = (plan_policy(belief, Thompson(4), stream(7, "t"), ["l1"], legacy, name) for name in ("joint", "nested"))
        np.testing.assert_array_equal(joint.full("l1", batch), nested.full("l1", batch))
        np.testing.assert_array_equal(joint.full("l2", batch), nested.full("l2", batch))
    deep = cases.real_problem(3)
    belief = cases.learned(deep, rng, "polynomial")
    batch = cases.random_batch(deep, rng, 3)
    joint = plan_policy(belief, Thompson(2), stream(8, "t"), ["l2", "l1"], cases.looking_legacy(deep), "joint")
    seen, hidden = (jolted(deep, batch, stream(9, "jolt"), name) for name in ("l2", "l1"))
    assert not np.array_equal(joint.values("l1", batch), joint.values("l1", seen))
    np.testing.assert_array_equal(joint.values("l1", batch), joint.values("l1", hidden))


def test_joint_predicts_contexts_of_all_levels_in_between():
    """At l1 of three levels, c2 is predicted from what l3 saw, and c1 from that prediction."""
    problem = cases.real_problem(3, outcome=False)
    rng = stream(10, "between")
    belief = cases.learned(problem, rng)
    batch = cases.random_batch(problem, rng, 2)
    policy = plan_policy(belief, Greedy(), rng, commit="joint")
    above, count = batch.ancestors("l1"), len(batch.reward)
    rows = {"c3": batch.levels["l3"].context["c3"][above["l3"]][None]}
    for name in ("l3", "l2"):
        actions = problem.level(name).actions
        rows[actions.column] = actions.numbers[batch.levels[name].action[above[name]]][None]
    rows["c2"] = mean_of(policy.theta, "c2", rows, count)[..., 0]
    rows["c1"] = mean_of(policy.theta, "c1", rows, count)[..., 0]
    for code, a1 in enumerate((-1.0, 0.0, 2.0)):
        wanted = mean_of(policy.theta, "r", {**rows, "a1": np.full((1, count), a1)}, count)[..., 0]
        np.testing.assert_allclose(policy.values("l1", batch)[..., code], wanted, rtol=1e-10)


def test_flat_controls_the_innermost_level_alone():
    problem = cases.real_problem(3)
    rng = stream(11, "flat")
    belief = cases.learned(problem, rng, "polynomial")
    batch = cases.random_batch(problem, rng, 3)
    legacy = cases.looking_legacy(problem)
    flat = plan_policy(belief, Thompson(3), stream(12, "t"), legacy=legacy, commit="flat")
    nested = plan_policy(belief, Thompson(3), stream(12, "t"), legacy=legacy)
    assert flat.scope == Scope("l1")
    for level in ("l3", "l2"):
        np.testing.assert_array_equal(
            flat.full(level, batch), np.broadcast_to(legacy.full(level, batch), (3, len(batch.levels[level]), 2))
        )
    np.testing.assert_array_equal(flat.full("l1", batch), nested.full("l1", batch))
    assert plan_policy(belief, Thompson(3), rng, ["l3"], legacy, "flat").scope == Scope()


def test_nested_controls_its_scope():
    problem = cases.real_problem(3)
    rng = stream(13, "nested")
    belief = cases.learned(problem, rng)
    assert plan_policy(belief, Greedy(), rng).scope == Scope(problem.names)
    assert plan_policy(belief, Greedy(), rng, ["l2"], cases.looking_legacy(problem)).scope == Scope("l2")


def test_a_table_commits_to_the_best_cell():
    problem = cases.mixed_problem("real", (Variable("heat"),))
    rng = stream(14, "table")
    batch = cases.random_batch(problem, rng, 5)
    belief = build_belief(problem, ModelSettings("cells")).update(batch)
    policy = plan_policy(belief, Thompson(5), rng, commit="joint")
    seen = policy.commit.states(problem, policy.theta, policy.scope, "dose", States.of(problem, batch, "dose"))
    assert set(seen.rows) == {"task", "shift", "setting"}  # the heat is not predicted by a table, and not looked at either
    means = policy.theta.functions["r"].means.reshape(5, 3, 3)
    full = policy.full("recipe", batch)
    np.testing.assert_array_equal(
        full.argmax(axis=-1), np.broadcast_to(means.max(axis=2).argmax(axis=1)[:, None], full.shape[:2])
    )
    inner = policy.full("dose", batch).argmax(axis=-1)
    setting = batch.levels["recipe"].action[batch.levels["dose"].parent]
    np.testing.assert_array_equal(inner, means[:, setting].argmax(axis=-1))


@pytest.mark.parametrize("name", sorted(COMMITS))
def test_every_shape_in_the_table_gives_distributions(name):
    problem = cases.mixed_problem("real", (Variable("heat"), cases.GRADE))
    rng = stream(15, "table of shapes")
    belief = cases.learned(problem, rng)
    batch = cases.random_batch(problem, rng, 3)
    policy = plan_policy(belief, Thompson(2), rng, legacy=cases.looking_legacy(problem), commit=name)
    for level in problem.names:
        np.testing.assert_allclose(policy.full(level, batch).sum(axis=-1), 1.0)


def test_an_unknown_shape_is_refused():
    problem = cases.real_problem(1)
    with pytest.raises(SettingError, match="unknown commit shape 'neste'"):
        plan_policy(build_belief(problem), Greedy(), stream(16, "x"), commit="neste")
