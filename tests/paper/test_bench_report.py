"""The page about all benches: from stored results, the same text for the same numbers."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from bench_cases import bench

from aegis.errors import InputError, SettingError
from aegis.paper import MEASURES, BenchResults, ResultStore, bench_page, collect_results, draw_figures, load_bench, plan_bench
from aegis.paper import bench_figures as drawing
from aegis.paper.bench_claims import HOLDS
from aegis.paper.bench_figures import FIGURES
from aegis.paper.bench_units import key_of

DOCS = Path(__file__).parents[2] / "docs"
LISTS = {"curve": [1.0] * 40, "published": [-9.0, -4.0], "biased": [-20.0, -30.0], "sharp": [-3.0, -2.0], "ours": [1.0, 2.0]}


def made_up(name: str, preset: str = "full") -> BenchResults:
    """Return results of a bench with numbers that follow from arm, value and seed."""
    plan = plan_bench(load_bench(name), preset, {"seeds": 3})
    store = ResultStore(None)
    for place, unit in enumerate(plan.units):
        numbers = dict.fromkeys((*plan.bench.metrics, "reward", "value", "certified", "oracle"), 10.0 * place + 3)
        store.add(unit, {seed: {**{m: v + seed for m, v in numbers.items()}, **LISTS} for seed in range(3)})
    return collect_results(plan, store)


@pytest.mark.parametrize("name", ["1a", "1b", "1c", "2a", "aegis-flip", "firing-order", "aegis-comparison"])
def test_figures_are_drawn_and_the_same_again(name: str, tmp_path: Path) -> None:
    results = made_up(name)
    assert {item.kind for item in results.bench.figures} <= FIGURES.keys()
    names = draw_figures(results, tmp_path / "a", ("svg", "png"))
    assert len(names) == len(results.bench.figures)
    draw_figures(results, tmp_path / "b", ("svg",))
    for own in names:
        assert (tmp_path / "a" / f"{own}.svg").read_bytes() == (tmp_path / "b" / f"{own}.svg").read_bytes()
        assert (tmp_path / "a" / f"{own}.png").stat().st_size > 1000


def test_every_kind_of_figure_is_used_and_documented() -> None:
    from aegis.paper import list_benches

    used = {item.kind for name in list_benches() for item in load_bench(name).figures}
    assert used == set(FIGURES) and all(draw.__doc__ for draw in FIGURES.values())


def test_figures_without_numbers_are_left_out(tmp_path: Path) -> None:
    results = collect_results(plan_bench(load_bench("1b"), "quick"), ResultStore(None))
    assert draw_figures(results, tmp_path) == []


def test_pictures_of_another_kind(tmp_path: Path) -> None:
    with pytest.raises(SettingError, match="gif"):
        draw_figures(made_up("1b"), tmp_path, ("gif",))


def test_without_the_library_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(drawing.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(SettingError, match="matplotlib"):
        drawing.check_drawing()


@pytest.fixture
def kept(tmp_path: Path) -> bench_page.Archive:
    bench_page.save_archive(tmp_path / "paper.json", [made_up("1a"), made_up("2a")], {"2a": ["2a-1"]})
    return bench_page.load_archive(tmp_path / "paper.json")


def test_an_archive_gives_the_same_rows(kept: bench_page.Archive) -> None:
    assert [results.rows() for results in kept.results] == [made_up("1a").rows(), made_up("2a").rows()]
    assert all("curve" not in run for results in kept.results for own in results.runs.values() for run in own.values())


def test_the_page_says_everything(kept: bench_page.Archive) -> None:
    text = bench_page.markdown_page(kept, "figures")
    for results, judged in kept.judged():
        assert f"## {results.bench.name}: {results.bench.title}" in text
        for item in judged:
            assert f"| {item.says} | {item.of} | **{item.verdict}** |" in text
        for row in results.rows():
            assert bench_page.format_mean(row["mean"], row["sd"]) in text
            if row["paper"] is not None:
                assert bench_page.format_mean(row["paper"]["mean"], row["paper"]["sd"]) in text
            assert row["value"] is None or f"{row['agent']}, {key_of(row['value'])}" in text
    assert "![Tempering the posterior, by backend](figures/2a-1.svg)" in text
    shown = bench_page.html_page(kept, {"2a-1": "<?xml?><svg><title>x</title></svg>"})
    assert "<svg><title>x</title></svg>" in shown and "<?xml" not in shown
    assert len(re.findall("<section", shown)) == 3


def test_what_is_far_from_the_paper_is_listed(kept: bench_page.Archive) -> None:
    listed = bench_page.differing_results(kept)
    far = [bench_page.distance_words(row) for results in kept.results for row in results.rows()]
    failed = [item for _, judged in kept.judged() for item in judged if item.of == "paper" and item.verdict != HOLDS]
    assert len(listed) == sum(gap is not None for gap in far) + len(failed) and len(failed) > 0
    text = bench_page.markdown_page(kept, "figures")
    assert all(f"| {row['bench']} | {row['what']} | {row['ours']} |" in text for row in listed)


def test_far_is_two_standard_deviations_or_a_tenth() -> None:
    def row(mean: float, sd: float | None, known: float, spread: float | None) -> dict[str, object]:
        return {"mean": mean, "sd": sd, "paper": {"mean": known, "sd": spread}}

    assert bench_page.distance_words(row(10.0, 3.0, 0.0, 4.0)) is None
    assert bench_page.distance_words(row(10.1, 3.0, 0.0, 4.0)) == "+2.0 sd"
    assert bench_page.distance_words(row(-10.1, 3.0, 0.0, 4.0)) == "-2.0 sd"
    assert bench_page.distance_words(row(110.0, 1.0, 100.0, None)) is None
    assert bench_page.distance_words(row(89.0, 1.0, 100.0, None)) == "-11 %"


def test_settings_are_those_that_were_run() -> None:
    shown = made_up("aegis-flip", "quick").settings
    assert shown["common"]["episodes"] == 1500
    assert shown["arms"]["ours"] == {"legacy": "sign:epsilon=0.3", "options.gate": "challenger"}
    assert made_up("1a").settings["arms"] == {"flat_ts": {"agent": "flat_ts"}, "flat_cts": {"agent": "flat_cts"}}


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


def test_what_is_left_out_is_said(tmp_path: Path) -> None:
    bench_page.save_archive(tmp_path / "paper.json", [made_up("1a")], {}, ["2a", "3a"])
    assert "Not complete, and left out: 2a, 3a." in bench_page.markdown_page(
        bench_page.load_archive(tmp_path / "paper.json"), "figures"
    )


def test_a_damaged_archive(tmp_path: Path) -> None:
    (tmp_path / "paper.json").write_text('{"preset": "full"}')
    with pytest.raises(InputError, match=r"paper\.json"):
        bench_page.load_archive(tmp_path / "paper.json")


def test_the_page_that_is_kept_is_what_its_numbers_say() -> None:
    kept = bench_page.load_archive(DOCS / "paper.json")
    assert (DOCS / "paper.md").read_text(encoding="utf-8") == bench_page.markdown_page(kept, "figures")
    for names in kept.figures.values():
        assert all((DOCS / "figures" / f"{name}.svg").exists() for name in names)
    assert json.loads((DOCS / "paper.json").read_text())["preset"] == "full"


def test_a_bench_of_ones_own_has_a_table() -> None:
    plan = plan_bench(bench(), "quick")
    store = ResultStore(None)
    for unit in plan.units:
        store.add(unit, {0: {"reward": 2.0}})
    assert "| linear | 2.00 | 1.00 ± 0.50 |  | 1 |" in bench_page.results_table(collect_results(plan, store))
