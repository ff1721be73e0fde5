"""How far the mean reward below a lever can get: a range for means, from the equations alone."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from aegis.problem import Array
from aegis.worlds.quadrature import latent_nodes

NODES = 400
SPREADS = 5.0  # standard deviations of a mean; more than one mean in a million decisions lies within


def mean_limits(
    effect: Callable[[Array, Array], Array],
    centre: Array,
    lift: float,
    spread: Array,
    chance: float,
    actions: Array,
    noise: float,
    steps: int,
) -> tuple[float, float]:
    """Return limits of the mean of `steps` rewards below one lever, whoever acts, rounded outwards to whole numbers.

    effect(action, context): what is earned. centre, spread `[m]`: of the context under each lever; lift, chance: of a latent
    that adds to context and reward. noise: standard deviation of what else there is. The best and the worst action in each
    context bound what any policy earns, and their means over the steps stay within five standard deviations.
    """
    contexts, weights = latent_nodes(centre, lift, spread, chance, NODES)
    earned = effect(actions[:, None, None], contexts[None])
    ends = []
    for sign in (1.0, -1.0):
        best = (sign * earned).max(axis=0)
        mean = (weights * best).sum(axis=1)
        variance = (weights * (best - mean[:, None]) ** 2).sum(axis=1) + noise**2
        ends.append(float((mean + SPREADS * np.sqrt(variance / steps)).max()) + lift)
    return -float(math.ceil(ends[1])), float(math.ceil(ends[0]))
