"""The sharp PAC-Bayes bounds (theory section 5): they need values from 0, and no upper limit on them.

For a fixed bet g, `prod_k (1 + g L_k) / (1 + g V)` is a nonnegative martingale. Mixed over a prior p0 on parameters (and
over a grid of bets), with probability 1 - delta for all K and all Q at once:

`log(1 + g V_Q) >= 1/K [sum_k E_Q log(1 + g L_k) - KL(Q || p0) - log(1/delta)]`.

At `g = lam / (1 - lam B)` this is never below the published form with the same lam and B (`matching_bet`).

Particles. For a finite set of frozen particles Q may be chosen after the data, at the price of KL(q || p). State: the
number of units and `S_jn = sum_k log1p(g_j L_kn)` for every bet j and particle n. Sums are kept as integers of 2^-32, each
unit rounded down, like those of a sketch: rounding can only lower a bound.

Best posterior. At a hypothetical mean v the objective `lse_j(log p_j + sum_n q_n S_jn - K log1p(g_j v)) - KL(q || prior)`
is convex minus convex. Replacing the first part by its tangent leaves `sum_j r_j q.S_j - KL(q || prior)`, r the softmax
over bets, whose maximum is `q_n ~ prior_n exp(sum_j r_j S_jn)`: every step raises the objective (majorise-minimise). There
can be several maxima, so it is run from many starts at once: equal weights, every single particle, every single bet. The
bound of the result is valid for any of them, because it holds for all q at once.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.special import xlogy

from aegis.errors import RefusedError, SettingError
from aegis.evidence.bounds.base import Bound, particle_values, sort_conditions
from aegis.evidence.grid import Array, Grid
from aegis.evidence.sketch import LARGEST, TOO_EXTREME, UNIT, WealthCurve, check_delta

TOLERANCE = 1e-9


def particle_weights(weights: Array | None, size: int) -> Array:
    """Return weights `[N]` that sum to one; None stands for equal weights."""
    if weights is None:
        return np.full(size, 1.0 / size)
    checked = np.asarray(weights, dtype=np.float64)
    if checked.shape != (size,):
        raise SettingError(f"there is one weight per particle: expected {size}, found an array of shape {checked.shape}")
    if not (np.isfinite(checked).all() and (checked >= 0).all() and abs(checked.sum() - 1.0) <= TOLERANCE):
        raise SettingError(f"the weights of particles are from 0 and sum to one, found a sum of {checked.sum()}")
    return np.asarray(checked / checked.sum())


def particle_kl(weights: Array, prior: Array | None = None) -> float:
    """Return KL(q || p) in nats of weights q `[N]` over a prior p `[N]`; log N minus the entropy of q if p is uniform.

    Infinite if q puts weight where p has none.
    """
    size = np.size(weights)
    q, p = particle_weights(weights, size), particle_weights(prior, size)
    with np.errstate(divide="ignore"):
        return max(float(np.sum(q[q > 0] * (np.log(q[q > 0]) - np.log(p[q > 0])))), 0.0)


def check_kl(kl: float) -> float:
    """Return a divergence if it is one: a number from 0, not nan."""
    if not kl >= 0:
        raise SettingError(f"a divergence KL(Q || p0) is a number from 0, found {kl}")
    return float(kl)


LOGS_AT_ONCE = 2**22  # logarithms held in memory at once


@dataclass(frozen=True, slots=True)
class PacBayesBound(Bound):
    """A sharp lower bound of V_Q. kl: the divergence that was subtracted; weights: Q over the particles `[N]`."""

    kl: float
    weights: Array


def matching_bet(lam: float, largest: float) -> float:
    """Return `lam / (1 - lam B)`, the bet at which the sharp form dominates the published one with this lam and B."""
    return check_lam(lam, largest) / (1.0 - lam * largest)


def sharp_bound(
    values: Array,
    bet: float,
    delta: float,
    kl: float = 0.0,
    weights: Array | None = None,
    prior_fixed: bool = True,
    draws: bool = False,
) -> PacBayesBound:
    """Return the sharp bound for one bet fixed beforehand, from unit values `[K]` or `[K, N]`, units by particles.

    kl: KL(Q || p0), 0 if Q = p0. prior_fixed: bet and p0 did not see the certified units. draws: the particles stand for a
    continuous Q; their average is then not E_Q, and the result no certificate. A bound may
    be negative, down to -1/bet, if evidence is thin.
    """
    if not (math.isfinite(bet) and bet > 0):
        raise SettingError(f"a bet is a finite number above 0, found {bet}")
    units = particle_values(values, least=0.0)
    q = particle_weights(weights, units.shape[1])
    growth = float(_log_sums(units, np.array([bet]))[0] @ q) - check_kl(kl) - math.log(1.0 / check_delta(delta))
    value = math.expm1(growth / len(units)) / bet
    return _labelled("sharp, one bet", value, delta, len(units), kl, q, prior_fixed, draws)


def sharp_grid_bound(
    values: Array,
    grid: Grid,
    delta: float,
    kl: float = 0.0,
    weights: Array | None = None,
    high: float = 1.0,
    draws: bool = False,
) -> PacBayesBound:
    """Return the sharp bound over a grid of bets, in [0, high]; arguments as in `sharp_bound`.

    It is the v where `lse_j(log p_j + E_Q S_j - K log1p(g_j v))` falls to `log(1/delta) + KL`. RefusedError if even `high` is
    certified to be exceeded. For particles that are the policy itself, `Particles` keeps the sums and may choose Q afterwards.
    """
    units = particle_values(values, least=0.0)
    q = particle_weights(weights, units.shape[1])
    sums = _log_sums(units, grid.bets) @ q
    value = solve_grid(sums, len(units), grid, math.log(1.0 / check_delta(delta)) + check_kl(kl), high)
    return _labelled("sharp, grid of bets", value, delta, len(units), kl, q, True, draws)


def solve_grid(sums: Array, units: int, grid: Grid, threshold: float, high: float) -> float:
    """Return the largest v in [0, high] whose log wealth, from sums `[J]` over the bets of a grid, reaches the threshold."""
    return WealthCurve(grid.log_weights + sums, grid.bets, np.zeros(sums.size), units).lower(threshold, 0.0, high)


def _log_sums(values: Array, bets: Array) -> Array:
    """Return `sum_k log1p(g_j L_kn)`, `[J, N]`, from values `[K, N]`; some units at a time, so that memory stays small."""
    total = np.zeros((bets.size, values.shape[1]))
    size = max(1, LOGS_AT_ONCE // total.size)
    for start in range(0, len(values), size):
        total += np.log1p(bets[:, None, None] * values[start : start + size]).sum(axis=1)
    return total


def _labelled(
    method: str, value: float, delta: float, units: int, kl: float, weights: Array, prior_fixed: bool, draws: bool
) -> PacBayesBound:
    met, unmet = sort_conditions(
        [
            (True, "values are from 0", ""),
            (prior_fixed, "bets and prior did not see the certified units", "bets or prior saw the certified units"),
            (
                not draws or weights.size == 1,
                "the expectation over Q is exact",
                "the expectation over Q is a Monte-Carlo average of frozen draws, whose error does not shrink with more units",
            ),
        ]
    )
    return PacBayesBound(method, value, delta, units, "anytime", met, unmet, kl, weights)


@dataclass(frozen=True, slots=True)
class Particles:
    """Sums of `count` units over J bets and N particles with prior weights `[N]`: whole numbers of 2^-32, `[J, N]`."""

    grid: Grid
    prior: Array
    count: int
    total: npt.NDArray[np.int64]

    @classmethod
    def empty(cls, grid: Grid, size: int, prior: Array | None = None) -> Particles:
        """Return the state of no units for N = size particles; prior weights are equal if None."""
        return cls(grid, particle_weights(prior, size), 0, np.zeros((grid.bets.size, size), dtype=np.int64))

    def add(self, values: Array) -> Particles:
        """Return the state after units with values `[K, N]` from 0: L_k(theta_n) for every unit and particle."""
        units = particle_values(values, least=0.0)
        if units.shape[1] != self.prior.size:
            raise SettingError(f"values have one column per particle: expected {self.prior.size}, found {units.shape[1]}")
        if self.sums.max() + len(units) * math.log1p(self.grid.bets.max() * units.max()) > LARGEST:
            raise RefusedError(TOO_EXTREME)
        total = self.total.copy()
        size = max(1, LOGS_AT_ONCE // total.size)
        for start in range(0, len(units), size):
            logs = np.log1p(self.grid.bets[:, None, None] * units[start : start + size])
            total += np.floor(logs * UNIT).astype(np.int64).sum(axis=1)
        return Particles(self.grid, self.prior, self.count + len(units), total)

    @property
    def sums(self) -> Array:
        """Return the sums `[J, N]` as floats."""
        return self.total / UNIT

    def lower(self, weights: Array, delta: float, high: float = 1.0) -> PacBayesBound:
        """Return the bound of V_q, the value of the policy that draws particle n with probability q_n once per episode.

        It is the v where `lse_j(log p_j + sum_n q_n S_jn - K log1p(g_j v))` falls to `log(1/delta) + KL(q || prior)`. q may
        depend on the data in any way. RefusedError if even `high` is certified to be exceeded.
        """
        q = particle_weights(weights, self.prior.size)
        kl = particle_kl(q, self.prior)
        threshold = math.log(1.0 / check_delta(delta)) + kl
        value = solve_grid(self.sums @ q, self.count, self.grid, threshold, high) if math.isfinite(threshold) else 0.0
        met, unmet = sort_conditions(
            [
                (True, "values are from 0", ""),
                (True, "particles, prior and bets were fixed beforehand, the weights are free", ""),
                (self.count > 0, "there are units", "there are no units yet"),
            ]
        )
        return PacBayesBound("sharp, particles", value, delta, self.count, "anytime", met, unmet, kl, q)


FIRST_STEPS = 3  # from every start
KEPT_STARTS = 4  # starts that are followed further
POSTERIOR_STEPS = 200
ROUNDS = 30
SMALLEST_RISE = 1e-8  # nats: a smaller rise of the objective is none


def best_posterior(particles: Particles, delta: float, high: float = 1.0) -> PacBayesBound:
    """Return the largest bound that was found over all weights; its `weights` are the posterior to deploy."""
    best = particles.lower(particles.prior, delta, high)
    for _ in range(ROUNDS):
        bound = particles.lower(_climb(particles, best), delta, high)
        if not bound.value > best.value:
            break
        best = bound
    return best


def posterior_objective(particles: Particles, weights: Array, mean: float) -> Array:
    """Return log wealth minus KL at a hypothetical mean `[M]`, for weights `[M, N]`."""
    penalty = (xlogy(weights, weights) - xlogy(weights, particles.prior)).sum(axis=1)
    exponents = _exponents(particles, weights, mean)
    best = exponents.max(axis=1)
    return np.asarray(best + np.log(np.exp(exponents - best[:, None]).sum(axis=1)) - penalty)


def posterior_step(particles: Particles, weights: Array, mean: float) -> Array:
    """Return the weights `[M, N]` after one step from weights `[M, N]`; the objective does not fall."""
    return _tilted(particles, _normalised(_exponents(particles, weights, mean)))


def _climb(particles: Particles, best: PacBayesBound) -> Array:
    """Return the weights `[N]` with the largest objective at the mean of the best bound so far."""
    equal, single = np.full((1, particles.prior.size), 1.0 / particles.prior.size), np.eye(particles.prior.size)
    weights = np.concatenate([best.weights[None], equal, single, _tilted(particles, np.eye(particles.grid.bets.size))])
    for _ in range(FIRST_STEPS):
        weights = posterior_step(particles, weights, best.value)
    before = posterior_objective(particles, weights, best.value)
    chosen = np.argsort(before)[-KEPT_STARTS:]
    weights, before = weights[chosen], before[chosen]
    for _ in range(POSTERIOR_STEPS):
        weights = posterior_step(particles, weights, best.value)
        after = posterior_objective(particles, weights, best.value)
        if not (after > before + SMALLEST_RISE).any():
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
    shares = np.exp(logs - logs.max(axis=1, keepdims=True))
    return np.asarray(shares / shares.sum(axis=1, keepdims=True))


def check_lam(lam: float, largest: float) -> float:
    """Return lam if it lies above 0 and below 1/B."""
    if not (math.isfinite(largest) and largest > 0):
        raise SettingError(f"the largest value B is a finite number above 0, found {largest}")
    if isinstance(lam, str) or not 0 < lam * largest < 1:
        raise SettingError(f"lam lies above 0 and below 1/B = {1.0 / largest:g}, found {lam!r}")
    return lam
