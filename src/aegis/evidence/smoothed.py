"""The logarithmic-smoothing estimator of the published bound, and the ways to choose its temperature lambda.

Symbols as in the paper: L_k is the value of unit k, B the largest value possible, lam the temperature, Q the posterior over
particles, C = KL(Q || p0) + log(1/delta).
"""

from __future__ import annotations

import math
from typing import Literal

import numpy as np

from aegis.errors import RefusedError, SettingError
from aegis.evidence.bound import particle_values
from aegis.evidence.grid import Array
from aegis.evidence.posterior import particle_weights

Temperature = float | Literal["closed form", "root"]
MARGIN = 0.05  # eta: how far below 1/B the closed form is kept


def ls_estimate(values: Array, lam: float, largest: float, weights: Array | None = None) -> float:
    """Return `B + 1/(lam K) sum_k E_Q log(1 - lam (B - L_k))`, the pessimistic estimate of a value.

    values `[K]` or `[K, N]`, units by particles; weights: Q `[N]`, equal if None; largest: B.
    """
    found = particle_values(values)
    q = particle_weights(weights, found.shape[1])
    inside = 1.0 - check_lam(lam, largest) * (largest - found)
    if not (inside > 0).all():
        unit = int(np.argmin(inside.min(axis=1)))
        raise RefusedError(
            f"unit {unit}: the estimate needs 1 - lam (B - value) > 0, found {inside[unit].min()}; values are from 0"
        )
    return largest + float((np.log(inside) @ q).sum()) / (lam * len(found))


def closed_form_lam(values: Array, largest: float, cost: float, weights: Array | None = None, margin: float = MARGIN) -> float:
    """Return `min((1 - eta)/B, sqrt(2 C / (K S^2)))` with `S^2 = 1/K sum_k E_Q (B - L_k)^2`; eta is `margin`, C is `cost`.

    It minimises the bound to leading order *on the data the bound is evaluated on*, which the theorem does not allow.
    """
    found = particle_values(values)
    if not (0 < margin < 1 and cost > 0 and largest > 0):
        raise SettingError(f"the closed form needs 0 < eta < 1, C > 0 and B > 0, found {margin}, {cost} and {largest}")
    total = float((np.square(largest - found) @ particle_weights(weights, found.shape[1])).sum())  # K S^2
    limit = (1.0 - margin) / largest
    return limit if total == 0 else min(limit, math.sqrt(2.0 * cost / total))


def root_lam(units: int, largest: float) -> float:
    """Return `1/sqrt(K)`; SettingError unless it lies below 1/B, that is K > B^2."""
    if not units > largest * largest:
        raise SettingError(f"lam = 1/sqrt(K) lies below 1/B only for more than B^2 = {largest * largest:g} units, found {units}")
    return 1.0 / math.sqrt(units)


def check_lam(lam: float, largest: float) -> float:
    """Return lam if it lies above 0 and below 1/B."""
    if not (math.isfinite(largest) and largest > 0):
        raise SettingError(f"the largest value B is a finite number above 0, found {largest}")
    if isinstance(lam, str) or not 0 < lam * largest < 1:
        raise SettingError(f"lam lies above 0 and below 1/B = {1.0 / largest:g}, found {lam!r}")
    return lam


def largest_observed(weights: Array, highest_reward: float = 1.0) -> float:
    """Return B as the published experiments take it: the highest reward times the largest importance weight seen in the data."""
    found = np.asarray(weights, dtype=np.float64)
    if not (found.size and np.isfinite(found).all() and (found >= 0).all() and found.max() > 0):
        raise SettingError("the largest observed weight needs finite weights from 0, one of them above 0")
    return highest_reward * float(found.max())
