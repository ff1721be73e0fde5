"""Drift between the halves of a log, versions of the controller, and propensities that follow the past."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from audit_cases import audited, in_parts
from fault_logs import FAULTS
from hostile_logs import even, one_level

from aegis.audit.variogram import PAST, followed_past, past_of
from aegis.problem import Batch
from aegis.rng import stream


def test_versions_of_parts_are_named() -> None:
    problem, batch = FAULTS["several-versions"]()
    named = [batch.with_level("meta", replace(batch.levels["meta"], version=version)) for version in ("a", "b")]
    assert "several-versions" in in_parts(problem, named).codes()


def test_the_mean_of_each_half_is_named_where_they_differ() -> None:
    problem, batch = FAULTS["drift"]()
    finding = next(item for item in audited(problem, batch).findings if item.code == "drift")
    assert finding.column == problem.reward.column and batch.reward is not None
    values, owner = batch.reward, batch.episode_of(problem.innermost.name)
    means = np.bincount(owner, weights=values) / np.bincount(owner)
    half = len(means) // 2
    assert finding.figures["first_half"] == pytest.approx(means[:half].mean())
    assert finding.figures["second_half"] == pytest.approx(means[half:].mean())


def test_what_was_earned_before_is_that_of_a_plain_loop() -> None:
    problem, rng = one_level(), stream(3, "past")
    reward, action = rng.random(30), rng.choice([-1.0, 1.0], 30)
    table = even(np.arange(30), rng.integers(0, 2, 30), x=rng.normal(size=30))
    past = past_of(Batch(np.arange(30), {problem.innermost.name: table}, reward), action, 100)
    scaled = (reward - reward.mean()) / reward.std()
    for row in range(1, 30):
        recent = sum(0.1 * 0.9**back * scaled[row - 1 - back] for back in range(row))
        assert past[row, :4] == pytest.approx([100 + row, scaled[row - 1], scaled[row - 1] * action[row - 1], recent])
    assert past[0].tolist() == [100, 0, 0, 0, 0]


def test_probabilities_that_move_in_time_follow_it_and_others_follow_nothing() -> None:
    rng = stream(4, "follow")
    contexts, past = rng.normal(size=(400, 1)), rng.normal(size=(400, len(PAST)))
    past[:, 0] = np.arange(400)
    still = 0.5 + 0.1 * np.tanh(contexts)
    assert followed_past(contexts, np.zeros(400), still + 0.01 * rng.normal(size=(400, 1)), past) is None
    moving = followed_past(contexts, np.zeros(400), still + 0.0005 * past[:, :1], past)
    assert moving is not None and moving.what == "time" and moving.chance < 0.001
