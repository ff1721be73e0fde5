"""Estimates and intervals of a policy's value side by side: Open Bandit Pipeline against `comparison` and `evidence`."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

import peer_logs
from aegis.comparison.estimators import mean_estimate, self_normalised
from aegis.evidence import Sketch, lower_path, student_t, value_centre, value_grid
from aegis.evidence.bounds.mean_bounds import resampled_means
from aegis.rng import stream
from peer_envs import ask
from peer_rows import Row, saved, smallest

Array = npt.NDArray[np.float64]
Log = dict[str, Any]
ALPHA = 0.05
WIDER = "a certificate holds at every number of units and every look; a bootstrap does not"
RESAMPLES = 1000
SAME_DRAWS = "as many units are drawn on either side, by numpy's generator, which takes most of the time"
FIRST = 0.05  # share of the units that only places the grids of bets
SMALL = (400, 300)  # runs and units of the logs on which coverage is counted
RARE = 0.05  # how often their legacy does what the candidate does in nine of ten cases: weights to 18


def weights_of(log: Log) -> Array:
    """Return the ratios `[n]` of the candidate's probability of the action taken and the propensity."""
    return np.asarray(log["policy"][np.arange(log["action"].size), log["action"]] / log["pscore"])


def point(log: Log, method: str) -> float:
    """Return our estimate by a method, which comes with its standard error."""
    weights = weights_of(log)
    if method == "IPS":
        return mean_estimate(weights * log["reward"]).value
    if method == "SNIPS":
        found = self_normalised(weights * log["reward"], weights)
        return np.nan if found is None else found.value
    predicted = log["predicted"]
    residual = weights * (log["reward"] - predicted[np.arange(weights.size), log["action"]])
    return mean_estimate(np.einsum("na,na->n", log["policy"], predicted) + residual).value


def bootstrap(values: Array, resamples: int, seed: int) -> list[float]:
    """Return both ends of our percentile bootstrap."""
    means = resampled_means(values, stream(1, "peers", "bootstrap", seed), resamples)
    return [float(end) for end in np.quantile(means, [ALPHA / 2, 1.0 - ALPHA / 2])]


def student(values: Array, each: float = ALPHA / 2) -> list[float]:
    """Return both ends of the t interval, `each` at its own risk; right as the number of units grows, as a bootstrap is."""
    return [student_t(values, each).value, -student_t(-values, each).value]


def certified(weights: Array, reward: Array, path: bool) -> list[float]:
    """Return both ends of a certified interval: half the risk for either, the grids placed by the first 5 % of the units.

    path: after every unit (the last is returned), or after all of them from a sketch.
    """
    first, ends = int(FIRST * weights.size), []
    for values in (weights * reward, weights * (1.0 - reward)):
        grid = value_grid(value_centre(values[:first], values.size - first, ALPHA / 2))
        if path:
            ends.append(float(lower_path(values[first:], grid, ALPHA / 2)[-1]))
        else:
            ends.append(Sketch.empty(grid).add_values(values[first:]).lower(ALPHA / 2, 0.0, 1.0))
    return [ends[0], 1.0 - ends[1]]


def small_logs() -> tuple[Array, Array]:
    """Return weights and rewards of many small logs with rare large weights; the value is 0.6."""
    rng = stream(1, "peers", "small")
    weights = np.where(rng.random(SMALL) < RARE, 0.9 / RARE, 0.1 / (1.0 - RARE))
    return weights, (rng.random(SMALL) < 0.6).astype(np.float64)


def obp_rows(quick: bool) -> tuple[list[Row], dict[str, str], list[str]]:
    """Return the rows of Open Bandit Pipeline, its version, and what is said of coverage."""
    sizes = (10_000, 100_000) if quick else (10_000, 100_000, 1_000_000)
    logs = {size: peer_logs.made(size) for size in sizes}
    value = peer_logs.truth()
    tasks = [
        {
            "path": saved(f"log_{size}", **log),
            "resamples": 50 if quick else RESAMPLES,
            "alpha": ALPHA,
            "repeats": 5,
            "long_repeats": 1 if quick or size > 100_000 else 2,
        }
        for size, log in logs.items()
    ]
    weights, reward = small_logs()
    small = {"path": saved("small_logs", weights=weights, reward=reward), "alpha": ALPHA, "resamples": RESAMPLES}
    found = ask("obp_speed", {"speed": tasks, "coverage": small})
    rows: list[Row] = []
    for (size, log), theirs in zip(logs.items(), found["speed"], strict=True):
        rows += _points(size, log, theirs, value) + _intervals(size, log, theirs["interval"], 50 if quick else RESAMPLES)
    return rows, {"obp": found["version"]}, _coverage(weights, reward, np.array(found["coverage"]))


def _points(size: int, log: Log, theirs: dict[str, Any], value: float) -> list[Row]:
    rows = []
    for method in ("IPS", "SNIPS", "DR"):
        time, ours = smallest(lambda m=method: point(log, m), 5)
        errors = abs(theirs[method]["value"] - value), abs(ours - value)
        rows.append(Row("obp", f"{method}, {size} rows", "point", theirs[method]["time"], time, "absolute error", *errors))
    return rows


def _intervals(size: int, log: Log, theirs: dict[str, Any], resamples: int) -> list[Row]:
    width = float(np.ptp(theirs["ends"]))
    ways = {
        "our bootstrap": lambda: bootstrap(weights_of(log) * log["reward"], resamples, 1),
        "our t interval": lambda: student(weights_of(log) * log["reward"]),
        "our certificate, sketch": lambda: certified(weights_of(log), log["reward"], False),
        "our certificate, anytime path": lambda: certified(weights_of(log), log["reward"], True),
    }
    rows = []
    for words, work in ways.items():
        time, ends = smallest(work, 1 if size > 100_000 and "bootstrap" in words else 2)
        task = f"interval by {resamples} resamples, {size} rows; {words}"
        alike, why = (0.01, WIDER) if "certificate" in words else (2.0 / np.sqrt(resamples), SAME_DRAWS)
        rows.append(Row("obp", task, "interval", theirs["time"], time, "width", width, float(np.ptp(ends)), float(alike), why))
    return rows


def _coverage(weights: Array, reward: Array, theirs: Array) -> list[str]:
    boot = np.array([bootstrap(w * r, RESAMPLES, run) for run, (w, r) in enumerate(zip(weights, reward, strict=True))])
    sure = np.array([certified(w, r, False) for w, r in zip(weights, reward, strict=True)])
    shares = [float(((ends[:, 0] > 0.6) | (ends[:, 1] < 0.6)).mean()) for ends in (theirs, boot, sure)]
    widths = [float(np.median(np.ptp(ends, axis=1))) for ends in (theirs, boot, sure)]
    listed = zip(("obp's bootstrap", "our bootstrap", "our certificate"), shares, widths, strict=True)
    said = "; ".join(f"{name} {share:.1%} (median width {width:.2f})" for name, share, width in listed)
    runs, units = weights.shape
    return [f"Intervals that miss the truth, of {runs} logs of {units} units with weights to 18, allowed {ALPHA:.0%}: {said}."]
