"""Lines: learning curves, sweeps, bounds that converge, and the trajectory of a handover."""

from __future__ import annotations

from typing import Any

import numpy as np

from aegis.experiments.bench import Figure
from aegis.experiments.figures.style import COLOURS, PAPER, legend, line, spread
from aegis.experiments.results import Missing, Results, key_of, paper

SHOWN = {
    "published": "published, no certificate",
    "biased": "biased, no certificate",
    "sharp": "sharp, on a learning logger: no certificate",
    "ours": "ours",
}


def curves(axes: Any, results: Results, wanted: Figure) -> None:
    """Draw a metric that is a list against the share of the episodes, the mean over runs."""
    for place, arm in enumerate(results.bench.arms):
        mean = _lists(results, arm, wanted.metric).mean(axis=0)
        axes.plot((np.arange(mean.size) + 0.5) / mean.size, mean, label=arm, **{**line(place), "markevery": 8})
    axes.set(xlabel="share of the episodes", ylabel=wanted.label)
    legend(axes)


def sweep(axes: Any, results: Results, wanted: Figure) -> None:
    """Draw the mean of a metric of every arm against what is swept, with the standard deviation and the paper's numbers."""
    values = results.values()
    several = len(results.bench.metrics) > 1
    crosses = 0
    for place, arm in enumerate(results.bench.arms):
        means, spreads = zip(*[spread(results.of(arm, wanted.metric, value)) for value in values], strict=True)
        axes.errorbar(values, means, yerr=spreads, capsize=3, label=arm, **line(place))
        for value in values:
            known = None if several else paper(results.bench, arm, value)
            if known is not None:
                axes.plot(value, known.mean, **PAPER, label=None if crosses else "paper")
                crosses += 1
    label = results.bench.sweep.label if results.bench.sweep is not None else ""
    axes.set(xlabel=label, ylabel=wanted.label)
    legend(axes)


def convergence(axes: Any, results: Results, wanted: Figure) -> None:
    """Draw lower bounds against the number of episodes; those far below zero on a symmetric logarithmic scale."""
    (arm,) = list(results.bench.arms)[:1]
    points = results.bench.base.options["points"]
    for place, metric in enumerate(("published", "biased", "sharp", "ours")):
        found = _lists(results, arm, metric)
        axes.errorbar(
            points[: found.shape[1]], found.mean(axis=0), yerr=found.std(axis=0), capsize=3, label=SHOWN[metric], **line(place)
        )
        known = [(point, paper(results.bench, arm, f"{metric}@{key_of(point)}")) for point in points]
        marks = [(point, reported.mean) for point, reported in known if reported is not None]
        if marks:
            axes.plot(*zip(*marks, strict=True), **PAPER, label="paper" if place == 0 else None)
    axes.axhline(float(results.of(arm, "value").mean()), color="black", linestyle=":", label="true value")
    axes.set_yscale("symlog", linthresh=10)
    axes.set(xlabel="episodes", ylabel=wanted.label)
    legend(axes)


def banner(axes: Any, results: Results, wanted: Figure) -> None:
    """Draw rewards along the way of every arm with a mark where the inner level changed hands; below, the gain as computed."""
    episodes = int(results.settings.get("common", {}).get("episodes", 0))
    if not episodes:
        raise Missing("how many episodes were run is not known")
    canvas = axes.figure
    axes.remove()
    canvas.set_size_inches(canvas.get_size_inches()[0], 1.5 * canvas.get_size_inches()[1])
    top, below = canvas.subplots(2, 1, sharex=True, height_ratios=(3, 2))
    for place, arm in enumerate(results.bench.arms):
        mean = _lists(results, arm, "curve").mean(axis=0)
        at = (np.arange(mean.size) + 0.5) / mean.size * episodes
        top.plot(at, mean, label=arm, **{**line(place), "markevery": 8})
        colour = COLOURS[place % len(COLOURS)]
        flips = results.of(arm, "flip_inner")
        for flip in flips[np.isfinite(flips)]:
            top.axvline(flip, color=colour, linewidth=0.8, linestyle=":")
        for own in results.found[arm, None].values():
            bounds = np.array(own.get("bound") or [], dtype=float).reshape(-1, 2)
            below.plot(bounds[:, 0], bounds[:, 1], **{**line(place), "linewidth": 0.9, "markersize": 3})
    below.axhline(0.0, color="black", linewidth=0.8)
    below.set(xlabel="episode", ylabel="gain per decision\nas computed")
    top.set(ylabel=wanted.label)
    legend(top)


def _lists(results: Results, arm: str, metric: str) -> Any:
    own = results.found.get((arm, None)) or {}
    lists = [item[metric] for item in own.values() if metric in item]
    if not lists:
        raise Missing(f"{arm} has no '{metric}'")
    return np.array(lists, dtype=float)
