"""Caps: feasible, optimal, and what is refused."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import policy_examples as ex
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog

from aegis.errors import PolicyError, ProblemError, SettingError
from aegis.policies import (
    Capped,
    Floored,
    Hybrid,
    Legacy,
    Logged,
    Mixture,
    Natural,
    Softmax,
    Uniform,
    capped_probabilities,
    path_full,
    path_taken,
    policy_digest,
    read_policy,
    save_policy,
)
from aegis.problem import Reward
from aegis.worlds import make_world, true_value

LIMITS = st.sampled_from([1.0, 1.01, 1.25, 1.5, 2.0, 3.0, 10.0, np.inf])


@dataclass(frozen=True)
class Predictions:
    """A reward model with written-down predictions."""

    tables: dict

    def predict(self, level, batch):
        return self.tables[level]


def draw(seed, count=4, actions=5):
    rng = np.random.default_rng(seed)
    mu = rng.random((count, actions)) ** 3 * (rng.random((count, actions)) < 0.8)
    mu[:, 0] += mu.sum(axis=1) == 0
    scores = np.round(rng.normal(size=(count, actions)), 1)  # rounded: ties do occur
    return scores, mu / mu.sum(axis=1, keepdims=True)


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 10**6), LIMITS)
def test_a_cap_is_feasible_and_optimal(seed, limit):
    scores, mu = draw(seed)
    pi = capped_probabilities(scores, mu, limit)
    assert (pi >= 0).all()
    np.testing.assert_allclose(pi.sum(axis=1), 1.0, rtol=0, atol=1e-12)
    assert (pi[mu == 0] == 0).all()
    bound = np.where(mu > 0, 1.0 if np.isinf(limit) else limit * mu, 0.0)
    assert (pi <= bound + 1e-12).all()
    for row in range(len(mu)):
        best = linprog(
            -scores[row], A_eq=np.ones((1, 5)), b_eq=[1.0], bounds=[(0, b * (1 + 1e-12)) for b in bound[row]], method="highs"
        )
        assert pi[row] @ scores[row] == pytest.approx(-best.fun, abs=1e-8)


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 10**6))
def test_limit_one_gives_the_legacy_and_no_limit_its_best_action(seed):
    scores, mu = draw(seed, count=20)
    np.testing.assert_allclose(capped_probabilities(scores, mu, 1.0), mu, rtol=0, atol=1e-14)
    best = np.where(mu > 0, scores, -np.inf).argmax(axis=1)
    np.testing.assert_array_equal(capped_probabilities(scores, mu, np.inf), np.eye(5)[best])


def test_ties_are_filled_by_index():
    np.testing.assert_allclose(capped_probabilities(np.zeros((1, 4)), np.full((1, 4), 0.25), 2.0), [[0.5, 0.5, 0.0, 0.0]])
    np.testing.assert_allclose(
        capped_probabilities(np.array([[0.0, 1.0, 1.0]]), np.array([[0.5, 0.2, 0.3]]), 3.0), [[0.0, 0.6, 0.4]]
    )


def test_scores_outside_the_support_do_not_matter():
    scores = np.array([[np.nan, 0.0, np.inf, 1.0]])
    np.testing.assert_allclose(capped_probabilities(scores, np.array([[0.0, 0.5, 0.0, 0.5]]), 1.5), [[0.0, 0.25, 0.0, 0.75]])


def test_probabilities_rounded_in_a_log_still_give_a_distribution():
    mu = np.array([[0.3333333, 0.3333333, 0.3333333]])
    pi = capped_probabilities(np.array([[1.0, 2.0, 3.0]]), mu, 1.0)
    assert pi.sum() == pytest.approx(1.0, abs=1e-15)


@pytest.mark.parametrize("limit", [0.99, 0.0, -1.0, np.nan, True, "2"])
def test_limits_below_one_are_refused(limit):
    with pytest.raises(SettingError, match="from 1"):
        capped_probabilities(np.zeros((1, 2)), np.full((1, 2), 0.5), limit)


@pytest.mark.parametrize(
    ("scores", "mu", "message"),
    [
        ([[0.0, 1.0]], [[0.4, 0.5]], "row 0: the legacy's"),
        ([[0.0, 1.0]], [[-0.1, 1.1]], "not a distribution"),
        ([[0.0, 1.0]], [[np.nan, 1.0]], "not a distribution"),
        ([[0.0, np.nan]], [[0.5, 0.5]], "score of action 1 is nan"),
    ],
)
def test_bad_arrays_are_named(scores, mu, message):
    with pytest.raises(PolicyError, match=message):
        capped_probabilities(np.array(scores), np.array(mu), 2.0)


def setting(goal="maximise"):
    problem = ex.problem(2, reward=Reward(goal=goal))
    batch = ex.batch(problem, 9, masks=True, childless=False)
    legacy = Legacy(problem, {"recipe": Softmax((0.2, 0.0, -0.5)), "dose": Natural({"temperature": 0.3}, 1.0)})
    rng = np.random.default_rng(0)
    model = Predictions(
        {name: rng.random((len(table), problem.level(name).actions.count)) for name, table in batch.levels.items()}
    )
    return problem, batch, legacy, model


@pytest.mark.parametrize("goal", ["maximise", "minimise"])
def test_a_capped_policy_moves_towards_better_rewards(goal):
    problem, batch, legacy, model = setting(goal)
    policy = Capped(problem, model, legacy, 2.0)
    mu, pi = legacy.full("dose", batch)[0], policy.full("dose", batch)[0]
    assert (pi <= 2.0 * mu + 1e-12).all()
    gain = ((pi - mu) * model.tables["dose"]).sum(axis=1)
    assert (gain >= -1e-12).all() if goal == "maximise" else (gain <= 1e-12).all()
    assert np.abs(gain).max() > 0.05
    assert policy.weights.tolist() == [1.0]


def test_other_levels_follow_the_legacy_also_where_it_is_known_only_at_its_actions():
    problem, batch, _, model = setting()
    bare = batch.levels["recipe"]
    partial = batch.with_level("recipe", type(bare)(bare.parent, bare.context, bare.action, bare.mu_taken, None, bare.available))
    policy = Capped(problem, model, Logged(problem), 1.5, {"dose"})
    np.testing.assert_array_equal(policy.taken("recipe", partial)[0], bare.mu_taken)
    with pytest.raises(PolicyError, match="level 'recipe'"):
        policy.full("recipe", partial)
    assert (policy.full("dose", partial)[0] <= 1.5 * batch.levels["dose"].mu_full + 1e-12).all()


def test_a_mixture_as_legacy_counts_in_path_form():
    problem, batch, legacy, model = setting()
    mixture = Mixture([legacy, Legacy(problem, {"recipe": Softmax((-1.0, 0.0, 1.0)), "dose": Uniform()})], [0.4, 0.6])
    policy = Capped(problem, model, mixture, 1.0, {"dose"})
    np.testing.assert_allclose(policy.full("dose", batch)[0], path_full(mixture, "dose", batch), atol=1e-14)
    np.testing.assert_array_equal(policy.full("recipe", batch)[0], path_full(mixture, "recipe", batch))
    np.testing.assert_array_equal(policy.taken("recipe", batch)[0], path_taken(mixture, "recipe", batch))


def test_settings_of_a_capped_policy():
    problem, _, legacy, model = setting()
    with pytest.raises(SettingError):
        Capped(problem, model, legacy, 0.5)
    with pytest.raises(Exception, match="no level 'dos'"):
        Capped(problem, model, legacy, 2.0, {"dos"})


WORLD = make_world("additive")
LEGACY, NEW = WORLD.legacy("uniform"), WORLD.legacy("sign:epsilon=0.3")
BATCH = WORLD.episodes(0, 4, LEGACY, 1)


@settings(max_examples=8, deadline=None)
@given(st.floats(0.0, 1.0))
def test_probabilities_are_mixed_for_each_decision(share: float) -> None:
    policy = Floored(WORLD.problem, NEW, LEGACY, share, ["inner"])
    new, old = (path_full(item, "inner", BATCH) for item in (NEW, LEGACY))
    np.testing.assert_allclose(policy.full("inner", BATCH)[0], (1 - share) * new + share * old, atol=1e-15)
    table = BATCH.levels["inner"]
    np.testing.assert_allclose(
        policy.taken("inner", BATCH)[0], policy.full("inner", BATCH)[0][np.arange(len(table)), table.action], atol=1e-15
    )
    np.testing.assert_array_equal(policy.full("meta", BATCH), NEW.full("meta", BATCH))


def test_the_gain_shrinks_by_the_share() -> None:
    low, high = (true_value(WORLD, item) for item in (LEGACY, Floored(WORLD.problem, NEW, LEGACY, 0.0, ["inner"])))
    found = true_value(WORLD, Floored(WORLD.problem, NEW, LEGACY, 0.25, ["inner"]))
    assert found - low == pytest.approx(0.75 * (high - low), rel=1e-6)


def test_a_legacy_that_is_a_mixture_counts_as_one() -> None:
    mixed = Mixture([LEGACY, NEW], [0.5, 0.5])
    policy = Floored(WORLD.problem, NEW, mixed, 0.5)
    assert policy.weights.tolist() == [1.0]
    np.testing.assert_allclose(policy.full("inner", BATCH)[0].sum(axis=1), 1.0)


def test_it_is_stored(tmp_path: Path) -> None:
    policy = Floored(WORLD.problem, NEW, LEGACY, 0.1, ["inner"])
    save_policy(policy, tmp_path / "policy")
    again = read_policy(tmp_path / "policy", WORLD.problem)
    assert policy_digest(again) == policy_digest(policy) and isinstance(again, Floored) and again.levels == policy.levels


@pytest.mark.parametrize("share", [-0.1, 1.1, float("nan")])
def test_a_share_is_a_share(share: float) -> None:
    with pytest.raises(SettingError, match="share"):
        Floored(WORLD.problem, NEW, LEGACY, share)


@settings(max_examples=30, deadline=None)
@given(st.integers(1, 3), st.integers(1, 3), st.integers(0, 10**6), st.sets(st.sampled_from(["plant", "recipe", "dose"])))
def test_particles_are_all_pairs(new_count, legacy_count, seed, scope):
    problem = ex.problem(3)
    batch = ex.batch(problem, seed, childless=False)
    new, legacy = ex.scripted(problem, batch, new_count, seed), ex.scripted(problem, batch, legacy_count, seed + 1)
    hybrid = Hybrid(problem, scope, new, legacy)
    assert hybrid.weights.sum() == pytest.approx(1.0)
    pairs = [(i, j) for i in range(new_count) for j in range(legacy_count)]
    for particle, (i, j) in enumerate(pairs):
        assert hybrid.weights[particle] == pytest.approx(new.weights[i] * legacy.weights[j])
        for level in problem.names:
            source, at = (new, i) if level in scope else (legacy, j)
            np.testing.assert_array_equal(hybrid.full(level, batch)[particle], source.full(level, batch)[at])
            np.testing.assert_array_equal(hybrid.taken(level, batch)[particle], source.taken(level, batch)[at])


def test_the_path_product_separates_into_two_independent_draws():
    problem = ex.problem(2)
    batch = ex.batch(problem, 5, childless=False)
    new, legacy = ex.scripted(problem, batch, 3, 1), ex.scripted(problem, batch, 2, 2)
    hybrid = Hybrid(problem, {"dose"}, new, legacy)
    above = batch.levels["dose"].parent
    product = path_taken(hybrid, "recipe", batch)[above] * path_taken(hybrid, "dose", batch)
    expected = (legacy.weights @ legacy.taken("recipe", batch))[above] * (new.weights @ new.taken("dose", batch))
    np.testing.assert_allclose(product, expected, rtol=1e-12)


def test_an_unknown_level_in_the_scope_is_an_error():
    problem = ex.problem(2)
    batch = ex.batch(problem, 5)
    policy = ex.scripted(problem, batch, 1, 0)
    with pytest.raises(ProblemError, match="no level 'dos'"):
        Hybrid(problem, {"dos"}, policy, policy)
