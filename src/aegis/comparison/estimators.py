"""Estimators on unit values, each with a standard error over units: IPS, SNIPS, clipped IPS, direct, doubly robust, SWITCH."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from aegis.comparison.series import Units
from aegis.problem import Array

# method -> (series of values, what the standard error leaves out or what biases it)
MEANS = {
    "IPS": ("value", ""),
    "clipped IPS": ("clipped", "weights above the cap are cut, which pulls the value towards the worst"),
    "direct method": ("direct", "the error of the reward model is not counted, and it may be anything"),
    "doubly robust": ("robust", ""),
    "SWITCH": ("switch", "where weights are above the threshold the error of the reward model is not counted"),
}
PAIRED = {"value": "gain", "clipped": "clipped gain"}  # series whose gains are weighted differences of their own
NORMALISED = "consistent, but biased at any finite number of units"


@dataclass(frozen=True, slots=True)
class Scaled:
    """A scaled estimate and its standard error; nan with fewer than two units."""

    value: float
    error: float


def mean_estimate(values: Array) -> Scaled:
    """Return the mean of unit values `[K]` and its standard error."""
    count = values.size
    error = float(values.std(ddof=1)) / math.sqrt(count) if count > 1 else math.nan
    return Scaled(float(values.mean()), error)


def self_normalised(values: Array, weights: Array, legacy: Array | None = None) -> Scaled | None:
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
    return Scaled(ratio, math.sqrt(float(np.square(residual).sum()) / (count - 1) / count) if count > 1 else math.nan)


def estimates(units: Units, totals: bool) -> tuple[dict[str, Mapping[str, Scaled]], dict[str, str]]:
    """Return for each method the scaled 'value' and 'gain', and why some have none.

    totals: units are totals over a declared largest number of episodes, which weights do not normalise.
    """
    found: dict[str, Mapping[str, Scaled]] = {}
    missing: dict[str, str] = {}
    compared = units["compared best"]
    for method, (name, _) in MEANS.items():
        if name in units.series:
            gains = units[PAIRED[name]] if name in PAIRED else units[name] - compared
            found[method] = {"value": mean_estimate(units[name]), "gain": mean_estimate(gains)}
        if method == "IPS":
            value = None if totals else self_normalised(units["value"], units["weight"])
            gain = None if totals else self_normalised(units["value"], units["weight"], compared)
            if value is not None and gain is not None:
                found["SNIPS"] = {"value": value, "gain": gain}
            elif totals:
                missing["SNIPS"] = "units are totals of clusters; dividing by the sum of the weights would make means of them"
            else:
                missing["SNIPS"] = "all weights are 0: the candidate does nothing that was logged"
    return found, missing


def note_of(method: str) -> str:
    """Return what stands beside the estimate of a method."""
    return NORMALISED if method == "SNIPS" else MEANS[method][1]
