"""The additive world: its sampled equations are linear in lever, action and context."""

from __future__ import annotations

from transcription import check_sampled_equations, two_levels

from aegis.worlds import Additive


def test_sampled_equations() -> None:
    world = Additive(f_a=1.5, gamma=1.2, nu=0.5, outer_steps=2, inner_steps=3)
    check_sampled_equations(world, two_levels(world, 0.0, lambda a, q: 1.5 * a + 0.5 * q))
