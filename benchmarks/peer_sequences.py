"""Confidence sequences side by side: vw-estimators and confseq against `lower_path` and the sketch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from aegis.evidence import Sketch, lower_path, value_centre, value_grid
from aegis.rng import stream
from peer_envs import ask
from peer_rows import Row, saved, smallest

Array = npt.NDArray[np.float64]
ALPHA = 0.05  # of both sides together
TRUTH = 0.6
LARGEST = 4.5  # the largest weight
BREAKS = 1000
RUNS = 4  # of confseq, over which errors are averaged
EACH_LOOK = "each look solves for the bound under all bets anew; `lower_path` does that for all looks together"
FIRST = 0.05  # share of the units that only places the grid of bets


def logged(units: int, *key: object) -> tuple[Array, Array]:
    """Return weights and rewards `[units]` of a policy whose value is 0.6: one of 5 actions, uniform legacy, weights to 4.5."""
    rng = stream(1, "peers", "sequences", *key)
    weights = np.where(rng.random(units) < 0.2, LARGEST, 0.125)
    return weights, (rng.random(units) < TRUTH).astype(np.float64)


def both_paths(weights: Array, rewards: Array) -> Array:
    """Return lower and upper bounds `[K, 2]` after every unit: the value of the rewards, and one minus that of one minus them.

    The first 5 % of the units place the grids and are left out of the bounds; the interval there is [0, 1].
    """
    first = int(FIRST * weights.size)
    found = np.tile([0.0, 1.0], (weights.size, 1))
    for side, values in enumerate((weights * rewards, weights * (1.0 - rewards))):
        path = lower_path(values[first:], _placed(values, first), ALPHA / 2)
        found[first:, side] = path if side == 0 else 1.0 - path
    return found


def in_blocks(weights: Array, rewards: Array, every: int) -> Array:
    """Return the interval after every so many units from two sketches that grow by so many units at a time."""
    first = int(FIRST * weights.size) // every * every
    sides = (weights * rewards, weights * (1.0 - rewards))
    sketches = [Sketch.empty(_placed(values, first)) for values in sides]
    found = [[0.0, 1.0]] * (first // every)
    for stop in range(first + every, weights.size + 1, every):
        sketches = [own.add_values(values[stop - every : stop]) for own, values in zip(sketches, sides, strict=True)]
        found.append([sketches[0].lower(ALPHA / 2, 0.0, 1.0), 1.0 - sketches[1].lower(ALPHA / 2, 0.0, 1.0)])
    return np.array(found)


def one_by_one(weights: Array, rewards: Array, every: int) -> Array:
    """Return the same from units that come one at a time and wait for the next look."""
    first = int(FIRST * weights.size) // every * every
    sides = (weights * rewards, weights * (1.0 - rewards))
    sketches = [Sketch.empty(_placed(values, first)) for values in sides]
    waiting: list[tuple[float, float]] = []
    found = [[0.0, 1.0]] * (first // every)
    for count, (below, above) in enumerate(zip(sides[0][first:].tolist(), sides[1][first:].tolist(), strict=True), first + 1):
        waiting.append((below, above))
        if count % every == 0:
            sketches = [own.add_values(values) for own, values in zip(sketches, np.array(waiting).T, strict=True)]
            waiting.clear()
            found.append([sketches[0].lower(ALPHA / 2, 0.0, 1.0), 1.0 - sketches[1].lower(ALPHA / 2, 0.0, 1.0)])
    return np.array(found)


def lower_side(weights: Array, rewards: Array) -> Array:
    """Return the lower bounds `[K]` at the whole risk, with the first 5 % of the units to place the grid."""
    values, first = weights * rewards, int(FIRST * weights.size)
    grid = value_grid(value_centre(values[:first], values.size - first, ALPHA))
    return np.concatenate([np.zeros(first), lower_path(values[first:], grid, ALPHA)])


def _placed(values: Array, first: int) -> Any:
    return value_grid(value_centre(values[:first], values.size - first, ALPHA / 2))


def vw_rows(quick: bool) -> tuple[list[Row], dict[str, str], list[str]]:
    """Return the rows of vw-estimators and its version."""
    many, some = (20_000, 2_000) if quick else (100_000, 10_000)
    weights, rewards = logged(many, "vw")
    tasks = [(many, many // 1000), (some, 1)]
    found = ask("vw_speed", {"path": saved("vw", weights=weights, rewards=rewards), "alpha": ALPHA, "tasks": tasks})
    ways: list[tuple[int, str, Callable[[], Array]]] = [
        (0, "added in blocks (`Sketch`)", lambda: in_blocks(weights, rewards, many // 1000)),
        (0, "one at a time (`Streamed`)", lambda: one_by_one(weights, rewards, many // 1000)),
        (0, "ours after every unit (`lower_path`)", lambda: both_paths(weights, rewards)[many // 1000 - 1 :: many // 1000]),
        (1, "ours `lower_path`", lambda: both_paths(weights[:some], rewards[:some])),
    ]
    rows = []
    for place, words, work in ways:
        units, every = tasks[place]
        theirs = found["tasks"][place]
        time, ours = smallest(work, 5)
        cadence = "every unit" if every == 1 else f"every {every} units"
        rows.append(
            Row(
                "vw-estimators",
                f"{units} adds, interval after {cadence}; {words}",
                "path",
                theirs["time"],
                time,
                "median width of the interval",
                *(float(np.median(np.ptp(np.array(ends), axis=1))) for ends in (theirs["intervals"], ours)),
                why=EACH_LOOK,
            )
        )
    return rows, {"vw-estimators": found["version"]}, []


def confseq_rows(quick: bool) -> tuple[list[Row], dict[str, str], list[str]]:
    """Return the rows of confseq, its version, and the medians over the paths."""
    units = 1_000 if quick else 10_000
    logs = [logged(units, "confseq", run) for run in range(RUNS)]
    asked = {
        "path": saved("confseq", values=np.array([w * r for w, r in logs])),
        "largest": LARGEST,
        "breaks": BREAKS,
        "alpha": ALPHA,
    }
    found = ask("confseq_speed", asked)
    task = f"betting path of {units} units, breaks = {BREAKS}"
    time, _ = smallest(lambda: lower_side(*logs[0]), 10)
    lower = np.array([lower_side(*log) for log in logs])
    theirs = np.array([found["lower"][place] for place in ("last", "median")])[..., 0].mean(axis=1)
    ours = float(lower[:, -1].mean()), float(np.median(lower, axis=1).mean())
    errors = TRUTH - float(theirs[0]), TRUTH - ours[0]
    rows = [Row("confseq", f"{task}, lower side", "path", found["lower"]["time"], time, "last bound to truth", *errors)]
    time, _ = smallest(lambda: both_paths(*logs[0]), 10)
    widths = np.array([np.ptp(both_paths(*log), axis=1) for log in logs])
    each = np.array([np.ptp(found["both"][place], axis=1).mean() for place in ("last", "median")])
    rows.append(
        Row("confseq", f"{task}, both sides", "path", found["both"]["time"], time, "last width", each[0], widths[:, -1].mean())
    )
    said = (
        f"confseq at the median over the path, theirs / ours, means of {RUNS} runs: lower bound {theirs[1]:.4f} / {ours[1]:.4f}, "
        f"width of both sides {each[1]:.4f} / {np.median(widths, axis=1).mean():.4f}. It is told the largest weight, ours is "
        f"not; ours leaves out the first {FIRST:.0%} of the units, which place its bets."
    )
    return rows, {"confseq": found["version"]}, [said]
