"""Figures of benches: drawn, the same again, and left out without numbers."""

from __future__ import annotations

from pathlib import Path

import pytest

from aegis.errors import SettingError
from aegis.paper import BenchResults, ResultStore, collect_results, draw_figures, load_bench, plan_bench
from aegis.paper import bench_figures as drawing
from aegis.paper.bench_figures import FIGURES

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
