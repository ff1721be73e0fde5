"""Settings of models: names that do not exist are refused, scales reach the right columns."""

from __future__ import annotations

import numpy as np
import pytest

from aegis.errors import SettingError
from aegis.mechanisms import LevelRewards, ModelSettings, Tuned, build_belief
from aegis.problem import Actions, Level, Problem, Reward, Variable

PROBLEM = Problem(
    (
        Level("outer", Actions.grid("m", -1, 1, 3), (Variable("x", "vector", columns=("x0", "x1")),)),
        Level("inner", Actions.of("a", ("low", "high")), (Variable("z"), Variable("ward", "categorical", values=("n", "s")))),
    ),
    Reward("r"),
)


def scaled(lengthscale) -> np.ndarray:
    """The length-scales that the reward's features were drawn with, by column."""
    one, other = (
        build_belief(PROBLEM, ModelSettings(features="fourier", lengthscale=scale)).mechanisms["r"].features.frequencies
        for scale in (1.0, lengthscale)
    )
    return (one / other)[:, 0]


def test_scales_by_name_and_by_coordinate() -> None:
    names = build_belief(PROBLEM, ModelSettings(features="fourier")).mechanisms["r"].parents
    widths = {"x": 2, "m": 1, "z": 1, "ward": 2, "a": 2}
    wanted = {"x": [3.0, 5.0], "z": [0.5], "ward": [2.0, 2.0]}
    expected = [value for name in names for value in wanted.get(name, [1.0] * widths[name])]
    np.testing.assert_allclose(scaled({"x": (3.0, 5.0), "z": 0.5, "ward": 2.0}), expected)
    np.testing.assert_allclose(scaled({"x": 4.0}), [4.0 if name == "x" else 1.0 for name in names for _ in range(widths[name])])


REFUSED = {
    "input": (ModelSettings(features="fourier", lengthscale={"zz": 2.0}), "unknown input with a length-scale 'zz'"),
    "tuned input": (ModelSettings(tuned={"r": Tuned({"y": 1.0}, 0.1)}), "unknown input with a length-scale 'y'"),
    "tuned mechanism": (ModelSettings(tuned={"reward": Tuned({}, 0.1)}), "unknown mechanism with tuned settings 'reward'"),
    "too few": (ModelSettings(features="fourier", lengthscale={"x": (1.0,)}), "'x' is one number, or one for each of its 2"),
    "not a vector": (ModelSettings(features="fourier", lengthscale={"ward": (1.0, 2.0)}), "'ward' is one number"),
}


@pytest.mark.parametrize("what", REFUSED)
def test_what_would_be_ignored_is_refused(what: str) -> None:
    settings, message = REFUSED[what]
    with pytest.raises(SettingError, match=message):
        build_belief(PROBLEM, settings)
    with pytest.raises(SettingError, match=message):
        LevelRewards.prior(PROBLEM, settings)


def test_a_misspelt_name_is_put_right() -> None:
    with pytest.raises(SettingError, match="did you mean 'ward'"):
        build_belief(PROBLEM, ModelSettings(features="fourier", lengthscale={"wrd": 2.0}))


def test_reward_models_of_outer_levels_ignore_what_is_said_of_inner_variables() -> None:
    settings = ModelSettings(features="fourier", lengthscale={"z": 2.0, "x": 3.0}, tuned={"z": Tuned({"x": 2.0}, 0.1)})
    assert set(LevelRewards.prior(PROBLEM, settings).regressions) == {"outer", "inner"}


@pytest.mark.parametrize("count", [0, -1, 2.5, True, "many"])
def test_the_count_of_features_is_a_whole_number(count) -> None:
    with pytest.raises(SettingError, match="whole number from 1"):
        ModelSettings(features="fourier", count=count)
