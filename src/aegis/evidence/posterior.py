"""Weights over particles: the posteriors Q of PAC-Bayes bounds when the parameter takes finitely many values."""

from __future__ import annotations

import numpy as np

from aegis.errors import SettingError
from aegis.evidence.grid import Array

TOLERANCE = 1e-9


def particle_weights(weights: Array | None, size: int) -> Array:
    """Return weights `[N]` that sum to one; None stands for equal weights."""
    if weights is None:
        return np.full(size, 1.0 / size)
    found = np.asarray(weights, dtype=np.float64)
    if found.shape != (size,):
        raise SettingError(f"there is one weight per particle: expected {size}, found an array of shape {found.shape}")
    if not (np.isfinite(found).all() and (found >= 0).all() and abs(found.sum() - 1.0) <= TOLERANCE):
        raise SettingError(f"the weights of particles are from 0 and sum to one, found a sum of {found.sum()}")
    return np.asarray(found / found.sum())


def particle_kl(weights: Array, prior: Array | None = None) -> float:
    """Return KL(q || p) in nats of weights q `[N]` over a prior p `[N]`; log N minus the entropy of q if p is uniform.

    Infinite if q puts weight where p has none.
    """
    size = np.size(weights)
    q, p = particle_weights(weights, size), particle_weights(prior, size)
    held = q > 0
    if (p[held] == 0).any():
        return float("inf")
    return max(float(np.sum(q[held] * (np.log(q[held]) - np.log(p[held])))), 0.0)


def check_kl(kl: float) -> float:
    """Return a divergence if it is one: a number from 0, not nan."""
    if not kl >= 0:
        raise SettingError(f"a divergence KL(Q || p0) is a number from 0, found {kl}")
    return float(kl)
