"""Reward models that bets and control variates use, fitted on prior units only.

A prediction can be as wrong as it likes: a certificate stays valid, it only takes more data.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from aegis.errors import AegisError
from aegis.mechanisms import LevelRewards, ModelSettings, fit_scalings
from aegis.ope.measure import Measure
from aegis.problem import Array, Batch, Problem, RewardModel, Scope

REWARD_FEATURES = ("linear", "polynomial")


def with_measure_as_reward(batch: Batch, measure: Measure) -> Batch:
    """Return the batch with the measure in the place of the reward."""
    return batch if not measure.guard else replace(batch, reward=batch.guards[measure.column], observed=None)


def constant_prediction(measure: Measure, prior: Batch | None) -> float:
    """Return one prediction for every unit: the mean of the measure over the prior side, 0.5 without one."""
    if prior is None:
        return 0.5
    batch = with_measure_as_reward(prior, measure)
    if batch.reward is None:
        return 0.5
    known = batch.reward[np.isfinite(batch.reward)]
    # Settled, as predictions are: evidence must not depend on the order in which the units came.
    return 0.5 if not known.size else round(float(np.clip(measure.scaled(known).mean(), 0.0, 1.0)) * 2.0**20) / 2.0**20


def fit_reward_models(problem: Problem, prior: Batch, levels: Sequence[str] | None = None) -> LevelRewards | None:
    """Return reward models fitted to a batch, the likeliest of a few for each level; None if nothing can be fitted."""
    try:
        scalings = fit_scalings(problem, [prior])
        if problem.reward.column not in scalings:
            return None
        fitted = [
            LevelRewards.prior(problem, ModelSettings(features=features), scalings, levels).update(prior)
            for features in REWARD_FEATURES
        ]
        return LevelRewards.likeliest(fitted)[0]
    except AegisError:  # a log too small or too odd for a regression: the constant does
        return None


@dataclass(slots=True)
class RewardModels:
    """Predictions fixed before the certified units were looked at.

    rewards: by measured column, one model per level, in the column's units; a column without one is predicted by `guess`.
    guess: by column, a scaled constant. below: by scope, the modelled scaled mean reward below an outer action with the
    candidate acting at the inner levels of that scope (joint scopes only).
    """

    rewards: dict[str, RewardModel] = field(default_factory=dict)
    guess: dict[str, float] = field(default_factory=dict)
    below: dict[tuple[str, Scope], RewardModel] = field(default_factory=dict)


def round_predictions(predictions: Array) -> Array:
    """Return predictions as multiples of 2^-20 in [0, 1].

    The last digits of a matrix product depend on how many rows there are; evidence must not depend on the blocks a log comes in.
    """
    return np.round(np.clip(np.nan_to_num(predictions, nan=0.5), 0.0, 1.0) * 2.0**20) / 2.0**20
