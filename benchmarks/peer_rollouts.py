"""Intervals from trajectories side by side: SCOPE-RL against the bounds of `evidence` on the same weighted returns."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from aegis.evidence import empirical_bernstein, hoeffding
from aegis.rng import stream
from peer_envs import ask
from peer_estimates import ALPHA, SAME_DRAWS, bootstrap, certified, student
from peer_rows import Row, saved, smallest

Array = npt.NDArray[np.float64]
STEPS = 3
CHANCE = 0.8  # of the better action under the candidate; the legacy tosses a coin
LARGEST = (2.0 * CHANCE) ** STEPS  # the largest weight of a trajectory
VALUE = CHANCE * 0.7 + (1.0 - CHANCE) * 0.3  # mean reward of a step under the candidate
RESAMPLES = 1000
WIDER = "holds at every look, for both ends"


def made(trajectories: int) -> dict[str, Any]:
    """Return action, reward, pscore `[n]` and policy `[n, 2]` of the steps, those of a trajectory together."""
    rng, size = stream(1, "peers", "rollouts"), trajectories * STEPS
    action = rng.integers(0, 2, size)
    reward = (rng.random(size) < np.where(action == 1, 0.7, 0.3)).astype(np.float64)
    return {
        "action": action,
        "reward": reward,
        "pscore": np.full(size, 0.5),
        "policy": np.tile([1.0 - CHANCE, CHANCE], (size, 1)),
    }


def units(log: dict[str, Any]) -> tuple[Array, Array]:
    """Return the weight and the mean reward of each trajectory."""
    ratios = log["policy"][np.arange(log["action"].size), log["action"]] / log["pscore"]
    return ratios.reshape(-1, STEPS).prod(axis=1), log["reward"].reshape(-1, STEPS).mean(axis=1)


def both(values: Array, bound: Callable[..., Any]) -> list[float]:
    """Return both ends by a bound that needs the range of the values."""
    limits = (0.0, LARGEST)
    return [bound(values, ALPHA / 2, limits).value, -bound(-values, ALPHA / 2, (-LARGEST, 0.0)).value]


WAYS: dict[str, tuple[str, Callable[[Array, Array], list[float]]]] = {
    "our bootstrap": ("bootstrap", lambda weights, mean: bootstrap(weights * mean, RESAMPLES, 1)),
    "our certificate, sketch": ("bootstrap", lambda weights, mean: certified(weights, mean, False)),
    "our certificate, anytime path": ("bootstrap", lambda weights, mean: certified(weights, mean, True)),
    "ours": ("ttest", lambda weights, mean: student(weights * mean, ALPHA)),
    "ours ": ("bernstein", lambda weights, mean: both(weights * mean, empirical_bernstein)),
    "ours  ": ("hoeffding", lambda weights, mean: both(weights * mean, hoeffding)),
}


def scope_rows(quick: bool) -> tuple[list[Row], dict[str, str], list[str]]:
    """Return the rows of SCOPE-RL and its version."""
    size = 10_000 if quick else 100_000
    log = made(size)
    asked = {"path": saved("rollouts", **log), "steps": STEPS, "alpha": ALPHA, "resamples": RESAMPLES}
    found = ask("scope_speed", {**asked, "kinds": ["bootstrap", "ttest", "bernstein", "hoeffding"]})
    rows = []
    for words, (kind, way) in WAYS.items():
        theirs = found["kinds"][kind]
        time, ends = smallest(lambda w=way: w(*units(log)), 3)
        how = f" ({RESAMPLES} resamples)" if kind == "bootstrap" else ""
        task = f"{kind} interval{how}, {size} trajectories of {STEPS} steps; {words.strip()}"
        alike, why = (0.01, WIDER) if "certificate" in words else (0.15, SAME_DRAWS)
        errors = float(np.ptp(theirs["ends"])) / STEPS, float(np.ptp(ends))
        rows.append(Row("SCOPE-RL", task, "interval", theirs["time"], time, "width", *errors, alike, why))
    missed = [kind for kind, item in found["kinds"].items() if not item["ends"][0] <= STEPS * VALUE <= item["ends"][1]]
    said = (
        f"Intervals of SCOPE-RL that miss the truth here: {', '.join(missed) or 'none'}. Its t interval at alpha = {ALPHA} has "
        "that risk at each end, and so has ours in that row; its Hoeffding and Bernstein intervals take the largest value seen "
        "for the largest possible, ours are told the latter."
    )
    return rows, {"SCOPE-RL": found["version"]}, [said]
