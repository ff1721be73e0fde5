"""Lower bounds of an importance-weighted mean, side by side: `python benchmarks/bounds.py`.

Speed and tightness of the whole anytime path against two published confidence sequences, how tight every bound is at one number
of units, and what happens to a t interval that is looked at again and again. All bounds are one-sided at risk 0.05.
"""

from __future__ import annotations

import argparse
import math
import time
from collections.abc import Callable

import numpy as np
import numpy.typing as npt
from scipy.special import stdtrit

import vw_sequence
from aegis.engine import limit_blas_threads
from aegis.evidence import (
    Bound,
    BoundOrigin,
    Sketch,
    anytime_bernstein,
    bca_bootstrap,
    central_limit,
    empirical_bernstein,
    hoeffding,
    largest_observed,
    logarithmic_smoothing,
    lower_path,
    matching_bet,
    percentile_bootstrap,
    published_bound,
    sharp_bound,
    student_t,
    value_centre,
    value_grid,
)
from aegis.evidence.bounds.mean_bounds import plug_in_bets
from aegis.rng import stream
from hedged import HEDGED_CUT, hedged_path
from results import record, table

Array = npt.NDArray[np.float64]
DELTA = 0.05
UNITS = 10_000
BREAKS = 1000
TRUTH = 0.6
RUNS = 5
PLACES = ("after all units", "median over the path")


def draws(rng: np.random.Generator, shape: tuple[int, ...], chance: float) -> Array:
    """Return values `w r` with mean 0.6: weights 0.9 / chance with probability `chance`, else 0.1 / (1 - chance)."""
    weights = np.where(rng.random(shape) < chance, 0.9 / chance, 0.1 / (1.0 - chance))
    return np.asarray(weights * (rng.random(shape) < TRUTH))


DESIGNS: dict[str, tuple[float, Callable[[np.random.Generator, int], Array]]] = {
    "one of 5 actions, uniform legacy, w to 4.5": (4.5, lambda rng, units: draws(rng, (units,), 0.2)),
    "one of 20 actions, uniform legacy, w to 18": (18.0, lambda rng, units: draws(rng, (units,), 0.05)),
    "mean of 20 such decisions, 5 actions": (4.5, lambda rng, units: draws(rng, (units, 20), 0.2).mean(axis=1)),
}


def by_candidate(values: Array, delta: float, breaks: int) -> Array:
    """Return the lower ends of the hedged sequence, arranged as in its reference implementation.

    One candidate mean after the other; either capital is computed by a call of its own, which computes the bets of both sides.
    """
    means = np.linspace(0.0, 1.0, breaks + 1)
    left = np.empty((means.size, values.size), dtype=bool)
    with np.errstate(divide="ignore", over="ignore"):
        for row, mean in enumerate(means):
            left[row] = (
                np.maximum(0.5 * _capital(values, mean, delta, 1.0), 0.5 * _capital(values, mean, delta, -1.0)) <= 1.0 / delta
            )
    first = np.where(left.any(axis=0), means[np.argmax(left, axis=0)], 0.0)
    return np.maximum(first - 1.0 / breaks, 0.0)


def _capital(values: Array, mean: float, delta: float, side: float) -> Array:
    up = np.minimum(plug_in_bets(values, delta)[0], HEDGED_CUT / np.float64(mean))
    down = np.minimum(plug_in_bets(values, delta)[0], HEDGED_CUT / np.float64(1.0 - mean))
    rise, fall = np.cumprod(1.0 + up * (values - mean)), np.cumprod(1.0 - down * (values - mean))
    return np.asarray(rise if side > 0 else fall)


def seconds(work: Callable[[], object], times: int) -> float:
    """Return the smallest CPU time of `times` calls."""
    found = math.inf
    for _ in range(times):
        start = time.process_time()
        work()
        found = min(found, time.process_time() - start)
    return found


def speed_lines() -> list[str]:
    """Return the times of the whole path of 10,000 units, ours and the hedged sequence in two arrangements."""
    largest, draw = DESIGNS["one of 5 actions, uniform legacy, w to 4.5"]
    values = draw(stream(1, "bounds", "speed"), UNITS)
    scaled, grid = values / largest, value_grid()
    steps, _ = hedged_path(scaled, DELTA, BREAKS)
    if not np.allclose(steps, by_candidate(scaled, DELTA, BREAKS), atol=1e-9):
        raise SystemExit("the two arrangements of the hedged sequence differ")
    ours = min(seconds(lambda: lower_path(values, grid, DELTA), 30) for _ in range(3))
    stepwise = seconds(lambda: hedged_path(scaled, DELTA, BREAKS), 5)
    candidate = seconds(lambda: by_candidate(scaled, DELTA, BREAKS), 3)
    print(f"ours {ours * 1e3:.2f} ms, hedged step by step {stepwise:.3f} s, by candidate {candidate:.3f} s", flush=True)
    rows = [
        ["mixture of 61 bets (`lower_path`)", f"{ours * 1e3:.1f} ms", "1"],
        ["hedged, all candidates at once, step by step (`hedged_path`)", f"{stepwise * 1e3:.0f} ms", f"{stepwise / ours:.0f}"],
        [
            "hedged, candidate by candidate, as confseq arranges it",
            f"{candidate * 1e3:.0f} ms",
            f"{candidate / ours:.0f}",
        ],
    ]
    return [
        f"The whole anytime path, the lower bound after each of {UNITS} units, against the betting confidence sequence of",
        f"confseq (hedged capital at breaks = {BREAKS}, its formula transcribed), smallest CPU time of several calls:",
        "",
        *table(["whole path", "CPU time", "times ours"], rows),
        "",
        "confseq computes the bets anew for every candidate and side; so does its arrangement here. Step by step is the fastest",
        "arrangement of the same formula that was found.",
    ]


def placed_path(values: Array) -> Array:
    """Return the path of our bounds `[K]`: the first 5 % of the units only place the grid, the bound there is 0."""
    first = values.size // 20
    grid = value_grid(value_centre(values[:first], values.size - first, DELTA))
    return np.concatenate([np.zeros(first), lower_path(values[first:], grid, DELTA)])


def tightness_lines() -> list[str]:
    """Return final bounds and medians over the path, means over runs."""
    places = np.unique(np.linspace(50, UNITS, 200).astype(np.int64))
    rows, ahead = [], []
    for name, (largest, draw) in DESIGNS.items():
        found: dict[str, list[Array]] = {}
        for run in range(RUNS):
            values = draw(stream(1, "bounds", "tight", name, run), UNITS)
            paths = {
                "mixture of bets, placed": placed_path(values)[places - 1],
                "mixture of bets, default grid": lower_path(values, value_grid(), DELTA)[places - 1],
                "hedged, lower side only": largest * hedged_path(values / largest, DELTA, BREAKS, 1.0)[0][places - 1],
                "hedged, both sides": largest * hedged_path(values / largest, DELTA, BREAKS)[0][places - 1],
                "vw-estimators": vw_sequence.lower_bounds(values, DELTA, places),
            }
            for method, path in paths.items():
                found.setdefault(method, []).append(np.array([path[-1], np.median(path)]))
        print(name, {method: np.mean(each, axis=0).round(4).tolist() for method, each in found.items()}, flush=True)
        ours = np.mean(found["mixture of bets, placed"], axis=0)
        for method, each in found.items():
            lead = np.mean(each, axis=0) - ours
            ahead += [f"{method}, {place}, {name} (by {by:.4f})" for place, by in zip(PLACES, lead, strict=True) if by > 0]
        rows += [[name, method, *(f"{x:.4f}" for x in np.mean(each, axis=0))] for method, each in found.items()]
    return [
        f"Lower bounds of a mean of {TRUTH}, {UNITS} units, risk {DELTA} (hedged, both sides: half each), means of {RUNS} runs.",
        "Placed: the first 5 % of the units place the grid of bets, as in a certificate without a prior side, and are left out",
        "of the bound. The hedged sequence is told the largest weight, the others are not:",
        "",
        *table(["values", "method", *PLACES], rows),
        "",
        "Above the placed mixture: " + ("; ".join(ahead) if ahead else "none") + ".",
    ]


def single(values: Array, largest: float, run: int) -> dict[str, Bound]:
    """Return every bound of one set of values."""
    share = 0.5 / largest
    seen = BoundOrigin(largest_from="observed")
    rng = stream(1, "bounds", "bootstrap", run)
    return {
        "published, lam* and B from the data": published_bound(
            values, DELTA, "closed form", largest_observed(values), reading=seen
        ),
        "published, lam*, B declared": published_bound(values, DELTA, "closed form", largest),
        "published, lam = 1/(2 B) fixed": published_bound(values, DELTA, share, largest),
        "sharp at the same lam and B": sharp_bound(values, matching_bet(share, largest), DELTA),
        "sharp, bet 0.1": sharp_bound(values, 0.1, DELTA),
        "logarithmic smoothing, 1/sqrt(K)": logarithmic_smoothing(values, DELTA),
        "Hoeffding": hoeffding(values, DELTA, (0.0, largest)),
        "empirical Bernstein": empirical_bernstein(values, DELTA, (0.0, largest)),
        "anytime empirical Bernstein": anytime_bernstein(values, DELTA, (0.0, largest)),
        "Student t": student_t(values, DELTA),
        "central limit": central_limit(values, DELTA),
        "bootstrap, percentile": percentile_bootstrap(values, DELTA, rng, 1000),
        "bootstrap, BCa": bca_bootstrap(values, DELTA, rng, 1000),
    }


def single_lines() -> list[str]:
    """Return the median of every bound at three numbers of units, as a share of the truth, with its label."""
    sizes = (200, 1000, 5000)
    largest, draw = DESIGNS["one of 5 actions, uniform legacy, w to 4.5"]
    found: dict[str, dict[int, list[float]]] = {}
    labels: dict[str, str] = {}
    for run in range(20):
        values = draw(stream(1, "bounds", "single", run), sizes[-1])
        for units in sizes:
            part = values[:units]
            mixture = Sketch.empty(value_grid()).add_values(part).lower(DELTA, 0.0, 1.0)
            for method, bound in single(part, largest, run).items():
                found.setdefault(method, {}).setdefault(units, []).append(bound.value / TRUTH)
                labels[method] = bound.label
            found.setdefault("sharp, grid of bets", {}).setdefault(units, []).append(mixture / TRUTH)
    labels["sharp, grid of bets"] = "certificate"
    rows = [[name, *(f"{np.median(each[k]):.2f}" for k in sizes), labels[name]] for name, each in found.items()]
    return [
        f"One set of units, w to 4.5: lower bound as a share of the mean, median of 20 runs, risk {DELTA}:",
        "",
        *table(["bound", *(f"K = {k}" for k in sizes), "what it may be called"], rows),
    ]


def look_lines() -> list[str]:
    """Return how often a t interval that is looked at 50 times excludes the truth."""
    runs, looks = 2000, np.arange(20, 1020, 20)
    shares = []
    for name, values in {
        "normal": stream(1, "bounds", "normal").standard_normal((runs, 1000)),
        "weighted, w to 4.5": draws(stream(1, "bounds", "looks"), (runs, 1000), 0.2) - TRUTH,
    }.items():
        total, square = np.cumsum(values, axis=1)[:, looks - 1], np.cumsum(values**2, axis=1)[:, looks - 1]
        error = np.sqrt((square - total**2 / looks) / (looks - 1) / looks)
        above = total / looks + stdtrit(looks - 1, DELTA) * error > 0
        shares.append([name, f"{above[:, -1].mean():.1%}", f"{above.any(axis=1).mean():.1%}"])
    print(shares, flush=True)
    return [
        f"A one-sided t interval at risk {DELTA}, {runs} runs of 1000 units: share of runs that exclude the truth at the last",
        "look, and at any of 50 looks, one every 20 units:",
        "",
        *table(["values", "last look", "any of 50 looks"], shares),
    ]


def main() -> None:
    """Measure everything and record it."""
    argparse.ArgumentParser(description=__doc__).parse_args()
    limit_blas_threads()
    lines: list[str] = []
    for part in (speed_lines, tightness_lines, single_lines, look_lines):
        lines += [*part(), ""]
    record("Bounds", "python benchmarks/bounds.py", lines[:-1])


if __name__ == "__main__":
    main()
