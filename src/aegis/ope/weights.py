"""Importance weights: how much likelier the candidate makes what led to a reward.

The ratio of a decision is candidate probability over logged propensity of the action taken. The weight of a reward is the
product over the in-scope decisions on its path; if the reward belongs to a decision or a whole episode, also over those
below; if decisions carry over, also over all earlier ones of the episode. The weight of a mixture is the mean over its
particles of the product, not the product of means.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from aegis.policies import sums_before
from aegis.problem import AnyArray, Array, Batch, Policy, Problem, Scope


def reward_level(problem: Problem) -> str | None:
    """Return the level whose decisions carry the reward; None if the episode does."""
    per = problem.reward.per
    if per == "episode":
        return None
    return problem.innermost.name if per == "decision" else per


def reward_rows(problem: Problem, batch: Batch, level: str | None) -> Array | None:
    """Return the innermost rows from which to read a reward per decision of `level`, or per episode; None for all rows."""
    if level == problem.innermost.name:
        return None
    if level is not None:
        return batch.first_rows(level)
    outermost = next(iter(batch.levels))
    first = np.searchsorted(batch.levels[outermost].parent, np.arange(len(batch)))
    return batch.first_rows(outermost)[first]


def reward_weights(problem: Problem, policy: Policy, batch: Batch, scope: Scope, level: str | None) -> Array:
    """Return the weight `[m]` of each node that carries a reward: a decision of `level`, or an episode if it is None."""
    names = list(batch.levels)
    if level == names[-1] and problem.carry_over == "none":
        weights = scope_path_weights(policy, batch, scope)
        return broadcast_down(batch, weights, last_in_scope(batch, scope), level)
    logs = {name: _log_ratios(policy, batch, scope, name) for name in names}
    if level is None:
        return _particle_mean(policy, np.exp(_sums_below(batch, logs, None)))
    below = _sums_below(batch, logs, level)
    before = sums_before(batch, logs)[level] if problem.carry_over == "within" else _sums_above(batch, logs, level)
    return _particle_mean(policy, np.exp(before + logs[level] + below))


def scope_path_weights(policy: Policy, batch: Batch, scope: Scope) -> Array:
    """Return the weight `[n]` of the path to each decision of the innermost level in scope; of the innermost if none is."""
    products: Array | None = None
    last = last_in_scope(batch, scope)
    for name, table in batch.levels.items():
        if products is not None:
            products = products[:, table.parent]
        if name in scope:
            ratio = policy.taken(name, batch) / table.mu_taken
            products = ratio if products is None else products * ratio
        if name == last:
            break
    return np.ones(len(batch.levels[last])) if products is None else _particle_mean(policy, products)


def last_in_scope(batch: Batch, scope: Scope) -> str:
    """Return the innermost level in scope; the innermost of all if none is."""
    names = list(batch.levels)
    return next((name for name in reversed(names) if name in scope), names[-1])


def broadcast_down(batch: Batch, values: Array, start: str, stop: str) -> Array:
    """Return values `[n]` at the decisions of one level for those of another at or below it."""
    names = list(batch.levels)
    for name in names[names.index(start) + 1 : names.index(stop) + 1]:
        values = values[batch.levels[name].parent]
    return values


def level_weights(policy: Policy, batch: Batch, level: str) -> Array:
    """Return the ratio `[n]` of each decision of one level on its own, for diagnostics."""
    return _particle_mean(policy, policy.taken(level, batch) / batch.levels[level].mu_taken)


def carry_over_weights(policy: Policy, batch: Batch, scope: Scope, level: str) -> Array:
    """Return G `[n]`: the weight of all earlier in-scope decisions of the episode, the path above among them."""
    logs = {name: _log_ratios(policy, batch, scope, name) for name in batch.levels}
    return _particle_mean(policy, np.exp(sums_before(batch, logs)[level]))


def _log_ratios(policy: Policy, batch: Batch, scope: Scope, level: str) -> Array:
    """Return log ratios `[S, n]`; 0 where the level is not in scope, -inf where the candidate would not act so."""
    table = batch.levels[level]
    if level not in scope:
        return np.zeros((policy.weights.size, len(table)))
    with np.errstate(divide="ignore"):
        return np.log(policy.taken(level, batch)) - np.log(table.mu_taken)


def _sums_above(batch: Batch, logs: Mapping[str, Array], level: str) -> Array:
    """Return the sum `[S, n]` over the decisions above each decision of `level`."""
    total = np.zeros((next(iter(logs.values())).shape[0], len(batch)))
    for name, table in batch.levels.items():
        total = total[:, table.parent]
        if name == level:
            break
        total = total + logs[name]
    return total


def _sums_below(batch: Batch, logs: Mapping[str, Array], level: str | None) -> Array:
    """Return the sum `[S, n]` over all decisions below each decision of `level`, or of each episode if it is None."""
    names = list(batch.levels)
    stop = -1 if level is None else names.index(level)
    inner = names[-1]
    total = np.zeros(logs[inner].shape)
    for position in range(len(names) - 1, stop, -1):
        table = batch.levels[names[position]]
        size = len(batch) if position == 0 else len(batch.levels[names[position - 1]])
        total = np.stack([_segment_sums(table.parent, row, size) for row in total + logs[names[position]]])
    return total


def _segment_sums(parent: AnyArray, values: Array, size: int) -> Array:
    """Return sums `[size]` over the children of each parent; -inf absorbs."""
    finite = np.isfinite(values)
    total = np.bincount(parent, weights=np.where(finite, values, 0.0), minlength=size).astype(np.float64)
    lost = np.bincount(parent, weights=~finite, minlength=size) > 0
    return np.where(lost, -np.inf, total)


def _particle_mean(policy: Policy, products: Array) -> Array:
    """Return the mean `[m]` over the particles of products `[S, m]`, added in order."""
    share = policy.weights
    if share.size == 1:
        only: Array = products[0]
        return only
    total = share[0] * products[0]
    for particle in range(1, share.size):
        total = total + share[particle] * products[particle]
    return total
