"""Guesses of a draft: their columns, notes and questions."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from aegis.logs.draft.column_profile import LogProfile, SampleGroups
from aegis.logs.draft.guesses import ActionGuess, IdGuess

SHEET = LogProfile.of(pa.table({"a": [2, 1, 2, 2], "p": [0.5, 0.5, 0.6, 0.6], "m1": [1, 1, 1, 1], "m2": [1, 0, 1, 1]}))


def test_an_action_knows_its_columns_and_where_they_stay_the_same() -> None:
    looks = SHEET.looks
    guess = ActionGuess(looks["a"], (1, 2, 3), taken=looks["p"], available=(looks["m1"], looks["m2"]))
    assert guess.columns == ("a", "p", "m1", "m2") and guess.paired
    np.testing.assert_array_equal(guess.index, [1, 0, 1, 1])
    assert guess.constant(SampleGroups.by(np.array([0, 1, 2, 2]))) and not guess.constant(SampleGroups.by(np.array([0, 0, 1, 1])))


def test_notes_and_questions_are_added_in_their_order() -> None:
    guess = IdGuess(("e",), SHEET.every_row, cluster="c").saying("note").saying(question="one?").saying("more", "two?")
    assert guess.notes == ("note", "more") and guess.questions == ("one?", "two?") and guess.cluster == "c"
    assert guess.columns == ("e", "c") and IdGuess(("row",), SHEET.every_row, counted=True, time="t").columns == ("t",)
