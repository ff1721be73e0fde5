"""Are the logged propensities what they say? Evidence by betting, one decision at a time (theory section 7).

With the whole distribution: `xi = phi(A) - sum_a mu_a phi_a` has mean zero if mu is right. With the taken action's probability
only: the weight w of an indicator policy has mean one under full overlap. Evidence starts at one, is expected not to grow if the
propensities are right, and refuses them when it reaches 1/alpha. It costs the certificate no delta.
"""

from __future__ import annotations

import numpy as np
from scipy.special import logsumexp

from aegis.errors import SettingError
from aegis.evidence.grid import Array

STAKES = np.array([2.0**-i for i in range(0, 8)])


def full_evidence(surprise: Array) -> float:
    """Return log evidence against mu from surprises xi `[n]`, |xi| <= 2: bets on both signs, averaged over stakes."""
    xi = np.asarray(surprise, dtype=np.float64)
    if xi.size and not np.abs(xi).max() <= 2.0:
        raise SettingError("a surprise is the difference of two numbers in [-1, 1]")
    up = [np.log1p(f * xi / 2.0 * (1.0 - 1e-9)).sum() for f in STAKES]
    down = [np.log1p(-f * xi / 2.0 * (1.0 - 1e-9)).sum() for f in STAKES]
    return float(logsumexp([*up, *down]) - np.log(2 * STAKES.size))


def taken_evidence(weights: Array, largest: float | None = None) -> tuple[float, float | None]:
    """Return log evidence that the mean weight is above one, and, if a largest weight is declared, that it is below one.

    Missing overlap looks the same as a mean below one: that side refuses only where support is declared.
    """
    w = np.asarray(weights, dtype=np.float64)
    if w.size and not (np.isfinite(w).all() and (w >= 0).all()):
        raise SettingError("weights are finite numbers from 0")
    stakes = STAKES * (1.0 - 1e-9)
    above = float(logsumexp([np.log1p(f * (w - 1.0)).sum() for f in stakes]) - np.log(STAKES.size))
    if largest is None:
        return above, None
    if not largest > 1 or (w.size and w.max() > largest):
        raise SettingError(f"the declared largest weight is above 1 and not exceeded, found {largest}")
    below = float(logsumexp([np.log1p(-f * (w - 1.0) / (largest - 1.0)).sum() for f in stakes]) - np.log(STAKES.size))
    return above, below
