"""Mechanisms as regressions: all kinds of targets, missing values, units, particles and noisy parents."""

from __future__ import annotations

from dataclasses import asdict

import mechanism_cases as cases
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as hs

from aegis.errors import ModelError
from aegis.mechanisms import Encoder, Linear, Polynomial, Regression, Scaling
from aegis.mechanisms.regression import simplex
from aegis.problem import Variable
from aegis.rng import stream

X, Y = Variable("x"), Variable("y")


def rows_of(seed, count=60):
    rng = stream(seed, "regression")
    return {"x": rng.normal(3.0, 2.0, count), "load": rng.normal(-1.0, 0.5, (count, 2)), "grade": rng.integers(0, 3, count)}, rng


def make(target, parents=(X, cases.LOAD, cases.GRADE), features=Linear, scaling=None, scalings=None, **prior):
    encoder = Encoder(parents, scalings or {})
    return Regression(target, encoder, features(encoder.width), scaling or Scaling.identity(target.width), **prior)


def least_squares(inputs, targets, at):
    """Predictions of ordinary least squares with an intercept."""
    design = np.column_stack([np.ones(len(inputs)), inputs])
    weights, *_ = np.linalg.lstsq(design, targets, rcond=None)
    return np.column_stack([np.ones(len(at)), at]) @ weights


@pytest.mark.parametrize("target", [Y, Variable("v", "vector", ("v1", "v2", "v3"))])
def test_with_a_flat_prior_units_do_not_matter(target):
    """Scaled or not, the prediction is that of least squares in the original units."""
    rows, rng = rows_of(1)
    inputs = np.column_stack([rows["x"], rows["load"]])
    values = 50.0 + 7.0 * inputs @ rng.normal(size=(3, target.width)) + 0.1 * rng.normal(size=(60, target.width))
    values = values[:, 0] if target.kind == "real" else values
    wanted = least_squares(inputs, values.reshape(60, -1), inputs)
    scalings = {"x": Scaling(np.array([3.0]), np.array([2.0])), "load": Scaling(np.array([-1.0, -1.0]), np.array([0.5, 0.4]))}
    of_target = Scaling(np.full(target.width, 50.0), np.full(target.width, 7.0))
    for scaling, by_name in ((None, {}), (of_target, scalings)):
        model = make(target, (X, cases.LOAD), scaling=scaling, scalings=by_name, precision=1e-9)
        state = model.update(model.prior(), rows, values)
        np.testing.assert_allclose(model.predict(state, rows, 60)[0], wanted, rtol=1e-5)
        point = model.point(state).mean({name: part[None] for name, part in rows.items()}, 60)
        np.testing.assert_allclose(point[0], wanted, rtol=1e-5)


def test_scaling_changes_the_units_of_noise_and_variances():
    """A target scaled by s with rate b is the unscaled one with rate b s^2."""
    rows, rng = rows_of(2)
    values = 20.0 + 5.0 * rows["x"] + 4.0 * rng.normal(size=60)
    plain = make(Y, (X,), precision=1e-9, rate=16.0)
    scaled = make(Y, (X,), scaling=Scaling(np.array([20.0]), np.array([4.0])), precision=1e-9, rate=1.0)
    states = [model.update(model.prior(), rows, values) for model in (plain, scaled)]
    for one, other in zip(plain.predict(states[0], rows, 60), scaled.predict(states[1], rows, 60), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5)
    assert plain.point(states[0]).sd[0, 0] == pytest.approx(scaled.point(states[1]).sd[0, 0], rel=1e-5)
    drawn = [model.draw(state, stream(3, "same"), 5).sd for model, state in zip((plain, scaled), states, strict=True)]
    np.testing.assert_allclose(drawn[0], drawn[1], rtol=1e-5)
    assert plain.point(states[0]).sd[0, 0] == pytest.approx(4.0, abs=1.0)


def test_a_categorical_target_learns_its_probabilities():
    rng = stream(4, "categorical")
    where = rng.integers(0, 2, 6000)
    chances = np.array([[0.7, 0.2, 0.1], [0.1, 0.1, 0.8]])
    values = (chances.cumsum(axis=1)[where] < rng.random((6000, 1))).sum(axis=1).astype(np.int32)
    model = make(cases.GRADE, (Variable("shift", "categorical", values=("day", "night")),))
    state = model.update(model.prior(), {"shift": where}, values)
    drawn = model.draw(state, rng, 4).mean({"shift": np.array([[0, 1]])}, 2)
    assert drawn.shape == (4, 2, 3)
    np.testing.assert_allclose(drawn, np.broadcast_to(chances, (4, 2, 3)), atol=0.05)
    np.testing.assert_allclose(drawn.sum(axis=-1), 1.0)
    assert not model.affine  # clipping to the simplex bends it


@pytest.mark.parametrize("target", [Y, Variable("v", "vector", ("v1", "v2")), cases.GRADE])
@pytest.mark.parametrize("where", ["target", "real parent", "vector parent", "categorical parent"])
def test_rows_with_a_missing_value_are_left_out(target, where):
    rows, rng = rows_of(5)
    values = cases.random_values(target, rng, 60)
    gone = np.array([3, 17, 59])
    if where == "target":
        if target.kind == "vector":
            values[gone, 1] = np.nan
        else:
            values[gone] = -1 if target.kind == "categorical" else np.nan
    elif where == "vector parent":
        rows["load"][gone, 0] = np.nan
    elif where == "real parent":
        rows["x"][gone] = np.nan
    else:
        rows["grade"][gone] = -1
    model = make(target)
    kept = np.delete(np.arange(60), gone)
    found = asdict(model.update(model.prior(), rows, values))
    wanted = asdict(model.update(model.prior(), {name: part[kept] for name, part in rows.items()}, values[kept]))
    for name, part in wanted.items():
        np.testing.assert_array_equal(found[name], part)
    assert found["shape"] == 2.0 + 0.5 * 57


@pytest.mark.parametrize("where", ["target", "parent"])
def test_an_infinite_value_is_refused_and_not_left_out(where):
    rows, rng = rows_of(6)
    values = rng.normal(size=60)
    (values if where == "target" else rows["x"])[5] = np.inf
    model = make(Y)
    with pytest.raises(ModelError, match="not finite"):
        model.update(model.prior(), rows, values)


def test_all_missing_leaves_the_prior():
    model = make(Y)
    rows, _ = rows_of(7)
    state = model.update(model.prior(), rows, np.full(60, np.nan))
    assert model.kl(state, model.prior()) == pytest.approx(0.0, abs=1e-10)


@pytest.mark.parametrize("count", [1, 3, 5])
@pytest.mark.parametrize("features", [Linear, Polynomial])
def test_particles_and_rows_are_not_confused(features, count):
    """S = 3 particles at n = 1, 3, 5 rows: every entry equals that of one particle at one row."""
    rows, rng = rows_of(8)
    model = make(Variable("v", "vector", ("v1", "v2")), features=features)
    drawn = model.draw(model.update(model.prior(), rows, rng.normal(size=(60, 2))), rng, 3)
    shared = {"x": rng.normal(size=(1, count)), "load": rng.normal(size=(1, count, 2)), "grade": rng.integers(0, 3, (1, count))}
    own = {**shared, "x": rng.normal(size=(3, count))}
    for asked in (shared, own):
        found = drawn.mean(asked, count)
        assert found.shape == (3, count, 2)
        for s in range(3):
            for i in range(count):
                x = asked["x"][s if len(asked["x"]) == 3 else 0, i]
                inputs = np.array([x, *asked["load"][0, i], *(np.arange(3) == asked["grade"][0, i])])
                wanted = model.features(inputs) @ drawn.drawn.weights[s]
                np.testing.assert_allclose(found[s, i], wanted, rtol=1e-10, atol=1e-10)


def test_a_mechanism_without_parents_is_a_mean():
    model = make(Y, ())
    state = model.update(model.prior(), {}, np.array([2.0, 4.0]))
    drawn = model.draw(state, stream(9, "alone"), 3)
    found = drawn.mean({"other": np.zeros((3, 4))}, 4)
    assert found.shape == (3, 4, 1)
    np.testing.assert_array_equal(found, np.broadcast_to(found[:, :1], (3, 4, 1)))
    assert model.predict(state, {}, 2)[0][0, 0] == pytest.approx(6.0 / 2.1)


@pytest.mark.parametrize("kind", ["real", "vector"])
def test_noise_on_a_parent_is_integrated_out(kind):
    """Against quadrature over the noise, with a scaled parent and a scaled target, in the target's own units."""
    rows, rng = rows_of(10)
    noisy_parent = X if kind == "real" else cases.LOAD
    scalings = {
        "x": Scaling(np.array([3.0]), np.array([2.0])),
        "load": Scaling(np.array([-1.0, 0.0]), np.array([0.5, 2.0])),
    }
    model = make(Y, features=Polynomial, scaling=Scaling(np.array([10.0]), np.array([3.0])), scalings=scalings)
    drawn = model.draw(model.update(model.prior(), rows, rng.normal(10.0, 3.0, 60)), rng, 2)
    asked = {"x": rng.normal(3, 2, (1, 4)), "load": rng.normal(size=(1, 4, 2)), "grade": rng.integers(0, 3, (1, 4))}
    sd = np.array([[0.7], [1.9]]) if kind == "real" else np.array([[0.7, 0.2], [1.9, 0.4]])
    found = drawn.mean(asked, 4, {noisy_parent.name: sd, "somebody else": np.ones((2, 1))})
    nodes, mass = np.polynomial.hermite_e.hermegauss(4)
    wanted = np.zeros((2, 4, 1))
    for i, j in np.ndindex(4, 4 if kind == "vector" else 1):
        if kind == "real":
            moved = {**asked, "x": asked["x"] + sd * nodes[i]}
            weight = mass[i]
        else:
            moved = {**asked, "load": asked["load"] + (sd * [nodes[i], nodes[j]])[:, None, :]}
            weight = mass[i] * mass[j]
        wanted += weight * drawn.mean(moved, 4)
    wanted /= mass.sum() ** (1 if kind == "real" else 2)
    np.testing.assert_allclose(found, wanted, rtol=1e-9)
    assert np.abs(found - drawn.mean(asked, 4)).max() > 1e-3  # the noise does matter here


@given(hs.lists(hs.floats(-3, 3), min_size=2, max_size=5))
@settings(max_examples=60, deadline=None)
def test_simplex(raw):
    found = simplex(np.array([raw]))
    assert (found >= 0).all()
    assert found.sum() == pytest.approx(1.0)
    np.testing.assert_allclose(simplex(found), found, rtol=1e-12)
    if max(raw) <= 0:
        np.testing.assert_allclose(found, 1.0 / len(raw))
