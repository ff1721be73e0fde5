"""From rows to regression inputs: scalings in one pass, indicators, vectors, and which rows a mechanism sees."""

from __future__ import annotations

from dataclasses import replace

import mechanism_cases as cases
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as hs

from aegis.errors import SettingError
from aegis.mechanisms import Encoder, Scaling, fit_scalings, mechanism_rows
from aegis.problem import Actions, Batch, Level, LevelTable, Problem, Reward, Variable, augmented_context
from aegis.rng import stream


def one_level(values, reward=None):
    """A batch of one-decision episodes with one real context."""
    count = len(values)
    table = LevelTable.undecided(np.arange(count), {"c": np.asarray(values, dtype=float)}).decided(
        np.zeros(count), np.ones(count)
    )
    return Batch(np.arange(count), {"l": table}, np.zeros(count) if reward is None else np.asarray(reward, dtype=float))


SMALL = Problem((Level("l", Actions.of("a", (3.0, -1.0, 1.0)), (Variable("c"),)),), Reward("r"))


@given(hs.lists(hs.integers(0, 7), max_size=5), hs.integers(0, 2**20), hs.sampled_from([1e-9, 1.0, 1e7]))
@settings(max_examples=40, deadline=None)
def test_streaming_equals_one_pass(cuts, seed, unit):
    values = unit * (100.0 + stream(seed, "scaling").standard_normal(40))
    parts = np.split(values, np.cumsum(cuts).clip(0, 40))
    found = fit_scalings(SMALL, (one_level(part) for part in parts))["c"]
    np.testing.assert_allclose(found.centre, [values.mean()], rtol=1e-12)
    np.testing.assert_allclose(found.scale, [values.std()], rtol=1e-9)


def test_missing_and_unobserved_numbers_are_ignored():
    batch = one_level([1.0, np.nan, 3.0, 8.0], [np.nan, 2.0, 4.0, 1e9])
    batch = replace(batch, observed=np.array([True, True, True, False]))
    found = fit_scalings(SMALL, [batch, one_level([np.nan, np.nan], [np.nan, np.nan])])
    assert (found["c"].centre[0], found["c"].scale[0]) == (4.0, pytest.approx(np.std([1.0, 3.0, 8.0])))
    assert (found["r"].centre[0], found["r"].scale[0]) == (3.0, 1.0)


@pytest.mark.parametrize("constant", [0.0, 0.1, -1e9, 1e-200])
def test_a_constant_column_keeps_scale_one(constant):
    found = fit_scalings(SMALL, [one_level([constant] * 7), one_level([constant] * 3)])["c"]
    assert found.scale[0] == 1.0
    assert found.centre[0] == pytest.approx(constant, rel=1e-12)


def test_a_tiny_unit_is_a_unit_and_not_a_constant():
    values = 1e-15 * stream(1, "tiny").standard_normal(50)
    assert fit_scalings(SMALL, [one_level(values)])["c"].scale[0] == pytest.approx(values.std())


def test_numeric_actions_are_scaled_by_their_values_alone():
    found = fit_scalings(SMALL, [])
    assert set(found) == {"a"}
    assert (found["a"].centre[0], found["a"].scale[0]) == (1.0, pytest.approx(np.std([3.0, -1.0, 1.0])))
    assert "setting" not in fit_scalings(cases.mixed_problem(), [])  # labels have no size


def test_every_numeric_variable_counts_once_per_decision_it_belongs_to():
    problem = cases.mixed_problem()
    batch = cases.random_batch(problem, stream(2, "scalings"))
    found = fit_scalings(problem, [batch])
    assert set(found) == {"task", "heat", "load", "amount", "purity", "reward"}
    task = batch.levels["recipe"].context["task"]
    np.testing.assert_allclose(found["task"].centre, [task.mean()])
    load = batch.levels["dose"].context["load"]
    np.testing.assert_allclose(found["load"].scale, load.std(axis=0))
    assert found["load"].scale.shape == (2,)


@given(hs.integers(0, 2**20), hs.integers(1, 3))
@settings(max_examples=30, deadline=None)
def test_back_undoes_forward(seed, width):
    rng = stream(seed, "round trip")
    scaling = Scaling(rng.normal(size=width), np.exp(rng.normal(size=width)))
    values = rng.normal(size=(4, 2, width))
    np.testing.assert_allclose(scaling.back(scaling.forward(values)), values, rtol=1e-12, atol=1e-12)
    np.testing.assert_array_equal(Scaling.identity(width).forward(values), values)


def test_inputs_are_blocks_of_numbers_vectors_and_indicators():
    encoder = Encoder((Variable("x"), cases.GRADE, cases.LOAD), {"load": Scaling(np.array([1.0, 2.0]), np.array([2.0, 4.0]))})
    rows = {"x": np.array([5.0, 6.0]), "grade": np.array([2, 0]), "load": np.array([[3.0, 2.0], [1.0, 10.0]])}
    wanted = [[5.0, 0.0, 0.0, 1.0, 1.0, 0.0], [6.0, 1.0, 0.0, 0.0, 0.0, 2.0]]
    np.testing.assert_array_equal(encoder(rows, (2,)), wanted)
    assert encoder.width == 6
    assert [encoder.block(name) for name in ("x", "grade", "load")] == [slice(0, 1), slice(1, 4), slice(4, 6)]
    np.testing.assert_array_equal(encoder.scale_of("load"), [2.0, 4.0])
    np.testing.assert_array_equal(encoder.scale_of("x"), [1.0])


def test_rows_broadcast_over_particles():
    encoder = Encoder((Variable("x"), cases.LOAD, cases.GRADE))
    rng = stream(3, "broadcast")
    per_particle, shared = rng.normal(size=(3, 4)), rng.normal(size=(1, 4, 2))
    grade = rng.integers(0, 3, (1, 4))
    found = encoder({"x": per_particle, "load": shared, "grade": grade}, (3, 4))
    for s in range(3):
        alone = encoder({"x": per_particle[s], "load": shared[0], "grade": grade[0]}, (4,))
        np.testing.assert_array_equal(found[s], alone)


def test_a_missing_category_is_unknown_and_not_a_category():
    encoder = Encoder((cases.GRADE,))
    found = encoder({"grade": np.array([1, -1])}, (2,))
    np.testing.assert_array_equal(found, [[0.0, 1.0, 0.0], [np.nan] * 3])


def test_mistakes_are_named():
    encoder = Encoder((Variable("x"),))
    with pytest.raises(SettingError, match="'z' is not among the parents"):
        encoder.block("z")
    for centre, scale in (([0.0], [0.0]), ([0.0], [-1.0]), ([np.nan], [1.0]), ([0.0], [np.inf])):
        with pytest.raises(SettingError, match="a scaling has"):
            Scaling(np.array(centre), np.array(scale))


def test_each_mechanism_sees_the_rows_of_its_own_level():
    problem = cases.mixed_problem()
    batch = cases.random_batch(problem, stream(4, "rows"))
    rows, values = mechanism_rows(problem, batch, ["load"])["load"]
    np.testing.assert_array_equal(values, batch.levels["dose"].context["load"])
    np.testing.assert_array_equal(rows["task"], augmented_context(problem, batch, "dose")["task"])
    assert "amount" not in rows
    rows, values = mechanism_rows(problem, batch, ["purity"])["purity"]
    np.testing.assert_array_equal(values, batch.outcome)
    np.testing.assert_array_equal(rows["amount"], np.array([2.0, -1.0, 0.5])[batch.levels["dose"].action])
    half = np.arange(values.size) % 2 == 0
    rows, values = mechanism_rows(problem, replace(batch, observed=half), ["reward"])["reward"]
    np.testing.assert_array_equal(rows["purity"], batch.outcome)
    np.testing.assert_array_equal(np.isnan(values), ~half)
    np.testing.assert_array_equal(values[half], batch.reward[half])
    for column, name in (("reward", "reward"), ("outcome", "purity")):
        with pytest.raises(SettingError, match=f"no values of '{name}'"):
            mechanism_rows(problem, replace(batch, **{column: None}), [name])
