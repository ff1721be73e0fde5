"""The behaviour policy as recorded."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import policy_examples as ex
import pytest

from aegis.errors import PolicyError
from aegis.policies import Logged


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
