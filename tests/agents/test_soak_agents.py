"""Long replications, run by `make soak`: many kills, many seeds, long simulations against the oracle."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from aegis.agents import AGENTS, Online, run
from aegis.worlds import WORLDS, make_world, true_value

pytestmark = pytest.mark.soak
HERE = Path(__file__).parent


def test_two_hundred_interrupted_runs(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, str(HERE / "killed_runs.py"), str(tmp_path), "200"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["unequal"] == []
    assert found["kills"] >= 200


@pytest.mark.parametrize(("name", "known", "spread"), [("nested_nig", 80.2, 6.0), ("greedy_nig", 78.3, 6.0)])
def test_linear_mechanisms_on_the_stress_preset_with_forty_seeds(name: str, known: float, spread: float) -> None:
    world = make_world("unified")
    agent = AGENTS[name] if name == "greedy_nig" else replace(AGENTS[name], rule_settings={"particles": 1})
    totals = [run(Online(world, agent, world.problem.scope(None), seed), 200).sums.mean() for seed in range(40)]
    assert abs(np.mean(totals) - known) < 3 * spread * np.sqrt(1 / 40 + 1 / 10)


@pytest.mark.parametrize("name", WORLDS)
def test_long_simulations_agree_with_the_oracle(name: str) -> None:
    world = make_world(name)
    legacy = world.legacy("natural")
    truth = true_value(world, legacy, fineness=2)
    means = []
    for first in range(0, 60_000, 4096):
        batch = world.episodes(first, min(4096, 60_000 - first), legacy, 17)
        means.append(batch.episode_means(batch.reward))
    values = np.concatenate(means)
    assert abs(values.mean() - truth) < 4 * values.std() / np.sqrt(values.size)
