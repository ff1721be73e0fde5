"""Bench files: every bench that comes along, and what is wrong in one of your own."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest
from bench_cases import SMALL, bench

from aegis.errors import InputError, SettingError
from aegis.paper import ResultStore, collect_results, judge_claim, list_benches, load_bench, plan_bench, run_plans
from aegis.paper.bench_claims import FAILS, HOLDS
from aegis.paper.bench_file import Arm

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
