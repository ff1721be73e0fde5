"""What the confidence sequence of vw-estimators says at each look: by the package itself, and by its formula.

It bounds values. The gain is bounded by the lower bound of the candidate's value, all of the risk on that side, less the mean of
the logged rewards, as if that were the legacy's value; or, which is covered, by the same at half the risk less the upper bound
of the legacy's value at the other half.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator

import numpy as np

import vw_sequence
from looks_logs import LOOKS, STOPS, Array, World, draw
from looks_methods import DELTA, Seen
from peer_envs import ask

MEAN, COVERED = "vw-estimators, above the logged mean", "vw-estimators, above its bound of the legacy"

Found = dict[str, dict[str, Seen]]


def by_package(world: World, runs: Iterable[int]) -> Iterator[tuple[int, Found]]:
    """Yield what the package says, in its own environment."""
    known = list(runs)
    logs = [draw(world, run) for run in known]
    asked = [
        {
            "logged": world.legacy[log.kind, log.action].tolist(),
            "rewards": log.reward.tolist(),
            "wanted": {name: chances[log.kind, log.action].tolist() for name, chances in world.candidates.items()},
        }
        for log in logs
    ]
    answer = ask("vw_looks", {"stops": STOPS.tolist(), "alpha": DELTA, "logs": asked})
    for run, log, said in zip(known, logs, answer["logs"], strict=True):
        logged = np.cumsum(log.reward)[STOPS - 1] / STOPS
        found: Found = {}
        for name, bounds in said["candidates"].items():
            apart = np.array(bounds["lower"]) - np.array(said["legacy"]["upper"])
            found[name] = {MEAN: Seen.by(np.array(bounds["single"]) - logged), COVERED: Seen.by(apart)}
        yield run, found


def by_formula(world: World, runs: Iterable[int]) -> Iterator[tuple[int, Found]]:
    """Yield what its formula says, which takes a tenth of the time: a bound is above a mark if the wealth there is enough."""
    for run in runs:
        log = draw(world, run)
        logged = np.cumsum(log.reward)[STOPS - 1] / STOPS
        upper = 1.0 - vw_sequence.lower_bounds(1.0 - log.reward, DELTA / 2, STOPS)
        found: Found = {}
        for name, chances in world.candidates.items():
            values = chances[log.kind, log.action] / world.legacy[log.kind, log.action] * log.reward
            found[name] = {MEAN: _seen(values, logged, DELTA), COVERED: _seen(values, upper, DELTA / 2)}
        yield run, found


def _seen(values: Array, marks: Array, alpha: float) -> Seen:
    """Return what is seen of lower bounds, at risk alpha, of the mean of values `[n]` against marks `[looks]`."""
    totals = np.cumsum(values)[STOPS - 1]
    guesses = (0.5 + np.append(0.0, np.cumsum(values)[:-1])) / np.arange(1, values.size + 1)
    spreads = np.cumsum(np.square(values - guesses))[STOPS - 1]
    above = [
        bool(marks[place] < min(1.0, totals[place] / stop))
        and vw_sequence.log_wealth(float(totals[place] - stop * marks[place]), float(spreads[place])) > math.log(1.0 / alpha)
        for place, stop in enumerate(STOPS)
    ]
    last = vw_sequence.lower_bounds(values, alpha, STOPS[LOOKS - 1 :])
    return Seen.of(above, float(last[0] - marks[-1]))
