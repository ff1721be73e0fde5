"""Units of a bench: merged settings, changes, and the digest."""

from __future__ import annotations

import pytest
from bench_cases import bench

from aegis.errors import SettingError
from aegis.paper import load_bench, plan_bench
from aegis.paper.bench_file import merge_settings


def test_settings_are_merged_from_the_base_over_the_preset_to_the_arm_and_what_was_asked() -> None:
    found = plan_bench(bench(), "full", {"world.f_a": 1.0})
    assert [unit.settings["episodes"] for unit in found.units] == [8, 8]
    assert found.units[0].settings["world"] == {"name": "additive", "inner_steps": 3, "f_a": 1.0}
    assert found.units[0].settings["agent"] == "nested_nig"
    assert merge_settings({"a": {"b": 1, "c": 2}}, {"a": {"c": 3}, "d": None}) == {"a": {"b": 1, "c": 3}}


@pytest.mark.parametrize("changes", [{"sedes": 3}, {"seeds": 0}, {"world": 3}, {"episodes.x": 3}, {"episodes": 1.5}])
def test_changes_that_cannot_be(changes: dict[str, object]) -> None:
    with pytest.raises(SettingError):
        plan_bench(bench(), "quick", changes)


SETTING = """
title: A bench whose arms set something
section: none
question: Which?
measure: gate
base: {world: {name: additive, inner_steps: 3}, legacy: "uniform", episodes: 6}
seeds: 1
metrics: [reward]
arms:
  "noise 3": {world: {sigma_q: 3.0}}
  "noise 6": {world: {sigma_q: 6.0}, options: {gate_settings: {levels: [inner]}}}
"""


@pytest.mark.parametrize(
    ("changes", "arm", "key"),
    [
        ({"world.sigma_q": 1.0}, "noise 3", "world.sigma_q"),
        ({"episodes": 5, "options.gate_settings.levels": ["meta"]}, "noise 6", "options.gate_settings.levels"),
        ({"options.gate_settings": {"levels": ["meta"]}}, "noise 6", "options.gate_settings.levels"),
    ],
)
def test_what_an_arm_sets_itself_cannot_be_changed(changes: dict[str, object], arm: str, key: str) -> None:
    with pytest.raises(SettingError, match=f"bench small: the arm '{arm}' sets '{key}' itself"):
        plan_bench(bench(SETTING), "quick", changes)
    assert plan_bench(bench(SETTING), "quick", {"world.eta": 1.0, "episodes": 5}).changes == {"world.eta": 1.0, "episodes": 5}


def test_the_arms_of_a_bench_of_the_paper_stay_what_their_names_say() -> None:
    with pytest.raises(SettingError, match=r"bench aegis-flip: the arm 'published, sigma_Q = 1' sets 'world.sigma_q' itself"):
        plan_bench(load_bench("aegis-flip"), "quick", {"world.sigma_q": 6.0})


def test_the_digest_depends_on_settings_alone() -> None:
    first, second = (plan_bench(bench(), "full", {"seeds": seeds}).units[0] for seeds in (2, 5))
    assert first.key == second.key
    assert first.key != plan_bench(bench(), "full", {"episodes": 9}).units[0].key
