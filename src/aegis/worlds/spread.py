"""How policies spread their actions over an interval, for the oracle: nodes and weights from how they draw, not from densities.

Transcribes each way of drawing anew, so that a wrong density or window in the weights cannot be wrong here in the same way.
"""

from __future__ import annotations

import numpy as np
from scipy.special import ndtr, ndtri

from aegis.errors import SettingError
from aegis.policies import Epsilon, Function, Gaussian, Hybrid, Legacy, Uniform
from aegis.policies.rule import Rule
from aegis.policies.support import linear
from aegis.problem import Array, Batch, Level, Policy, Rows, augmented

Nodes = tuple[Array, Array]  # numbers and weights, [n, k]; weights sum to one
INSIDE = 10  # nodes of a window
ACROSS = 64  # nodes of a whole interval


def spread(policy: Policy, level: Level, batch: Batch, fineness: int = 1) -> Nodes | None:
    """Return nodes of what a policy takes from an interval, `[n, k]`; None if it chooses points, which have windows of their own.

    Raises SettingError for a policy that draws in a way of its own that is not known here.
    """
    if isinstance(policy, Hybrid):
        return spread(policy.new if level.name in policy.scope else policy.legacy, level, batch, fineness)
    if isinstance(policy, Legacy):
        return _rule(policy.rules[level.name], level, augmented(policy.problem, batch, level.name), len(batch), fineness)
    if isinstance(policy, Function):
        centres = policy.centres(level.name, batch)
        return None if centres is None else around(level, centres, fineness)
    return None


def around(level: Level, centres: Array, fineness: int = 1) -> Nodes:
    """Return nodes of a uniform draw within the bandwidth of each centre `[n]`, cut to the interval."""
    low, high = level.actions.limits
    reach = float(level.actions.bandwidth or 0.0)
    start = np.where(centres - reach < low, low, centres - reach)
    stop = np.where(centres + reach > high, high, centres + reach)
    nodes, weights = np.polynomial.legendre.leggauss(INSIDE * fineness)
    middle, half = (start + stop) / 2, (stop - start) / 2
    return middle[:, None] + half[:, None] * nodes, np.tile(weights / 2, (centres.size, 1))


def _rule(rule: Rule, level: Level, rows: Rows, count: int, fineness: int) -> Nodes | None:
    low, high = level.actions.limits
    if isinstance(rule, Uniform):
        nodes, weights = np.polynomial.legendre.leggauss(ACROSS * fineness)
        return np.tile((low + high) / 2 + (high - low) / 2 * nodes, (count, 1)), np.tile(weights / 2, (count, 1))
    if isinstance(rule, Gaussian):
        return _gaussian(rule, level, rows, count, fineness)
    if isinstance(rule, Epsilon):
        base = _rule(rule.rule, level, rows, count, fineness)
        base = _points(rule.rule, level, rows, count, fineness) if base is None else base
        free = _rule(Uniform(), level, rows, count, fineness)
        if free is None:
            raise SettingError("a uniform draw has nodes")
        share = rule.epsilon
        return np.hstack([base[0], free[0]]), np.hstack([(1 - share) * base[1], share * free[1]])
    return None


def _gaussian(rule: Gaussian, level: Level, rows: Rows, count: int, fineness: int) -> Nodes:
    """Return equal shares of the probability inside, at their middles; if it clips, also the ends with what lies beyond."""
    low, high = level.actions.limits
    mean = linear(rule.weights, rule.intercept, rows, count, f"level '{level.name}'")
    first, last = ndtr((low - mean) / rule.sd), ndtr((high - mean) / rule.sd)
    nodes, weights = np.polynomial.legendre.leggauss(ACROSS * fineness)
    shares = first[:, None] + (last - first)[:, None] * (nodes + 1) / 2
    inside = np.clip(mean[:, None] + rule.sd * ndtri(shares), low, high)
    if rule.ends == "cut":
        return inside, np.tile(weights / 2, (count, 1))
    ends = np.tile([low, high], (count, 1))
    chances = np.column_stack([first, 1.0 - last])
    return np.hstack([inside, ends]), np.hstack([(last - first)[:, None] * weights / 2, chances])


def _points(rule: Rule, level: Level, rows: Rows, count: int, fineness: int) -> Nodes:
    """Return nodes of all windows, weighted by the probabilities of their points."""
    chances = rule.probabilities(level, rows, count)
    some = np.flatnonzero(chances.any(axis=0))
    values, weights = around(level, level.actions.numbers[some], fineness)
    return np.tile(values.ravel(), (count, 1)), (chances[:, some, None] * weights[None]).reshape(count, -1)
