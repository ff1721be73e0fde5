"""Reward models per level: nested means without the missing, streaming, exact where the truth is in the model, storable."""

from __future__ import annotations

import math
from dataclasses import replace

import mechanism_cases as cases
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aegis.errors import PolicyError, SettingError
from aegis.mechanisms import MODELS, LevelRewards, ModelSettings, fit_scalings
from aegis.problem import Propensity, RewardModel, Storable, augmented_context, subtree_means

PROBLEM = cases.mixed_problem()


def missing(batch, share: float, rng: np.random.Generator):
    """The batch with some rewards unobserved; what stands in their place must not matter."""
    observed = rng.random(len(batch.reward)) >= share
    return replace(batch, observed=observed, reward=np.where(observed, batch.reward, 1e6))


def naive_means(batch, level: str) -> list[float]:
    """The definition, decision by decision."""
    names = list(batch.levels)

    def below(name: str, row: int) -> float:
        if name == names[-1]:
            return float(batch.reward[row]) if batch.observed[row] else math.nan
        child = names[names.index(name) + 1]
        values = [below(child, int(k)) for k in np.flatnonzero(batch.levels[child].parent == row)]
        known = [value for value in values if not math.isnan(value)]
        return sum(known) / len(known) if known else math.nan

    return [below(level, row) for row in range(len(batch.levels[level]))]


@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), share=st.floats(0, 0.9))
def test_subtree_means_are_nested_and_leave_out_the_missing(seed: int, share: float) -> None:
    rng = np.random.default_rng(seed)
    batch = missing(cases.random_batch(PROBLEM, rng, 8), share, rng)
    found = subtree_means(batch)
    for level in PROBLEM.names:
        np.testing.assert_allclose(found[level], naive_means(batch, level), rtol=1e-12, atol=1e-12)


@settings(max_examples=10, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), cut=st.integers(1, 19))
def test_fitting_streams(seed: int, cut: int) -> None:
    rng = np.random.default_rng(seed)
    batch = missing(cases.random_batch(PROBLEM, rng), 0.2, rng)
    start = LevelRewards.prior(PROBLEM, None, fit_scalings(PROBLEM, [batch]))
    whole = start.update(batch)
    parts = start.update(batch.take_episodes(np.arange(cut))).update(batch.take_episodes(np.arange(cut, 20)))
    for level in PROBLEM.names:
        np.testing.assert_allclose(whole.predict(level, batch), parts.predict(level, batch), rtol=1e-6, atol=1e-6)


def test_predictions_recover_a_reward_that_is_in_the_model_in_logged_units() -> None:
    rng = np.random.default_rng(5)
    batch = cases.random_batch(PROBLEM, rng, 600)
    rows = augmented_context(PROBLEM, batch, "dose", with_action=True)

    def truth(amount: np.ndarray) -> np.ndarray:
        return 300 + 40 * rows["heat"] * amount - 25 * amount**2 + 10 * (rows["grade"] == 1)

    noise = rng.normal(0, 0.1, len(rows["heat"]))
    batch = replace(batch, reward=truth(rows["amount"]) + noise)
    model = LevelRewards.prior(PROBLEM, None, fit_scalings(PROBLEM, [batch])).update(batch)
    amounts = PROBLEM.level("dose").actions.numbers
    expected = np.stack([truth(np.full(len(noise), amount)) for amount in amounts], axis=1)
    found = model.predict("dose", batch)
    assert found.shape == (len(batch.levels["dose"]), 3)
    assert np.abs(found - expected).max() < 5.0
    # an action not yet taken is not looked at
    table = batch.levels["dose"]
    hidden = batch.with_level("dose", replace(table, action=np.full(len(table), -1, dtype=np.int32)))
    np.testing.assert_array_equal(found, model.predict("dose", hidden))


def test_a_promise_that_holds_for_available_actions_only_is_no_obstacle() -> None:
    """Two of three actions are open at a time, each at one half or more: without the mask that would be more than one in all."""
    rng = np.random.default_rng(6)
    batch = cases.random_batch(PROBLEM, rng, 30)
    inner = PROBLEM.innermost
    names = tuple(f"can_{index}" for index in range(inner.actions.count))
    masked = replace(inner, available=names, propensity=Propensity(column="p", least=0.5))
    promised = replace(PROBLEM, levels=(*PROBLEM.levels[:-1], masked))
    plain = LevelRewards.prior(PROBLEM, None, fit_scalings(PROBLEM, [batch])).update(batch)
    found = LevelRewards.prior(promised, None, fit_scalings(promised, [batch])).update(batch)
    np.testing.assert_array_equal(found.predict(inner.name, batch), plain.predict(inner.name, batch))


def test_blocks_do_not_change_predictions(monkeypatch: pytest.MonkeyPatch) -> None:
    batch = cases.random_batch(PROBLEM, np.random.default_rng(1))
    model = LevelRewards.prior(PROBLEM).update(batch)
    whole = model.predict("dose", batch)
    monkeypatch.setattr("aegis.mechanisms.reward_models.BLOCK", 1)
    np.testing.assert_allclose(model.predict("dose", batch), whole, rtol=1e-12)


@pytest.mark.parametrize("name", MODELS)
def test_stored_models_predict_the_same(name: str) -> None:
    batch = cases.random_batch(PROBLEM, np.random.default_rng(2))
    model = LevelRewards.prior(PROBLEM, MODELS[name], fit_scalings(PROBLEM, [batch])).update(batch)
    assert isinstance(model, RewardModel) and isinstance(model, Storable)
    again = LevelRewards.restore(model.state(), PROBLEM)
    for level in PROBLEM.names:
        np.testing.assert_array_equal(model.predict(level, batch), again.predict(level, batch))
        np.testing.assert_array_equal(model.update(batch).predict(level, batch), again.update(batch).predict(level, batch))


def test_the_likeliest_model_is_kept_by_level() -> None:
    rng = np.random.default_rng(9)
    batch = cases.random_batch(PROBLEM, rng, 400)
    rows = augmented_context(PROBLEM, batch, "dose", with_action=True)
    batch = replace(batch, reward=3 * rows["heat"] * rows["amount"] + rng.normal(0, 0.1, len(rows["heat"])))
    scalings = fit_scalings(PROBLEM, [batch])
    both = [LevelRewards.prior(PROBLEM, ModelSettings(features=f), scalings).update(batch) for f in ("linear", "polynomial")]
    best, chosen = LevelRewards.likeliest(both)
    assert chosen["dose"] == 1
    assert best.evidence("dose") == both[1].evidence("dose") > both[0].evidence("dose")
    assert best.regressions["dose"] is both[1].regressions["dose"]


def test_bad_input_is_refused() -> None:
    batch = cases.random_batch(PROBLEM, np.random.default_rng(2))
    model = LevelRewards.prior(PROBLEM, levels=["dose"])
    with pytest.raises(SettingError, match="no reward model of level 'recipe'; levels: dose"):
        model.predict("recipe", batch)
    with pytest.raises(SettingError, match="no rewards"):
        model.update(replace(batch, reward=None, observed=None))
    with pytest.raises(SettingError, match="at least one"):
        LevelRewards.likeliest([])
    with pytest.raises(PolicyError, match="do not fit the levels"):
        LevelRewards.restore(replace(model.state(), settings={"models": {"map": {}}}), PROBLEM)
