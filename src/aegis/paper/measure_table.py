"""The table MEASURES of measures by name, the options of each, and the names of its metrics."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from aegis.paper.bound_measures import measure_offline, measure_split
from aegis.paper.run_measures import measure_gate, measure_online, measure_shift, unit_world

Count = Annotated[int, Field(ge=1)]

Share = Annotated[float, Field(gt=0, lt=1)]

Rate = Annotated[float, Field(ge=0, le=1)]


class MeasureOptions(BaseModel):
    """Options of a measure; those of `online`, which has none."""

    model_config = ConfigDict(extra="forbid", strict=True)


class ShiftOptions(MeasureOptions):
    """Options of `shift`."""

    shifts: list[str] = Field(default=[])
    target: Count = 25


class SplitOptions(MeasureOptions):
    """Options of `split`."""

    points: list[Count] = Field(default=[200, 500, 1000, 1500, 2000], min_length=1)
    alpha: Share = 0.5
    particles: Count = 8
    draws: Count = 8
    logger: Literal["agent", "legacy"] = "agent"
    scope: list[str] | None = None
    delta: Share = 0.05
    lam: Literal["root", "closed form"] = "root"


class GateOptions(MeasureOptions):
    """Options of `gate`."""

    gate: str = "challenger"
    host: str = "greedy"
    gate_settings: dict[str, Any] = Field(default={})


class OfflineOptions(MeasureOptions):
    """Options of `offline`."""

    alpha: Share = 0.5
    prior_world: dict[str, Any] = Field(default={})
    cap: float = Field(default=3.0, ge=1)
    scope: list[str] = Field(default=["inner"], min_length=1)
    delta: Share = 0.05
    constant: float | None = None
    epsilon: Rate = 0.3


OPTIONS: Mapping[str, type[MeasureOptions]] = {
    "gate": GateOptions,
    "offline": OfflineOptions,
    "online": MeasureOptions,
    "shift": ShiftOptions,
    "split": SplitOptions,
}


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
        own = [f"{word}_{level}" for word in ("flip", "flipped") for level in unit_world(settings).problem.names]
        return MetricNames((*own, "inner_first", "wrong", "reward", "before", "after", "legacy", "oracle"), ("curve", "bound"))
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
