"""Target policies read from columns."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import policy_examples as ex
import pytest

from aegis.errors import PolicyError
from aegis.policies import TargetColumns


def setting(inner=None, outer=None, childless=False):
    problem = ex.problem(2)
    batch = ex.batch(problem, 13, childless=childless)
    rng = np.random.default_rng(0)
    parent = batch.levels["dose"].parent
    inner = rng.random(parent.size) if inner is None else inner
    outer = rng.random(len(batch.levels["recipe"]))[parent] if outer is None else outer
    return problem, replace(batch, extra={"p_dose": inner, "p_recipe": outer})


def test_taken_probabilities_come_from_the_columns_once_per_decision():
    problem, batch = setting()
    policy = TargetColumns(problem, {"recipe": "p_recipe", "dose": "p_dose"})
    np.testing.assert_array_equal(policy.taken("dose", batch)[0], batch.extra["p_dose"])
    outer = policy.taken("recipe", batch)[0]
    assert outer.shape == (len(batch.levels["recipe"]),)
    np.testing.assert_array_equal(outer[batch.levels["dose"].parent], batch.extra["p_recipe"])


@pytest.mark.parametrize("value", [-0.1, 1.0001, np.nan, np.inf])
def test_a_value_that_is_no_probability_names_column_and_row(value):
    problem, batch = setting()
    batch.extra["p_dose"][3] = value
    episode = batch.episode[batch.episode_of("dose")[3]]
    with pytest.raises(PolicyError, match=rf"row 3 of the batch \(episode {episode}\), column 'p_dose'"):
        TargetColumns(problem, {"dose": "p_dose"}).taken("dose", batch)


def test_rows_of_one_outer_decision_must_agree():
    problem, batch = setting()
    sizes = np.bincount(batch.levels["dose"].parent)
    row = int(np.flatnonzero(batch.levels["dose"].parent == np.argmax(sizes > 1))[1])
    batch.extra["p_recipe"][row] /= 2
    with pytest.raises(PolicyError, match=rf"row {row} of the batch.*column 'p_recipe'.*same decision"):
        TargetColumns(problem, {"recipe": "p_recipe"}).taken("recipe", batch)


def test_what_is_missing_is_said():
    problem, batch = setting()
    policy = TargetColumns(problem, {"dose": "p_dsoe"})
    with pytest.raises(PolicyError, match="did you mean 'p_dose'"):
        policy.taken("dose", batch)
    with pytest.raises(PolicyError, match="'recipe' has no target column"):
        policy.taken("recipe", batch)
    with pytest.raises(PolicyError, match="probability of the action taken only"):
        policy.full("dose", batch)
    with pytest.raises(PolicyError, match="no level 'dos'"):
        TargetColumns(problem, {"dos": "p_dose"})
    with pytest.raises(PolicyError, match="at least one"):
        TargetColumns(problem, {})


def test_shapes_types_and_trees_that_do_not_fit():
    problem, batch = setting(inner=np.array(["a"] * 99, dtype=object))
    with pytest.raises(PolicyError, match="values for"):
        TargetColumns(problem, {"dose": "p_dose"}).taken("dose", batch)
    text = np.array(["a"] * len(batch.levels["dose"]), dtype=object)
    with pytest.raises(PolicyError, match="are numbers"):
        TargetColumns(problem, {"dose": "p_dose"}).taken("dose", replace(batch, extra={"p_dose": text}))
    problem, batch = setting(childless=True)
    with pytest.raises(PolicyError, match="no innermost row"):
        TargetColumns(problem, {"recipe": "p_recipe"}).taken("recipe", batch)
    with pytest.raises(PolicyError, match="no action has been taken"):
        TargetColumns(problem, {"recipe": "p_recipe"}).taken("recipe", ex.undecided(batch, "recipe"))


def test_a_column_with_a_role_is_no_target():
    problem = setting()[0]
    for column in (problem.reward.column, problem.innermost.actions.column, problem.episode[0]):
        with pytest.raises(PolicyError, match=f"'{column}' is the .*a column here holds a probability of the candidate"):
            TargetColumns(problem, {problem.innermost.name: column})
