"""A legacy: one rule per level, fed with the augmented context."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import policy_examples as ex
import pytest

from aegis.errors import PolicyError, ProblemError
from aegis.policies import Constant, Epsilon, Legacy, Logged, Natural, Sign, Uniform

RULES = {
    "plant": Uniform(),
    "recipe": Epsilon(Constant("high"), 0.3),
    "dose": Natural({"temperature": 0.5, "task": -0.4, "speed": 0.2}, 0.7),
}


def test_a_level_sees_the_contexts_and_actions_above_it():
    problem = ex.problem(3)
    batch = ex.batch(problem, 3)
    found = Legacy(problem, RULES).full("dose", batch)[0]
    dose, recipe, plant = batch.levels["dose"], batch.levels["recipe"], batch.levels["plant"]
    for row in range(len(dose)):
        above = dose.parent[row]
        speed = (3, 1, 2)[plant.action[recipe.parent[above]]]
        mean = 0.5 * dose.context["temperature"][row] - 0.4 * recipe.context["task"][above] + 0.2 * speed
        alone = Natural({}, 0.7, mean).probabilities(problem.level("dose"), {}, 1)
        np.testing.assert_allclose(found[row], alone[0], rtol=1e-12)


def test_taken_is_full_at_the_action_and_needs_one():
    problem = ex.problem(3)
    batch = ex.batch(problem, 4)
    legacy = Legacy(problem, RULES)
    assert legacy.weights.tolist() == [1.0]
    full, action = legacy.full("recipe", batch), batch.levels["recipe"].action
    np.testing.assert_array_equal(legacy.taken("recipe", batch), full[:, np.arange(action.size), action])
    with pytest.raises(PolicyError, match="no action has been taken yet"):
        legacy.taken("recipe", ex.undecided(batch, "recipe"))


def test_levels_and_rules_must_match():
    problem = ex.problem(2)
    with pytest.raises(PolicyError, match="none for dose"):
        Legacy(problem, {"recipe": Uniform()})
    with pytest.raises(PolicyError, match=r"unknown level of a legacy 'dos' \(did you mean 'dose'"):
        Legacy(problem, {"recipe": Uniform(), "dose": Uniform(), "dos": Uniform()})
    with pytest.raises(PolicyError, match="needs a rule"):
        Legacy(problem, {"recipe": Uniform(), "dose": Uniform})
    with pytest.raises(PolicyError, match="no variable 'amount'"):  # its own action is not known when it decides
        Legacy(problem, {"recipe": Uniform(), "dose": Sign("amount", 1.0)})
    with pytest.raises(PolicyError, match="'setting' is categorical"):
        Legacy(problem, {"recipe": Uniform(), "dose": Sign("setting", 1.0)})


def test_unknown_and_absent_levels():
    problem = ex.problem(2)
    legacy = Legacy(problem, {"recipe": Uniform(), "dose": Uniform()})
    batch = ex.batch(problem, 1)
    with pytest.raises(ProblemError, match="no level 'dos'"):
        legacy.full("dos", batch)
    with pytest.raises(PolicyError, match="no decisions of level 'dose'"):
        legacy.full("dose", ex.undecided(batch, "recipe"))


def test_it_returns_what_was_recorded():
    problem = ex.problem(2)
    batch = ex.batch(problem, 5)
    logged = Logged(problem)
    np.testing.assert_array_equal(logged.taken("dose", batch)[0], batch.levels["dose"].mu_taken)
    np.testing.assert_array_equal(logged.full("dose", batch)[0], batch.levels["dose"].mu_full)


def test_it_names_the_level_whose_distribution_was_not_recorded():
    problem = ex.problem(2)
    batch = ex.batch(problem, 5)
    partial = batch.with_level("recipe", replace(batch.levels["recipe"], mu_full=None))
    with pytest.raises(PolicyError, match=r"level 'recipe'.*all actions"):
        Logged(problem).full("recipe", partial)
    assert Logged(problem).taken("recipe", partial).shape == (1, len(batch.levels["recipe"]))
    with pytest.raises(PolicyError, match="no action has been taken"):
        Logged(problem).taken("recipe", ex.undecided(batch, "recipe"))
