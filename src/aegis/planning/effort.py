"""How finely expectations over contexts are taken unless somebody says otherwise: one rule for agents, `learn` and the demo."""

from __future__ import annotations

from aegis.planning.integration import Integration
from aegis.problem import Problem

# Each further level multiplies the hypothetical decisions below it by its nodes or samples. With three levels and more, fewer of
# them keep planning quick; on the plant eight nodes choose what thirty-two do, at a fiftieth of the cost.
FINE = Integration(nodes=32, samples=256)
COARSE = Integration(nodes=8, samples=64)
MOST_FINE = 2


def suited(problem: Problem) -> Integration:
    """Return the integration that suits the number of levels."""
    return FINE if len(problem.levels) <= MOST_FINE else COARSE
