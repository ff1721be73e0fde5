"""The table MEASURES of measures by name, and the names of its metrics."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from aegis.paper.bound_measures import measure_offline, measure_split
from aegis.paper.gate_measures import gate_metrics, measure_gate
from aegis.paper.run_measures import measure_online, measure_shift


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
    "offline": MetricNames(("gain_lower", "certified", "value_lower", "published", "kl", "value", "gain", "width")),
    "online": MetricNames(("reward", "last", "oracle", "regret"), ("curve",)),
    "split": MetricNames(
        ("bound", "certified", "value", "share", "covered", "reward"), ("published", "biased", "sharp", "ours", "kl")
    ),
}


def metrics_of(measure: str, settings: Mapping[str, Any]) -> MetricNames:
    """Return what a run of a measure gives under some settings."""
    if measure == "gate":
        return MetricNames(gate_metrics(settings), ("curve", "bound"))
    if measure == "online" and settings.get("options", {}).get("spread_of") is not None:
        known = _FIXED_METRICS["online"]
        return MetricNames((*known.numbers, "spread"), known.lists)
    if measure == "shift":
        shifts = tuple(settings.get("options", {}).get("shifts", ()))
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
