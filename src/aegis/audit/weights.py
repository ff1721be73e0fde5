"""Weights of a candidate: per decision, and per unit as a certificate would use them (theory section 1)."""

from __future__ import annotations

import numpy as np

from aegis.policies import Hybrid, Legacy, Uniform, path_taken
from aegis.policies.order import sums_before
from aegis.problem import Array, Batch, Policy, Problem, Scope


def at_scope(problem: Problem, policy: Policy, scope: Scope) -> Policy:
    """Return the candidate as it acts: at the levels of the scope; elsewhere anybody, whose actions say nothing about it."""
    if policy.weights.size == 1:
        return policy
    return Hybrid(problem, scope, policy, Legacy(problem, {name: Uniform() for name in problem.names}))


def decision_weights(policy: Policy, level: str, batch: Batch) -> Array:
    """Return pi / mu `[m]` of the decisions at a level, the candidate given the actions above; nan without a propensity."""
    # A single particle need not be asked about the levels above, where it may have no answer.
    chances = policy.taken(level, batch)[0] if policy.weights.size == 1 else path_taken(policy, level, batch)
    return chances / batch.levels[level].mu_taken


def unit_weights(problem: Problem, weights: dict[str, Array], scope: Scope, batch: Batch) -> Array:
    """Return the weight `[E]` of each episode: the nested mean of the weights of its rewards.

    The weight of a reward is the product over the decisions of the scope that caused it: those on its path, all below the
    decision it belongs to (`per`), and all earlier ones of the episode if decisions carry over. weights `[m]` by level.
    """
    logs = {name: _log(weights[name]) if name in scope else np.zeros(len(table)) for name, table in batch.levels.items()}
    innermost = problem.innermost.name
    if problem.reward.per == "episode":
        total = np.zeros(len(batch))
        for name, log in logs.items():
            total = total + _summed(batch.episode_of(name), log, len(batch))
        return np.exp(total)
    per = innermost if problem.reward.per == "decision" else problem.reward.per
    product = np.zeros(len(batch.levels[per]))
    if problem.carry_over == "within":
        product = product + sums_before(batch, {name: log[None] for name, log in logs.items()})[per][0] + logs[per]
    else:
        above = batch.ancestors(per)
        for name in above:
            product = product + logs[name][above[name]]
    for below in problem.names[problem.names.index(per) + 1 :]:
        product = product + _summed(batch.ancestors(below)[per], logs[below], product.size)
    return batch.episode_means(np.exp(product)[batch.ancestors(innermost)[per]])


def _log(weights: Array) -> Array:
    with np.errstate(divide="ignore"):
        return np.log(weights)


def _summed(owner: Array, logs: Array, count: int) -> Array:
    """Return sums of logarithms by owner; minus infinity stays minus infinity."""
    zero = np.isneginf(logs)
    total = np.bincount(owner, weights=np.where(zero, 0.0, logs), minlength=count)
    return np.where(np.bincount(owner, weights=zero, minlength=count) > 0, -np.inf, total)
