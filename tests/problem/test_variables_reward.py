"""Rewards and guards: what is refused, and why."""

from __future__ import annotations

import math
from typing import Any

import pytest

from aegis.errors import ProblemError
from aegis.problem import Guard, Reward


@pytest.mark.parametrize("limits", [(1.0, 1.0), (2.0, 1.0), (math.nan, 1.0), (0.0, math.inf)])
def test_limits_are_finite_and_in_order(limits: tuple[float, float]) -> None:
    with pytest.raises(ProblemError, match=r"reward 'r': 'range' is \[low, high\] with finite low < high"):
        Reward("r", limits)
    with pytest.raises(ProblemError, match=r"guard 'g': 'range' is \[low, high\]"):
        Guard("g", limits, 0.1)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"clip": True}, "'clip' needs a 'range' to clip to"),
        ({"closed": ""}, "'closed' names a column of flags"),
    ],
)
def test_a_wrong_reward_is_refused(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ProblemError, match=message):
        Reward("r", **settings)


@pytest.mark.parametrize("worsening", [-0.1, math.nan, math.inf])
def test_a_guard_allows_a_worsening_from_zero(worsening: float) -> None:
    assert Guard("g", (0.0, 1.0), 0.0).goal == "minimise"
    with pytest.raises(ProblemError, match="'max_worsening' is a finite number from 0"):
        Guard("g", (0.0, 1.0), worsening)
