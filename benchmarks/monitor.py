"""False alarms of the monitor, and how long it takes to notice a drop: `python benchmarks/monitor.py`."""

from __future__ import annotations

import math

import numpy as np

from aegis.evidence import Monitor
from aegis.evidence.betting_tests import MONITOR_STAKES
from aegis.rng import stream
from results import record, table

FLOOR, GOOD, LONG = 0.5, 2000, 2000
AFTER = 10_000  # episodes that are watched after a drop
RUNS = 1000
DROPS = (0.05, 0.1, 0.2)
DRAWS = 400_000  # from which the growth of the wealth is computed


def rewards(kind: str, mean: float, count: int, seed: int) -> np.ndarray:
    """Return rewards in [0, 1] of a given mean: as spread as can be, or as an episode's mean usually is."""
    rng = stream(seed, "monitor", kind, round(1000 * mean))
    return (rng.random(count) < mean).astype(float) if kind == "0 or 1" else rng.beta(10 * mean, 10 * (1 - mean), count)


def alarm_after(values: np.ndarray, alpha: float, since: int = 0) -> int | None:
    """Return after how many values past the first `since` an alarm is raised; None if it never is, -1 if before."""
    monitor = Monitor(FLOOR)
    for place, value in enumerate(values):
        monitor = monitor.step(float(value))
        if monitor.alarm(alpha):
            return place + 1 - since if place >= since else -1
    return None


def foretold(kind: str, drop: float, alpha: float) -> float:
    """Return the delay by docs/theory.md, The gate: what is missing to 1/alpha, over the growth of the best stake."""
    values = rewards(kind, FLOOR - drop, DRAWS, 10**9)
    growth = max(np.log1p(-stake * (values - FLOOR) / (1.0 - FLOOR)).mean() for stake in MONITOR_STAKES)
    missing = math.log(1.0 / alpha) + math.log(GOOD * (GOOD + 1)) + math.log(MONITOR_STAKES.size)
    return missing / growth if growth > 0 else math.inf


def main() -> None:
    """Measure and record."""
    rows = []
    for kind in ("0 or 1", "beta"):
        for alpha in (0.05, 0.01):
            wrong = np.mean([alarm_after(rewards(kind, FLOOR, LONG, run), alpha) is not None for run in range(RUNS)])
            delays = {}
            for drop in DROPS:
                found = []
                for run in range(100):
                    values = np.concatenate([rewards(kind, 0.55, GOOD, run), rewards(kind, FLOOR - drop, AFTER, run + 10**6)])
                    after = alarm_after(values, alpha, GOOD)
                    found.append(np.inf if after is None else after)
                delays[drop] = float(np.median([item for item in found if item != -1]))
            rows.append(
                [
                    kind,
                    f"{alpha:g}",
                    f"{wrong:.1%}",
                    *(f"{delay:g} ({foretold(kind, drop, alpha):.0f})" for drop, delay in delays.items()),
                ]
            )
    lines = [
        f"Rewards at the floor itself, the worst that is still right, {LONG} episodes, {RUNS} runs: runs with a false alarm. "
        f"Then {GOOD} good episodes (0.05 above the floor) and a drop below it for {AFTER} more, 100 runs: median delay of the "
        "alarm, and in brackets the one that docs/theory.md, The gate, foretells.",
        "",
        *table(["rewards", "level", "false alarms", "drop to 0.05 below", "0.1 below", "0.2 below"], rows),
    ]
    record("Monitor", "python benchmarks/monitor.py", lines)


if __name__ == "__main__":
    main()
