"""Tests by betting that a mean is zero or one (propensities, weights), and the monitor of a value after a handover.

Propensities (theory section 8). With the whole distribution, `xi = phi(A) - sum_a mu_a phi_a` has mean zero if mu is right.
With the propensity of the action taken only, the weight w of an indicator policy has mean one under full overlap. Evidence
starts at one, is not expected to grow if the propensities are right, and refuses them when it reaches 1/alpha. It costs the
certificate no delta.

Monitor (docs/theory.md, section 8). Under the hypothesis E[L_k | past] >= v0 each `e = 1 - g (L_k - v0) / (1 - v0)` has mean
at most one. New wealth enters at every step, `A_k = (A_(k-1) + 1/(k (k+1))) e`, so that a drop after a long good time is
still found quickly.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np

from aegis.errors import RefusedError, SettingError
from aegis.evidence.grid import Array

# Stakes of the forms that add up batch by batch: on surprises in [-1, 1], on weights above one, and on weights below one.
BOUNDED_STAKES = np.array([2.0**-i for i in range(1, 9)])

# Stakes of a betting test on importance weights.
WEIGHT_STAKES = np.array([0.5, 0.125, 0.03125, 0.00390625])

# Stakes of a betting test over few values.
SHORT_STAKES = np.array([0.9, 0.45, 0.2, 0.05])


def power_sums(surprise: Array) -> Array:
    """Return the sums of the first four powers `[4, ...]` of surprises `[n, ...]`, |surprise| <= 1."""
    square = surprise * surprise
    return np.stack([surprise.sum(0), square.sum(0), (square * surprise).sum(0), (square * square).sum(0)])


def moment_evidence(sums: Array) -> Array:
    """Return log evidence `[...]` that surprises in [-1, 1] do not have mean zero, from the sums of their powers `[4, ...]`.

    Bets on both signs, averaged over stakes f <= 1/2. Each log factor is replaced by a lower bound of it,
    `log(1 + x) >= x - x^2/2 + x^3/3 - x^4/2` for x >= -1/2: the evidence can only be smaller, and needs nothing but sums.
    """
    stakes = np.concatenate([BOUNDED_STAKES, -BOUNDED_STAKES]).reshape(-1, *[1] * (sums.ndim - 1))
    return log_mean_wealth(stakes * sums[0] - stakes**2 * sums[1] / 2 + stakes**3 * sums[2] / 3 - stakes**4 * sums[3] / 2)


def weight_logs(weights: Array) -> Array:
    """Return log factors `[J, ...]` of bets that the mean of weights `[...]` from 0 is above one, one row for each stake."""
    return _logs(WEIGHT_STAKES, np.asarray(weights, dtype=np.float64) - 1.0)


def low_weight_logs(weights: Array, largest: float) -> Array:
    """Return log factors `[J, ...]` of bets that the mean of weights `[...]` in [0, largest] is below one."""
    if not largest > 1:
        raise SettingError(f"the largest weight is above 1, found {largest}")
    return _logs(SHORT_STAKES, (1.0 - np.asarray(weights, dtype=np.float64)) / (largest - 1.0))


def log_mean_wealth(logs: Array) -> Array:
    """Return the logarithm of the mean over bets `[...]` of wealths whose logarithms are `[J, ...]`."""
    return np.asarray(np.logaddexp.reduce(logs, axis=0) - np.log(logs.shape[0]))


def _logs(stakes: Array, excess: Array) -> Array:
    """Return `log(1 + stake excess)`, `[J, ...]`, one stake after the other so that what is worked on stays in cache."""
    logs = np.empty((stakes.size, *excess.shape))
    for place, stake in enumerate(stakes):
        part = np.multiply(excess, stake, out=logs[place, ...])
        part += 1.0
        np.log(part, out=part)
    return logs


MONITOR_STAKES = np.array([0.9, *[2.0**-i for i in range(1, 8)]])


@dataclass(frozen=True, slots=True)
class Monitor:
    """State after `count` units: wealth `[G]` of each stake. floor: v0, a *lower* bound of the value, fixed at the handover."""

    floor: float
    count: int = 0
    wealth: Array = field(default_factory=lambda: np.zeros(MONITOR_STAKES.size))

    def __post_init__(self) -> None:
        if not (math.isfinite(self.floor) and 0 <= self.floor < 1):
            raise SettingError(f"a monitor watches a value in [0, 1), found {self.floor}")

    def step(self, value: float) -> Monitor:
        """Return the state after one more unit, its value in [0, 1]; a missing reward counts as 1."""
        if not 0 <= value <= 1:
            raise RefusedError(f"a unit's value lies in [0, 1], found {value}")
        k = self.count + 1
        factor = 1.0 - MONITOR_STAKES * (value - self.floor) / (1.0 - self.floor)
        return Monitor(self.floor, k, (self.wealth + 1.0 / (k * (k + 1))) * factor)

    @property
    def evidence(self) -> float:
        """Return the evidence that the value has fallen; an alarm is due when it reaches 1/alpha."""
        return float(self.wealth.mean() + 1.0 / (self.count + 1))

    def alarm(self, alpha: float) -> bool:
        """Say whether an alarm is due at level alpha."""
        return self.evidence >= 1.0 / alpha
