"""The linear world: its sampled equations, with the clipped reward, and its domains."""

from __future__ import annotations

import math

import numpy as np
import pytest
from transcription import Known, Noise, check_sampled_equations

from aegis.worlds import LinearWorld, make_world


def linear(level: str, noise: Noise, slot: int, row: Known) -> None:
    if level == "meta":
        assert row["T"] == 1 + math.floor(3 * noise("meta", "T", slot))
        return
    latent = 1.0 if noise("inner", "U", slot) < 0.3 else 0.0
    assert row["C"] == pytest.approx(0.8 * row["M"] + 0.2 * latent + 0.3 * noise("inner", "N_C", slot))
    assert row["Y"] == pytest.approx(0.5 * row["A"] + 0.4 * row["C"] + 0.15 * latent + 0.2 * noise("inner", "N_Y", slot))
    raw = 0.3 * row["Y"] + 0.08 * row["C"] + 0.1 * row["M"] + 0.05 * row["T"] + 0.02 * row["A"]
    raw += 0.1 * latent + 0.15 * noise("inner", "N_R", slot)
    assert row["R"] == pytest.approx(min(max(raw, 0.0), 1.0))


def test_sampled_equations() -> None:
    check_sampled_equations(LinearWorld(), linear)


def test_three_tasks_five_settings_ten_actions_and_rewards_between_0_and_1() -> None:
    problem = LinearWorld().problem
    assert problem.level("meta").actions.numbers.tolist() == [1, 2, 3, 4, 5]
    assert problem.level("inner").actions.numbers.tolist() == list(range(1, 11))
    assert problem.reward.range == (0.0, 1.0)
    world = LinearWorld()
    batch = world.episodes(0, 600, world.legacy("uniform"), 2)
    tasks, counts = np.unique(batch.levels["meta"].context["T"], return_counts=True)
    assert tasks.tolist() == [1.0, 2.0, 3.0]
    assert (np.abs(counts - 200) < 4 * np.sqrt(600 * 2 / 9)).all()
    assert batch.reward is not None and batch.reward.min() >= 0.0 and batch.reward.max() == 1.0  # some rewards are clipped
    assert np.unique(batch.levels["inner"].context["C"]).size > 600  # real numbers, not ten values


def test_the_natural_controller_takes_actions_uniformly() -> None:
    world = make_world("linear")
    batch = world.episodes(0, 5, world.legacy("natural"), 2)
    np.testing.assert_allclose(batch.levels["inner"].mu_full, 0.1)
