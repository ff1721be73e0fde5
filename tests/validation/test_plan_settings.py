"""Settings and guesses of a plan are checked."""

from __future__ import annotations

import math

import pytest

from aegis.errors import SettingError
from aegis.validation.planner.plan_settings import PlanGuess, PlanSettings


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"gain": 0.0}, "gain"),
        ({"gain": -1.0}, "above 0"),
        ({"gain": math.nan}, "gain"),
        ({"gain": True}, "gain"),
        ({"loss": math.nan}, "loss"),
        ({"gain": 1.0, "loss": -0.6}, "-0.5 or more, found -0.6"),
        ({"spread": -0.1}, "spread"),
        ({"spread": math.inf}, "spread"),
        ({"typical": math.inf}, "typical"),
        ({"decisions": 0}, "decisions"),
    ],
)
def test_a_guess_is_checked(values: dict[str, float], message: str) -> None:
    with pytest.raises(SettingError, match=message):
        PlanGuess(**values)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"explore": (0.0,)}, "above 0 and at most 1, found 0"),
        ({"explore": (1.5,)}, "found 1.5"),
        ({"explore": ()}, "explore"),
        ({"explore": ("a",)}, "explore"),
        ({"caps": (1.0, 2.0)}, "above 1"),
        ({"caps": (math.nan,)}, "caps"),
        ({"delta": 1.0}, "delta"),
        ({"tests": 0}, "tests"),
        ({"within": 0}, "within"),
    ],
)
def test_settings_are_checked(values: dict[str, object], message: str) -> None:
    with pytest.raises(SettingError, match=message):
        PlanSettings(**values)  # type: ignore[arg-type]


def test_rates_and_caps_come_sorted_and_once() -> None:
    found = PlanSettings(explore=(1, 0.1, 0.1), caps=(math.inf, 2))
    assert found.explore == (0.1, 1.0)
    assert found.caps == (2.0, math.inf)
