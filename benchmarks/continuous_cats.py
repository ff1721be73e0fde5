"""Learning doses from one log: Vowpal Wabbit's CATS and `aegis learn`, judged by the world's equations and by our certificate.

Both learn from the same half of the same log and act in windows of the same width; CATS gets marker, its square and cube,
severity and regimen as features. What either earns is the mean over 2000 fresh contexts of the world's mean reward over the
window it would act in. The other half certifies both, CATS by its density at the doses taken.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from aegis.agents import CandidateSettings, learn
from aegis.certificate import UnitSplit, certify
from aegis.logs import Source, Split, to_table
from aegis.policies import Hybrid, TargetColumns
from aegis.problem import Array, Batch, augmented_context
from aegis.worlds import World, oracle_value, true_value
from continuous_runs import world_of
from peer_envs import ask

SIZES, LOGS, TEST = (200, 800, 3200), 8, 2000
SETTINGS = [(f"--cats_pdf {actions}", passes) for actions in (8, 16, 32) for passes in (1, 5)]
USUAL = 2  # among the settings: 16 actions, one pass
HALF = Split("hash", "cats", 0.5)


def features(world: World, batch: Batch) -> Array:
    """Return what CATS sees of each decision, `[n, 5]`."""
    rows = augmented_context(world.problem, batch, "dose")
    marker = rows["marker"]
    return np.column_stack([marker, marker**2, marker**3, rows["severity"], rows["regimen"]])


def earned(world: World, batch: Batch, start: Array, stop: Array) -> float:
    """Return the mean reward of acting uniformly from `start` to `stop` `[n]` in the contexts of a batch."""
    rows = augmented_context(world.problem, batch, "dose")
    shares = (np.arange(64) + 0.5) / 64
    dose = (start[:, None] + shares * (stop - start)[:, None]).ravel()
    return float(world.mean_reward({**{name: np.repeat(values, 64) for name, values in rows.items()}, "dose": dose}).mean())


def compared() -> dict[str, Any]:
    """Return for each size and log what everybody earns and what is certified."""
    world = world_of("cut")
    problem, legacy = world.problem, world.legacy("natural")
    test = world.episodes(0, TEST // 4, legacy, 10**6)
    found: list[dict[str, Any]] = []
    version = ""
    for size in SIZES:
        logs = [world.episodes(0, size, legacy, 1000 * size + number) for number in range(LOGS)]
        halves = [_halves(world, log) for log in logs]
        answer = ask("vw_cats", _question(world, halves, test))
        version = answer["version"]
        for log, (_, rest), said in zip(logs, halves, answer["logs"], strict=True):
            row = {"size": size, "cats": [earned(world, test, *_segments(one, len(rest), test)[:2]) for one in said]}
            learned = learn(Source(to_table(log, problem), problem), HALF, CandidateSettings("greedy"), ["dose"])
            points = problem.innermost.actions.numbers[learned.policy.full("dose", test)[0].argmax(axis=1)]
            reach = float(problem.innermost.actions.bandwidth or 0.0)
            row["aegis"] = earned(world, test, np.maximum(points - reach, 0.0), np.minimum(points + reach, 10.0))
            row["aegis bound"] = _bound(world, rest, learned.policy)
            row["cats bound"] = _bound(world, rest, None, _density(rest, np.array(said[USUAL])))
            found.append(row)
    return {
        "version": version,
        "rows": found,
        "legacy": true_value(world, legacy),
        "best": oracle_value(world, ["dose"], legacy),
    }


def _halves(world: World, log: Batch) -> tuple[Batch, Batch]:
    certified = UnitSplit((HALF,)).certified(world.problem, log)
    return log.take_episodes(~certified), log.take_episodes(certified)


def _question(world: World, halves: list[tuple[Batch, Batch]], test: Batch) -> dict[str, Any]:
    logs = []
    for prior, rest in halves:
        table = prior.levels["dose"]
        queries = np.vstack([features(world, rest), features(world, test)])
        logs.append(
            {
                "actions": np.asarray(table.value).tolist(),
                "rewards": np.asarray(prior.reward).tolist(),
                "densities": table.mu_taken.tolist(),
                "features": features(world, prior).tolist(),
                "queries": queries.tolist(),
            }
        )
    actions = world.problem.innermost.actions
    return {"logs": logs, "settings": SETTINGS, "limits": actions.limits, "bandwidth": actions.bandwidth}


def _segments(said: list[list[float]], rest: int, test: Batch) -> tuple[Array, Array]:
    """Return where CATS acts, from and to, in the contexts of the test."""
    found = np.array(said)[-len(test.levels["dose"]) :]
    return found[:, 0], found[:, 1]


def _density(rest: Batch, said: Array) -> Array:
    """Return the density of CATS at the doses taken in the other half."""
    value = np.asarray(rest.levels["dose"].value)
    own = said[: value.size]
    return np.where((value >= own[:, 0]) & (value < own[:, 1]), 1.0 / (own[:, 1] - own[:, 0]), 0.0)


def _bound(world: World, rest: Batch, policy: Any, density: Array | None = None) -> float:
    """Return the certified gain at risk .05."""
    problem, table = world.problem, to_table(rest, world.problem)
    if density is not None:
        table = table.append_column("cats", pa.array(density))
        policy = TargetColumns(problem, {"dose": "cats"})
    else:
        policy = Hybrid(problem, ["dose"], policy, world.legacy("natural"))
    found = certify(Source(table, problem), policy, scopes=[["dose"]], what=("gain",), ledger=False).level("dose")
    return float("nan") if found.gain_lower is None else found.gain_lower
