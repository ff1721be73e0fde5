"""Reward models of the direct method: what an action earns if the candidate acts further in, fitted on prior units."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from aegis.certificate.candidate import Candidate
from aegis.certificate.measures import Measure, observe
from aegis.certificate.models import fitted_rewards
from aegis.certificate.view import Models, View
from aegis.certificate.weights import reward_level
from aegis.policies import path_full
from aegis.problem import Array, Batch, Problem, RewardModel, Scope


@dataclass(frozen=True, slots=True)
class Predictions:
    """Models of the scaled mean reward below each action. base: of the innermost level in scope. outer: of the others, by level.

    words: where they come from.
    """

    base: Models
    outer: Mapping[str, RewardModel]
    words: str

    def at(self, view: View, measure: Measure, level: str) -> Array:
        """Return the scaled prediction `[n, A]` at a level in scope, kept within [0, 1], where rewards are.

        The view is one that was made with `base` as its models.
        """
        if level in self.outer:
            return np.clip(np.nan_to_num(self.outer[level].predict(level, view.batch), nan=0.5), 0.0, 1.0)
        return view.predicted(measure, level)


def not_modelled(problem: Problem, candidate: Candidate, scope: Scope, sample: Batch) -> str | None:
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


def predictions(problem: Problem, candidate: Candidate, scope: Scope, measure: Measure, prior: Batch | None) -> Predictions:
    """Return the models for a candidate: those it was learned with, else fitted on prior units, else a constant.

    Level by level from the inside out, the predictions of a level averaged over the candidate's choice are regressed on what is
    known one level further out (fitted value iteration on the logged contexts).
    """
    base = Models(guess={measure.column: _mean(measure, prior)})
    words = "a constant, the mean reward of the prior units"
    if candidate.rewards is not None:
        base.rewards[measure.column] = candidate.rewards
        words = "the reward models the candidate was learned with"
    elif prior is not None and (fitted := fitted_rewards(problem, prior)) is not None:
        base.rewards[measure.column] = fitted
        words = f"regressions on {len(prior)} prior episodes"
    found = Predictions(base, {}, words)
    inside_out = [name for name in reversed(problem.names) if name in scope]
    for inner, outer in itertools.pairwise(inside_out):
        if prior is None:
            break
        view = View(problem, prior, candidate.policy, base)
        expected = np.einsum("na,na->n", _continuing(view, inner, scope), found.at(view, measure, inner))
        rows = prior.ancestors(problem.innermost.name)[inner]
        fitted = fitted_rewards(problem, replace(prior, reward=expected[rows], observed=None), (outer,))
        if fitted is not None:
            found = replace(found, outer={**found.outer, outer: fitted})
    return found


def _continuing(view: View, level: str, scope: Scope) -> Array:
    """Return how the candidate goes on at a level `[n, A]`, also below outer actions that none of its particles takes.

    These have weight 0, but a model of the outer level is fitted to them: particles then count as they do at the start.
    """
    chances = path_full(view, level, view.batch, scope)
    lost = ~(chances.sum(axis=1) > 0)
    if lost.any():
        chances[lost] = np.einsum("s,sna->na", view.weights, view.full(level, view.batch)[:, lost])
    return chances


def _mean(measure: Measure, prior: Batch | None) -> float:
    return 0.5 if prior is None else float(observe(measure, prior).low.mean())
