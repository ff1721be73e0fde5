from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest

from aegis.errors import SettingError
from aegis.rng import stream
from aegis.worlds import PRESETS, SHIFTS, WORLDS, Additive, Unified, make_world

WRONG: list[tuple[str, str, Any]] = [
    ("unified", "gamma", math.nan),
    ("unified", "gamma", True),
    ("unified", "task_mean", math.inf),
    ("unified", "sigma_q", -1.0),
    ("unified", "task_sd", "wide"),
    ("unified", "confounder", 1.5),
    ("unified", "q", -0.1),
    ("unified", "outer_steps", 0),
    ("unified", "inner_steps", 2.5),
    ("unified", "inner_points", 1),
    ("unified", "graph", "cyclic"),
    ("additive", "f_a", math.inf),
    ("additive", "sigma_q", -1),
    ("additive", "outer_points", 1),
    ("linear", "reward_sd", -0.1),
    ("linear", "inner_steps", True),
    ("plant", "doses", 0),
    ("plant", "yield_noise", math.nan),
    ("clinic", "confounder", -0.1),
    ("clinic", "level_sd", -1.0),
    ("unified", "gamma", 1e300),
    ("unified", "task_mean", -(10**400)),
    ("unified", "task_sd", 1e-300),
    ("unified", "inner_steps", 10**8),
    ("unified", "inner_points", 10**8),
    ("additive", "f_a", 1e7),
    ("additive", "gamma", 1e300),
    ("linear", "inner_steps", 10**6),
    ("plant", "viscosity_sd", 1e300),
    ("plant", "doses", 10**6),
    ("clinic", "recovery_sd", 1e300),
]


@pytest.mark.parametrize(("world", "name", "value"), WRONG)
def test_a_wrong_parameter_is_refused_by_name(world: str, name: str, value: object) -> None:
    with pytest.raises(SettingError) as caught:
        make_world(world, **{name: value})
    assert f"world '{world}'" in str(caught.value)
    assert name in str(caught.value) and str(value) in str(caught.value)


LARGE: list[tuple[str, dict[str, int], str]] = [
    ("unified", {"outer_steps": 1000, "inner_steps": 101}, "1000 x 101 decisions"),
    ("additive", {"outer_steps": 1000, "inner_steps": 101}, "1000 x 101 decisions"),
    ("additive", {"inner_steps": 100_000, "inner_points": 101}, "1 x 100000 decisions with 101 actions"),
    ("linear", {"outer_steps": 1000, "inner_steps": 101}, "1000 x 101 decisions"),
    ("plant", {"batches": 100, "recipe_steps": 100, "doses": 11}, "100 x 100 x 11 decisions"),
]


@pytest.mark.parametrize(("world", "settings", "found"), LARGE)
def test_an_episode_that_would_not_fit_into_memory_is_refused(world: str, settings: dict[str, int], found: str) -> None:
    with pytest.raises(SettingError, match=f"world '{world}': {found}.* at most .* are allowed"):
        make_world(world, **settings)


@pytest.mark.parametrize(("world", "name"), [("unified", "gamma"), ("additive", "f_a"), ("unified", "sigma_q")])
def test_the_largest_parameters_still_give_finite_rewards_in_their_range(world: str, name: str) -> None:
    extreme = make_world(world, **{name: 1e6})
    batch = extreme.episodes(0, 50, extreme.legacy("uniform"), 3)
    limits = extreme.problem.reward.range
    assert limits is not None and batch.reward is not None
    assert limits[0] <= batch.reward.min() and batch.reward.max() <= limits[1]


USUAL: list[dict[str, Any]] = [
    {},
    {"f_a": 1.0},
    {"f_a": -2.0},
    {"f_a": 0},
    {"sigma_q": 0.5},
    {"task_mean": 2.0},
    {"graph": "paper"},
]
WIDER: list[dict[str, Any]] = [
    {"f_a": 10.0},
    {"f_a": 4.0},
    {"f_a": -10.0},
    {"sigma_q": 6.0},
    {"gamma": 5.0},
    {"reward_sd": 4.0},
    {"nu": 1.0, "gamma": 4.0},
]


@pytest.mark.parametrize("settings", USUAL)
def test_the_usual_additive_worlds_keep_their_range(settings: dict[str, Any]) -> None:
    """Certificate figures are stated for it."""
    assert Additive(**settings).problem.reward.range == (-10.0, 10.0)


@pytest.mark.parametrize("settings", USUAL + WIDER)
def test_rewards_of_the_additive_world_stay_in_the_range_at_the_worst_actions(settings: dict[str, Any]) -> None:
    world = Additive(**settings)
    limits = world.problem.reward.range
    assert limits is not None
    if settings in WIDER:
        assert limits[1] > 10.0
    for lever, action in itertools.product((-2.0, 2.0), repeat=2):
        count = 20_000
        rng = stream(5, "range", str(settings), str((lever, action)))
        noise = {name: rng.standard_normal(count) for name in ("N_Q", "N_Y", "N_R")} | {"U": rng.random(count)}
        known = {"M": np.full(count, lever), "A": np.full(count, action)}
        known |= world.contexts("inner", known, noise)
        _, reward = world.results(known, noise)
        assert limits[0] <= reward.min() and reward.max() <= limits[1]


def test_unknown_worlds_and_settings_are_refused_with_the_nearest() -> None:
    with pytest.raises(SettingError, match="did you mean 'additive'"):
        make_world("aditive")
    with pytest.raises(SettingError, match=r"no setting 'sigmaq' \(did you mean 'sigma_q'\?\); allowed: gamma, "):
        make_world("unified", sigmaq=1)
    with pytest.raises(SettingError, match="no setting 'q'"):
        make_world("additive", q=0.5)
    with pytest.raises(SettingError, match="no setting 'problem'"):
        make_world("unified", problem=None)


@pytest.mark.parametrize("name", WORLDS)
def test_worlds_are_values(name: str) -> None:
    assert make_world(name) == make_world(name)
    assert hash(make_world(name)) == hash(make_world(name))
    assert make_world(name, confounder=0.2) != make_world(name)
    assert WORLDS[name].name == name


def test_spreads_may_be_zero() -> None:
    world = make_world("unified", sigma_q=0, task_sd=0, outcome_sd=0, reward_sd=0)
    assert world.episodes(0, 3, world.legacy("uniform"), 1).reward is not None


def test_presets_and_shifts() -> None:
    assert Unified(**PRESETS["stress"]) == Unified()  # type: ignore[arg-type]
    for settings in PRESETS.values():
        make_world("unified", **settings)
    assert set(SHIFTS) == {"T", "N_Q", "U"}
    for world in ("unified", "additive"):
        with pytest.raises(SettingError, match="unknown shift"):
            make_world(world, shift="Q")
    limits = make_world("additive", shift="N_Q").problem.reward.range
    assert limits is not None and limits[1] > 10


def test_presets_and_shifts_by_name() -> None:
    assert make_world("unified", preset="quadratic", shift="T", sigma_q=1.0) == Unified(q=1.0, task_mean=2.0, sigma_q=1.0)
    assert make_world("unified", preset="linear", eta=0.5) == Unified(eta=0.5)
    assert make_world("additive", shift="U") == Additive(confounder=0.9)
    with pytest.raises(SettingError, match=r"unknown preset of world 'unified' 'stres' \(did you mean 'stress'\?\)"):
        make_world("unified", preset="stres")
    with pytest.raises(SettingError, match="world 'additive' has no presets, found 'stress'"):
        make_world("additive", preset="stress")
    for name in ("linear", "plant", "clinic"):
        with pytest.raises(SettingError, match=f"world '{name}' has no shifts, found 'T'"):
            make_world(name, shift="T")
    with pytest.raises(SettingError, match="shift 'N_Q' sets 'sigma_q' to 6"):
        make_world("unified", shift="N_Q", sigma_q=2.0)


def test_graphs() -> None:
    parents = Unified().problem.graph.parents
    assert (parents["Q"], parents["Y"], parents["R"]) == (("M",), ("A", "Q"), ("Y",))
    paper = Unified(graph="paper").problem.graph.parents
    assert (paper["Q"], paper["Y"], paper["R"]) == (("T", "M"), ("A", "Q"), ("Y", "Q", "M", "T", "A"))
    assert Unified(graph="complete").problem.graph.parents["Y"] == ("T", "M", "Q", "A")
    assert Additive(graph="paper").problem.graph.parents["Q"] == ("T", "M")
