"""The sharp PAC-Bayes bounds (theory section 3): they need values from 0, and no upper limit on them.

For a fixed bet g, `prod_k (1 + g L_k) / (1 + g V)` is a nonnegative martingale. Mixed over a prior p0 on parameters (and over a
grid of bets), with probability 1 - delta for all K and all Q at once:

`log(1 + g V_Q) >= 1/K [sum_k E_Q log(1 + g L_k) - KL(Q || p0) - log(1/delta)]`.

At `g = lam / (1 - lam B)` this is never below the published form with the same lam and B (`matching_bet`).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from aegis.errors import SettingError
from aegis.evidence.bound import Bound, particle_values, sort_conditions
from aegis.evidence.curve import Curve
from aegis.evidence.grid import Array, Grid
from aegis.evidence.posterior import check_kl, particle_weights
from aegis.evidence.sketch import check_delta
from aegis.evidence.smoothed import check_lam

AT_ONCE = 2**22  # logarithms held in memory at once


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
    continuous Q; their average is then not E_Q, and the result no certificate. Below -1/bet nothing can be said: a bound may
    be negative if evidence is thin.
    """
    if not (math.isfinite(bet) and bet > 0):
        raise SettingError(f"a bet is a finite number above 0, found {bet}")
    found = particle_values(values, least=0.0)
    q = particle_weights(weights, found.shape[1])
    growth = float(_log_sums(found, np.array([bet]))[0] @ q) - check_kl(kl) - math.log(1.0 / check_delta(delta))
    value = math.expm1(growth / len(found)) / bet
    return _labelled("sharp, one bet", value, delta, len(found), kl, q, prior_fixed, draws)


def sharp_grid_bound(
    values: Array,
    grid: Grid,
    delta: float,
    kl: float = 0.0,
    weights: Array | None = None,
    high: float = 1.0,
    prior_fixed: bool = True,
    draws: bool = False,
) -> PacBayesBound:
    """Return the sharp bound over a grid of bets, in [0, high]; arguments as in `sharp_bound`.

    It is the v where `lse_j(log p_j + E_Q S_j - K log1p(g_j v))` falls to `log(1/delta) + KL`. RefusedError if even `high` is
    certified to be exceeded. For particles that are the policy itself, `Particles` keeps the sums and may choose Q afterwards.
    """
    found = particle_values(values, least=0.0)
    q = particle_weights(weights, found.shape[1])
    sums = _log_sums(found, grid.bets) @ q
    value = solve_grid(sums, len(found), grid, math.log(1.0 / check_delta(delta)) + check_kl(kl), high)
    return _labelled("sharp, grid of bets", value, delta, len(found), kl, q, prior_fixed, draws)


def solve_grid(sums: Array, units: int, grid: Grid, threshold: float, high: float) -> float:
    """Return the largest v in [0, high] whose log wealth, from sums `[J]` over the bets of a grid, reaches the threshold."""
    return Curve(grid.log_weights + sums, grid.bets, np.zeros(sums.size), units).lower(threshold, 0.0, high)


def _log_sums(values: Array, bets: Array) -> Array:
    """Return `sum_k log1p(g_j L_kn)`, `[J, N]`, from values `[K, N]`; some units at a time, so that memory stays small."""
    total = np.zeros((bets.size, values.shape[1]))
    size = max(1, AT_ONCE // total.size)
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
