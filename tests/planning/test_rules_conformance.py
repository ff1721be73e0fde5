"""Every rule in the table, at one to three levels: distributions on what is available, and data through and through."""

from __future__ import annotations

import dataclasses
import inspect

import numpy as np
import planning_cases as cases
import pytest
import rule_cases
from hypothesis import given, settings
from hypothesis import strategies as some

from aegis.errors import PolicyError
from aegis.planning import RULES, Choice, plan_policy
from aegis.problem import Variable
from aegis.rng import stream

SMALL = {"particles": 3, "draws": 5}
AVERAGING = ("greedy", "ucb", "lcb", "ids", "d_optimal")


def make(name, **changes):
    allowed = inspect.signature(RULES[name]).parameters
    return RULES[name](**{key: value for key, value in {**SMALL, **changes}.items() if key in allowed})


@pytest.mark.parametrize("masks", [False, True])
@pytest.mark.parametrize("depth", [1, 2, 3])
@pytest.mark.parametrize("name", RULES)
def test_a_rule_gives_distributions_on_what_is_available(name, depth, masks):
    problem, belief, _ = rule_cases.case(depth)
    batch = cases.random_batch(problem, stream(3, "conformance", depth), 4, 2, masks)
    policy = rule_cases.planned_by(belief, make(name), episode=4)
    assert policy.weights.sum() == pytest.approx(1.0)
    assert (policy.weights >= 0).all()
    for level in problem.names:
        full = policy.full(level, batch)
        allowed = rule_cases.open_rows(problem, batch, level)
        assert full.shape == (policy.weights.size, *allowed.shape)
        np.testing.assert_allclose(full.sum(axis=-1), 1.0, rtol=1e-12)
        assert (full >= 0).all()
        assert not full[:, ~allowed].any()
        np.testing.assert_array_equal(policy.taken(level, batch), full[:, np.arange(len(allowed)), batch.levels[level].action])


@pytest.mark.parametrize("name", RULES)
def test_the_particles_say_which_draw_they_play(name):
    _, belief, _ = rule_cases.case(2)
    choice = make(name).prepare(belief, stream(4, "plays"), 0)
    assert choice.plays.shape == choice.weights.shape
    if name in AVERAGING:
        assert make(name).particles == 0
        assert choice.plays.tolist() == [-1]
    else:
        assert make(name).particles == choice.theta.count == 3
        chances = [choice.weights[choice.plays == draw].sum() for draw in range(3)]
        np.testing.assert_allclose(chances, chances[0])


def is_data(value) -> bool:
    if dataclasses.is_dataclass(value):
        return value.__dataclass_params__.frozen and all(is_data(getattr(value, f.name)) for f in dataclasses.fields(value))
    if isinstance(value, dict):
        return all(is_data(item) for item in value.values())
    if isinstance(value, tuple):
        return all(is_data(item) for item in value)
    return value is None or isinstance(value, str | int | float | np.ndarray | frozenset)


@pytest.mark.parametrize("name", RULES)
def test_a_choice_is_frozen_data(name):
    _, belief, _ = rule_cases.case(2)
    choice: Choice = make(name).prepare(belief, stream(5, "data"), 0)
    assert is_data(choice)


@pytest.mark.parametrize("name", RULES)
def test_the_same_stream_gives_the_same_policy(name):
    problem, belief, batch = rule_cases.case(2)
    one, again = (rule_cases.planned_by(belief, make(name), 6) for _ in range(2))
    for level in problem.names:
        np.testing.assert_array_equal(one.full(level, batch), again.full(level, batch))


@pytest.mark.parametrize("name", RULES)
def test_a_single_draw_and_no_decisions_at_all(name):
    problem, belief, batch = rule_cases.case(2)
    policy = rule_cases.planned_by(belief, make(name, particles=1, draws=1))
    for level in problem.names:
        full = policy.full(level, batch)
        np.testing.assert_allclose(full.sum(axis=-1), 1.0)
        assert set(np.unique(full)) == {0.0, 1.0}  # nothing to mix between
        assert policy.full(level, batch.take_episodes([])).shape == (len(full), 0, full.shape[-1])


@pytest.mark.parametrize("name", RULES)
def test_every_kind_of_variable_and_commit_shape(name):
    problem = cases.mixed_problem("categorical", (Variable("heat"), cases.GRADE))
    rng = stream(7, "kinds")
    belief = cases.learned(problem, rng)
    batch = cases.random_batch(problem, rng, 3, masks=True)
    for commit in ("nested", "joint", "flat"):
        policy = plan_policy(belief, make(name), stream(8, "kinds"), legacy=cases.looking_legacy(problem), commit=commit)
        for level in problem.names:
            full = policy.full(level, batch)
            np.testing.assert_allclose(full.sum(axis=-1), 1.0)
            assert not full[:, ~batch.levels[level].available].any()


@pytest.mark.parametrize("name", RULES)
def test_a_missing_context_is_refused(name):
    problem, belief, batch = rule_cases.case(2)
    table = batch.levels["l2"]
    broken = batch.with_level("l2", dataclasses.replace(table, context={"c2": np.array([0.1, np.nan])}))
    policy = rule_cases.planned_by(belief, make(name))
    assert problem.graph.parents["c1"] == ("c2", "a2")
    with pytest.raises(PolicyError, match=r"level 'l2', row 1: .* is not finite"):
        policy.full("l2", broken)


@settings(max_examples=60, deadline=None)
@given(some.sampled_from(["thompson", "greedy", "ucb", "lcb", "ids"]), some.data())
def test_any_values_and_masks_give_distributions(name, data):
    """Values with many ties, from tiny to huge."""
    draws, rows, actions = (data.draw(some.integers(1, top)) for top in (6, 3, 5))
    scale = data.draw(some.sampled_from([1e-9, 1.0, 1e9]))
    numbers = some.lists(some.integers(-3, 3), min_size=draws * rows * actions, max_size=draws * rows * actions)
    values = scale * np.array(data.draw(numbers), dtype=float).reshape(draws, rows, actions)
    mask = np.array(data.draw(some.lists(some.booleans(), min_size=rows * actions, max_size=rows * actions)))
    mask = mask.reshape(rows, actions)
    mask[np.arange(rows), data.draw(some.integers(0, actions - 1))] = True
    chosen = rule_cases.of_values(CHOICES[name], values, mask)
    assert chosen.shape[1:] == (rows, actions)
    np.testing.assert_allclose(chosen.sum(axis=-1), 1.0, rtol=1e-12)
    assert (chosen >= 0).all()
    assert not chosen[:, ~mask].any()
    alone = [rule_cases.of_values(CHOICES[name], values[:, [row]], mask[[row]])[:, 0] for row in range(rows)]
    np.testing.assert_array_equal(np.stack(alone, axis=1), chosen)  # a row's answer does not depend on other rows


CHOICES = {name: make(name).prepare(rule_cases.case(1)[1], stream(9, "choices"), 3) for name in RULES}
