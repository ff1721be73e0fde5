"""Estimators on unit values, each with a standard error over units: IPS, SNIPS, clipped IPS, direct, doubly robust, SWITCH."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from aegis.comparison.bounds import BoundCollection
from aegis.comparison.comparison import ComparisonSettings, Estimate
from aegis.comparison.direct_method import ActionPredictions
from aegis.comparison.unit_series import UnitSeries
from aegis.ope import Measure
from aegis.problem import Array, Problem

# method -> (series of values, what the standard error leaves out or what biases it)
MEAN_METHODS = {
    "IPS": ("value", ""),
    "clipped IPS": ("clipped", "weights above the cap are cut, which pulls the value towards the worst"),
    "direct method": ("direct", "the error of the reward model is not counted, and it may be anything"),
    "doubly robust": ("robust", ""),
    "SWITCH": ("switch", "where weights are above the threshold the error of the reward model is not counted"),
}

PAIRED_GAINS = {"value": "gain", "clipped": "clipped gain"}  # series whose gains are weighted differences of their own

NORMALISED_NOTE = "consistent, but biased at any finite number of units"


@dataclass(frozen=True, slots=True)
class ScaledEstimate:
    """A scaled estimate and its standard error; nan with fewer than two units."""

    value: float
    error: float


def mean_estimate(values: Array) -> ScaledEstimate:
    """Return the mean of unit values `[K]` and its standard error."""
    count = values.size
    error = float(values.std(ddof=1)) / math.sqrt(count) if count > 1 else math.nan
    return ScaledEstimate(float(values.mean()), error)


def self_normalised(values: Array, weights: Array, legacy: Array | None = None) -> ScaledEstimate | None:
    """Return `sum L / sum W`, minus the mean of legacy values if given, with the standard error of its linearisation.

    values L, weights W, legacy `[K]` by unit. The residuals are `(L - V W) / mean W`, minus `r - mean r`. None if all weights are
    0: the candidate does nothing that was logged.
    """
    if not weights.sum() > 0:
        return None
    ratio = float(values.sum() / weights.sum())
    residual = (values - ratio * weights) / weights.mean()
    if legacy is not None:
        residual = residual - (legacy - legacy.mean())
        ratio -= float(legacy.mean())
    count = values.size
    return ScaledEstimate(ratio, math.sqrt(float(np.square(residual).sum()) / (count - 1) / count) if count > 1 else math.nan)


def scaled_estimates(units: UnitSeries, totals: bool) -> tuple[dict[str, Mapping[str, ScaledEstimate]], dict[str, str]]:
    """Return for each method the scaled 'value' and 'gain', and why some have none.

    totals: units are totals over a declared largest number of episodes, which weights do not normalise.
    """
    estimates: dict[str, Mapping[str, ScaledEstimate]] = {}
    missing: dict[str, str] = {}
    compared = units["compared best"]
    for method, (name, _) in MEAN_METHODS.items():
        if name in units.series:
            gains = units[PAIRED_GAINS[name]] if name in PAIRED_GAINS else units[name] - compared
            estimates[method] = {"value": mean_estimate(units[name]), "gain": mean_estimate(gains)}
        if method == "IPS":
            value = None if totals else self_normalised(units["value"], units["weight"])
            gain = None if totals else self_normalised(units["value"], units["weight"], compared)
            if value is not None and gain is not None:
                estimates["SNIPS"] = {"value": value, "gain": gain}
            elif totals:
                missing["SNIPS"] = "units are totals of clusters; dividing by the sum of the weights would make means of them"
            else:
                missing["SNIPS"] = "all weights are 0: the candidate does nothing that was logged"
    return estimates, missing


def list_estimates(
    problem: Problem,
    measure: Measure,
    units: UnitSeries,
    settings: ComparisonSettings,
    modelled: ActionPredictions | None,
    collection: BoundCollection,
) -> tuple[Estimate, ...]:
    """Return every estimate of the value and the gain; a method that cannot be computed is recorded with its reason."""
    estimates, missing = scaled_estimates(units, problem.cluster_most is not None)
    for method, reason in missing.items():
        collection.lacks(method, reason)
    model = {"model": "" if modelled is None else modelled.words}
    thresholds: dict[str, dict[str, Any]] = {
        "clipped IPS": {"clip": settings.clip},
        "SWITCH": {"switch": settings.switch, **model},
        "direct method": model,
        "doubly robust": model,
    }
    listed = []
    for method, numbers in estimates.items():
        value, gain = numbers["value"], numbers["gain"]
        note = NORMALISED_NOTE if method == "SNIPS" else MEAN_METHODS[method][1]
        shared = (units.count, note, thresholds.get(method, {}))
        listed.append(Estimate(method, "value", measure.value(value.value), measure.gain(value.error), *shared))
        listed.append(Estimate(method, "gain", measure.gain(gain.value), measure.gain(gain.error), *shared))
    return tuple(listed)


def value_estimate(who: str, series: str, measure: Measure, units: UnitSeries) -> Estimate:
    """Return the mean of a series, within the range of the reward: an estimate may leave it, the value cannot."""
    estimate = mean_estimate(units[series])
    value = min(max(estimate.value, 0.0), 1.0)
    return Estimate(method=who, what="value", value=measure.value(value), error=measure.gain(estimate.error), units=units.count)
