"""Learning with no option where most inputs do not matter: length-scales are tuned, and the policy beats the legacy clearly."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from aegis.agents import CandidateSettings, Learned, learn
from aegis.logs import Source, write_log
from aegis.mechanisms import MODELS, TUNED
from aegis.problem import Actions, Batch, Level, LevelTable, Problem, Propensity, Reward, Variable
from aegis.worlds import make_world

PROBLEM = Problem(
    (
        Level(
            "dose",
            Actions.grid("a", -1.5, 1.5, 7),
            (Variable("x", "vector", columns=("x0", "x1", "x2", "x3", "x4", "x5")), Variable("z")),
            propensity=Propensity(policy="uniform"),
        ),
    ),
    Reward("r"),
)


def truth(z: np.ndarray) -> np.ndarray:
    """The expected reward of every action, `[n, A]`."""
    return np.cos(2.2 * z[:, None] - 2 * PROBLEM.innermost.actions.numbers)


def nuisance_log(rows: int = 1500) -> Batch:
    """One number in seven matters, and the action only together with it."""
    rng = np.random.default_rng(3)
    context = {"x": rng.normal(size=(rows, 6)), "z": rng.normal(size=rows)}
    action = rng.integers(0, 7, rows)
    table = LevelTable.undecided(np.arange(rows), context).decided(action, np.full(rows, 1 / 7))
    reward = truth(context["z"])[np.arange(rows), action] + 0.3 * rng.normal(size=rows)
    return Batch(np.arange(rows), {"dose": table}, reward, np.ones(rows, dtype=bool))


def value(found: Learned, batch: Batch) -> float:
    expected = truth(batch.levels["dose"].context["z"])
    return float((found.policy.full("dose", batch)[0] * expected).sum(axis=1).mean())


def test_what_is_linear_is_called_linear(tmp_path: Path) -> None:
    world = make_world("plant")
    write_log(world.episodes(0, 60, world.legacy("uniform"), 5), world.problem, tmp_path / "log.parquet")
    found = learn(Source(tmp_path / "log.parquet", world.problem), settings=CandidateSettings("capped"))
    # Profit is yield minus a cost, without noise: a tuned prior alone is worth more nats than the search is charged.
    assert found.record["models"]["profit"] == "linear"


def test_with_no_option_it_finds_the_input_that_matters(tmp_path: Path) -> None:
    batch = nuisance_log()
    write_log(batch, PROBLEM, tmp_path / "log.parquet")
    source = Source(tmp_path / "log.parquet", PROBLEM)
    expected = truth(batch.levels["dose"].context["z"])
    legacy, best = expected.mean(), expected.max(axis=1).mean()
    found = learn(source)
    assert value(found, batch) > legacy + 0.9 * (best - legacy)
    assert found.record["models"] == {"r": TUNED} and found.record["reward_models"] == {"dose": TUNED}
    plain = learn(source, models=MODELS)  # only what was asked for: without tuning this log teaches nothing
    assert set(plain.record["models"].values()) <= set(MODELS)
    assert value(plain, batch) == pytest.approx(legacy, abs=0.2)
