"""Single-level rules: exact masses, masks, and settings that are refused."""

from __future__ import annotations

import math

import numpy as np
import pytest

from aegis.errors import PolicyError, SettingError
from aegis.policies import Constant, Epsilon, Gaussian, Natural, Nearest, Shares, Sign, Softmax, Uniform
from aegis.policies.rules import LEVEL_RULES, rule_from_description
from aegis.problem import Actions, Level, Variable

GRID = Level("dose", Actions.grid("amount", -2.0, 2.0, 5))
MIXED = Level("speed", Actions.of("rpm", (3.0, -1.0, 0.5, 10.0)))  # unsorted, uneven
LABELS = Level("recipe", Actions.of("setting", ("low", "high", "off")))
KNOWN = {
    "x": Variable("x"),
    "z": Variable("z"),
    "c": Variable("c", "categorical", values=("a", "b")),
    "v": Variable("v", "vector", ("p", "q")),
}

EXAMPLES = {
    "uniform": Uniform(),
    "natural": Natural({"x": 0.7, "z": -0.2}, 0.8, 0.1),
    "sign": Sign("x", 1.4),
    "constant": Constant(0.6),
    "nearest": Nearest({"x": 1.5}, -0.1),
    "softmax": Softmax((0.1, -0.4, 0.0, 1.0), {"x": (1.0, 0.0, -1.0, 0.2)}, 0.5),
    "epsilon": Epsilon(Sign("x", 1.0), 0.2),
    "shares": Shares(((0.1, 0.0, 0.6, 0.3),)),
    "gaussian": Gaussian({"x": 0.7}, 0.8, 0.1),
}


def rows(count, seed=0):
    rng = np.random.default_rng(seed)
    return {"x": rng.normal(size=count), "z": rng.normal(size=count)}


def test_every_rule_has_an_example():
    assert set(EXAMPLES) == set(LEVEL_RULES)


@pytest.mark.parametrize("name", LEVEL_RULES)
@pytest.mark.parametrize("count", [0, 1, 7])
def test_a_rule_is_a_distribution_over_available_actions(name, count):
    mask = np.random.default_rng(1).random((count, 4)) < 0.5
    mask[:, 2] |= ~mask.any(axis=1)
    for available in (None, mask):
        found = EXAMPLES[name].probabilities(MIXED, rows(count), count, available)
        assert found.shape == (count, 4)
        assert (found >= 0).all()
        np.testing.assert_allclose(found.sum(axis=1), 1.0, rtol=0, atol=1e-14)
        if available is not None:
            assert (found[~available] == 0).all()


@pytest.mark.parametrize("name", LEVEL_RULES)
def test_a_rule_survives_plain_data(name):
    again = rule_from_description(EXAMPLES[name].describe())
    assert again == EXAMPLES[name]
    np.testing.assert_array_equal(again.probabilities(MIXED, rows(5), 5), EXAMPLES[name].probabilities(MIXED, rows(5), 5))


@pytest.mark.parametrize("name", LEVEL_RULES)
def test_no_action_available_is_an_error_that_names_the_row(name):
    mask = np.ones((3, 4), dtype=bool)
    mask[1] = False
    with pytest.raises(PolicyError, match="row 1: no action is available"):
        EXAMPLES[name].probabilities(MIXED, rows(3), 3, mask)
    with pytest.raises(PolicyError, match="shape"):
        EXAMPLES[name].probabilities(MIXED, rows(3), 3, np.ones((3, 5), dtype=bool))


def test_sign_of_zero_is_plus():
    found = Sign("x", 1.0).probabilities(GRID, {"x": np.array([-0.1, 0.0, -0.0, 3.0])}, 4)
    assert found.argmax(axis=1).tolist() == [1, 3, 3, 3]
    assert set(found.ravel()) == {0.0, 1.0}


def test_deterministic_rules_take_the_nearest_available_number_or_the_first_available_label():
    mask = np.array([[True, True, False, False, True]])
    assert Constant(0.1).probabilities(GRID, {}, 1, mask).argmax() == 1
    assert Constant("high").probabilities(LABELS, {}, 1).tolist() == [[0.0, 1.0, 0.0]]
    assert Constant("high").probabilities(LABELS, {}, 1, np.array([[False, False, True]])).argmax() == 2
    assert Constant("off").probabilities(LABELS, {}, 1, np.array([[True, True, False]])).argmax() == 0


def test_epsilon_explores_among_available_actions_only():
    mask = np.array([[True, False, True, False, True]])
    found = Epsilon(Constant(2.0), 0.3).probabilities(GRID, {}, 1, mask)
    np.testing.assert_allclose(found, [[0.1, 0.0, 0.1, 0.0, 0.8]], atol=1e-15)


def test_softmax_by_hand():
    rule = Softmax((0.0, 1.0, 2.0), {"x": (1.0, 0.0, 0.5)}, 2.0)
    found = rule.probabilities(LABELS, {"x": np.array([3.0])}, 1)[0]
    mass = [math.exp(3.0 / 2), math.exp(1.0 / 2), math.exp(3.5 / 2)]
    np.testing.assert_allclose(found, np.array(mass) / sum(mass), rtol=1e-12)
    huge = Softmax((0.0, 1e5, 0.0)).probabilities(LABELS, {}, 1)
    assert huge.tolist() == [[0.0, 1.0, 0.0]]


@pytest.mark.parametrize(
    "build",
    [
        lambda: Natural({"x": 1.0}, -0.1),
        lambda: Natural({"x": 1.0}, math.inf),
        lambda: Natural({"x": math.nan}, 1.0),
        lambda: Natural({"x": "1"}, 1.0),
        lambda: Natural({}, 1.0, math.inf),
        lambda: Sign("x", math.nan),
        lambda: Constant(math.inf),
        lambda: Nearest({"x": True}),
        lambda: Softmax((0.0, math.nan)),
        lambda: Softmax((0.0, 1.0), {"x": (1.0,)}),
        lambda: Softmax((0.0, 1.0), temperature=0.0),
        lambda: Epsilon(Uniform(), 1.1),
        lambda: Epsilon(Uniform(), -0.1),
        lambda: Epsilon(Uniform, 0.1),
        lambda: rule_from_description({"kind": "naturl"}),
        lambda: rule_from_description({"kind": "sign", "variable": "x"}),
        lambda: rule_from_description({"kind": "sign", "variable": "x", "siez": 1.0}),
        lambda: rule_from_description({}),
    ],
)
def test_settings_that_are_refused(build):
    with pytest.raises(SettingError):
        build()


@pytest.mark.parametrize(
    ("rule", "level", "message"),
    [
        (Natural({"y": 1.0}, 1.0), GRID, "no variable 'y'"),
        (Natural({"c": 1.0}, 1.0), GRID, "'c' is categorical"),
        (Natural({"v": 1.0}, 1.0), GRID, "'v' is vector"),
        (Natural({"x": 1.0}, 1.0), LABELS, "labels"),
        (Sign("x", 1.0), LABELS, "labels"),
        (Nearest({"x": 1.0}), LABELS, "labels"),
        (Constant("lo"), LABELS, "did you mean 'low'"),
        (Constant("low"), GRID, "not a number"),
        (Softmax((0.0, 1.0)), LABELS, "one intercept per action"),
        (Softmax((0.0, 1.0, 2.0), {"c": (1.0, 1.0, 1.0)}), LABELS, "'c' is categorical"),
        (Epsilon(Sign("c", 1.0), 0.1), GRID, "'c' is categorical"),
    ],
)
def test_rules_that_do_not_fit_the_level(rule, level, message):
    with pytest.raises(PolicyError, match=message):
        rule.check(level, KNOWN)


def test_missing_and_overflowing_numbers_are_errors_not_actions():
    for rule in (Sign("x", 1.0), Nearest({"x": 1.0}), Natural({"x": 1.0}, 1.0)):
        with pytest.raises(PolicyError, match="row 1: 'x' is nan"):
            rule.probabilities(GRID, {"x": np.array([0.0, np.nan])}, 2)
    for rule in (Nearest({"x": 1e200}), Softmax((0.0,) * 5, {"x": (1e200,) * 5}), Softmax((1e300,) * 5, temperature=1e-300)):
        with pytest.raises(PolicyError, match="overflow"):
            rule.probabilities(GRID, {"x": np.array([1e200])}, 1)


def test_rules_copy_what_they_are_given():
    weights = {"x": 1.0}
    rule = Nearest(weights)
    weights["x"] = -1.0
    assert rule == Nearest({"x": 1.0})
