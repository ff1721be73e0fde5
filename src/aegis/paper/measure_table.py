"""The table MEASURES of measures by name, and the names of its metrics."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from aegis.paper.gate_measures import gate_metrics, measure_gate
from aegis.paper.offline_measures import measure_offline
from aegis.paper.run_measures import measure_online, measure_shift
from aegis.paper.split_measures import SPLIT_LISTS, measure_split


@dataclass(frozen=True, slots=True)
class MetricNames:
    """The names of what a run gives: numbers, and lists of numbers."""

    numbers: tuple[str, ...]
    lists: tuple[str, ...] = ()

    @property
    def all(self) -> tuple[str, ...]:
        """Return all names."""
        return (*self.numbers, *self.lists)


_FIXED_METRICS: Mapping[str, MetricNames] = {
    "offline": MetricNames(
        (
            *("published", "published_gain", "published_certified", "published_p0", "published_gain_p0", "published_width"),
            *("estimate", "regulariser", "largest", "kl", "value_q", "value_p0", "below"),
            *("gain_lower", "certified", "value_lower", "value", "gain", "width"),
        )
    ),
    "online": MetricNames(("reward", "last", "oracle", "regret"), ("curve",)),
    "split": MetricNames(("bound", "bound_root", "certified", "handed", "reward"), SPLIT_LISTS),
}
TRUE_VALUES = ("value", "value_p0", "share", "covered")


def metrics_of(measure: str, settings: Mapping[str, Any]) -> MetricNames:
    """Return what a run of a measure gives under some settings."""
    if measure == "gate":
        return MetricNames(gate_metrics(settings), ("curve", "bound"))
    options = settings.get("options", {})
    if measure == "online" and options.get("spread_of") is not None:
        known = _FIXED_METRICS["online"]
        return MetricNames((*known.numbers, "spread"), known.lists)
    if measure == "split" and options.get("true_values", True):
        known = _FIXED_METRICS["split"]
        return MetricNames((*known.numbers, *TRUE_VALUES), known.lists)
    if measure == "shift":
        shifts = tuple(options.get("shifts", ()))
        return MetricNames(("source", *shifts, *(f"oracle_{name}" for name in shifts)))
    return _FIXED_METRICS[measure]


MeasureFunction = Callable[[Mapping[str, Any], Sequence[int]], list[dict[str, Any]]]

MEASURES: Mapping[str, MeasureFunction] = {
    "gate": measure_gate,
    "offline": measure_offline,
    "online": measure_online,
    "shift": measure_shift,
    "split": measure_split,
}
