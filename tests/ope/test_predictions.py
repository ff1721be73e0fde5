"""Reward models of bets: constants, fits on prior units, and rounding that does not depend on blocks."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from small_logs import make_table, problem_of, source_of

from aegis.ope import constant_prediction, fit_reward_models, guard_measures, reward_measure, with_measure_as_reward
from aegis.ope.measure import round_predictions

GUARD = "guards: [{column: scrap, range: [0, 2], max_worsening: 0.1}]"


def test_a_constant_is_the_scaled_mean_of_what_is_known() -> None:
    problem = problem_of()
    batch = source_of(make_table(40)).read()
    measure = reward_measure(problem)
    assert batch.reward is not None
    gaps = np.where(np.arange(batch.reward.size) % 3 == 0, np.nan, batch.reward)
    assert constant_prediction(measure, replace(batch, reward=gaps)) == pytest.approx(np.nanmean(gaps), abs=2.0**-20)
    worst = replace(measure, goal="minimise")
    assert constant_prediction(worst, batch) == pytest.approx(1.0 - batch.reward.mean(), abs=2.0**-20)
    assert constant_prediction(measure, None) == 0.5
    assert constant_prediction(measure, replace(batch, reward=np.full(batch.reward.size, np.nan))) == 0.5


def test_a_guard_takes_the_place_of_the_reward() -> None:
    problem = problem_of(head=GUARD)
    batch = source_of(make_table(10), problem).read()
    (guard,) = guard_measures(problem)
    assert with_measure_as_reward(batch, reward_measure(problem)) is batch
    assert np.array_equal(with_measure_as_reward(batch, guard).reward, batch.guards["scrap"])


def test_a_model_finds_the_better_action_and_too_little_data_none() -> None:
    problem = problem_of()
    batch = source_of(make_table(120)).read()
    model = fit_reward_models(problem, batch)
    assert model is not None
    predicted = model.predict("dose", batch)
    error = predicted[np.arange(len(batch.levels["dose"])), batch.levels["dose"].action] - batch.reward
    assert predicted.shape == (len(batch.levels["dose"]), 3) and np.sqrt(np.mean(error**2)) < np.std(batch.reward)
    nothing = replace(batch, reward=np.full(len(batch.levels["dose"]), np.nan))
    assert fit_reward_models(problem, nothing) is None


def test_predictions_are_cut_and_rounded() -> None:
    rounded = round_predictions(np.array([-1.0, 0.3, 0.3 + 1e-9, np.nan, 2.0]))
    assert rounded.tolist() == [0.0, rounded[1], rounded[1], 0.5, 1.0] and abs(rounded[1] - 0.3) < 2.0**-20
    assert (rounded * 2.0**20 == np.round(rounded * 2.0**20)).all()
