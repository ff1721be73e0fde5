"""The page about all benches: from stored results, the same text for the same numbers."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from bench_cases import bench

from aegis.errors import InputError, SettingError
from aegis.experiments import Results, Store, archive, collect, load_bench, page, plan_of
from aegis.experiments import figures as drawing
from aegis.experiments.figures import FIGURES, draw_all
from aegis.experiments.results import key_of

DOCS = Path(__file__).parents[2] / "docs"
LISTS = {"curve": [1.0] * 40, "published": [-9.0, -4.0], "biased": [-20.0, -30.0], "sharp": [-3.0, -2.0], "ours": [1.0, 2.0]}


def made_up(name: str, preset: str = "full") -> Results:
    """Return results of a bench with numbers that follow from arm, value and seed."""
    plan = plan_of(load_bench(name), preset, {"seeds": 3})
    store = Store(None)
    for place, unit in enumerate(plan.units):
        numbers = dict.fromkeys((*plan.bench.metrics, "reward", "value", "certified", "oracle"), 10.0 * place + 3)
        store.add(unit, {seed: {**{m: v + seed for m, v in numbers.items()}, **LISTS} for seed in range(3)})
    return collect(plan, store)


@pytest.mark.parametrize("name", ["1a", "1b", "1c", "2a", "aegis-flip", "firing-order", "aegis-comparison"])
def test_figures_are_drawn_and_the_same_again(name: str, tmp_path: Path) -> None:
    results = made_up(name)
    assert {item.kind for item in results.bench.figures} <= FIGURES.keys()
    names = draw_all(results, tmp_path / "a", ("svg", "png"))
    assert len(names) == len(results.bench.figures)
    draw_all(results, tmp_path / "b", ("svg",))
    for own in names:
        assert (tmp_path / "a" / f"{own}.svg").read_bytes() == (tmp_path / "b" / f"{own}.svg").read_bytes()
        assert (tmp_path / "a" / f"{own}.png").stat().st_size > 1000


def test_every_kind_of_figure_is_used_and_documented() -> None:
    from aegis.experiments import names

    used = {item.kind for name in names() for item in load_bench(name).figures}
    assert used == set(FIGURES) and all(draw.__doc__ for draw in FIGURES.values())


def test_figures_without_numbers_are_left_out(tmp_path: Path) -> None:
    results = collect(plan_of(load_bench("1b"), "quick"), Store(None))
    assert draw_all(results, tmp_path) == []


def test_pictures_of_another_kind(tmp_path: Path) -> None:
    with pytest.raises(SettingError, match="gif"):
        draw_all(made_up("1b"), tmp_path, ("gif",))


def test_without_the_library_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(drawing.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(SettingError, match="matplotlib"):
        drawing.check_drawing()


@pytest.fixture
def kept(tmp_path: Path) -> archive.Archive:
    archive.save(tmp_path / "paper.json", [made_up("1a"), made_up("2a")], {"2a": ["2a-1"]})
    return archive.load(tmp_path / "paper.json")


def test_an_archive_gives_the_same_rows(kept: archive.Archive) -> None:
    assert [results.rows() for results in kept.results] == [made_up("1a").rows(), made_up("2a").rows()]
    assert all("curve" not in run for results in kept.results for own in results.found.values() for run in own.values())


def test_the_page_says_everything(kept: archive.Archive) -> None:
    text = page.markdown(kept, "figures")
    for results, judged in kept.judged():
        assert f"## {results.bench.name}: {results.bench.title}" in text
        for item in judged:
            assert f"| {item.says} | **{item.verdict}** |" in text
        for row in results.rows():
            assert page.number(row["mean"], row["sd"]) in text
            if row["paper"] is not None:
                assert page.number(row["paper"]["mean"], row["paper"]["sd"]) in text
            assert row["value"] is None or f"{row['agent']}, {key_of(row['value'])}" in text
    assert "![Tempering the posterior, by backend](figures/2a-1.svg)" in text
    shown = page.html(kept, {"2a-1": "<?xml?><svg><title>x</title></svg>"})
    assert "<svg><title>x</title></svg>" in shown and "<?xml" not in shown
    assert len(re.findall("<section", shown)) == 2


def test_a_damaged_archive(tmp_path: Path) -> None:
    (tmp_path / "paper.json").write_text('{"preset": "full"}')
    with pytest.raises(InputError, match=r"paper\.json"):
        archive.load(tmp_path / "paper.json")


def test_the_page_that_is_kept_is_what_its_numbers_say() -> None:
    kept = archive.load(DOCS / "paper.json")
    assert (DOCS / "paper.md").read_text(encoding="utf-8") == page.markdown(kept, "figures")
    for names in kept.figures.values():
        assert all((DOCS / "figures" / f"{name}.svg").exists() for name in names)
    assert json.loads((DOCS / "paper.json").read_text())["preset"] == "full"


def test_a_bench_of_ones_own_has_a_table() -> None:
    plan = plan_of(bench(), "quick")
    store = Store(None)
    for unit in plan.units:
        store.add(unit, {0: {"reward": 2.0}})
    assert "| linear | 2.00 | 1.00 ± 0.50 |  | 1 |" in page.table(collect(plan, store))
