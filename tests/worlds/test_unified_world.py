"""The unified world and the additive one: their sampled equations are those of the paper."""

from __future__ import annotations

from transcription import check_sampled_equations, two_levels

from aegis.worlds import Additive, Unified


def test_sampled_equations_of_the_unified_world() -> None:
    world = Unified(gamma=0.7, eta=0.4, nu=0.3, q=0.25, outer_steps=2, inner_steps=3, task_mean=0.2, confounder=0.4)
    check = two_levels(world, 0.4, lambda a, q: 0.75 * a * q + 0.25 * (4 - (a - 0.5 * q) ** 2))
    check_sampled_equations(world, check)


def test_sampled_equations_of_the_additive_world() -> None:
    world = Additive(f_a=1.5, gamma=1.2, nu=0.5, outer_steps=2, inner_steps=3)
    check_sampled_equations(world, two_levels(world, 0.0, lambda a, q: 1.5 * a + 0.5 * q))
