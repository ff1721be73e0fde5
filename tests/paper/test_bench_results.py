"""Results of a bench: rows, settings and numbers that come out again."""

from __future__ import annotations

from pathlib import Path

import pytest
from bench_cases import made_up

from aegis.paper import BenchResults, bench_page, load_bench, plan_bench
from aegis.paper.measure_table import MEASURES

DOCS = Path(__file__).parents[2] / "docs"


@pytest.fixture
def kept(tmp_path: Path) -> bench_page.Archive:
    bench_page.save_archive(tmp_path / "paper.json", [made_up("1a"), made_up("2a")], {"2a": ["2a-1"]})
    return bench_page.load_archive(tmp_path / "paper.json")


def test_settings_are_those_that_were_run() -> None:
    shown = made_up("aegis-flip", "quick").settings
    assert shown["common"]["episodes"] == 1500
    regime = {"world.sigma_q": 3.0, "world.eta": 1.0}
    assert shown["arms"]["ours"] == {"legacy": "sign:epsilon=0.3", "options.gate": "challenger", **regime}
    assert shown["arms"]["ours, sigma_Q = 1"].items() >= {"world.sigma_q": 1.0, "world.eta": 0.0}.items()
    arms = made_up("1a").settings["arms"]
    raw = {"legacy": "uniform", "standardise": False}
    assert {arm: arms[arm] for arm in ("flat_ts", "flat_cts")} == {arm: {"agent": arm, **raw} for arm in ("flat_ts", "flat_cts")}


def test_the_oracle_of_rewards_stands_beside_rewards_only() -> None:
    rows = made_up("aegis-flip").rows()
    assert all((row["oracle"] is not None) == (row["metric"] == "reward") for row in rows)


@pytest.mark.parametrize(("name", "arm"), [("offline-1", "aligned"), ("3a", "greedy")])
def test_numbers_that_are_kept_come_out_again(name: str, arm: str) -> None:
    """The page names the code that gave its numbers; what has changed since changes none of these."""
    kept = {results.bench.name: results for results in bench_page.load_archive(DOCS / "paper.json").results}[name]
    unit = next(item for item in plan_bench(load_bench(name), "full").units if item.arm == arm)
    (again,) = MEASURES[unit.measure](unit.settings, [0])
    for metric, number in kept.runs[arm, None][0].items():
        if not isinstance(number, list):
            assert again[metric] == pytest.approx(number, rel=1e-4, abs=1e-4), metric


def test_pairs_of_a_place_in_a_list() -> None:
    bench = load_bench("1c")
    listed = [float(place) for place, _ in enumerate(bench.points)]
    runs = {("nested_cts", None): {seed: {"published": [seed + number for number in listed]} for seed in range(2)}}
    found = BenchResults(bench=bench, preset="full", seeds=2, runs=runs)
    arm, last = ("nested_cts", None), f"published@{bench.points[-1]:g}"
    assert [list(side) for side in found.pairs(arm, arm, last)] == [[listed[-1], listed[-1] + 1]] * 2
