"""Bench files: every bench that comes along, and what is wrong in one of your own."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from bench_cases import SMALL, bench

from aegis.errors import InputError, SettingError
from aegis.handover import HOSTS, make_gate
from aegis.mechanisms import ModelSettings
from aegis.paper import (
    PublishedSettings,
    ResultStore,
    collect_results,
    judge_claim,
    list_benches,
    load_bench,
    plan_bench,
    run_plans,
)
from aegis.paper.bench_claims import FAILS, HOLDS
from aegis.paper.bench_file import Arm
from aegis.paper.run_measures import unit_world
from aegis.paper.split_measures import SplitOptions
from aegis.worlds import make_world

pytestmark = pytest.mark.usefixtures("coarse_oracle")
TINY: dict[str, dict[str, object]] = {
    "online": {"episodes": 6},
    "shift": {"episodes": 6},
    "gate": {"episodes": 20},
    "offline": {"episodes": 12, "world.inner_points": 5},
    "split": {"episodes": 12, "options.points": [8, 12], "options.particles": 2, "options.draws": 2}
    | {"world.inner_points": 5, "world.outer_points": 3},
}


@pytest.mark.parametrize("name", list_benches())
def test_every_bench_runs_and_its_claims_can_be_judged(name: str) -> None:
    found = load_bench(name)
    assert found.name == name and found.title and found.section and found.question and found.claims
    small = {name: tiny(arm, TINY[found.measure]) for name, arm in found.arms.items()}
    plan = plan_bench(found.model_copy(update={"arms": small}), "quick", {"seeds": 1, **TINY[found.measure]})
    store = ResultStore(None)
    assert run_plans([plan], store) == []
    for place, unit in enumerate(plan.units):  # a second seed that differs, so that there is a spread to test against
        first = store.read(unit)[0]
        moved = {name: item * (1.01 + 0.001 * place) for name, item in first.items() if isinstance(item, float)}
        store.add(unit, {1: {**first, **moved}})
    results = collect_results(replace(plan, seeds=2, changes={}), store)
    assert results.complete
    rows = results.rows()
    assert {row["agent"] for row in rows} == set(found.arms)
    assert all({"agent", "mean", "sd", "oracle", "paper"} <= row.keys() for row in rows)
    for claim in found.claims:
        assert judge_claim(claim.model_copy(update={"horizon": None}), results).verdict in (HOLDS, FAILS, "cannot be tested")


def tiny(arm: Arm, changes: Mapping[str, object]) -> Arm:
    """Return an arm without what is changed: arms keep what they set themselves."""
    world = {key: value for key, value in arm.world.items() if f"world.{key}" not in changes}
    return arm.model_copy(update={"episodes": None, "world": world})


@pytest.mark.parametrize("name", list_benches())
def test_everything_the_paper_reports_is_shown(name: str) -> None:
    found = load_bench(name)
    rows = collect_one(name)
    shown = {row["agent"] for row in rows if row["paper"] is not None}
    assert shown == set(found.paper)
    reported = sum(len(known) if isinstance(known, dict) else 1 for known in found.paper.values())
    assert len([row for row in rows if row["paper"] is not None]) == reported


def collect_one(name: str) -> list[dict[str, object]]:
    """Return the rows of a bench whose runs all gave zero."""
    plan = plan_bench(load_bench(name), "full", {"seeds": 1})
    store = ResultStore(None)
    numbers: dict[str, object] = dict.fromkeys(plan.bench.metrics, 0.0)
    numbers |= {name.partition("@")[0]: [0.0] * len(plan.bench.points) for name in plan.bench.metrics if "@" in name}
    for unit in plan.units:
        store.add(unit, {0: numbers})
    return collect_results(plan, store).rows()


def test_full_is_what_the_paper_did() -> None:
    assert {unit.settings["episodes"] for unit in plan_bench(load_bench("1b"), "full").units} == {2000}
    assert plan_bench(load_bench("1b"), "full").seeds == 10


def settings_of(name: str) -> list[dict[str, Any]]:
    return [dict(unit.settings) for unit in plan_bench(load_bench(name), "full").units]


def test_what_each_experiment_changes_of_the_defaults() -> None:
    """The table of deviations: 1a, 1c, 2a, 3a and 3b; all others of the setup are 2000 episodes, ten seeds, the stress preset."""
    for name, episodes in (("1a", 100), ("1b", 2000), ("1c", 2000), ("2a", 200), ("3a", 200), ("3a-spectrum", 200), ("3b", 200)):
        units = settings_of(name)
        assert {unit["episodes"] for unit in units} == {episodes}, name
        assert {unit["world"].get("preset") for unit in units} == {"quadratic" if name == "3b" else "stress"}, name
        assert plan_bench(load_bench(name), "full").seeds >= 10, name
    for unit in settings_of("1a"):
        assert unit["options"] == {"shifts": ["T", "N_Q", "U"], "target": 25}
    for split in settings_of("1c"):
        assert SplitOptions(**split["options"]).alpha == 0.5 and split["options"]["points"] == [200, 500, 1000, 1500, 2000]
    tempers = {
        arm: {unit["model"]["temper"] for unit in settings_of("2a") if unit["agent"] == arm}
        for arm in ("nested_cts", "nested_nig")
    }
    assert tempers == {arm: {0.1, 0.25, 0.5, 0.75, 1.0} for arm in tempers}
    assert {unit["outer"]["p"] for unit in settings_of("3a-spectrum")} == {0.0, 0.25, 0.5, 0.75, 1.0}
    assert {unit["agent"] for unit in settings_of("3a")} >= {"nested_nig", "greedy_nig", "top_k_nig", "d_optimal_nig"}


def test_the_grids_of_the_text_and_those_of_the_table_are_both_run() -> None:
    grids = {unit["world"]["inner_points"] for unit in settings_of("3b")}
    assert grids == {5, 7, 14} | {21, 41, 81}
    assert make_world("unified", preset="quadratic").q == 1.0  # type: ignore[attr-defined]


def test_a_cell_of_the_table_has_27_samples_or_9_not_7() -> None:
    samples = set()
    for unit in settings_of("3b"):
        if unit["agent"] == "flat_joint" and unit["world"]["inner_points"] == 21:
            world = unit_world(unit)
            outer, inner = (level.actions.count for level in world.problem.levels)
            samples.add((outer, round(unit["episodes"] * np.prod(world.steps) / (outer * inner), 1)))
    assert samples == {(7, 27.2), (21, 9.1)}


def test_the_setup_of_the_reference_handover() -> None:
    (unit,) = [dict(own.settings) for own in plan_bench(load_bench("aegis-flip"), "full").units if own.arm == "published"]
    assert (unit["episodes"], plan_bench(load_bench("aegis-flip"), "full").seeds) == (5000, 3)
    assert unit["legacy"] == "sign:epsilon=0.0" and unit["world"]["name"] == "additive" and unit["world"]["f_a"] == 2.0
    assert unit_world(unit).steps == (1, 20)
    options = unit["options"]
    assert options["gate"] == "published" and options["gate_settings"] == {"levels": ["inner"], "refresh": 50}
    usual = PublishedSettings(**options["gate_settings"])
    assert (usual.stride, usual.positivity, usual.largest_weight, usual.model) == (50, 0.05, 1.0, None)
    world = unit_world(unit)
    gate: Any = make_gate("published", world, world.legacy(unit["legacy"]), HOSTS[options["host"]](), options["gate_settings"], 0)
    assert gate._plans.model == ModelSettings()  # linear mechanisms with the paper's prior


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("measure: onlin", "'onlin'.*did you mean 'online'"),
        ("seeds: none", "seeds"),
        ("seeds: 0", "seeds"),
        ("base: {wrld: {}}", "unknown key 'base.wrld'.*did you mean 'world'"),
        ("paper: {lineer: {mean: 1.0}}", "'lineer'.*did you mean 'linear'"),
        ("title: [1]", "title"),
    ],
)
def test_what_is_wrong_is_named(line: str, says: str) -> None:
    with pytest.raises(InputError, match=f"(?s)small.yaml: .*{says}"):
        bench(**{line.split(":")[0]: line})


@pytest.mark.parametrize("text", ["", "- 1", "title: [", "title: x\ntitle: y"])
def test_files_that_are_none(text: str) -> None:
    with pytest.raises(InputError, match=r"small\.yaml"):
        bench(text)


def test_a_file_of_ones_own(tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text(SMALL, encoding="utf-8")
    assert load_bench(str(path)).name == "mine"
    with pytest.raises(InputError, match="cannot read"):
        load_bench(str(tmp_path / "other.yaml"))
    with pytest.raises(SettingError, match="1b"):
        load_bench("1bb")
