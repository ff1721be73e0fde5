"""Logs of one level with three actions, a candidate that knows the best one, and the bounds of two methods on one log."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from aegis.certificate import certify
from aegis.logs import Source
from aegis.policies import Capped, Logged
from aegis.problem import Array, Batch, Policy, parse_problem
from aegis.rng import stream

PROBLEM = parse_problem("""
episode: id
reward: {column: r, range: [0, 1]}
levels:
  - name: d
    context: [x]
    action: {column: a, values: [0, 1, 2]}
    propensity: {columns: [p0, p1, p2]}
""")
LEGACY = np.array([0.6, 0.2, 0.2])
REWARDS = ("rare", "coin", "spread")


@dataclass(frozen=True, slots=True)
class Knows:
    """A reward model that knows which action is best."""

    def predict(self, level: str, batch: Batch) -> Array:
        """Return 1 for the best action, 0 for the others, `[n, 3]`."""
        return np.eye(3)[best(batch.levels["d"].context["x"])]


def best(x: Array) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """Return the best action `[n]` for contexts from 0 to 1."""
    return np.minimum((3 * x).astype(np.int64), 2)


def log(seed: int, count: int, rewards: str) -> pa.Table:
    """Rewards: 'rare', 12 % successes if the action is best, 4 % else; 'coin', 75 and 45 %; 'spread', 0.7 and 0.45 on average."""
    rng = stream(seed, "methods", count, rewards)
    x, action = rng.random(count), rng.choice(3, count, p=LEGACY)
    good = action == best(x)
    if rewards == "spread":
        reward = np.clip(np.where(good, 0.7, 0.45) + 0.1 * rng.normal(size=count), 0, 1)
    else:
        high, low = (0.12, 0.04) if rewards == "rare" else (0.75, 0.45)
        reward = (rng.random(count) < np.where(good, high, low)).astype(float)
    shares = {f"p{k}": np.full(count, share) for k, share in enumerate(LEGACY)}
    return pa.table({"id": np.arange(count), "x": x, "a": action, **shares, "r": reward})


def policy(cap: float) -> Policy:
    """Return the best action as far as a cap allows."""
    return Capped(PROBLEM, Knows(), Logged(PROBLEM), cap)


def bounds(seed: int, count: int, rewards: str, cap: float) -> tuple[float, float]:
    """Return the lower bounds of the gain by water-filled and by plain bets."""
    source = Source(log(seed, count, rewards), PROBLEM)
    found = [certify(source, policy(cap), method=name, what=("gain",), ledger=False) for name in ("water-filled", "plain")]
    filled, plain = (-1.0 if item.levels[0].gain_lower is None else item.levels[0].gain_lower for item in found)
    return filled, plain
