"""Rewards outside their range, missing for good, or all missing."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from audit_cases import audited
from fault_logs import base, found, reward_of, run


def test_rewards_outside_are_counted_and_the_first_episode_is_named() -> None:
    item = found(run("reward-outside-range"), "reward-outside-range")
    assert item.figures["outside"] == 2.0 and item.figures["first_episode"] == "2"
    assert "first in episode 2" in item.message and "-12" in item.message


def test_few_missing_rewards_are_a_note() -> None:
    problem, batch = base()
    audit = audited(problem, replace(batch, observed=np.arange(reward_of(batch).size) > 3))
    assert found(audit, "missing-rewards").severity == "note"
    assert found(run("missing-rewards"), "missing-rewards").figures["share"] == pytest.approx(0.05)
    assert "missing-rewards" not in run("open-units").codes()  # awaited is not missing
    assert found(run("open-units"), "open-units").figures["open"] == 2.0


def test_a_log_without_any_reward_is_refused_with_words_of_its_own() -> None:
    problem, batch = base()
    nothing = replace(batch, reward=np.full(reward_of(batch).size, np.nan))
    item = found(audited(problem, nothing), "missing-rewards")
    assert item.severity == "refused" and "no reward was observed" in item.message and "exported" in item.fix
