"""Rules: Thompson plays an action with the posterior probability that it is best; greedy plays the mean; ties go first."""

from __future__ import annotations

import numpy as np
import planning_cases as cases
import pytest
import scipy.stats as st

from aegis.errors import SettingError
from aegis.mechanisms import build_belief
from aegis.planning import Greedy, Thompson, best_actions, plan_policy
from aegis.problem import Actions, Batch, Level, LevelTable, Problem, Reward
from aegis.rng import stream


def two_armed(seed):
    """A belief after a few rewards of two labelled actions, and the probability that the second one is better."""
    problem = Problem((Level("l", Actions.of("a", ("old", "new"))),), Reward("r"))
    rng = stream(seed, "arms")
    action = np.arange(12) % 2
    table = LevelTable.undecided(np.arange(12), {}).decided(action, np.full(12, 0.5))
    belief = build_belief(problem).update(Batch(np.arange(12), {"l": table}, 0.3 * action + rng.standard_normal(12)))
    at = belief.states["r"].moments()
    contrast = np.array([0.0, -1.0, 1.0])
    mean = float(contrast @ at.mean[:, 0])
    spread = np.sqrt(at.rate[0] / at.shape * contrast @ np.linalg.solve(belief.states["r"].precision, contrast))
    return belief, st.t(2 * at.shape).cdf(mean / spread)


def one_decision():
    return Batch(np.arange(1), {"l": LevelTable.undecided([0], {})})


def test_the_known_probability_is_neither_zero_nor_one():
    assert 0.1 < two_armed(1)[1] < 0.9


@pytest.mark.parametrize("particles", [1, 8])
def test_thompson_plays_with_the_posterior_probability_of_being_best(particles):
    """Over 1500 episodes; the binomial limit counts every particle once."""
    belief, chance = two_armed(1)
    batch = one_decision()
    plays = [plan_policy(belief, Thompson(particles), stream(2, "episode", k)).full("l", batch)[:, 0, 1] for k in range(1500)]
    total = np.sum(plays)
    z = (total - chance * 1500 * particles) / np.sqrt(1500 * particles * chance * (1 - chance))
    assert abs(z) < 3.5
    assert set(np.unique(plays)) == {0.0, 1.0}


def test_particles_of_one_episode_are_independent_draws():
    belief, chance = two_armed(1)
    plays = plan_policy(belief, Thompson(20_000), stream(3, "many")).full("l", one_decision())[:, 0, 1]
    assert abs(plays.mean() - chance) < 3.5 * np.sqrt(chance * (1 - chance) / 20_000)
    assert abs(np.corrcoef(plays[:-1], plays[1:])[0, 1]) < 3.5 / np.sqrt(20_000)


def test_greedy_is_deterministic_and_plays_the_best_mean():
    problem = cases.mixed_problem("real", cases.mixed_problem().level("dose").context[:1])
    rng = stream(4, "greedy")
    belief = cases.learned(problem, rng)
    batch = cases.random_batch(problem, rng, 6)
    one, other = (plan_policy(belief, Greedy(), stream(seed, "any")) for seed in (5, 6))
    for level in problem.names:
        full = one.full(level, batch)
        np.testing.assert_array_equal(full, other.full(level, batch))
        assert full.shape[0] == 1
        np.testing.assert_array_equal(full.argmax(axis=-1), one.values(level, batch).argmax(axis=-1))
    np.testing.assert_array_equal(one.weights, [1.0])


def test_best_is_one_hot_at_the_first_of_the_largest():
    values = np.array([[[1.0, 3.0, 3.0], [0.0, 0.0, 0.0]], [[-np.inf, -5.0, -np.inf], [2.0, -np.inf, 2.0]]])
    wanted = [[[0, 1, 0], [1, 0, 0]], [[0, 1, 0], [1, 0, 0]]]
    np.testing.assert_array_equal(best_actions(values), wanted)


def test_thompson_needs_a_particle():
    for wrong in (0, -1, 1.5, True):
        with pytest.raises(SettingError, match="'particles' is a whole number from 1"):
            Thompson(wrong)
