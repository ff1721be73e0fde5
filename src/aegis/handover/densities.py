"""How much likelier a posterior makes its draws than a prior does: what a PAC-Bayes bound of drawn particles pays."""

from __future__ import annotations

import numpy as np
from scipy.special import gammaln

from aegis.errors import SettingError
from aegis.mechanisms import NIG, Belief, Draw, Theta
from aegis.mechanisms.regression import RegressionDraw
from aegis.problem import Array


def log_ratios(belief: Belief, theta: Theta, noise_matters: bool) -> Array:
    """Return `log q(theta_n) - log p0(theta_n)` `[N]` of draws, summed over all mechanisms of a belief.

    q is the belief's posterior, p0 its prior. noise_matters: whether what is done with a draw depends on its noise; if not, its
    weights alone count, whose density is a Student t: a ratio of marginals is smaller on average than one of joints.
    """
    total = np.zeros(theta.count)
    for name, function in theta.functions.items():
        after, before = belief.states[name], belief.prior[name]
        if not (isinstance(after, NIG) and isinstance(before, NIG) and isinstance(function, RegressionDraw)):
            raise SettingError(f"mechanism '{name}' is not a regression: densities of its draws are not known; choose its model")
        density = joint_log_density if noise_matters else weight_log_density
        total += density(after, function.drawn) - density(before, function.drawn)
    return total


def joint_log_density(state: NIG, drawn: Draw) -> Array:
    """Return the log density `[S]` of drawn weights and noise variances, up to a constant of the shape of the draws."""
    at = state.moments()
    size = at.mean.shape[0]
    square = np.square(drawn.sd)
    log_det = np.log(np.diag(at.factor)).sum()
    gaussian = log_det - 0.5 * size * np.log(square) - 0.5 * _distance(state, drawn) / square
    gamma = at.shape * np.log(at.rate) - gammaln(at.shape) - (at.shape + 1.0) * np.log(square) - at.rate / square
    return np.asarray((gaussian + gamma).sum(axis=1))


def weight_log_density(state: NIG, drawn: Draw) -> Array:
    """Return the log density `[S]` of drawn weights, the noise integrated out, up to a constant of the shape of the draws."""
    at = state.moments()
    half = 0.5 * at.mean.shape[0]
    log_det = np.log(np.diag(at.factor)).sum()
    tail = np.log1p(_distance(state, drawn) / (2.0 * at.rate))
    each = gammaln(at.shape + half) - gammaln(at.shape) + log_det - half * np.log(at.rate) - (at.shape + half) * tail
    return np.asarray(each.sum(axis=1))


def _distance(state: NIG, drawn: Draw) -> Array:
    """Return `(w - m)' P (w - m)` `[S, q]`."""
    at = state.moments()
    apart = np.einsum("de,sdq->seq", at.factor, drawn.weights - at.mean)
    return np.asarray(np.square(apart).sum(axis=1))


def mean_log_ratio(ratios: Array, weights: Array) -> float:
    """Return the mean of log ratios `[N]`; not below 0, its least expectation, which can only lower a bound."""
    return max(float(ratios @ weights), 0.0)
