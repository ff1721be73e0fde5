"""Which weights over particles give the largest bound: direct maximisation (the paper's PAC-Bayes host, on the sharp form).

At a hypothetical mean v the objective `lse_j(log p_j + sum_n q_n S_jn - K log1p(g_j v)) - KL(q || prior)` is convex minus convex.
Replacing the first part by its tangent leaves `sum_j r_j q.S_j - KL(q || prior)`, r the softmax over bets, whose maximum is
`q_n ~ prior_n exp(sum_j r_j S_jn)`: every step raises the objective (majorise-minimise). There can be several maxima, so it is
run from many starts at once: equal weights, every single particle, every single bet. The bound of the result is valid
whatever was found, because it holds for all q at once.
"""

from __future__ import annotations

import numpy as np
from scipy.special import xlogy

from aegis.evidence.grid import Array
from aegis.evidence.pacbayes import PacBayesBound
from aegis.evidence.particles import Particles

FIRST_STEPS = 3  # from every start
KEPT = 4  # starts that are followed further
STEPS = 200
ROUNDS = 30
ENOUGH = 1e-8  # nats: a smaller rise of the objective is none


def best_posterior(particles: Particles, delta: float, high: float = 1.0) -> PacBayesBound:
    """Return the largest bound that was found over all weights; its `weights` are the posterior to deploy."""
    best = particles.lower(particles.prior, delta, high)
    for _ in range(ROUNDS):
        found = particles.lower(_climb(particles, best), delta, high)
        if not found.value > best.value:
            break
        best = found
    return best


def objective(particles: Particles, weights: Array, mean: float) -> Array:
    """Return log wealth minus KL at a hypothetical mean `[M]`, for weights `[M, N]`."""
    penalty = (xlogy(weights, weights) - xlogy(weights, particles.prior)).sum(axis=1)
    exponents = _exponents(particles, weights, mean)
    best = exponents.max(axis=1)
    return np.asarray(best + np.log(np.exp(exponents - best[:, None]).sum(axis=1)) - penalty)


def step(particles: Particles, weights: Array, mean: float) -> Array:
    """Return the weights `[M, N]` after one step from weights `[M, N]`; the objective does not fall."""
    return _tilted(particles, _normalised(_exponents(particles, weights, mean)))


def _climb(particles: Particles, best: PacBayesBound) -> Array:
    """Return the weights `[N]` with the largest objective at the mean of the best bound so far."""
    equal, single = np.full((1, particles.prior.size), 1.0 / particles.prior.size), np.eye(particles.prior.size)
    weights = np.concatenate([best.weights[None], equal, single, _tilted(particles, np.eye(particles.grid.bets.size))])
    for _ in range(FIRST_STEPS):
        weights = step(particles, weights, best.value)
    before = objective(particles, weights, best.value)
    chosen = np.argsort(before)[-KEPT:]
    weights, before = weights[chosen], before[chosen]
    for _ in range(STEPS):
        weights = step(particles, weights, best.value)
        after = objective(particles, weights, best.value)
        if not (after > before + ENOUGH).any():
            break
        before = after
    return np.asarray(weights[np.argmax(after)])


def _exponents(particles: Particles, weights: Array, mean: float) -> Array:
    grid = particles.grid
    return np.asarray(grid.log_weights + weights @ particles.sums.T - particles.count * np.log1p(grid.bets * mean))


def _tilted(particles: Particles, shares: Array) -> Array:
    """Return `q_n ~ prior_n exp(sum_j r_j S_jn)`, `[M, N]`, for shares r of the bets `[M, J]`."""
    with np.errstate(divide="ignore"):  # a particle without prior weight stays without
        return _normalised(np.log(particles.prior) + shares @ particles.sums)


def _normalised(logs: Array) -> Array:
    """Return weights `[M, .]` in proportion to the exponentials of logs `[M, .]`, each row summing to one."""
    found = np.exp(logs - logs.max(axis=1, keepdims=True))
    return np.asarray(found / found.sum(axis=1, keepdims=True))
