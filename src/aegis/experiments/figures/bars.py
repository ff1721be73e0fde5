"""Bars: one for each arm, or groups of them for several metrics."""

from __future__ import annotations

from typing import Any

import numpy as np

from aegis.experiments.bench import Figure
from aegis.experiments.figures.style import PAPER, bar, legend, spread
from aegis.experiments.results import Results, paper


def bars(axes: Any, results: Results, wanted: Figure) -> None:
    """Draw the mean of a metric of every arm, with the standard deviation, the paper's number and the oracle."""
    arms = list(results.bench.arms)
    several = len(results.bench.metrics) > 1
    for place, arm in enumerate(arms):
        mean, sd = spread(results.of(arm, wanted.metric))
        axes.bar(place, mean, 0.65, yerr=sd, capsize=3, **bar(place))
        known = paper(results.bench, arm, wanted.metric if several else None)
        if known is not None:
            axes.plot(place, known.mean, **PAPER, label="paper" if place == 0 else None)
        best = (
            [item["oracle"] for item in results.found[arm, None].values() if "oracle" in item]
            if wanted.metric == "reward"
            else []
        )
        if best:
            axes.hlines(
                best[0], place - 0.4, place + 0.4, colors="black", linestyles=":", label="best possible" if place == 0 else None
            )
    _finish(axes, arms, wanted.label)


def grouped(axes: Any, results: Results, wanted: Figure) -> None:
    """Draw groups of bars, one for each metric, pooled over what is swept; the paper's numbers are crosses."""
    arms, metrics = list(results.bench.arms), results.bench.metrics
    width = 0.8 / len(arms)
    for number, arm in enumerate(arms):
        for place, metric in enumerate(metrics):
            mean, sd = spread(np.concatenate([results.of(arm, metric, value) for value in results.values()]))
            at = place + (number - (len(arms) - 1) / 2) * width
            axes.bar(at, mean, width * 0.92, yerr=sd, capsize=3, label=arm if place == 0 else None, **bar(number))
            known = paper(results.bench, arm, metric)
            if known is not None:
                axes.plot(at, known.mean, **PAPER, label="paper" if number == place == 0 else None)
    _finish(axes, metrics, wanted.label)


def flips(axes: Any, results: Results, wanted: Figure) -> None:
    """Draw after which episode each level changed hands in each run."""
    (arm,) = list(results.bench.arms)[:1]
    metrics = results.bench.metrics
    for place, metric in enumerate(metrics):
        found = results.of(arm, metric)
        known = np.sort(found[np.isfinite(found)])
        look = bar(place)
        axes.step(
            known,
            np.arange(1, known.size + 1) / found.size,
            where="post",
            color=look["color"],
            label=metric.removeprefix("flip_"),
        )
        axes.plot(known, np.arange(1, known.size + 1) / found.size, "os"[place % 2], color=look["color"], markersize=4)
    axes.set(xlabel=wanted.label, ylabel="share of runs handed over", ylim=(0, 1.03))
    legend(axes)


def _finish(axes: Any, names: list[str], label: str) -> None:
    axes.set_xticks(range(len(names)), names, rotation=0 if len(names) < 5 else 20, ha="center" if len(names) < 5 else "right")
    axes.axhline(0, color="black", linewidth=0.6)
    axes.set_ylabel(label)
    legend(axes)
