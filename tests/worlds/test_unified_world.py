"""The unified world and the additive one: their sampled equations are those of the paper."""

from __future__ import annotations

import numpy as np
import pytest
from transcription import check_sampled_equations, two_levels

from aegis.worlds import Additive, Unified, make_world


def test_sampled_equations_of_the_unified_world() -> None:
    world = Unified(gamma=0.7, eta=0.4, nu=0.3, q=0.25, outer_steps=2, inner_steps=3, task_mean=0.2, confounder=0.4)
    check = two_levels(world, 0.4, lambda a, q: 0.75 * a * q + 0.25 * (4 - (a - 0.5 * q) ** 2))
    check_sampled_equations(world, check)


@pytest.mark.parametrize(("eta", "sigma_q"), [(0.0, 1.0), (0.4, 2.0), (1.0, 3.0)])
def test_sampled_equations_of_the_additive_world(eta: float, sigma_q: float) -> None:
    world = Additive(f_a=1.5, gamma=1.2, nu=0.5, eta=eta, sigma_q=sigma_q, outer_steps=2, inner_steps=3)
    check_sampled_equations(world, two_levels(world, eta, lambda a, q: 1.5 * a + 0.5 * q))


def test_additive_is_linear_unless_asked_and_can_have_the_contexts_of_the_stress_preset() -> None:
    assert make_world("additive") == Additive(eta=0.0, sigma_q=1.0)
    stress = make_world("additive", eta=1.0, sigma_q=3.0)
    lever = {"M": np.linspace(-2.0, 2.0, 7)}
    (own, chances), (other, its_chances) = (world.context_law("inner", lever, 7, 1) for world in (stress, Unified()))
    np.testing.assert_array_equal(own["Q"], other["Q"])
    np.testing.assert_array_equal(chances, its_chances)


def test_no_reward_of_additive_at_stress_leaves_the_declared_range() -> None:
    world = Additive(eta=1.0, sigma_q=3.0)
    low, high = world.problem.reward.range  # type: ignore[misc]  # declared
    rewards = world.episodes(0, 1000, world.legacy("uniform"), 0).reward
    assert rewards is not None and low <= rewards.min() and rewards.max() <= high
