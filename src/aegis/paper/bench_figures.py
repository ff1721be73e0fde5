"""Figures of benches: one function for each kind, drawn on axes; series differ in grey by marks and hatches."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from aegis.errors import SettingError, check_choice
from aegis.files import atomic_write
from aegis.paper.bench_file import BenchFigure
from aegis.paper.bench_results import FLIP, BenchResults, MissingResult, paper_number
from aegis.paper.bench_units import key_of
from aegis.problem import Array

COLOURS = ("#00594c", "#b3560b", "#3b5998", "#8c2d62", "#6b6b00", "#4b5766")

MARKS = ("o", "s", "^", "D", "v", "P")

DASHES = ("-", "--", "-.", ":", (0, (5, 1)), (0, (1, 1)))

HATCHES = ("", "//", "..", "xx", "\\\\", "--")

PAPER_MARK = {"marker": "x", "color": "black", "linestyle": "none", "markersize": 7, "markeredgewidth": 1.6}


def line_style(place: int) -> dict[str, Any]:
    """Return the look of the n-th line."""
    n = place % len(COLOURS)
    return {"color": COLOURS[n], "marker": MARKS[n], "linestyle": DASHES[n], "linewidth": 1.6, "markersize": 4.5}


def bar_style(place: int) -> dict[str, Any]:
    """Return the look of the n-th bar."""
    n = place % len(COLOURS)
    return {"color": COLOURS[n], "hatch": HATCHES[n], "edgecolor": "white", "linewidth": 0.8}


LEGEND_LETTERS, MARK_LETTERS = 72, 6  # that fit beside each other above a picture, and as many as a mark takes


def place_legend(axes: Any) -> None:
    """Put the legend above the picture, where it hides nothing."""
    handles, names = axes.get_legend_handles_labels()
    if handles:
        columns = min(len(handles), 3 if len(handles) > 4 else 4, LEGEND_LETTERS // (max(map(len, names)) + MARK_LETTERS))
        axes.legend(frameon=False, fontsize=8, loc="lower center", bbox_to_anchor=(0.5, 1.0), ncol=max(columns, 1))


def mean_and_sd(numbers: Array) -> tuple[float, float]:
    """Return mean and standard deviation of the numbers that there are; 0 for the latter if there is one."""
    known = numbers[np.isfinite(numbers)]
    if not known.size:
        return float("nan"), 0.0
    return float(known.mean()), float(known.std(ddof=1)) if known.size > 1 else 0.0


def bars(axes: Any, results: BenchResults, wanted: BenchFigure) -> None:
    """Draw the mean of a metric of every arm, with the standard deviation, the paper's number and the oracle."""
    arms = list(results.bench.arms)
    several = len(results.bench.metrics) > 1
    for place, arm in enumerate(arms):
        mean, sd = mean_and_sd(results.of(arm, wanted.metric))
        axes.bar(place, mean, 0.65, yerr=sd, capsize=3, **bar_style(place))
        known = paper_number(results.bench, arm, wanted.metric if several else None)
        if known is not None:
            axes.plot(place, known.mean, **PAPER_MARK, label="paper" if place == 0 else None)
        best = (
            [item["oracle"] for item in results.runs[arm, None].values() if "oracle" in item] if wanted.metric == "reward" else []
        )
        if best:
            axes.hlines(
                best[0], place - 0.4, place + 0.4, colors="black", linestyles=":", label="best possible" if place == 0 else None
            )
    _finish(axes, arms, wanted.label)


def grouped_bars(axes: Any, results: BenchResults, wanted: BenchFigure) -> None:
    """Draw groups of bars, one for each metric, pooled over what is swept; the paper's numbers are crosses."""
    arms, metrics = list(results.bench.arms), results.bench.metrics
    width = 0.8 / len(arms)
    for number, arm in enumerate(arms):
        for place, metric in enumerate(metrics):
            mean, sd = mean_and_sd(np.concatenate([results.of(arm, metric, value) for value in results.values()]))
            at = place + (number - (len(arms) - 1) / 2) * width
            axes.bar(at, mean, width * 0.92, yerr=sd, capsize=3, label=arm if place == 0 else None, **bar_style(number))
            known = paper_number(results.bench, arm, metric)
            if known is not None:
                axes.plot(at, known.mean, **PAPER_MARK, label="paper" if number == place == 0 else None)
    _finish(axes, metrics, wanted.label)


def flip_bars(axes: Any, results: BenchResults, wanted: BenchFigure) -> None:
    """Draw after which episode each level changed hands in each run, one colour for each arm and one mark for each level."""
    levels = [metric for metric in results.bench.metrics if metric.startswith("flip_")]
    for number, arm in enumerate(results.bench.arms):
        for place, metric in enumerate(levels):
            episodes = results.of(arm, metric)
            known = np.sort(episodes[np.isfinite(episodes)])
            if not known.size:
                continue
            shares = np.arange(1, known.size + 1) / episodes.size
            colour = COLOURS[number % len(COLOURS)]
            axes.step(known, shares, where="post", color=colour, linestyle=DASHES[place])
            label = f"{arm}: {metric.removeprefix('flip_')}"
            axes.plot(known, shares, "os"[place % 2], color=colour, markersize=4, label=label)
    axes.set(xlabel=wanted.label, ylabel="share of runs handed over", ylim=(0, 1.03))
    place_legend(axes)


def _finish(axes: Any, names: list[str], label: str) -> None:
    axes.set_xticks(range(len(names)), names, rotation=0 if len(names) < 5 else 20, ha="center" if len(names) < 5 else "right")
    axes.axhline(0, color="black", linewidth=0.6)
    axes.set_ylabel(label)
    place_legend(axes)


SHOWN = {
    "published": "published, no certificate",
    "biased": "biased, no certificate",
    "sharp": "sharp, no certificate",
    "ours": "ours",
}


def curves(axes: Any, results: BenchResults, wanted: BenchFigure) -> None:
    """Draw a metric that is a list against the share of the episodes, the mean over runs."""
    for place, arm in enumerate(results.bench.arms):
        mean = _lists(results, arm, wanted.metric).mean(axis=0)
        axes.plot((np.arange(mean.size) + 0.5) / mean.size, mean, label=arm, **{**line_style(place), "markevery": 8})
    axes.set(xlabel="share of the episodes", ylabel=wanted.label)
    place_legend(axes)


def sweep(axes: Any, results: BenchResults, wanted: BenchFigure) -> None:
    """Draw the mean of a metric of every arm against what is swept, with the standard deviation and the paper's numbers."""
    values = results.values()
    several = len(results.bench.metrics) > 1
    crosses = 0
    for place, arm in enumerate(results.bench.arms):
        means, spreads = zip(*[mean_and_sd(results.of(arm, wanted.metric, value)) for value in values], strict=True)
        axes.errorbar(values, means, yerr=spreads, capsize=3, label=arm, **line_style(place))
        if wanted.metric.startswith(FLIP):
            if len(values) > 1 and all(isinstance(value, int | float) for value in values):
                margin = 0.05 * (max(values) - min(values))
                axes.set_xlim(min(values) - margin, max(values) + margin)
            _mark_never(axes, [value for value, mean in zip(values, means, strict=True) if np.isnan(mean)], place)
        for value in values:
            known = None if several else paper_number(results.bench, arm, value)
            if known is not None:
                axes.plot(value, known.mean, **PAPER_MARK, label=None if crosses else "paper")
                crosses += 1
    label = results.bench.sweep.label if results.bench.sweep is not None else ""
    axes.set(xlabel=label, ylabel=wanted.label)
    place_legend(axes)


def _mark_never(axes: Any, values: list[Any], place: int) -> None:
    """Say at the top of a picture where nothing changed hands in any run."""
    for value in values:
        height, style = 0.97 - 0.06 * place, {"ha": "center", "va": "top", "fontsize": 7, "color": line_style(place)["color"]}
        axes.text(value, height, "never", transform=axes.get_xaxis_transform(), **style)


def convergence(axes: Any, results: BenchResults, wanted: BenchFigure) -> None:
    """Draw lower bounds of every arm against the number of episodes, those far below zero on a symmetric logarithmic scale."""
    arms, canvas = list(results.bench.arms), axes.figure
    axes.remove()
    canvas.set_size_inches(canvas.get_size_inches()[0], 1.15 * canvas.get_size_inches()[1])
    panels = canvas.subplots(1, len(arms), sharey=True, squeeze=False)[0]
    for panel, arm in zip(panels, arms, strict=True):
        _bounds_panel(panel, results, arm)
        panel.set(xlabel="episodes", title=arm if len(arms) > 1 else "")
    panels[0].set(ylabel=wanted.label)
    handles, names = panels[0].get_legend_handles_labels()
    canvas.legend(handles, names, frameon=False, fontsize=8, loc="outside upper center", ncol=3)


def _bounds_panel(axes: Any, results: BenchResults, arm: str) -> None:
    points = results.bench.base.options["points"]
    for place, metric in enumerate(("published", "biased", "sharp", "ours")):
        bounds = _lists(results, arm, metric)
        mean, spread = bounds.mean(axis=0), bounds.std(axis=0)
        axes.errorbar(points[: mean.size], mean, yerr=spread, capsize=3, label=SHOWN[metric], **line_style(place))
        known = [(point, paper_number(results.bench, arm, f"{metric}@{key_of(point)}")) for point in points]
        marks = [(point, reported.mean) for point, reported in known if reported is not None]
        if marks:
            axes.plot(*zip(*marks, strict=True), **PAPER_MARK, label="paper" if place == 0 else None)
    axes.axhline(float(results.of(arm, "value").mean()), color="black", linestyle=":", label="true value")
    axes.set_yscale("symlog", linthresh=10)


def banner(axes: Any, results: BenchResults, wanted: BenchFigure) -> None:
    """Draw rewards along the way of every arm with a mark where the inner level changed hands; below, the gain as computed."""
    episodes = int(results.settings.get("common", {}).get("episodes", 0))
    if not episodes:
        raise MissingResult("how many episodes were run is not known")
    canvas = axes.figure
    axes.remove()
    canvas.set_size_inches(canvas.get_size_inches()[0], 1.5 * canvas.get_size_inches()[1])
    top, below = canvas.subplots(2, 1, sharex=True, height_ratios=(3, 2))
    for place, arm in enumerate(results.bench.arms):
        mean = _lists(results, arm, "curve").mean(axis=0)
        at = (np.arange(mean.size) + 0.5) / mean.size * episodes
        top.plot(at, mean, label=arm, **{**line_style(place), "markevery": 8})
        colour = COLOURS[place % len(COLOURS)]
        flips = results.of(arm, "flip_inner")
        for flip in flips[np.isfinite(flips)]:
            top.axvline(flip, color=colour, linewidth=0.8, linestyle=":")
        for own in results.runs[arm, None].values():
            bounds = np.array(own.get("bound") or [], dtype=float).reshape(-1, 2)
            below.plot(bounds[:, 0], bounds[:, 1], **{**line_style(place), "linewidth": 0.9, "markersize": 3})
    below.axhline(0.0, color="black", linewidth=0.8)
    below.set(xlabel="episode", ylabel="gain per decision\nas computed")
    top.set(ylabel=wanted.label)
    place_legend(top)


def _lists(results: BenchResults, arm: str, metric: str) -> Any:
    own = results.runs.get((arm, None)) or {}
    lists = [item[metric] for item in own.values() if metric in item]
    if not lists:
        raise MissingResult(f"{arm} has no '{metric}'")
    return np.array(lists, dtype=float)


DrawFigure = Callable[[Any, BenchResults, BenchFigure], None]

FIGURES: Mapping[str, DrawFigure] = {
    "banner": banner,
    "bars": bars,
    "convergence": convergence,
    "curves": curves,
    "flips": flip_bars,
    "grouped": grouped_bars,
    "sweep": sweep,
}

SIZE = (5.2, 3.4)  # inches: a column of a page

PICTURE_KINDS = {"svg": 72, "pdf": 72, "png": 200}


def check_drawing() -> None:
    """Raise SettingError, before anything is computed, if pictures cannot be drawn."""
    if importlib.util.find_spec("matplotlib") is None:
        raise SettingError("figures need matplotlib: install it with pip install 'aegis-handover[report]', or leave them out")


def draw_figures(results: BenchResults, folder: Path, kinds: tuple[str, ...] = ("svg", "png")) -> list[str]:
    """Write every figure of a bench and return their names without endings; one whose numbers are missing is left out."""
    import matplotlib
    from matplotlib.figure import Figure as Canvas  # not pyplot: no window, no global state

    for kind in kinds:
        check_choice(kind, PICTURE_KINDS, "kind of picture")
    folder.mkdir(parents=True, exist_ok=True)
    written = []
    # Fixed ids and no date: the same numbers give the same file.
    with matplotlib.rc_context({"svg.hashsalt": "aegis", "font.size": 9, "axes.spines.top": False, "axes.spines.right": False}):
        for number, wanted in enumerate(results.bench.figures, 1):
            canvas = Canvas(figsize=SIZE, layout="constrained")
            try:
                FIGURES[wanted.kind](canvas.add_subplot(), results, wanted)
            except MissingResult:
                continue
            name = f"{results.bench.name}-{number}"
            for kind in kinds:
                with atomic_write(folder / f"{name}.{kind}") as aside:
                    date = {"Date": None} if kind == "svg" else {"CreationDate": None} if kind == "pdf" else {}
                    canvas.savefig(aside, format=kind, dpi=PICTURE_KINDS[kind], metadata=date)
            written.append(name)
    return written
