"""The direct method, doubly robust and SWITCH: a reward model, corrected by weighted residuals where weights are small enough.

With q(a) the modelled mean reward below an action when the candidate acts further in, the recursion is
`y = 1{W <= threshold} w (mean of y below - q(A)) + sum_a pi(a) q(a)`, w the ratio of the decision, W the product of the ratios
down to it. A threshold of infinity is doubly robust, one of 0 is the direct method. Unlike the doubly robust evidence of a
certificate nothing is cut: these are estimates, and need no range. The reward models are fitted on prior units.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from aegis.certificate import Candidate
from aegis.ope import CandidateView, Measure, RewardModels, fit_reward_models, observe, reward_level
from aegis.policies import path_full
from aegis.problem import Array, Batch, Problem, RewardModel, Scope, parent_means


@dataclass(frozen=True, slots=True)
class ActionPredictions:
    """Models of the scaled mean reward below each action. base: of the innermost level in scope. outer: of the others, by level.

    words: where they come from.
    """

    base: RewardModels
    outer: Mapping[str, RewardModel]
    words: str

    def at(self, view: CandidateView, measure: Measure, level: str) -> Array:
        """Return the scaled prediction `[n, A]` at a level in scope, kept within [0, 1], where rewards are.

        The view is one that was made with `base` as its models.
        """
        if level in self.outer:
            return np.clip(np.nan_to_num(self.outer[level].predict(level, view.batch), nan=0.5), 0.0, 1.0)
        return view.predicted(measure, level)


def why_not_modelled(problem: Problem, candidate: Candidate, scope: Scope, sample: Batch) -> str | None:
    """Return why a reward model cannot stand for the candidate here; None if it can."""
    if problem.carry_over != "none":
        return "decisions carry over to later ones, which a model of the reward below a decision leaves out"
    per = reward_level(problem)
    if per is None or any(problem.index(per) > problem.index(name) for name in scope):
        return f"the reward is per {problem.reward.per}: several decisions in scope lead to one reward"
    for name in scope:
        if problem.level(name).actions.continuous:
            return f"actions of '{name}' are an interval, of which the log has the density at the action taken only"
        if not candidate.knows_all(name, sample):
            return f"the candidate gives the probability of the action taken only, at '{name}'; the model needs all of them"
    return None


def fit_action_predictions(
    problem: Problem, candidate: Candidate, scope: Scope, measure: Measure, prior: Batch | None
) -> ActionPredictions:
    """Return the models for a candidate: those it was learned with, else fitted on prior units, else a constant.

    Level by level from the inside out, the predictions of a level averaged over the candidate's choice are regressed on what is
    known one level further out (fitted value iteration on the logged contexts).
    """
    base = RewardModels(guess={measure.column: _mean_reward(measure, prior)})
    words = "a constant, the mean reward of the prior units"
    if candidate.rewards is not None:
        base.rewards[measure.column] = candidate.rewards
        words = "the reward models the candidate was learned with"
    elif prior is not None and (fitted := fit_reward_models(problem, prior)) is not None:
        base.rewards[measure.column] = fitted
        words = f"regressions on {len(prior)} prior episodes"
    predictions = ActionPredictions(base, {}, words)
    inside_out = [name for name in reversed(problem.names) if name in scope]
    for inner, outer in itertools.pairwise(inside_out):
        if prior is None:
            break
        view = CandidateView(problem, prior, candidate.policy, base)
        expected = np.einsum("na,na->n", _continuing(view, inner, scope), predictions.at(view, measure, inner))
        rows = prior.ancestors(problem.innermost.name)[inner]
        fitted = fit_reward_models(problem, replace(prior, reward=expected[rows], observed=None), (outer,))
        if fitted is not None:
            predictions = replace(predictions, outer={**predictions.outer, outer: fitted})
    return predictions


def _continuing(view: CandidateView, level: str, scope: Scope) -> Array:
    """Return how the candidate goes on at a level `[n, A]`, also below outer actions that no particle takes.

    These have weight 0, but a model of the outer level is fitted to them: particles then count as they do at the start.
    """
    chances = path_full(view, level, view.batch, scope)
    lost = ~(chances.sum(axis=1) > 0)
    if lost.any():
        chances[lost] = np.einsum("s,sna->na", view.weights, view.full(level, view.batch)[:, lost])
    return chances


def _mean_reward(measure: Measure, prior: Batch | None) -> float:
    return 0.5 if prior is None else float(observe(measure, prior).low.mean())


def switch_values(view: CandidateView, scope: Scope, measure: Measure, predictions: ActionPredictions, threshold: float) -> Array:
    """Return y `[E]`, the nested means of the recursion from the rewards up to the episodes; a missing reward counts as 0."""
    batch, names = view.batch, list(view.batch.levels)
    reached = _path_products(view, scope)
    result = view.observed(measure).low
    for position in range(names.index(view.level or names[0]), -1, -1):
        name = names[position]
        table = batch.levels[name]
        if name in scope:
            chances, predicted = path_full(view, name, batch, scope), predictions.at(view, measure, name)
            rows = np.arange(len(table))
            ratio = chances[rows, table.action] / table.mu_taken
            correction = ratio * (result - predicted[rows, table.action])
            result = np.einsum("na,na->n", chances, predicted) + np.where(reached[name] <= threshold, correction, 0.0)
        size = len(batch) if position == 0 else len(batch.levels[names[position - 1]])
        result = parent_means(table.parent, result, size)
    return result


def _path_products(view: CandidateView, scope: Scope) -> dict[str, Array]:
    """Return W `[n]`, the product of the in-scope ratios down to each decision and its own, by level in scope."""
    products: dict[str, Array] = {}
    total = np.ones(len(view.batch))
    for name, table in view.batch.levels.items():
        total = total[table.parent]
        if name in scope:
            chances = path_full(view, name, view.batch, scope)
            total = total * chances[np.arange(len(table)), table.action] / table.mu_taken
            products[name] = total
    return products
