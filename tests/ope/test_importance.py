"""Weights on the worlds: what they say a hybrid earns, against what the hybrid earns when it acts, with pinned streams."""

from __future__ import annotations

import numpy as np
import pytest

from aegis.certificate.evidence import UnitMoments
from aegis.ope import ESTIMATE_SERIES, CandidateView, RewardModels, episode_estimates, filled_gains, nested_gains, reward_measure
from aegis.policies import Hybrid, Mixture
from aegis.problem import Array, Scope
from aegis.worlds import make_world, true_value

SEED = 20240517
CASES = {
    "additive, inner": ("additive", "uniform", ("sign:epsilon=0.6",), ("inner",)),
    "additive, meta": ("additive", "uniform", ("natural:epsilon=0.5",), ("meta",)),
    "additive, both, mixture": ("additive", "uniform", ("sign:epsilon=0.5", "constant:value=1,epsilon=0.5"), ("meta", "inner")),
    "unified, inner": ("unified", "uniform", ("sign:epsilon=0.6",), ("inner",)),
    "unified, both": ("unified", "natural:epsilon=0.6", ("uniform",), ("meta", "inner")),
    "linear, meta": ("linear", "uniform", ("natural:epsilon=0.5",), ("meta",)),
    "plant, recipe": ("plant", "uniform", ("natural:epsilon=0.4",), ("recipe",)),
    "plant, batch and dose": ("plant", "natural:epsilon=0.7", ("uniform",), ("batch", "dose")),
    "plant, all, mixture": ("plant", "uniform", ("natural:epsilon=0.6", "uniform"), ("batch", "recipe", "dose")),
    "clinic, dose": ("clinic", "uniform", ("softmax:temperature=1",), ("dose",)),
    "clinic, both, mixture": ("clinic", "softmax:temperature=2", ("uniform", "natural:epsilon=0.3"), ("plan", "dose")),
}
EPISODES = 1200


def score(values: Array, truth: float) -> float:
    return float((values.mean() - truth) / (values.std(ddof=1) / np.sqrt(values.size)))


@pytest.mark.parametrize("case", CASES)
def test_weighted_logs_agree_with_the_hybrid_that_acts(case: str) -> None:
    name, legacy_name, members, levels = CASES[case]
    world = make_world(name)
    problem, measure, scope = world.problem, reward_measure(world.problem), Scope(levels)
    legacy = world.legacy(legacy_name)
    candidate = Mixture([world.legacy(member) for member in members])
    log = world.episodes(0, EPISODES, legacy, SEED)
    view = CandidateView(problem, log, candidate, RewardModels())
    gains, values, earned, compared = episode_estimates(view, scope, measure).T
    np.testing.assert_array_equal(compared, earned)  # without a stated incumbent the comparator is the logger
    acted = world.episodes(0, EPISODES, Hybrid(problem, scope, candidate, legacy), SEED + 1)
    acted_values = measure.scaled(acted.episode_means(np.asarray(acted.reward)))
    other = world.episodes(0, EPISODES, legacy, SEED + 2)
    other_values = measure.scaled(other.episode_means(np.asarray(other.reward)))
    error = np.sqrt((values.var() + acted_values.var()) / EPISODES)
    assert abs(values.mean() - acted_values.mean()) < 4 * error
    error = np.sqrt((gains.var() + acted_values.var() + other_values.var()) / EPISODES)
    gain = acted_values.mean() - other_values.mean()
    assert abs(gains.mean() - gain) < 4 * error
    assert abs(score(earned, other_values.mean())) < 6
    # the candidate is far from the legacy: an estimate that left the weights out would be noticed
    assert np.abs(view.node_weights(scope) - 1.0).mean() > 0.1
    if len(scope) == 1:
        bets = np.array([0.9, 0.3])
        for column, bet in zip(filled_gains(view, scope, measure, bets).T, bets, strict=True):
            error = np.sqrt((column.var() + bet**2 * (acted_values.var() + other_values.var())) / EPISODES)
            assert column.mean() - (1 + bet * gain) < 4 * error
    else:
        robust = nested_gains(view, scope, measure, 1.0)
        error = np.sqrt((robust.var() + acted_values.var() + other_values.var()) / EPISODES)
        assert abs(robust.mean() - gain) < 4 * error


def test_the_oracle_agrees_too() -> None:
    """The truth by integration, which knows neither simulation nor weights."""
    world = make_world("additive")
    measure = reward_measure(world.problem)
    legacy, candidate = world.legacy("uniform"), world.legacy("sign:epsilon=0.6")
    scope = Scope("inner")
    view = CandidateView(world.problem, world.episodes(0, EPISODES, legacy, SEED), candidate, RewardModels())
    values = episode_estimates(view, scope, measure)[:, 1]
    truth = true_value(world, Hybrid(world.problem, scope, candidate, legacy))
    assert abs(score(values, float(measure.scaled(np.array([truth]))[0]))) < 4


def test_moments_are_means_and_standard_errors() -> None:
    found = np.random.default_rng(3).normal(size=(50, 4))
    moments = UnitMoments(ESTIMATE_SERIES, None)
    moments.add(found[:20], None)
    moments.add(found[20:], None)
    moments.close()
    assert moments.mean("value") == pytest.approx(found[:, 1].mean())
    assert moments.error("gain") == pytest.approx(found[:, 0].std(ddof=1) / np.sqrt(50))


def test_samples_of_an_episode_depend_on_each_other_and_episodes_do_not() -> None:
    """They share the lever and its context: errors over samples are far too small, those over episodes are right."""
    world = make_world("additive", f_a=0.5)
    measure = reward_measure(world.problem)
    legacy, runs = world.legacy("uniform"), 60
    log = world.episodes(0, 20 * runs, legacy, SEED)
    rewards = measure.scaled(np.asarray(log.reward)).reshape(20 * runs, 20)
    first, second = rewards[:, 0], rewards[:, 1]
    assert np.corrcoef(first, second)[0, 1] > 4.5 / np.sqrt(20 * runs)
    assert abs(np.corrcoef(first[:-1], first[1:])[0, 1]) < 4.5 / np.sqrt(20 * runs)
    means = rewards.mean(axis=1)
    np.testing.assert_allclose(means, measure.scaled(log.episode_means(np.asarray(log.reward))))
    actual = means.reshape(runs, 20).mean(axis=1).std(ddof=1)  # of the mean of 20 episodes
    by_episodes, by_samples = means.std(ddof=1) / np.sqrt(20), rewards.std(ddof=1) / np.sqrt(20 * 20)
    assert by_episodes == pytest.approx(actual, rel=0.35)
    assert by_samples < 0.6 * actual
