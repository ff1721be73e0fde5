from __future__ import annotations

import math
from typing import Any

import pytest

from aegis.errors import SettingError
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
]


@pytest.mark.parametrize(("world", "name", "value"), WRONG)
def test_a_wrong_parameter_is_refused_by_name(world: str, name: str, value: object) -> None:
    with pytest.raises(SettingError) as caught:
        make_world(world, **{name: value})
    assert name in str(caught.value) and str(value) in str(caught.value)


def test_unknown_worlds_and_settings_are_refused_with_the_nearest() -> None:
    with pytest.raises(SettingError, match="did you mean 'additive'"):
        make_world("aditive")
    with pytest.raises(SettingError, match=r"no setting 'sigmaq' \(did you mean 'sigma_q'\?\); allowed: gamma, "):
        make_world("unified", sigmaq=1)
    with pytest.raises(SettingError, match="no setting 'eta'"):
        make_world("additive", eta=0.5)
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
    assert Unified().shifted("T") == Unified(task_mean=2.0)
    assert Unified(q=1.0).shifted("N_Q") == Unified(q=1.0, sigma_q=6.0)
    assert Additive().shifted("U") == Additive(confounder=0.9)
    assert set(SHIFTS) == {"T", "N_Q", "U"}
    for world in (Unified(), Additive()):
        with pytest.raises(SettingError, match="unknown shift"):
            world.shifted("Q")


def test_graphs() -> None:
    parents = Unified().problem.graph.parents
    assert (parents["Q"], parents["Y"], parents["R"]) == (("M",), ("A", "Q"), ("Y",))
    paper = Unified(graph="paper").problem.graph.parents
    assert (paper["Q"], paper["R"]) == (("T", "M"), ("Y", "Q", "M", "T", "A"))
    assert Unified(graph="complete").problem.graph.parents["Y"] == ("T", "M", "Q", "A")
    assert Additive(graph="paper").problem.graph.parents["Q"] == ("T", "M")
