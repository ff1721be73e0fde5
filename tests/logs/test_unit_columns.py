"""Units of several columns within which an action never changes, and rows that share a draw."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from aegis.logs.draft.column_profile import LogProfile, SampleGroups
from aegis.logs.draft.guesses import ActionGuess
from aegis.logs.draft.unit_columns import days, listed, repeats, split, within


def test_units_are_made_of_columns_together_and_lie_within_coarser_ones() -> None:
    sheet = LogProfile.of(pa.table({"day": [1, 1, 2, 2], "shift": [1, 2, 1, 1], "x": [5.0, 6.0, 7.0, 8.0]}))
    day, shift = sheet.looks["day"], sheet.looks["shift"]
    both = split([day, shift])
    assert len(both) == 3 and within(both, SampleGroups.by(day.codes)) and not within(SampleGroups.by(day.codes), both)
    assert [tuple(look.name for look in chosen) for chosen in days([day, shift], [])] == [("day",), ("day", "shift")]
    assert listed(["a"]) == "'a'" and listed(["a", "b", "c"]) == "'a', 'b' and 'c'"


def test_an_action_that_follows_itself_too_often_is_asked_about() -> None:
    rng = np.random.default_rng(3)
    each, shared = rng.integers(0, 2, 400), np.repeat(rng.integers(0, 2, 50), 8)
    sheet = LogProfile.of(pa.table({"each": each, "shared": shared, "p": np.full(400, 0.5)}))
    rows = sheet.every_row
    assert repeats(ActionGuess(sheet.looks["each"], (0, 1), taken=sheet.looks["p"]), rows) == ""
    question = repeats(ActionGuess(sheet.looks["shared"], (0, 1), taken=sheet.looks["p"]), rows)
    assert question.startswith("Was 'shared' decided once for several rows?") and "its probabilities allow" in question
