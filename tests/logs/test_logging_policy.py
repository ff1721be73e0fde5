"""Columns about the logging policy: probabilities that fit, and actions that were intended."""

from __future__ import annotations

import draft_logs as logs
import numpy as np
import pyarrow as pa
import pytest

from aegis.logs.draft.column_profile import LogProfile
from aegis.logs.draft.guesses import ActionGuess
from aegis.logs.draft.logging_policy import find_intended_action, propensity_misfit, share_differing


def test_a_column_drawn_with_other_chances_does_not_fit() -> None:
    sheet = LogProfile.of(pa.table(logs.bandit_log(3000)))
    assert propensity_misfit(sheet.looks["action"], sheet.looks["pscore"]) < 4
    assert propensity_misfit(sheet.looks["position"], sheet.looks["pscore"]) > 4


def test_exploration_is_estimated_from_what_differs_and_only_close_columns_are_intentions() -> None:
    rng = np.random.default_rng(1)
    meant = rng.integers(0, 3, 900)
    taken = np.where(rng.random(900) < 0.3, rng.integers(0, 3, 900), meant)
    sheet = LogProfile.of(pa.table({"speed": taken, "meant_speed": meant, "planned_other": rng.integers(0, 3, 900)}))
    action = ActionGuess(sheet.looks["speed"], (0, 1, 2))
    differs = share_differing(action, sheet.looks["meant_speed"])
    assert differs == pytest.approx(float(np.mean(taken != meant)))
    assert find_intended_action(action, sheet, ()) is sheet.looks["meant_speed"]
    assert find_intended_action(action, sheet.without(("meant_speed",)), ()) is None
