"""The counter-example: what it earns, and that every policy meets the same noise."""

from __future__ import annotations

import numpy as np
import pytest

from aegis.paper import CounterExample
from aegis.paper.counter_example import LEVEL
from aegis.policies import Function


def always_high(level: object, rows: dict[str, np.ndarray]) -> np.ndarray:
    return np.tile([0.0, 1.0], (len(rows["x"]), 1))


def test_the_agent_that_looks_better_is_worse_by_three_quarters() -> None:
    plant = CounterExample()
    agent = Function(plant.problem, always_high)
    assert plant.true_value(plant.legacy) == pytest.approx((2.0 - 0.5) / 2)
    assert plant.true_value(agent) == pytest.approx((2.0 - 2.0) / 2)
    for policy in (plant.legacy, agent):
        batch = plant.episodes(0, 3000, policy, 1)
        error = batch.reward.std() / np.sqrt(batch.reward.size)
        assert abs(batch.reward.mean() - plant.true_value(policy)) < 4 * error


def test_the_legacy_leaves_nothing_to_chance_and_noise_does_not_depend_on_the_policy() -> None:
    plant = CounterExample(decisions=2)
    whole, part = plant.episodes(0, 80, plant.legacy, 3), plant.episodes(60, 20, plant.legacy, 3)
    table = whole.levels[LEVEL]
    assert (table.mu_taken == 1.0).all() and (table.action == (table.context["x"] > 0)).all()
    assert np.array_equal(whole.reward[120:], part.reward)
    other = plant.episodes(0, 80, Function(plant.problem, always_high), 3)
    assert np.array_equal(other.levels[LEVEL].context["x"], table.context["x"])
    agree = table.context["x"] > 0
    assert np.array_equal(other.reward[agree], whole.reward[agree])
