"""Figures of benches: drawn, the same again, and left out without numbers."""

from __future__ import annotations

from pathlib import Path

import pytest
from bench_cases import made_up

from aegis.errors import SettingError
from aegis.paper import ResultStore, collect_results, draw_figures, load_bench, plan_bench
from aegis.paper import bench_figures as drawing
from aegis.paper.bench_figures import FIGURES


@pytest.mark.parametrize(
    "name", ["1a", "1b", "1c", "2a", "2a-bound", "3a-spectrum", "3b", "aegis-flip", "firing-order", "aegis-comparison"]
)
def test_every_figure_is_drawn(name: str, tmp_path: Path) -> None:
    results = made_up(name)
    assert {item.kind for item in results.bench.figures} <= FIGURES.keys()
    names = draw_figures(results, tmp_path, ("svg",))
    assert len(names) == len(results.bench.figures)
    assert all("</svg>" in (tmp_path / f"{own}.svg").read_text() for own in names)


def test_figures_are_the_same_again(tmp_path: Path) -> None:
    (name,) = draw_figures(made_up("2a"), tmp_path / "a", ("svg", "png"))
    draw_figures(made_up("2a"), tmp_path / "b", ("svg",))
    assert (tmp_path / "a" / f"{name}.svg").read_bytes() == (tmp_path / "b" / f"{name}.svg").read_bytes()
    assert (tmp_path / "a" / f"{name}.png").stat().st_size > 1000


def test_every_kind_of_figure_is_used_and_documented() -> None:
    from aegis.paper import list_benches

    used = {item.kind for name in list_benches() for item in load_bench(name).figures}
    assert used == set(FIGURES) and all(draw.__doc__ for draw in FIGURES.values())


def test_flips_of_every_arm_are_drawn_and_levels_that_never_flip_are_left_out() -> None:
    from matplotlib.figure import Figure

    results = made_up("firing-order")
    for metrics in results.runs["published", None].values():
        metrics["flip_meta"] = None
    axes = Figure().add_subplot()
    drawing.flip_bars(axes, results, results.bench.figures[0])
    labels = axes.get_legend_handles_labels()[1]
    wanted = [f"{arm}: {level}" for arm in results.bench.arms for level in ("inner", "meta")]
    assert labels == [label for label in wanted if label != "published: meta"]
    made_up.cache_clear()


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
