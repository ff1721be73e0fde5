"""Predictions that the bets and control variates use, fitted on prior units only."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from aegis.certificate.candidate import Candidate
from aegis.certificate.claims import Claim
from aegis.certificate.measures import Measure, observe
from aegis.certificate.view import Models, View
from aegis.errors import AegisError
from aegis.mechanisms import LevelRewards, ModelSettings, fit_scalings
from aegis.policies import path_full
from aegis.problem import Array, Batch, Problem, RewardModel, Scope

FEATURES = ("linear", "polynomial")


def fit_models(problem: Problem, candidate: Candidate, claims: Sequence[Claim], prior: Batch | None) -> Models:
    """Return the predictions for the claims of one candidate; what cannot be fitted is predicted by a constant.

    A prediction can be as wrong as it likes: the certificate stays valid, it only takes longer.
    """
    models = Models()
    needed = [claim for claim in claims if any(part.modelled for part in claim.parts)]
    for measure in dict.fromkeys(claim.measure for claim in needed):
        if prior is not None:
            observe(measure, prior)  # refuses what lies outside the range before a model meets it
        models.guess[measure.column] = _mean(measure, prior)
        if candidate.rewards is not None and not measure.guard:
            models.rewards[measure.column] = candidate.rewards
        elif prior is not None:
            fitted = fitted_rewards(problem, measured(prior, measure))
            if fitted is not None:
                models.rewards[measure.column] = fitted
    if prior is not None:
        for claim in needed:
            if len(claim.scope) == 2 and claim.what != "value":
                below = _below(problem, candidate, claim.measure, claim.scope, models, prior)
                if below is not None:
                    models.below[claim.measure.column, claim.scope] = below
    return models


def measured(batch: Batch, measure: Measure) -> Batch:
    """Return the batch with the measure in the place of the reward."""
    return batch if not measure.guard else replace(batch, reward=batch.guards[measure.column], observed=None)


def _mean(measure: Measure, prior: Batch | None) -> float:
    if prior is None:
        return 0.5
    found = measured(prior, measure)
    if found.reward is None:
        return 0.5
    known = found.reward[np.isfinite(found.reward)]
    # Settled, as predictions are: evidence must not depend on the order in which the units came.
    return 0.5 if not known.size else round(float(np.clip(measure.scaled(known).mean(), 0.0, 1.0)) * 2.0**20) / 2.0**20


def fitted_rewards(problem: Problem, prior: Batch, levels: Sequence[str] | None = None) -> LevelRewards | None:
    """Return reward models fitted to a batch, the likeliest of a few for each level; None if nothing can be fitted."""
    try:
        scalings = fit_scalings(problem, [prior])
        if problem.reward.column not in scalings:
            return None
        fitted = [
            LevelRewards.prior(problem, ModelSettings(features=features), scalings, levels).update(prior) for features in FEATURES
        ]
        return LevelRewards.likeliest(fitted)[0]
    except AegisError:  # a log too small or too odd for a regression: the constant does
        return None


def _below(
    problem: Problem, candidate: Candidate, measure: Measure, scope: Scope, models: Models, prior: Batch
) -> RewardModel | None:
    """Return a model of the scaled mean reward below outer actions with the candidate acting at the inner level of a scope.

    The inner predictions, averaged over the candidate's inner choice, are regressed on what is known at the outer level.
    """
    outer, inner = (name for name in prior.levels if name in scope)
    view = View(problem, prior, candidate.policy, models)
    expected = (path_full(view, inner, prior, scope) * view.predicted(measure, inner)).sum(axis=1)
    rows = prior.ancestors(problem.innermost.name)[inner]
    pretend: Array = expected[rows]
    return fitted_rewards(problem, replace(prior, reward=pretend, observed=None), (outer,))
