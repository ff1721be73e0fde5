"""PAC-Bayes for a finite set of frozen particles: Q may be chosen after the data, at the price of KL(q || p) (theory section 3).

State: the number of units and `S_jn = sum_k log1p(g_j L_kn)` for every bet j and particle n. Sums are kept as integers of 2^-32,
each unit rounded down, like those of a sketch: merging is exact in any order and rounding can only lower a bound.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from aegis.errors import RefusedError, SettingError
from aegis.evidence.bound import particle_values, sort_conditions
from aegis.evidence.grid import Array, Grid
from aegis.evidence.pacbayes import PacBayesBound, solve_grid
from aegis.evidence.posterior import particle_kl, particle_weights
from aegis.evidence.sketch import LARGEST, UNIT, check_delta

Ints = npt.NDArray[np.int64]
SHIFT = 32
AT_ONCE = 2**22  # logarithms held in memory at once
MOST_UNITS = 2**31  # added in one part: their low halves, below 2^32 each, fit into 64 bits


@dataclass(frozen=True, slots=True)
class Particles:
    """Sums of `count` units over J bets and N particles with prior weights `[N]`.

    A sum is `whole + rest / 2^32` with whole `[J, N]` and rest `[J, N]` in [0, 2^32): one representation for one number.
    """

    grid: Grid
    prior: Array
    count: int
    whole: Ints
    rest: Ints

    @classmethod
    def empty(cls, grid: Grid, size: int, prior: Array | None = None) -> Particles:
        """Return the state of no units for N = size particles; prior weights are equal if None."""
        if size < 1:
            raise SettingError(f"there is one particle or more, found {size}")
        nothing = np.zeros((grid.bets.size, size), dtype=np.int64)
        return cls(grid, particle_weights(prior, size), 0, nothing, nothing)

    def add(self, values: Array) -> Particles:
        """Return the state after units with values `[K, N]` from 0: L_k(theta_n) for every unit and particle."""
        found = particle_values(values, least=0.0)
        if found.shape[1] != self.prior.size:
            raise SettingError(f"values have one column per particle: expected {self.prior.size}, found {found.shape[1]}")
        after = self
        size = min(MOST_UNITS, max(1, AT_ONCE // self.whole.size))
        for start in range(0, len(found), size):
            after = after._grown(found[start : start + size])
        return after

    def merge(self, other: Particles) -> Particles:
        """Return the state of both sets of units; exact, in any order. Grids and priors must be the same."""
        if self.grid.digest != other.grid.digest or not np.array_equal(self.prior, other.prior):
            raise SettingError(
                "particles on different grids or with different priors cannot be merged; they answer different questions"
            )
        return self._carried(self.count + other.count, self.whole + other.whole, self.rest + other.rest)

    @property
    def sums(self) -> Array:
        """Return the sums `[J, N]` as floats."""
        return self.whole + self.rest / UNIT

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

    def _grown(self, values: Array) -> Particles:
        logs = np.log1p(self.grid.bets[:, None, None] * values)
        if logs.max() > LARGEST:
            raise RefusedError("a unit's factor is too extreme to be counted")
        floored = np.floor(logs * UNIT).astype(np.int64)
        whole = self.whole + (floored >> SHIFT).sum(axis=1)
        return self._carried(self.count + len(values), whole, self.rest + (floored & (2**SHIFT - 1)).sum(axis=1))

    def _carried(self, count: int, whole: Ints, rest: Ints) -> Particles:
        return Particles(self.grid, self.prior, count, whole + (rest >> SHIFT), rest & (2**SHIFT - 1))
